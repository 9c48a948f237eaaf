"""Attention's arithmetic: products of queries and keys, softmax, values."""

import keras
from keras import ops

from .gradients import with_gradient

# Where the backend has attention as one operation: TensorFlow has not.
FUSED = keras.backend.backend() in ("jax", "torch")
MASKED = -1e9  # added once to a masked score, in float32 at least: its weight is 0


def products(query, key):
    """Q K^T / sqrt(key_dim), (batch, num_heads, time, time), in float32 at least.

    In half precision, products of large numbers overflow and a softmax over many
    tokens loses them.
    """
    exact = keras.backend.result_type(query.dtype, "float32")
    query, key = ops.cast(query, exact), ops.cast(key, exact)
    return ops.matmul(query * query.shape[-1] ** -0.5, swap(key))


def fused_attention(query, key, value, bias):
    """softmax(Q K^T / sqrt(key_dim) + bias) V by the backend's own operation.

    Args:
        query: (batch, num_heads, time, key_dim).
        key: likewise.
        value: likewise.
        bias: as in a call of `SelfAttention`.

    Returns:
        Like value.
    """
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    if bias is not None:
        lowest = -3e4 if query.dtype == "float16" else MASKED  # and not -inf
        bias = ops.maximum(bias, lowest)
    y = ops.dot_product_attention(query, key, value, bias=bias)
    return ops.transpose(y, (0, 2, 1, 3))


def softmax(scores):
    """Softmax over the last axis; 1 over an axis of size 1, where Keras warns."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores)


def softmax_product(scores, value, keep=None):
    """(softmax(scores) * keep) V, with a gradient of few passes over the weights.

    With weights A, kept ones D = A * keep, Y = D V and a gradient dY, that of the
    scores is D (dY V^T) - A rowsum(dY Y), element by element: the sum over the keys
    which the gradient of a softmax takes is one over key_dim here (Dao et al. 2022,
    arXiv:2205.14135, appendix B).

    Args:
        scores: (batch, num_heads, time, time).
        value: (batch, num_heads, time, key_dim).
        keep: like scores, what dropout multiplies the weights by; None for 1. It has no
            gradient.

    Returns:
        Like value.
    """

    @with_gradient
    def attend(scores, value, *keep):
        weights = softmax(scores)
        kept = weights * ops.cast(keep[0], weights.dtype) if keep else weights
        y = ops.matmul(ops.cast(kept, value.dtype), value)

        def gradient(dy):
            dvalue = ops.matmul(swap(ops.cast(kept, dy.dtype)), dy)
            dkept = ops.cast(ops.matmul(dy, swap(value)), scores.dtype)
            along = ops.sum(ops.cast(dy * y, scores.dtype), axis=-1, keepdims=True)
            if not keep:
                return weights * (dkept - along), dvalue
            return kept * dkept - weights * along, dvalue, ops.zeros_like(keep[0])

        return y, gradient

    return attend(scores, value, *([] if keep is None else [keep]))


def swap(x):
    """The last two of four axes, swapped."""
    return ops.transpose(x, (0, 1, 3, 2))
