"""Schemes whose state is two tensors, one of them out of the norms' way."""

from .base import Residual, register
from .numbers import checked, count, number, sublayers_of_all


@register("resi_dual")
class ResiDual(Residual):
    """x <- LN(x + y), r <- r + s y, y = f(x), and at the end x + LN(r).

    x is carried as in `post_ln`. r starts as s times the input and adds up all updates
    as `pre_ln` does, but no sublayer reads it: it gives each of them a path to the loss
    that passes one norm only. The stack returns what `post_ln` would, plus LN of the
    input and all updates summed. LN(r) is part of the scheme, so no further norm ends
    the stack; it has 2 d weights beside those of the sublayers' norms.

    s = `scale` is divided out by LN(r), but for epsilon. Blocks stacked by hand lose r:
    each starts it anew and returns x + LN(r).

    When: the quality of `post_ln` is wanted, and its gradients fade on the way down.

    When not: blocks stacked by hand; or if the stack's output shall have a fixed scale,
    which the sum of two normalised tensors has not.

    Source: Xie et al. 2023, arXiv:2304.14802.

    Args:
        scale: s. Below 1, r stays small where many updates would overflow float16.

    Raises:
        ValueError: if `scale` is not a positive number.
    """

    def __init__(self, num_sublayers, scale=1.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        positive = number("scale", scale) > 0
        self.scale = checked(positive, "scale", scale, "a positive number")

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        (self.sum_norm,) = self.add_norms(1, input_shape, "sum_norm")

    def start(self, x):
        return x, self.scale * x

    def read(self, state, i):
        x, _ = state
        return x

    def write(self, state, update, i):
        x, r = state
        return self.norms[i](x + update), r + self.scale * update

    def finish(self, state):
        x, r = state
        return x + self.sum_norm(r)


@register("b2t")
class BottomToTop(Residual):
    """m <- LN(x + f(x)) for attention, x <- LN(x + m + f(m)) for feed-forward.

    This is `post_ln` with one more shortcut, from the bottom of each block to its top,
    past the norm in its middle. It adds no weights to those of `post_ln`.

    In the authors' code all kernels of the sublayers start N^(-1/2) times as large, N
    the number of blocks. That is part of the scheme here. Attention and feed-forward
    cannot be joined by `parallel`: there would be no middle to pass by. Blocks stacked
    by hand need `depth`.

    When: the quality of `post_ln` is wanted with more blocks than it trains; the paper
    shows it in translation with 18 in the encoder and 18 in the decoder.

    When not: a few blocks, which `post_ln` trains as it is.

    Source: Takase et al. 2022, arXiv:2206.00330.

    Args:
        depth: N, where the stack is part of a larger one; None: its own blocks.

    Raises:
        ValueError: if `depth` is not a number of blocks, at least those here.
    """

    joins_sublayers = False

    def __init__(self, num_sublayers, depth=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.gain = (sublayers_of_all(self, depth) / 2) ** -0.5

    def init_gain(self, i, weight):
        return self.gain

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def start(self, x):
        return x, x

    def read(self, state, i):
        x, _ = state
        return x

    def write(self, state, update, i):
        x, bottom = state
        if i % 2 == 0:
            return self.norms[i](x + update), bottom
        x = self.norms[i](bottom + x + update)
        return x, x

    def finish(self, state):
        x, _ = state
        return x


@register("siamese_norm")
class SiameseNorm(Residual):
    """x <- LN(x + y / sqrt(l)), r <- r + y, y = f(LN(x + LN(r))), ends as x + LN(r).

    Two streams that start as the input, x carried as in `post_ln` and r as in `pre_ln`;
    each sublayer reads both and writes to both. l = 1, 2, ... is the number of the
    block, the same for its two sublayers: summaries of the paper leave open whether it
    counts blocks or sublayers, and from 0 or 1, and this reading is the one taken here.

    A sublayer has three norms of its own, two more than in `pre_ln`: 4 d more weights
    and the time of two norms. The last LN(r) is part of the scheme, so no further norm
    ends the stack. Blocks stacked by hand need `block`, and lose r: each starts it anew
    and returns x + LN(r).

    When: a deep stack shall have both the clean path of `pre_ln` and the bounded stream
    of `post_ln`.

    When not: the time of two more norms a sublayer counts; blocks stacked by hand.

    Source: Li et al. 2026, arXiv:2602.08064.

    Args:
        block: l of the first block here, for a stack that is part of a larger one.

    Raises:
        ValueError: if `block` is no positive number.
    """

    def __init__(self, num_sublayers, block=1, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.block = count("block", block)

    def build(self, input_shape):
        n = self.num_sublayers
        self.norms = self.add_norms(n, input_shape)
        self.stream_norms = self.add_norms(n, input_shape, "stream_norm")
        self.sum_norms = self.add_norms(n + 1, input_shape, "sum_norm")

    def start(self, x):
        return x, x

    def read(self, state, i):
        x, r = state
        return self.norms[i](x + self.sum_norms[i](r))

    def write(self, state, update, i):
        x, r = state
        share = (self.block + i // self.per_block) ** -0.5
        return self.stream_norms[i](x + share * update), r + update

    def finish(self, state):
        x, r = state
        return x + self.sum_norms[-1](r)
