"""Schemes whose state is several streams, which sublayers read and write by weights.

With the streams goes what the next sublayer reads, made by `start` and `write`. Where
all tokens are mixed alike, streams stand first, (n, batch, time, width), and one matrix
product mixes them. Where each token has a matrix of its own they stand last, (batch,
time, width, n): so many small products then take half the time of other orders.
"""

from keras import ops
from keras.initializers import Constant, RandomNormal

from .base import Residual, register
from .mixing import (
    apart,
    apart_at_first,
    combine,
    combine_and_read,
    connected,
    connections,
    diagonal,
    joined,
    manifold,
    outer,
    repeated,
    together,
)
from .numbers import above_one, checked, count, exact


@register("hyper_connections")
class HyperConnections(Residual):
    """h_k <- sum_j A_jk h_j + b_k f(LN(sum_j a_j h_j)), at the end LN(sum_k h_k).

    n streams h, each the input of the stack at first. Every sublayer has its own a (n),
    A (n, n) and b (n). At first a is 1 for stream i mod n and 0 for the others, A = I
    and b = 1: all streams are that of `pre_ln`, and so is the stack, without a kernel
    scaled for it. The first sublayer reads its input, whatever a would be, and has
    none. n (n + 2) weights a sublayer, spared by decay.

    With `dynamic`, the streams of a token add to its weights, [a_j | A_j | b_j] +=
    s tanh(LN(h_j) W), where LN has no gain or offset, whatever the stack's norm is.
    W (embed_dim, n + 2) starts at 0 and is decayed; s, one number for a and A and
    another for b, starts at 0.01. That is d (n + 2) + 2 weights more.

    The stack returns a sum: a block by itself gives n times the stream of `pre_ln`.
    Blocks stacked by hand lose what tells the streams apart.

    When: a deep stack shall learn how strongly its sublayers are joined, and there is
    memory for n streams.

    When not: a few blocks. A single stream did worse than `pre_ln` in the paper.

    Source: Zhu et al. 2024, arXiv:2409.19606.

    Args:
        streams: n.
        dynamic: whether a token's streams add to the weights.

    Raises:
        ValueError: if `streams` is no positive whole number, or `dynamic` no boolean.
    """

    final_norm = True

    def __init__(self, num_sublayers, streams=4, dynamic=True, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.streams = count("streams", streams)
        fits = isinstance(dynamic, bool)
        self.dynamic = checked(fits, "dynamic", dynamic, "True or False")

    def build(self, input_shape):
        n, width = self.streams, input_shape[-1]
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.static, self.kernels, self.scales = [], [], []
        for i in range(self.num_sublayers):
            c = n + 2 if i else n + 1
            self.static.append(self.add_exact(f"static_{i}", (n, c), connected(i)))
            if self.dynamic:
                self.kernels.append(self.add_exact(f"kernel_{i}", (width, c), "zeros"))
                self.scales.append(self.add_exact(f"scale_{i}", (2,), Constant(0.01)))

    def start(self, x):
        if self.dynamic:  # alike as they are, one stream will do
            return self.connect(ops.expand_dims(x, -1), 0)
        return x, ops.expand_dims(x, 0)

    def read(self, state, i):
        return self.norms[i](state[0])

    def write(self, state, update, i):
        if not self.dynamic:
            return self.write_alike(*state, update, i)
        _, mixed, share = state
        bank = mixed + outer(update, share)
        last = i + 1 == self.num_sublayers
        return ops.squeeze(bank, -1) if last else self.connect(bank, i + 1)

    def write_alike(self, _, bank, update, i):
        """All tokens alike: one product gives the streams, and what is read of them."""
        update = ops.expand_dims(update, 0)
        _, mix, share = self.parts(self.static[i], i)
        mix = ops.transpose(mix)
        if i == 0:
            mix = ops.sum(mix, axis=1, keepdims=True)
        rows = ops.concatenate([mix, share], axis=1)
        if i + 1 == self.num_sublayers:
            return combine(ops.sum(rows, axis=0, keepdims=True), bank, update)[0]
        read, _, _ = self.parts(self.static[i + 1], i + 1)
        bank, x = combine_and_read(rows, read, bank, update)
        return x[0], bank

    def exit(self, state, update, i):
        if self.dynamic:
            return joined(*state[1:], update)
        state = self.write(state, update, i)
        return state if i + 1 == self.num_sublayers else ops.sum(state[1], axis=0)

    def connect(self, bank, i):
        """What sublayer i reads, the streams mixed, and the share that each gets."""
        weights = self.static[i], self.kernels[i], self.scales[i]
        columns = connections(bank, *weights, self.epsilon)
        read, mix, share = self.parts(columns, i)
        x = ops.squeeze(ops.matmul(bank, read) if i else bank, -1)
        if i == 0:
            mix = ops.sum(mix, axis=2, keepdims=True)
        if i + 1 == self.num_sublayers:  # only the sum of the streams is wanted
            mix = ops.sum(mix, axis=3, keepdims=True)
            share = ops.sum(share, axis=2, keepdims=True)
        return x, ops.matmul(bank, mix), ops.squeeze(share, -1)

    def parts(self, columns, i):
        """a, A and b of sublayer i; a is empty for the first."""
        ends = [columns.shape[-1] - self.streams - 1, columns.shape[-1] - 1]
        read, mix, share = ops.split(columns, ends, axis=-1)
        if i:
            self.show(i, "a", read[..., 0], "stream")
        self.show(i, "A", mix, "from stream", "to stream")
        self.show(i, "b", share[..., 0], "stream")
        return read, mix, share

    @property
    def decayed(self):
        return self.kernels


@register("frac_connections")
class FracConnections(Residual):
    """h_k <- sum_j A_jk h_j + b_k f_k(LN(Y^T h)), h_1 .. h_m parts of one stream.

    The stream is cut along its width into m parts h, the update into as many f_k. What
    a sublayer reads is put together of parts too, part k being sum_j Y_jk h_j; at the
    end stands LN. Every sublayer has its own Y and A (m, m), both I at first, and b
    (m), at first 1, so that it starts as `pre_ln`. m (2 m + 1) weights a sublayer,
    spared by decay.

    When: the idea of `hyper_connections` is wanted at the memory of one stream.

    When not: streams shall hold more than one can; here they share its width.

    Source: Zhu et al. 2025, arXiv:2503.14125; its static form.

    Args:
        parts: m, which divides embed_dim; None: 4, or the next larger number that does.

    Raises:
        ValueError: if `parts` is neither None nor a whole number above 1, or does not
            divide the width.
    """

    final_norm = True

    def __init__(self, num_sublayers, parts=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.parts = parts if parts is None else above_one("parts", parts)

    def build(self, input_shape):
        width, sublayers = input_shape[-1], range(self.num_sublayers)
        n = self.parts or next((n for n in range(4, width) if width % n == 0), width)
        if width % n:
            raise ValueError(
                "parts must divide the width of the stream. "
                f"Received: parts={n}, width={width}"
            )
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.reads = [
            self.add_exact(f"read_{i}", (n, n), "identity") for i in sublayers
        ]
        self.mixes = [self.add_exact(f"mix_{i}", (n, n), "identity") for i in sublayers]
        self.shares = [self.add_exact(f"share_{i}", (n,), "ones") for i in sublayers]

    def start(self, x):
        bank = apart(x, self.shares[0].shape[0])
        return together(combine(ops.transpose(self.reads[0]), bank)), bank

    def read(self, state, i):
        self.show(i, "Y", self.reads[i], "from part", "to part")
        self.show(i, "A", self.mixes[i], "from part", "to part")
        self.show(i, "b", self.shares[i], "part")
        return self.norms[i](state[0])

    def write(self, state, update, i):
        _, bank = state
        update = apart(update, bank.shape[0])
        mix, share = ops.transpose(self.mixes[i]), diagonal(self.shares[i])
        rows = ops.concatenate([mix, share], axis=1)
        if i + 1 == self.num_sublayers:
            return together(combine(rows, bank, update))
        bank, x = combine_and_read(rows, self.reads[i + 1], bank, update)
        return together(x), bank

    def exit(self, state, update, i):
        state = self.write(state, update, i)
        return state if i + 1 == self.num_sublayers else together(state[1])


@register("mhc")
class ManifoldHyperConnections(Residual):
    """H <- R H + q f(LN(p H)), R with rows and columns of sum 1, at the end LN(sum H).

    n streams H, each the input of the stack at first. Each token says how its own are
    mixed, by v, which is all n in one vector, over the root of its mean square:

        p = sigmoid(l_p), q = 2 sigmoid(l_q), R = Sinkhorn(exp(l_R)), l = s v W + bias

    with an s for each of the three and W (n d, n + n + n^2). Sinkhorn makes columns,
    then rows sum to 1, `iterations` times: mixing leaves the mean of the streams alone,
    which moves by f times the mean of q. The first sublayer finds equal streams: it
    reads its input, mixes nothing and needs W (d, n) for q alone; the last one mixes
    nothing, as their sum is what follows. n d (n^2 + 2 n) + n^2 + 2 n + 3 weights for
    any other; decay applies to W. s starts at 0.01.

    With `init="normal"` W is drawn from N(0, 0.02^2) and the bias is 0, all but
    `pre_ln`; the draw tells streams apart, if slowly, which stay equal for good without
    it. With "identity" W is 0 and the bias lets sublayer i read stream i mod n with
    weight 0.99 and R keep 0.98 of every stream: it starts as `pre_ln`, and the streams
    part sooner.

    The stack returns a sum: a block by itself gives n times the mean. Blocks stacked by
    hand lose what tells the streams apart.

    When: `hyper_connections` in a stack so deep that products of free matrices may grow
    out of bounds.

    When not: a few blocks, where nothing can; Sinkhorn takes time.

    Source: Xie et al. 2025, arXiv:2512.24880. It leaves open how the bias starts and
    how streams are joined at the end.

    Args:
        streams: n, above 1.
        iterations: of Sinkhorn.
        init: "normal" or "identity".

    Raises:
        ValueError: if `streams` is no whole number above 1, `iterations` no positive
            one, or `init` neither of the two.
    """

    final_norm = True

    def __init__(
        self, num_sublayers, streams=4, iterations=20, init="normal", **kwargs
    ):
        super().__init__(num_sublayers, **kwargs)
        self.streams = above_one("streams", streams)
        self.iterations = count("iterations", iterations)
        fits = init in ("normal", "identity")
        self.init = checked(fits, "init", init, '"normal" or "identity"')

    def build(self, input_shape):
        n, width = self.streams, input_shape[-1]
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.kernels, self.biases, self.scales = [], [], []
        for i in range(self.num_sublayers):
            kinds = 1 if i == 0 else 2 if i + 1 == self.num_sublayers else 3
            rows, columns = n * width if i else width, sum((n, n, n * n)[:kinds])
            kernel, bias, small = "zeros", apart_at_first(i, n), Constant(0.01)
            if self.init == "normal":
                kernel, bias = RandomNormal(stddev=0.02), "zeros"
            self.kernels.append(self.add_exact(f"kernel_{i}", (rows, columns), kernel))
            self.biases.append(self.add_exact(f"bias_{i}", (columns,), bias))
            self.scales.append(self.add_exact(f"scale_{i}", (kinds,), small))

    def start(self, x):
        [share] = self.by_token(x, 0)
        return x, repeated(x, self.streams), share

    def read(self, state, i):
        return self.norms[i](state[0])

    def write(self, state, update, i):
        if i + 1 == self.num_sublayers:  # only the sum of the streams is wanted
            return self.exit(state, update, i)
        _, mixed, share = state
        bank = mixed + outer(update, share)
        batch, time, width, n = ops.shape(bank)
        v = ops.reshape(bank, (batch, time, width * n))
        share, read, *mix = self.by_token(v, i + 1)
        x = ops.squeeze(ops.matmul(bank, ops.expand_dims(read, -1)), -1)
        return x, ops.matmul(bank, *mix) if mix else bank, share

    def exit(self, state, update, i):
        return joined(*state[1:], update)

    def by_token(self, v, i):
        """q, p (batch, time, n) and R transposed, as far as sublayer i has them."""
        weights = self.kernels[i], self.biases[i], self.scales[i]
        found = manifold(v, *weights, self.streams, self.iterations, self.epsilon)
        axes = ["stream"], ["stream"], ["from stream", "to stream"]
        for name, one, over in zip("qpR", found, axes, strict=False):
            self.show(i, name, one, *over)
        return [ops.cast(one, v.dtype) for one in found]

    @property
    def decayed(self):
        return self.kernels


@register("gated_residual")
class GatedResidual(Residual):
    """h_j <- h_j + s_j f(mean_j G_j RMS(h_j)): streams behind gates, never mixed.

    n streams h, each the input of the stack at first, read through a gate as wide as
    all of them and written with weights s, both made for each token. With v the n d
    numbers of RMS(h_j), which has a gain for each stream,

        G = sigmoid(silu(v D / n) U), s = 2 sigmoid(v S / n)

    D (n d, r), U (r, n d) and S (n d, n). A gate stands in place of the norm before a
    sublayer, and one more, with weights of its own, in place of the norm at the end: it
    is RMS whatever the stack's norm is. 2 r n d + n^2 d + n d weights a sublayer and
    2 r n d + n d at the end. Decay applies to D, U and S, which start as `Dense`
    kernels do. Blocks stacked by hand lose what tells the streams apart.

    When: more than one stream is wanted without matrices that mix them.

    When not: a few blocks, or little memory.

    Source: Qwen Team 2026, arXiv:2608.30320; known here by code of others.

    Args:
        streams: n, above 1.
        rank: r; None: embed_dim // 8, but 1 at least.

    Raises:
        ValueError: if `streams` is no whole number above 1, or `rank` neither None nor
            a positive one.
    """

    def __init__(self, num_sublayers, streams=4, rank=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.streams = above_one("streams", streams)
        self.rank = rank if rank is None else count("rank", rank)

    def build(self, input_shape):
        n, width = self.streams, input_shape[-1]
        rank = self.rank or max(1, width // 8)
        draw, nd, gates = "glorot_uniform", n * width, range(self.num_sublayers + 1)
        self.gains = [self.add_exact(f"gain_{i}", (n, width), "ones") for i in gates]
        self.downs = [self.add_exact(f"down_{i}", (nd, rank), draw) for i in gates]
        self.ups = [self.add_exact(f"up_{i}", (rank, nd), draw) for i in gates]
        self.shares = [self.add_exact(f"share_{i}", (nd, n), draw) for i in gates[:-1]]

    def start(self, x):
        return self.connect(ops.repeat(ops.expand_dims(x, 2), self.streams, axis=2), 0)

    def read(self, state, i):
        return state[0]

    def write(self, state, update, i):
        _, bank, share = state  # bank (batch, time, n, width)
        return self.connect(bank + share * ops.expand_dims(update, 2), i + 1)

    def exit(self, state, update, i):
        return self.write(state, update, self.num_sublayers - 1)[0]

    def finish(self, state):
        return state[0]

    def connect(self, bank, i):
        """What sublayer i reads, the streams, and the share that each gets."""
        batch, time, n, width = ops.shape(bank)
        h = ops.cast(bank, exact(bank))
        square = ops.mean(ops.square(h), axis=-1, keepdims=True)
        h = h * ops.rsqrt(square + self.epsilon) * self.gains[i]
        v = ops.reshape(h, (batch, time, n * width))
        gate = ops.matmul(ops.silu(ops.matmul(v, self.downs[i]) / n), self.ups[i])
        gate = ops.reshape(ops.sigmoid(gate), (batch, time, n, width))
        self.show(i, "G", lambda: ops.mean(gate, axis=-1), "stream")
        x = gate * h
        x = ops.cast(ops.mean(x, axis=2), bank.dtype)
        if i == self.num_sublayers:
            return x, bank, None
        share = 2 * ops.sigmoid(ops.matmul(v, self.shares[i]) / n)
        self.show(i, "s", share, "stream")
        return x, bank, ops.cast(ops.expand_dims(share, -1), bank.dtype)

    @property
    def decayed(self):
        return [*self.downs, *self.ups, *self.shares]
