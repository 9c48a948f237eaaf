"""Schemes whose state is one tensor, joined to the update by learned matrices."""

import keras
from keras import ops

from ..dense import Dense
from .base import Residual, register
from .numbers import number


@register("attention_residual")
class AttentionResidual(Residual):
    """x <- LN(F [x ; Dropout(P f(x) + b_P)] + b_F).

    The update is projected, put beside the stream, and one matrix F (2d to d, the
    stream's half first) learns how the two are joined; attention and feed-forward each
    have their own P, F and LN. It adds 3 d^2 + 4 d weights a sublayer, LN's included.
    Dropout falls once, on the projected update, as published. Blocks stacked by hand
    lose nothing.

    With `fusion_init="identity"`, F = [I | I] and P = I: it starts as `post_ln`. With
    "glorot_uniform", as published, the shortcut starts as a random projection, so the
    signal of the first blocks is lost with depth: at twelve blocks it reaches 0.748
    on `reviews(depth=1)` where "identity" reaches 0.943 (tests/test_goals.py).

    Not to be confused with "Attention Residuals" of the Kimi team (2026), which is
    softmax attention along depth: `attn_res`.

    When: a few blocks shall learn by themselves how stream and update are joined; with
    fusion_init="identity", a dozen too.

    When not: deep stacks with the published start, of which 24 blocks stay at 0.500 in
    benchmarks/depth.py; or where 3 d^2 more weights a sublayer are too many.

    Source: a practice guide on rebuilding the residual connection of a Keras block;
    there is no paper.

    Args:
        fusion_init: "glorot_uniform" or "identity".

    Raises:
        ValueError: if `fusion_init` is neither.
    """

    def __init__(self, num_sublayers, fusion_init="glorot_uniform", **kwargs):
        super().__init__(num_sublayers, **kwargs)
        if fusion_init not in ("glorot_uniform", "identity"):
            raise ValueError(
                'fusion_init must be "glorot_uniform" or "identity". '
                f"Received: fusion_init={fusion_init!r}"
            )
        self.fusion_init = fusion_init

    def build(self, input_shape):
        *_, width = input_shape
        both = (*input_shape[:-1], 2 * width)
        square, wide = "glorot_uniform", "glorot_uniform"
        if self.fusion_init == "identity":
            square, wide = "identity", identity_pair
        self.projections = add_denses(self, "project", width, input_shape, 0.0, square)
        self.fusions = add_denses(self, "fuse", width, both, 0.0, wide)
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def drop(self, update):
        return update  # `write` drops, after the projection

    def write(self, state, update, i):
        project, fuse = self.projections[i].kernel, self.fusions[i].kernel
        self.show(i, "F", lambda: halves(project, fuse), "half")
        update = self.dropout(self.projections[i](update))
        fused = self.fusions[i](ops.concatenate([state, update], axis=-1))
        return self.norms[i](fused)

    @property
    def decayed(self):
        return kernels(self.projections, self.fusions)


