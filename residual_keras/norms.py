"""Norms over the width of the stream, by name."""

import keras
from keras import ops

from .spec import look_up


@keras.saving.register_keras_serializable("residual_keras")
class DynamicTanh(keras.layers.Layer):
    """DyT(x) = gain tanh(a x) + offset, a stand-in for a norm without statistics.

    a is one learned number, gain and offset one for each channel. It squashes large
    values and does not divide by the scale of x, so a scheme that counts on a norm's
    output having unit variance, or on its ignoring a factor, loses that.

    Source: Zhu et al. 2025, arXiv:2503.10622.

    Args:
        alpha: the first value of a.
        **kwargs: of `keras.layers.Layer`.

    Example:
        >>> DynamicTanh()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, alpha=0.5, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.alpha = alpha

    def build(self, input_shape):
        start = keras.initializers.Constant(self.alpha)
        self.slope = self.add_weight(shape=(), initializer=start, name="alpha")
        width = (input_shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta")

    def call(self, x):
        return self.gamma * ops.tanh(self.slope * x) + self.beta


NORMS = {
    "layer_norm": keras.layers.LayerNormalization,
    "rms_norm": keras.layers.RMSNormalization,
    "dyt": lambda epsilon, **kwargs: DynamicTanh(**kwargs),  # divides by nothing
}


def make_norm(kind, epsilon=1e-6, **kwargs):
    """A norm over the last axis.

    Args:
        kind: "layer_norm" (Ba et al. 2016, arXiv:1607.06450), "rms_norm" (Zhang and
            Sennrich 2019, arXiv:1910.07467) or "dyt" (`DynamicTanh`).
        epsilon: added to the variance, or to the mean square.
        **kwargs: of `keras.layers.Layer`.

    Returns:
        A layer.

    Raises:
        ValueError: if the kind is unknown.

    Example:
        >>> make_norm("rms_norm")(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """
    return look_up(NORMS, kind, "norm")(epsilon=epsilon, **kwargs)
