"""Schemes whose state is one tensor, the stream or its updates scaled."""

import math

import keras
from keras import ops

from .base import Residual, register
from .numbers import checked, count, exact, number, sublayers_of_all, times, variance
from .ramp import Counter, Ramp

# The kernels whose first values some schemes make smaller; query and key stay.
DAMPED = ("value", "output", "ff_in", "ff_out")


@register("rezero")
class ReZero(Residual):
    """x <- x + a f(x), a = 0 at first.

    a is a scalar, one a block for attention and feed-forward together, as in the
    official layer, or one a sublayer with `shared=False`. There is no norm anywhere, at
    the end of the stack neither, and the stack starts as the identity. At the first
    step only a learns: behind a = 0 no other weight has a gradient. Blocks stacked by
    hand lose nothing.

    When: deep stacks without warm-up and without the cost of norms.

    When not: half precision at large depth, as nothing bounds the stream; or where the
    scalars stay so small that the blocks do little.

    Source: Bachlechner et al. 2020, arXiv:2003.04887.

    Args:
        shared: whether the sublayers of a block have one scalar together.

    Raises:
        ValueError: if `shared` is neither True nor False.
    """

    def __init__(self, num_sublayers, shared=True, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = isinstance(shared, bool)
        self.shared = checked(fits, "shared", shared, "True or False")

    def build(self, input_shape):
        count = self.num_blocks if self.shared else self.num_sublayers
        self.alpha = self.add_exact("alpha", (count,), "zeros")

    def write(self, state, update, i):
        place = i // self.per_block if self.shared else i
        self.show(i, "a", self.alpha[place])
        return state + times(self.alpha[place], update)


@register("skip_init")
class SkipInit(Residual):
    """x <- x + a_i f(x), a_i = `init`.

    a_i is a scalar, one a sublayer. There is no norm anywhere: in its paper a_i takes
    the place of batch norm, which helps by making updates small beside the stream. The
    paper starts at 0 or at 1/sqrt(n), n the number of updates. From 0 it is the
    identity at first, as `rezero(shared=False)` is; from 1/sqrt(n) every weight learns
    from the first step, and if updates vary as their input does, the stream's variance
    grows by (1 + 1/n)^n, less than e, at any depth. Stacking by hand loses nothing.

    When: to see whether small updates are all that a norm is good for.

    When not: in half precision at large depth, as nothing bounds the stream.

    Source: De and Smith 2020, arXiv:2002.10444.

    Args:
        init: first value of every a_i.

    Raises:
        ValueError: if `init` is no finite number.
    """

    def __init__(self, num_sublayers, init=0.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.init = number("init", init)

    def build(self, input_shape):
        start = keras.initializers.Constant(self.init)
        self.alpha = self.add_exact("alpha", (self.num_sublayers,), start)

    def write(self, state, update, i):
        self.show(i, "a", self.alpha[i])
        return state + times(self.alpha[i], update)


@register("layer_scale")
class LayerScale(Residual):
    """x <- x + g_i f(LN(x)), g_i = `init`, and LN at the end of the stack.

    g_i (embed_dim) has a number for each channel, d a sublayer beside the norm's. The
    paper starts at 0.1 up to 18 blocks, 1e-5 up to 24, 1e-6 beyond; its code's default
    is 1e-4. At 1 it starts as `pre_ln`, at 0 as the identity. Blocks stacked by hand
    lose the norm at the end.

    When: a `pre_ln` stack of many blocks that shall start close to the identity.

    When not: short runs of shallow stacks, where such a start is only a delay.

    Source: Touvron et al. 2021, arXiv:2103.17239, section 2.

    Args:
        init: first value of all numbers of g_i.

    Raises:
        ValueError: if `init` is no finite number.
    """

    final_norm = True

    def __init__(self, num_sublayers, init=1e-4, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.init = number("init", init)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.gammas = self.add_vectors("gamma", input_shape, self.init)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        self.show(i, "g", self.gammas[i], "channel")
        return state + times(self.gammas[i], update)


@register("deepnorm")
class DeepNorm(Residual):
    """x <- LN(a x + f(x)), a = (2N)^(1/4).

    N is the number of blocks, so 2N the number of sublayers, and with `parallel` the
    number of those. The first values of the kernels of value, output, ff_in and ff_out
    are multiplied by (8N)^(-1/4), whatever draws them; the paper draws Xavier normal.
    a is fixed and adds no weights. Blocks stacked by hand need `depth`.

    When: post-norm at any depth; the paper goes to 1000 blocks, this package's tests
    to 200.

    When not: beside a scheme that scales first values upwards (`sub_ln`), which undoes
    it.

    Source: Wang et al. 2022, arXiv:2203.00555, for an encoder or a decoder by itself.

    Args:
        depth: N, where the stack is part of a larger one; None: its own blocks.

    Raises:
        ValueError: if `depth` is not a number of blocks, at least those here.
    """

    def __init__(self, num_sublayers, depth=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        n = sublayers_of_all(self, depth)
        self.alpha = n**0.25
        self.gain = (4 * n) ** -0.25

    def init_gain(self, i, weight):
        return self.gain if weight in DAMPED else 1.0

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def write(self, state, update, i):
        return self.norms[i](self.alpha * state + update)


@register("admin")
class Admin(Residual):
    """x <- LN(w_i x + f(x)), w_i = sqrt(1 + sum of Var(f_j(x)) over j < i).

    w_i (embed_dim) is learned, d weights a sublayer beside the norm's. `calibrate`
    reads its start off one batch, each variance over all numbers of an update; until
    then it is 1 and the scheme is `post_ln`. Blocks stacked by hand lose the sum: each
    starts it anew.

    When: post-norm stacks that diverge, where a batch can be had before training.

    When not: where there is none: `deepnorm` needs to know the depth alone. Nor very
    deep and narrow: in benchmarks/depth.py 24 blocks learn, 48 blocks stay at 0.500.

    Source: Liu et al. 2020, arXiv:2004.08249, section 4.
    """

    record = None  # what `calibrate` does with each update

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.omegas = self.add_vectors("omega", input_shape, 1.0)

    def write(self, state, update, i):
        if self.record is not None:
            self.record(update)
        self.show(i, "w", self.omegas[i], "channel")
        return self.norms[i](times(self.omegas[i], state) + update)

    def calibrate(self, run):
        """Sets every w_i from the variances of one batch, seen with all w_i = 1.

        Args:
            run: a function that sends the batch through the stack once, eagerly.

        Raises:
            ValueError: if `run` does not call the stack exactly once.
        """
        variances = []
        for omega in self.omegas:
            omega.assign(ops.ones_like(omega))
        self.record = lambda update: variances.append(variance(update))
        try:
            run()
        finally:
            self.record = None
        if len(variances) != self.num_sublayers:
            raise ValueError(
                "Calibration must send one batch through all sublayers, once and "
                "eagerly, as model(batch) does and model.predict does not. Received: "
                f"{len(variances)} updates from {self.num_sublayers} sublayers"
            )
        total = 1.0
        for omega, seen in zip(self.omegas, variances, strict=True):
            omega.assign(math.sqrt(total) * ops.ones_like(omega))
            total += seen


@register("t_fixup")
class TFixup(Residual):
    """x <- x + f(x), with first values that make norms and warm-up needless.

    With 2N sublayers, the first values of the kernels of value, output, ff_in and
    ff_out are multiplied by 0.67 N^(-1/4), and the token embedding is drawn from a
    normal distribution of standard deviation (9N)^(-1/4) d^(-1/2). It adds no weights.
    Blocks stacked by hand need `depth`, and an embedding that is drawn so
    (`embedding_initializer`).

    When: to train without norms and without warm-up; the paper goes to 200 blocks.

    When not: with an embedding or positions of another scale, which are half of the
    method; or large learning rates, as nothing bounds the stream.

    Source: Huang et al. 2020, "Improving Transformer Optimization Through Better
    Initialization", ICML 2020; it is not on arXiv.

    Args:
        depth: N, where the stack is part of a larger one; None: its own blocks.

    Raises:
        ValueError: if `depth` is not a number of blocks, at least those here.
    """

    def __init__(self, num_sublayers, depth=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.blocks = sublayers_of_all(self, depth) / 2

    def init_gain(self, i, weight):
        return 0.67 * self.blocks**-0.25 if weight in DAMPED else 1.0

    def embedding_initializer(self, width):
        deviation = (9 * self.blocks) ** -0.25 * width**-0.5
        return keras.initializers.RandomNormal(stddev=deviation)


@register("ln_scaling")
class LayerNormScaling(Residual):
    """x <- x + f(LN(x) / sqrt(l)), l = 1, 2, ..., and LN at the end of the stack.

    l is the number of the block, the same for both its sublayers; the last norm is not
    scaled. Deeper updates get smaller, so the stream of a deep stack grows less. It has
    the weights of `pre_ln`, and one block alone is `pre_ln`. Blocks stacked by hand
    need `block`, and lose the norm at the end.

    When: deep `pre_ln` stacks whose late blocks do little.

    When not: together with output kernels that start smaller with depth.

    Source: Sun et al. 2025, arXiv:2502.05795.

    Args:
        block: l of the first block here, for a stack that is part of a larger one.

    Raises:
        ValueError: if `block` is no positive number.
    """

    final_norm = True

    def __init__(self, num_sublayers, block=1, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.block = count("block", block)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def read(self, state, i):
        return (self.block + i // self.per_block) ** -0.5 * self.norms[i](state)


@register("keel")
class Keel(Residual):
    """x <- LN(n x + f(LN(x))), n the number of sublayers; block 1: x <- x + f(LN(x)).

    Both norms have weights of their own: 4 d a sublayer, in the first block 2 d. n is
    fixed; the larger it is, the closer is every later sublayer to x <- LN(x). The stack
    ends with its last norm, but a single block is a bare `pre_ln` block. Blocks stacked
    by hand need `depth`: then n counts the sublayers of all of it, and every block here
    is a later one with both norms; the very first block has residual="pre_ln".

    When: post-norm stacks of very many blocks; the paper claims more than 1000.

    When not: shallow stacks, where the second norm costs more than it brings.

    Source: Chen and Wei 2026, arXiv:2601.19895.

    Args:
        depth: number of blocks of the larger stack whose later part this is, or None.

    Raises:
        ValueError: if `depth` is not a number of blocks, at least those here.
    """

    def __init__(self, num_sublayers, depth=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.alpha = float(sublayers_of_all(self, depth))
        self.plain = self.per_block if depth is None else 0  # sublayers of block 1

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        later = self.num_sublayers - self.plain
        self.outer_norms = self.add_norms(later, input_shape, "outer_norm")

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        if i < self.plain:
            return state + update
        return self.outer_norms[i - self.plain](self.alpha * state + update)


@register("prores")
class ProRes(Residual):
    """x <- x + min(t / (T l), 1) f(LN(x)), and LN at the end of the stack.

    t is the number of training passes so far, l = 1, 2, ... the block's number, T is
    `warmup_steps`: early blocks come in first, the last of N in full after T N steps.
    At t = 0 it is the identity, and no weight of a block has a gradient. At inference
    the factor is 1 and the scheme is `pre_ln`. It has the weights of `pre_ln`, and t as
    one more that is counted, not learned; so t is saved, and a run goes on where it
    stopped. Blocks stacked by hand need `block`, and lose the norm at the end.

    When: long runs of deep `pre_ln` stacks that are unsteady at first.

    When not: runs of fewer than T N steps, whose late blocks never learn with the
    factor 1 that they are used with; so are metrics on the way there.

    Source: Chen et al. 2026, arXiv:2603.05369.

    Args:
        warmup_steps: T, the steps after which the first block counts in full.
        block: l of the first block here, for a stack that is part of a larger one.

    Raises:
        ValueError: if `warmup_steps` or `block` is no positive number.
    """

    final_norm = True

    def __init__(self, num_sublayers, warmup_steps=1000, block=1, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.warmup_steps = count("warmup_steps", warmup_steps)
        self.block = count("block", block)
        common = {"dtype": self.dtype_policy, "autocast": False}
        self.counter = Counter(name="counter", **common)
        self.ramp = Ramp(name="ramp", **common)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.counter.build(input_shape)
        self.ramp.build(input_shape)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        length = self.warmup_steps * (self.block + i // self.per_block)
        steps = ops.cast(self.counter.steps, exact(update))
        return state + self.ramp(update, steps / length)

    def finish(self, state):
        return self.counter(state)