@register("highway")
class Highway(Residual):
    """x <- g x + (1 - g) y, g = sigmoid(W x + b), y = ReLU(f(LN(x))).

    g (embed_dim) says for each number of the stream how much of it is kept; the rest
    makes room for the update. W is d x d, and b starts at `bias` throughout: at 2, g is
    about 0.88, and a large one makes the stack the identity. It adds d^2 + d weights a
    sublayer beside the norm's.

    LN before the sublayer and ReLU behind it are those of the gated Transformers of
    GTrXL. As there, no norm ends the stack: the stream is a weighted mean of its input
    and of updates, so it does not grow with depth; twelve blocks reach 0.952 on
    `reviews(depth=1)`. Blocks stacked by hand lose nothing.

    When: the stream shall be able to forget, at a sixth of what `gru_gate` adds.

    When not: very deep stacks, as each sublayer fades what stands in the stream: at
    g = 0.88 a third of it is left after eight, a twentieth after twenty-four. In
    benchmarks/depth.py 24 blocks reach 0.526.

    Source: Srivastava et al. 2015, arXiv:1505.00387; in a Transformer, Parisotto et
    al. 2019, arXiv:1910.06764.

    Args:
        bias: first value of all numbers of b.

    Raises:
        ValueError: if `bias` is no finite number.
    """

    def __init__(self, num_sublayers, bias=2.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.bias = number("bias", bias)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.gates = add_denses(self, "gate", input_shape[-1], input_shape, self.bias)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        gate = ops.sigmoid(self.gates[i](state))
        self.show(i, "g", gate, "channel")
        return gate * state + (1 - gate) * ops.relu(update)

    @property
    def decayed(self):
        return kernels(self.gates)


@register("gru_gate")
class GruGate(Residual):
    """x <- (1 - z) x + z h: a gated recurrent unit whose time is depth.

    With y = ReLU(f(LN(x))),

        r = sigmoid(W_r y + U_r x)
        z = sigmoid(W_z y + U_z x - b)
        h = tanh(W_g y + U_g (r x))

    The six matrices are d x d and without bias, but for b (embed_dim), which starts at
    `bias` throughout (the bias of U_z holds -b): at 2, z is about 0.12, and a large one
    makes the stack the identity. It adds 6 d^2 + d weights a sublayer beside the
    norm's, as many as the sublayers of a block with ff_dim = 4 d have themselves.

    As published, no norm ends the stack: no number of the stream grows beyond its first
    value or 1, and twelve blocks reach 0.964 on `reviews(depth=1)`. Blocks stacked by
    hand lose nothing.

    When: training is unstable, as in the reinforcement learning it was made for.

    When not: weights or time are scarce: the price of twice as many plain blocks; or
    deep and narrow: in benchmarks/depth.py 24 blocks stay at 0.500.

    Source: Parisotto et al. 2019, arXiv:1910.06764 (GTrXL).

    Args:
        bias: first value of all numbers of b.

    Raises:
        ValueError: if `bias` is no finite number.
    """

    def __init__(self, num_sublayers, bias=2.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.bias = number("bias", bias)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        # Joined in wider kernels they are no faster: their product must be taken apart.
        (self.w_r, self.u_r, self.w_z, self.u_z, self.w_g, self.u_g) = (
            add_denses(self, name, input_shape[-1], input_shape, bias)
            for name, bias in {
                "w_r": None,
                "u_r": None,
                "w_z": None,
                "u_z": -self.bias,
                "w_g": None,
                "u_g": None,
            }.items()
        )

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        y = ops.relu(update)
        r = ops.sigmoid(self.w_r[i](y) + self.u_r[i](state))
        z = ops.sigmoid(self.w_z[i](y) + self.u_z[i](state))
        self.show(i, "r", r, "channel")
        self.show(i, "z", z, "channel")
        h = ops.tanh(self.w_g[i](y) + self.u_g[i](r * state))
        return state + z * (h - state)

    @property
    def decayed(self):
        return kernels(self.w_r, self.u_r, self.w_z, self.u_z, self.w_g, self.u_g)


@register("input_gate")
class InputGate(Residual):
    """x <- g x + y, g = sigmoid(W x), y = ReLU(f(LN(x))).

    g (embed_dim) says for each number of the stream how much of it is kept; the update
    comes in whole. W is d x d and has no bias, so g starts around one half and every
    sublayer halves what stood in the stream. It adds d^2 weights a sublayer beside the
    norm's.

    LN before the sublayer and ReLU behind it are those of the gated Transformers of
    GTrXL. There, no norm ends the stack; here one does, as where g nears 1 the updates,
    none of them negative, add up without bound. Blocks stacked by hand lose that norm.

    When: to compare gates.

    When not: deep stacks, which forget their input within a few blocks: in
    benchmarks/depth.py 24 blocks stay at 0.500.

    Source: Parisotto et al. 2019, arXiv:1910.06764.
    """

    final_norm = True

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.gates = add_denses(self, "gate", input_shape[-1], input_shape)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        gate = ops.sigmoid(self.gates[i](state))
        self.show(i, "g", gate, "channel")
        return gate * state + ops.relu(update)

    @property
    def decayed(self):
        return kernels(self.gates)


@register("output_gate")
class OutputGate(Residual):
    """x <- x + sigmoid(W x - b) y, y = ReLU(f(LN(x))).

    The stream says for each number of the update how much of it comes in. W is d x d,
    and b (embed_dim) starts at `bias` throughout (the layer's bias holds -b): at 2, the
    gate is about 0.12, and a large one makes the stack the identity. It adds d^2 + d
    weights a sublayer beside the norm's.

    LN before the sublayer and ReLU behind it are those of the gated Transformers of
    GTrXL. There, no norm ends the stack; here one does, as in `pre_ln`: the updates,
    none of them negative, add up with depth. Blocks stacked by hand lose that norm.

    When: a `pre_ln` stack that shall start close to the identity and choose by content
    what it adds.

    When not: a stream that must be able to fall: no number of it ever does; or deep and
    narrow: in benchmarks/depth.py 24 blocks stay at 0.500.

    Source: Parisotto et al. 2019, arXiv:1910.06764.

    Args:
        bias: first value of all numbers of b.

    Raises:
        ValueError: if `bias` is no finite number.
    """

    final_norm = True

    def __init__(self, num_sublayers, bias=2.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.bias = number("bias", bias)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.gates = add_denses(self, "gate", input_shape[-1], input_shape, -self.bias)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        gate = ops.sigmoid(self.gates[i](state))
        self.show(i, "sigmoid", gate, "channel")
        return state + gate * ops.relu(update)

    @property
    def decayed(self):
        return kernels(self.gates)


@register("sigmoid_tanh_gate")
class SigmoidTanhGate(Residual):
    """x <- x + sigmoid(W y - b) tanh(U y), y = ReLU(f(LN(x))).

    The update alone says how much of it comes in, and no number of the stream changes
    by more than 1 at a sublayer. W and U are d x d, and b (embed_dim) starts at `bias`
    throughout (the bias of W holds -b): at 2, the gate is about 0.12, and a large one
    makes the stack the identity. It adds 2 d^2 + d weights a sublayer beside the
    norm's.

    LN before the sublayer and ReLU behind it are those of the gated Transformers of
    GTrXL. There, no norm ends the stack; here one does, as in `pre_ln`, since the
    stream is a sum. Blocks stacked by hand lose that norm.

    When: updates shall be bounded, whatever the sublayers give.

    When not: what is to come in depends on what stands in the stream, which this gate
    does not see; or very deep and narrow: in benchmarks/depth.py 48 blocks reach 0.764.

    Source: Parisotto et al. 2019, arXiv:1910.06764.

    Args:
        bias: first value of all numbers of b.

    Raises:
        ValueError: if `bias` is no finite number.
    """

    final_norm = True

    def __init__(self, num_sublayers, bias=2.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.bias = number("bias", bias)

    def build(self, input_shape):
        width = input_shape[-1]
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.gates = add_denses(self, "gate", width, input_shape, -self.bias)
        self.values = add_denses(self, "value", width, input_shape)

    def read(self, state, i):
        return self.norms[i](state)

    def write(self, state, update, i):
        y = ops.relu(update)
        gate = ops.sigmoid(self.gates[i](y))
        self.show(i, "sigmoid", gate, "channel")
        return state + gate * ops.tanh(self.values[i](y))

    @property
    def decayed(self):
        return kernels(self.gates, self.values)


def add_denses(scheme, name, width, shape, bias=None, initializer="glorot_uniform"):
    """A built Dense layer for each sublayer, its bias from `bias` on; None: no bias."""
    denses = []
    for i in range(scheme.num_sublayers):
        dense = Dense(
            width,
            use_bias=bias is not None,
            kernel_initializer=initializer,
            bias_initializer=keras.initializers.Constant(bias or 0.0),
            dtype=scheme.dtype_policy,
            name=f"{name}_{i}",
        )
        dense.build(shape)
        denses.append(dense)
    return denses


def kernels(*groups):
    """The kernels of all layers in `groups`."""
    return [dense.kernel for denses in groups for dense in denses]


def halves(project, fuse):
    """How much of the stream, and of the update, comes through P and F: two numbers.

    The root of the mean square of a matrix' singular values: 1 for the identity.
    """
    stream, update = ops.split(fuse, 2, axis=0)
    both = ops.stack([stream, ops.matmul(project, update)])
    return ops.sqrt(ops.sum(ops.square(both), axis=(1, 2)) / stream.shape[0])


def identity_pair(shape, dtype=None):
    """[I | I], as a kernel of shape (2d, d): the sum of what stands side by side."""
    width = shape[-1]
    return ops.concatenate([ops.eye(width, dtype=dtype)] * 2, axis=0)
