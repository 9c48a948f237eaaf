"""Schemes whose state is what was written before, and each reader mixes its own."""

from keras import ops

from .base import Residual, register
from .mixing import of_normed
from .numbers import count
from .sources import Sources


@register("attn_res")
class DepthAttention(Residual):
    """x = sum_j a_j v_j, a = softmax_j(w^T RMS(v_j)), the sublayer reads LN(x).

    v_0 is the input of the stack, v_1, v_2, ... what the sublayers gave, never the sum
    of it. Each reader attends to them along depth, token by token: RMS(v) = g v /
    sqrt(mean(v^2) + epsilon), with a query w (embed_dim) and a gain g of the reader's
    own, 2 d weights. A last reader gives what the stack returns. The first one finds
    v_0 alone and needs no weights. w starts at 0, so that x is the mean of the sources,
    which LN turns into what `pre_ln` reads; g starts at 1.

    With `block_size` S, every S updates are summed into one source; a sublayer reads
    the input, the sums that are complete and, but for the first of its block, the sum
    begun. Blocks stacked by hand lose the sources of those before.

    When: late blocks shall find what early ones gave, of which the grown stream of
    `pre_ln` holds the sum alone. Over 16 layers the paper's loss falls from 1.766 to
    1.737, with blocks of 4 to 1.746; some eight blocks recover most of the effect.

    When not: a handful of sublayers, with little to choose from; and the full form
    keeps the updates of all n sublayers and reads n^2 / 2 of them.

    Source: Kimi Team 2026, arXiv:2603.15031. Not to be confused with
    `attention_residual`, which fuses stream and update by a matrix.

    Args:
        block_size: S, in sublayers; None is the full form, each update its own source.

    Raises:
        ValueError: if `block_size` is neither None nor a positive whole number.
    """

    final_norm = True

    def __init__(self, num_sublayers, block_size=None, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        if block_size is not None:
            count("block_size", block_size)
        self.block_size = block_size

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.queries, self.gains = add_readers(self, self.num_sublayers, input_shape)

    def start(self, x):
        size = self.block_size or 1
        return Sources.of(x, self.queries, self.gains, self.epsilon, size), None

    def read(self, state, i):
        self.show(i, "a", lambda: self.every(state).weights(i), "source")
        return self.norms[i](self.mean(state, i))

    def mean(self, state, reader):
        sources, partial = state
        total, mean = sources.mean(reader)
        if partial is None:
            return mean
        # A softmax over two, which are both tensors of the stream's size.
        share = ops.sigmoid(sources.logits(partial, reader) - total)
        return mean + ops.cast(share, mean.dtype) * (partial - mean)

    def write(self, state, update, i):
        sources, partial = state
        if partial is not None:
            update = partial + update
        if self.block_size and (i + 1) % self.block_size:
            return sources, update
        return sources.add(update, i + 1), None

    def finish(self, state):
        last = self.num_sublayers
        self.show(last, "a", lambda: self.every(state).weights(last), "source")
        return self.mean(state, last)

    def exit(self, state, update, i):
        # Means over older sources are at hand for the next readers, not for the last.
        sources = self.every(self.write(state, update, i))
        return sources.weighted(self.num_sublayers)

    def every(self, state):
        """All sources, the sum begun as one of them."""
        sources, partial = state
        return sources if partial is None else sources.add(partial, 0)


@register("delta_attn_res")
class DeltaDepthAttention(Residual):
    """x <- x + f(LN(x + sum_j a_j v_j)), a = softmax_j(w^T RMS(v_j)), at the end LN.

    The stream is that of `pre_ln`, and a reader adds to it a mean of what it is the sum
    of: v_0, the input of the stack, and v_1, v_2, ..., the updates so far. The weights
    are those of `attn_res`: RMS(v) = g v / sqrt(mean(v^2) + epsilon), w and g
    (embed_dim) of the reader's own, but for the first, which finds v_0 alone. What the
    stack returns is x. w starts at 0, so that a reader sees x + x / m with m sources,
    which LN turns into what `pre_ln` reads; g starts at 1.

    In the authors' code w starts as noise and is decayed like all weights; not here,
    where it starts at 0 and decay spares it. Their source of zeros, learned, and their
    forms by blocks are left out. Blocks stacked by hand lose the updates of those
    before.

    When: readers shall choose among earlier updates and yet find the whole stream.

    When not: time or memory is short: it keeps and reads what the full `attn_res` does.

    Source: Luo, Cai and Hu 2026, arXiv:2605.18855.
    """

    final_norm = True

    def build(self, input_shape):
        n = self.num_sublayers
        self.norms = self.add_norms(n, input_shape)
        self.queries, self.gains = add_readers(self, n - 1, input_shape)

    def start(self, x):
        return x, Sources.of(x, self.queries, self.gains, self.epsilon)

    def read(self, state, i):
        x, sources = state
        self.show(i, "a", lambda: sources.weights(i), "source")
        _, mean = sources.mean(i)
        return self.norms[i](x + mean)

    def write(self, state, update, i):
        x, sources = state
        return x + update, sources.add(update, i + 1)

    def finish(self, state):
        return state[0]


@register("dense_former")
class DenseFormer(Residual):
    """x <- x + f(LN(x)), after a block x <- sum_j a_j X_j, and LN at the end.

    X_0 is the input of the stack and X_1, X_2, ... what the blocks gave, before it was
    averaged. After block k, counted from 1, the stream becomes a weighted sum over j =
    k, k - `dilation`, k - 2 `dilation`, ..., where k is a multiple of `period`. The
    weights a are learned numbers, floor(k / dilation) + 1 for the block, from the
    oldest to the newest; the newest starts at 1 and the others at 0, so that at first
    this is `pre_ln`. The published code decays them, but decay would draw the newest to
    0, so it spares them here. Blocks stacked by hand lose what was before them.

    When: blocks shall reach past those before them for a few numbers each; the paper
    recommends `dilation=4, period=5` for deep stacks.

    When not: fewer blocks than `period` or `dilation`, so that nothing is mixed; and
    the 16 layers of the paper of `attn_res` gained nothing by it.

    Source: Pagliardini et al. 2024, arXiv:2402.02622.

    Args:
        dilation: distance between the blocks that are averaged.
        period: distance between the blocks after which they are.

    Raises:
        ValueError: if one of them is not a positive whole number.
    """

    final_norm = True

    def __init__(self, num_sublayers, dilation=1, period=1, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.dilation = count("dilation", dilation)
        self.period = count("period", period)

    def build(self, input_shape):
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.alphas = []
        for block in range(self.period, self.num_blocks + 1, self.period):
            shape, name = (block // self.dilation + 1,), f"alpha_{block}"
            self.alphas.append(self.add_exact(name, shape, newest))

    def start(self, x):
        return x, (x,)

    def read(self, state, i):
        x, _ = state
        return self.norms[i](x)

    def write(self, state, update, i):
        x, history = state
        x = x + update
        block, inside = divmod(i + 1, self.per_block)
        if inside:
            return x, history
        history = (*history, x)
        if block % self.period == 0:
            alpha = self.alphas[block // self.period - 1]
            used = slice(block % self.dilation, None, self.dilation)
            self.show(i, "a", lambda: among(alpha, block + 1, used), "source")
            mixed = history[used]
            x = ops.tensordot(ops.cast(alpha, x.dtype), ops.stack(mixed), axes=1)
        return x, history

    def finish(self, state):
        return state[0]


@register("mudd")
class MultiwayDense(Residual):
    """x <- x + f(LN(x)), after a block q, k, v, x <- sum_j a_j X_j, and LN at the end.

    X_0 is the input of the stack and X_1, X_2, ... what the blocks gave. After each,
    four weighted sums over all of them are taken: the stream x of the next block, and
    what its attention reads for its queries, keys and values, each through a norm of
    its own. The last block ends with x alone. The weights are made for each token:

        a = s + W_2^T gelu(W_1^T RMS(X_k)), RMS without a gain

    with m = k + 1 sources and c = 4 sums (1 after the last block) W_1 is (embed_dim,
    4 m), W_2 (4 m, c m) and s c m numbers. W_2 starts at 0 and s as 1 for the newest
    source, so that at first this is `pre_ln`. Decay applies to W_1 and W_2.

    Attention and feed-forward cannot be joined by `parallel`: they do not read the
    same. Blocks stacked by hand lose what was before them.

    When: attention shall look up in one layer and fetch from another, for weights that
    are few beside the blocks' own.

    When not: the time of four sums over all blocks counts; or the blocks are few, for
    the first one reads its input alone and the last one makes one sum; or very many and
    narrow: in benchmarks/depth.py 48 blocks reach 0.696.

    Source: Xiao et al. 2025, arXiv:2502.12170.
    """

    final_norm = True
    joins_sublayers = False

    def build(self, input_shape):
        width, blocks = input_shape[-1], self.num_blocks
        self.norms = self.add_norms(self.num_sublayers, input_shape)
        self.key_norms = self.add_norms(blocks - 1, input_shape, "key_norm")
        self.value_norms = self.add_norms(blocks - 1, input_shape, "value_norm")
        self.expand, self.mix, self.static = [], [], []
        for block in range(1, blocks + 1):
            sources, ways = block + 1, 4 if block < blocks else 1
            for weights, name, shape, start in (
                (self.expand, "expand", (width, 4 * sources), "lecun_normal"),
                (self.mix, "mix", (4 * sources, ways * sources), "zeros"),
                (self.static, "static", (ways, sources), newest),
            ):
                weights.append(self.add_exact(f"{name}_{block}", shape, start))

    @property
    def decayed(self):
        return [*self.expand, *self.mix]

    def start(self, x):
        return (x,), (x,)

    def read(self, state, i):
        (*inputs, x), _ = state
        if i % 2 or not inputs:
            return self.norms[i](x)
        norms = self.norms[i], self.key_norms[i // 2 - 1], self.value_norms[i // 2 - 1]
        return tuple(norm(one) for norm, one in zip(norms, inputs, strict=True))

    def write(self, state, update, i):
        (*_, x), history = state
        x = x + update
        if i % 2 == 0:
            return (x,), history
        history, block = (*history, x), i // 2
        hidden = of_normed(x, self.expand[block], self.epsilon)
        # GELU; that of TensorFlow takes the root in float32 even of float64. LiteRT has
        # no erf, and knows a GELU by the order of these factors.
        hidden = 0.5 * hidden * (1 + ops.erf(hidden * 0.5**0.5))
        dynamic = ops.matmul(hidden, self.mix[block])
        static = self.static[block]
        weights = static + ops.reshape(dynamic, (*ops.shape(x)[:2], *static.shape))
        self.show(i, "a", weights, "q, k, v, x", "source")
        sums = ops.matmul(ops.cast(weights, x.dtype), ops.stack(history, axis=2))
        return ops.unstack(sums, axis=2), history

    def finish(self, state):
        streams, _ = state
        return streams[-1]


def add_readers(scheme, readers, input_shape):
    """Queries and gains, (embed_dim) each, of so many readers beside the first."""

    def vectors(name, start):
        return [
            scheme.add_exact(f"{name}_{r}", input_shape[-1:], start)
            for r in range(1, readers + 1)
        ]

    return vectors("query", "zeros"), vectors("gain", "ones")


def among(weights, count, used):
    """Weights of the sources in a slice, as weights of all `count` of them."""
    return ops.matmul(weights, ops.eye(count, dtype=weights.dtype)[used])


def newest(shape, dtype=None):
    """1 for the last of the sources, 0 for the others."""
    *_, sources = shape
    return ops.ones(shape, dtype) * ops.one_hot(sources - 1, sources, dtype=dtype)
