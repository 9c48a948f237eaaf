"""(batch, time, embed_dim) -> (batch, width): a text as one vector.

Every pooling leaves padding out, and makes zeros of a text that has no token at all.
"""

import keras
from keras import ops

from .dot_product import MASKED, softmax


class Pooling(keras.layers.Layer):
    """What the poolings share: a mask in, no time axis and no mask out."""

    factor = 1  # the output's width over the input's

    def call(self, x, mask=None):
        if mask is None:
            mask = ops.ones(ops.shape(x)[:2], "bool")
        return self.pool(x, ops.expand_dims(mask, -1))

    def pool(self, x, mask):
        """(batch, width) from x and a mask of shape (batch, time, 1)."""
        raise NotImplementedError

    def compute_mask(self, x, previous_mask=None):
        return None

    def compute_output_shape(self, input_shape):
        batch, _, width = input_shape
        return (batch, self.factor * width)


@keras.saving.register_keras_serializable("residual_keras")
class MeanPooling(Pooling):
    """The mean over a text's tokens.

    Example:
        >>> MeanPooling()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 8])
    """

    def pool(self, x, mask):
        return masked_mean(x, mask)


@keras.saving.register_keras_serializable("residual_keras")
class MaxPooling(Pooling):
    """The largest value over a text's tokens, number by number.

    Example:
        >>> MaxPooling()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 8])
    """

    def pool(self, x, mask):
        return masked_max(x, mask)


@keras.saving.register_keras_serializable("residual_keras")
class MeanMaxPooling(Pooling):
    """Mean and maximum side by side: (batch, 2 embed_dim).

    Source: Howard and Ruder 2018, arXiv:1801.06146 (concat pooling).

    Example:
        >>> MeanMaxPooling()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 16])
    """

    factor = 2

    def pool(self, x, mask):
        return ops.concatenate([masked_mean(x, mask), masked_max(x, mask)], axis=-1)


@keras.saving.register_keras_serializable("residual_keras")
class FirstToken(Pooling):
    """The first token's vector, such as `ClassToken` puts there.

    Example:
        >>> FirstToken()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 8])
    """

    def pool(self, x, mask):
        return ops.where(mask[:, 0], x[:, 0], ops.zeros_like(x[:, 0]))


@keras.saving.register_keras_serializable("residual_keras")
class AttentionPooling(Pooling):
    """sum_t a_t x_t, a = softmax_t(v . tanh(W x_t + b)).

    Source: Yang et al. 2016 (Hierarchical Attention Networks, NAACL), section 2.2.

    Example:
        >>> AttentionPooling()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 8])
    """

    def build(self, input_shape):
        width = input_shape[-1]
        self.hidden = keras.layers.Dense(
            width, activation="tanh", dtype=self.dtype_policy, name="hidden"
        )
        self.score = keras.layers.Dense(
            1, use_bias=False, dtype=self.dtype_policy, name="score"
        )
        self.hidden.build(input_shape)
        self.score.build(input_shape)

    def pool(self, x, mask):
        scores = self.score(self.hidden(x))
        # A half-precision softmax over many tokens loses them, so never below float32.
        scores = ops.cast(scores, keras.backend.result_type(scores.dtype, "float32"))
        scores = ops.where(mask, scores, ops.full_like(scores, MASKED))
        weights = softmax(ops.transpose(scores, (0, 2, 1)))  # (batch, 1, time)
        real = ops.cast(ops.transpose(mask, (0, 2, 1)), weights.dtype)
        return ops.squeeze(ops.matmul(ops.cast(weights * real, x.dtype), x), 1)


POOLINGS = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "mean_max": MeanMaxPooling,
    "cls": FirstToken,
    "attention": AttentionPooling,
}


def masked_mean(x, mask):
    """(batch, width): the mean of x where mask is True."""
    real = ops.cast(mask, x.dtype)
    # Divided first: the sum over a long text can be too large for half precision.
    share = real / ops.maximum(ops.sum(real, axis=1, keepdims=True), 1)
    return ops.sum(x * share, axis=1)


def masked_max(x, mask):
    """(batch, width): the largest x where mask is True."""
    least = -(2.0**127)  # ONNX lets masks multiply, and 0 times infinity is no number
    real = ops.where(mask, x, ops.full_like(x, least))
    largest = ops.max(real, axis=1, initial=least)  # also where no text has a token
    return ops.where(ops.any(mask, axis=1), largest, ops.zeros_like(largest))
