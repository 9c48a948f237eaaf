"""Weighted sums of streams, and how the matrices that mix them start."""

from keras import ops

from ..gradients import with_gradient
from .numbers import exact


def repeated(x, n):
    """(batch, time, width) as n equal streams, (batch, time, width, n)."""
    return ops.repeat(ops.expand_dims(x, -1), n, axis=-1)


def outer(update, share):
    """share_k update, (batch, time, width, n)."""
    return ops.matmul(ops.expand_dims(update, -1), ops.expand_dims(share, -2))


def combine(rows, *streams):
    """Weighted sums of streams (n, batch, time, width), one for each row of weights."""
    streams = ops.concatenate(streams, axis=0)
    return ops.tensordot(ops.cast(rows, streams.dtype), streams, axes=1)


def combine_and_read(rows, read, bank, update):
    """The streams written, and what is read of them, by one product for both."""
    both = ops.concatenate([rows, ops.matmul(ops.transpose(read), rows)], axis=0)
    return ops.split(combine(both, bank, update), [rows.shape[0]], axis=0)


def joined(mixed, share, update):
    """The sum of all streams once the update has come in, (batch, time, width)."""
    return ops.sum(mixed, axis=-1) + update * ops.sum(share, axis=-1, keepdims=True)


def apart(x, n):
    """(batch, time, width) as (n, batch, time, width / n)."""
    return ops.stack(ops.split(x, n, axis=-1))


def together(bank):
    """(n, batch, time, width / n) as (batch, time, width)."""
    n, batch, time, width = ops.shape(bank)
    return ops.reshape(ops.transpose(bank, (1, 2, 0, 3)), (batch, time, n * width))


def normed_products(bank, kernel, epsilon):
    """LN(h_j) kernel of each stream, with no gain or offset.

    LN is never formed: of (h - mean) kernel / deviation, whatever goes over the width
    is a matrix product for all streams at once: h with 1 / width, and h with the
    kernel, whose columns lose their own mean instead.

    Args:
        bank: the streams h_j, (batch, time, width, n).
        kernel: (width, columns).
        epsilon: added to the variance.

    Returns:
        (batch, time, n, columns), float32 at least.
    """
    batch, time, width, n = ops.shape(bank)
    flat = ops.cast(ops.reshape(bank, (batch, time, width * n)), exact(bank))
    share = ops.full((width, 1), 1 / width, flat.dtype)
    kernel = kernel - ops.mean(kernel, axis=0, keepdims=True)
    kernel = ops.concatenate([kernel, share], axis=1)
    found = ops.matmul(flat, for_each(kernel, n))
    found = ops.reshape(found, (batch, time, n, kernel.shape[1]))
    products, mean = ops.split(found, [kernel.shape[1] - 1], axis=-1)
    square = ops.reshape(mean_squares(bank), (batch, time, n, 1))
    variance = ops.maximum(square - ops.square(mean), 0)
    return products * ops.rsqrt(variance + epsilon)


def of_normed(x, matrix, epsilon):
    """RMS(x) times a matrix, in float32 at least; RMS(x) itself is not kept."""
    x = ops.cast(x, exact(x))
    # The gradients of `mean` and `square` would take twice as many passes over x.
    square = ops.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]
    return ops.matmul(x, matrix) * ops.rsqrt(square + epsilon)


def mean_squares(bank):
    """The mean of h_j^2 over the width, (batch, time, 1, n), float32 at least.

    The squares and their gradient, 2 h_j / width, take one pass each over the streams.

    Args:
        bank: the streams h_j, (batch, time, width, n).
    """

    @with_gradient
    def mean(bank):
        batch, time, width, n = ops.shape(bank)
        squares = ops.reshape(ops.square(bank), (batch, time, width * n))
        share = ops.full((width, 1), 1 / width, bank.dtype)
        found = ops.matmul(squares, for_each(share, n))

        return ops.expand_dims(found, 2), lambda dy: bank * (dy * (2 / width))

    return mean(ops.cast(bank, exact(bank)))


def for_each(kernel, n):
    """(width, columns) as (width n, n columns), for n streams that stand last."""
    each = ops.einsum("dc,jk->djkc", kernel, diagonal(ops.ones(n, kernel.dtype)))
    return ops.reshape(each, (kernel.shape[0] * n, n * kernel.shape[1]))


