"""Schemes whose state is one tensor, with norms placed around the addition."""

import math

from .base import Residual, register
from .numbers import checked, count, number


@register("post_ln")
class PostNorm(Residual):
    """x <- LN(x + f(x)).

    The published Transformer. Every token leaves a sublayer with unit variance, and the
    gradient decays on its way down. Adds 2d weights a sublayer, d the width.

    When: shallow stacks, and where the published block is to be reproduced.

    When not: deep stacks; they need warm-up, and beyond some eighteen blocks more help
    than that (`deepnorm`, `b2t`): in benchmarks/depth.py 24 blocks stay at 0.500.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
    """

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def write(self, state, update, i):
        return self.norms[i](state + update)


@register("pre_ln")
class PreNorm(Residual):
    """x <- x + f(LN(x)), and LN at the end of the stack.

    The path along x is the identity, so gradients reach every block from the first step
    and warm-up is not needed; the stream grows with depth, so late blocks change it
    little. Adds 2d weights a sublayer, d the width.

    When: most stacks; it is what the others are measured against.

    When not: very deep stacks whose late blocks should count (`ln_scaling`,
    `peri_ln`, `hyper_connections`).

    Source: Xiong et al. 2020, arXiv:2002.04745.
    """

    final_norm = True

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def read(self, state, i):
        return self.norms[i](state)


@register("none")
class NoResidual(Residual):
    """x <- f(x), and LN at the end of the stack: the shortcut taken away.

    Each block makes the tokens of a text more alike (rank collapse). With twelve blocks
    the model stays at chance, 0.500, where the order of words decides
    (`reviews(depth=1)`, tests/test_goals.py); it can still learn which words a text
    holds. In benchmarks/depth.py, where words decide, 24 blocks stay at 0.500. Adds no
    weights.

    When: an ablation that shows what the shortcut does.

    When not: in any model that is to be used.

    Source: Dong et al. 2021, arXiv:2103.03404.
    """

    final_norm = True

    def write(self, state, update, i):
        return update


@register("sandwich_ln")
class SandwichNorm(Residual):
    """x <- x + LN'(f(LN(x))), and LN at the end of the stack.

    A norm before the sublayer and one, LN', after it. Each update starts with a mean
    square of 1 in every token, so the stream's variance grows linearly with depth.
    Adds 4d weights a sublayer, d the width.

    When: activations that would grow large, above all in half precision.

    When not: where an update should be small at some tokens and large at others; LN'
    gives all the same size.

    Source: Ding et al. 2021 (CogView), arXiv:2105.13290.
    """

    final_norm = True

    def build(self, input_shape):
        n = self.num_sublayers
        self.norms = self.add_norms(n, input_shape)
        self.update_norms = self.add_norms(n, input_shape, "update_norm")

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        return state + self.update_norms[i](update)