def diagonal(values):
    """The matrix (n, n) with these on its diagonal, by what every export knows."""
    n = values.shape[0]
    return ops.expand_dims(values, 1) * ops.one_hot(
        ops.arange(n), n, dtype=values.dtype
    )


def sinkhorn(logits, n, iterations):
    """exp(logits), its columns and then its rows scaled to sums of 1, again and again.

    It is diag(rows) K diag(columns), where K = exp(logits) but for factors that the two
    vectors hold, such that the largest number of every row and column is 1: no sum is
    ever 0. Tokens stand last meanwhile, so that a step is a few operations on long
    rows of numbers.

    Args:
        logits: (batch, time, n * n), row after row.
        n: number of rows and of columns.
        iterations: how often.

    Returns:
        (batch, time, n, n); rows sum to 1, columns nearly so.
    """
    batch, time, _ = ops.shape(logits)
    logits = ops.transpose(ops.reshape(logits, (-1, n, n)), (1, 2, 0))
    logits = logits - largest(logits, axis=0)
    rows = largest(logits, axis=1)
    kernel, rows = ops.exp(logits - rows), ops.exp(rows)
    for _ in range(iterations):
        columns = ops.reciprocal(ops.sum(kernel * rows, axis=0, keepdims=True))
        rows = ops.reciprocal(ops.sum(kernel * columns, axis=1, keepdims=True))
    mix = ops.transpose(kernel * rows * columns, (2, 0, 1))
    return ops.reshape(mix, (batch, time, n, n))


def connections(bank, static, kernel, scale, epsilon):
    """[a | A | b] of each token, (batch, time, n, columns).

    Args:
        bank: the streams h_j, (batch, time, width, n).
        static: what all tokens start from, (n, columns).
        kernel: what a token's LN(h_j) adds to it, (width, columns).
        scale: two numbers, how much to a and A, and to b.
        epsilon: of LN.
    """
    logits = normed_products(bank, kernel, epsilon)
    scale = ops.concatenate([ops.repeat(scale[:1], logits.shape[-1] - 1), scale[1:]])
    # In this order: a (1, 1, 1, c) on the right is a bias to Keras, its axes lost.
    return ops.cast(scale * ops.tanh(logits) + static, bank.dtype)


def manifold(v, kernel, bias, scale, n, iterations, epsilon):
    """What mHC mixes with, as far as a sublayer has a scale for it.

    Args:
        v: all streams of a token as one vector, (batch, time, n width).
        kernel: as bias, with n columns for q, n for p and n^2 for R.
        bias: see there.
        scale: a number for each of the three.
        n: the number of streams.
        iterations: of `sinkhorn`.
        epsilon: added to the mean square of v.

    Returns:
        A list of q and p, (batch, time, n), and R transposed, (batch, time, n, n).
    """
    v, kinds = ops.cast(v, exact(v)), scale.shape[0]
    square = ops.squeeze(mean_squares(ops.expand_dims(v, -1)), -1)
    logits = ops.matmul(v, kernel) * ops.rsqrt(square + epsilon)
    scale = ops.concatenate([ops.repeat(scale[:2], n), ops.repeat(scale[2:], n * n)])
    logits = scale * logits + bias
    if kinds == 1:
        return [2 * ops.sigmoid(logits)]
    share, read, *mix = ops.split(logits, [n, 2 * n][: kinds - 1], axis=-1)
    found = [2 * ops.sigmoid(share), ops.sigmoid(read)]
    if mix:
        found.append(ops.swapaxes(sinkhorn(*mix, n, iterations), 2, 3))
    return found


def largest(x, axis):
    """The maximum, as a constant: what depends on it does not depend on its value."""
    return ops.stop_gradient(ops.max(x, axis=axis, keepdims=True))


def connected(i):
    """An initializer of [a | A | b] of sublayer i, of [A | b] where there is no a."""

    def draw(shape, dtype=None):
        n, columns = shape
        eye = ops.eye(n, dtype=dtype)
        read = eye[:, i % n : i % n + columns - n - 1]
        return ops.concatenate([read, eye, ops.ones((n, 1), dtype)], axis=1)

    return draw


def apart_at_first(i, n):
    """An initializer of mHC's bias: sublayer i reads stream i mod n, none is mixed."""

    def draw(shape, dtype=None):
        eye = ops.eye(n, dtype=dtype)
        read, mix = 10 * eye[i % n] - 5, ops.reshape(5 * eye, (-1,))
        return ops.concatenate([ops.zeros_like(read), read, mix])[: shape[0]]

    return draw