@register("peri_ln")
class PeriNorm(Residual):
    """x <- x + LN'(f(LN(x))) from x = LN_0(embedding), and LN at the end of the stack.

    `sandwich_ln`, and a norm LN_0 of the embedding, so that the stream starts at the
    size of its updates. Adds 4d weights a sublayer and 2d at the start, d the width.
    Blocks stacked by hand: `embedding_norm=False` for all but the first.

    When: activations that would grow large, from embeddings of any size.

    When not: where the size of an embedding or of an update carries meaning.

    Source: Kim et al. 2025, arXiv:2502.02732.

    Args:
        embedding_norm: whether there is LN_0.

    Raises:
        ValueError: if `embedding_norm` is neither True nor False.
    """

    final_norm = True

    def __init__(self, num_sublayers, embedding_norm=True, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = isinstance(embedding_norm, bool)
        rule = "True or False"
        self.embedding_norm = checked(fits, "embedding_norm", embedding_norm, rule)

    def build(self, input_shape):
        n = self.num_sublayers
        first = int(self.embedding_norm)
        self.start_norms = self.add_norms(first, input_shape, "start_norm")
        self.norms = self.add_norms(n, input_shape)
        self.update_norms = self.add_norms(n, input_shape, "update_norm")

    def start(self, x):
        for norm in self.start_norms:  # one or none
            x = norm(x)
        return x

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        return state + self.update_norms[i](update)


@register("sub_ln")
class SubNorm(Residual):
    """x <- x + f(LN(x)), each f with a norm inside it, and LN at the end of the stack.

    The norm inside stands before the last matrix: over attention's joined heads, and
    over the feed-forward network's hidden values after the activation. All first
    kernels but those of query and key are multiplied by sqrt(ln(2N)), N the number of
    blocks. Adds 2d weights a sublayer, d the width, and inside it 2 num_heads key_dim
    or 2 ff_dim. Blocks stacked by hand: give each `depth=N`.

    When: a `pre_ln` that should start with larger updates, its sublayers kept in check
    by norms of their own; the paper does so for text, images and speech alike.

    When not: together with another scheme's initial gains, such as DeepNorm's; or deep
    and narrow: in benchmarks/depth.py 24 blocks reach 0.766, `pre_ln` 0.950.

    Source: Wang et al. 2022 (Magneto), arXiv:2210.06423.

    Args:
        depth: N, where it is not this stack's number of blocks.

    Raises:
        ValueError: if `depth` is no positive whole number.
    """

    final_norm = True

    def __init__(self, num_sublayers, depth=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.depth = self.num_blocks if depth is None else count("depth", depth)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def read(self, state, i):
        return self.norms[i](state)

    def init_gain(self, i, weight):
        if weight in ("query", "key"):
            return 1.0
        return math.sqrt(math.log(2 * self.depth))

    def sublayer_options(self, i):
        return {"inner_norm": self.norm}


@register("normformer")
class NormFormer(Residual):
    """x <- x + LN'(f(LN(x))) for attention, x <- w x + f(LN(x)) for feed-forward.

    `pre_ln` with three additions: LN' over attention's output, a learned scalar for
    each head before the output projection, 1 at first, and a norm over the
    feed-forward network's hidden values after its activation. LN at the end of the
    stack. w is 1, or with `scale_shortcut=True` a learned vector (d,), 1 at first, for
    each block. Dropout falls after LN', as in the authors' code. Adds 6d weights a
    block, d the width, another d with w, and inside it num_heads and 2 ff_dim.

    When: a `pre_ln` whose first blocks get much larger gradients than its last.

    When not: with `parallel=True`, where attention has no update of its own; or deep
    and narrow: in benchmarks/depth.py 24 blocks reach 0.650, `pre_ln` 0.950.

    Source: Shleifer et al. 2021, arXiv:2110.09456.

    Args:
        scale_shortcut: whether w is learned.

    Raises:
        ValueError: if `scale_shortcut` is neither True nor False.
    """

    final_norm = True
    joins_sublayers = False

    def __init__(self, num_sublayers, scale_shortcut=False, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = isinstance(scale_shortcut, bool)
        rule = "True or False"
        self.scale_shortcut = checked(fits, "scale_shortcut", scale_shortcut, rule)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.update_norms = self.add_norms(self.num_blocks, input_shape, "update_norm")
        self.shortcuts = None
        if self.scale_shortcut:
            shape = (self.num_sublayers // 2, input_shape[-1])
            self.shortcuts = self.add_weight(shape, "ones", name="shortcuts")

    def read(self, state, i):
        return self.norms[i](state)

    def drop(self, update):
        return update  # `write` drops, after the norm of attention's output

    def write(self, state, update, i):
        block, is_feed_forward = divmod(i, 2)
        if not is_feed_forward:
            update = self.update_norms[block](update)
        elif self.shortcuts is not None:
            self.show(i, "w", self.shortcuts[block], "channel")
            state = self.shortcuts[block] * state
        return state + self.dropout(update)

    def sublayer_options(self, i):
        return {"inner_norm": self.norm} if i % 2 else {"head_scale": True}


@register("res_post_norm")
class ResPostNorm(Residual):
    """x <- x + LN(f(x)), and LN at the end of the stack.

    The norm stands on the update, so sublayers read the stream as it is, the first one
    the bare embedding. With gains that start at 0, as published, every block starts as
    the identity, and at the first step only the norms get a gradient. `init_gain=1.0`
    is the placement of OLMo 2 (there with norm="rms_norm" and norms of queries and
    keys). Adds 2d weights a sublayer, d the width.

    When: blocks that start as the identity, and updates whose size does not depend on
    the sublayers' weights.

    When not: embeddings whose size varies; nothing norms what a sublayer reads.

    Source: Liu et al. 2021 (Swin Transformer V2), arXiv:2111.09883; OLMo team 2024,
    arXiv:2501.00656.

    Args:
        init_gain: the first value of the norms' gains.

    Raises:
        ValueError: if `init_gain` is no finite number.
    """

    final_norm = True

    def __init__(self, num_sublayers, init_gain=0.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        # The method `init_gain` is about the sublayers' kernels.
        self.gain = number("init_gain", init_gain)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape, gain=self.gain)

    def write(self, state, update, i):
        return state + self.norms[i](update)


@register("mix_ln")
class MixNorm(Residual):
    """x <- LN(x + f(x)) in the first blocks, x <- x + f(LN(x)) in the others.

    The first floor(fraction N) of N blocks are as in `post_ln`, the others as in
    `pre_ln`, with LN at the end of the stack. Adds 2d weights a sublayer, d the width.
    Blocks stacked by hand: use those two schemes, since each block is a stack of one.

    When: a `pre_ln` of moderate depth whose late blocks should change the stream more.

    When not: deep or large models, whose first blocks have the weakness of `post_ln`:
    in benchmarks/depth.py 24 blocks learn, 48 blocks stay at 0.500.

    Source: Li et al. 2024, arXiv:2412.13795.

    Args:
        fraction: share of the blocks that are `post_ln`, in [0, 1].

    Raises:
        ValueError: if `fraction` is out of range.
    """

    final_norm = True

    def __init__(self, num_sublayers, fraction=0.25, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = 0 <= number("fraction", fraction) <= 1
        self.fraction = checked(fits, "fraction", fraction, "in [0, 1]")
        # 0.29 of 100 blocks are 29, though the product of the floats is below.
        self.num_post = int(fraction * self.num_blocks + 1e-9)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def is_post(self, i):
        """Whether sublayer i is in one of the first blocks."""
        return i // self.per_block < self.num_post

    def read(self, state, i):
        return state if self.is_post(i) else self.norms[i](state)

    def write(self, state, update, i):
        state = state + update
        return self.norms[i](state) if self.is_post(i) else state


@register("hybrid_norm")
class HybridNorm(Residual):
    """x <- LN(x + f(x)) for attention, x <- x + f(x) for feed-forward.

    In place of a norm before attention, queries, keys and values each go through an
    RMS norm over the width of a head. The feed-forward network reads, and adds to, the
    normalised stream. LN at the end of the stack. Adds 2d weights a block, d the width,
    and 3 key_dim inside it. The authors also divide the first output kernels by
    sqrt(2N) for N blocks; here `kernel_initializer` has the word.

    When: a `pre_ln` that should carry more from block to block, with attention held
    steady by its own norms.

    When not: with `parallel=True`: the norm stands between attention and feed-forward;
    or deep without small first output kernels: in benchmarks/depth.py, which has none
    such, 24 blocks stay at 0.500.

    Source: Zhuo et al. 2025, arXiv:2503.04598.
    """

    final_norm = True
    joins_sublayers = False

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_blocks, input_shape)

    def write(self, state, update, i):
        block, is_feed_forward = divmod(i, 2)
        state = state + update
        return state if is_feed_forward else self.norms[block](state)

    def sublayer_options(self, i):
        return {} if i % 2 else {"qk_norm": True, "value_norm": True}
