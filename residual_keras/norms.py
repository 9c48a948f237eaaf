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
        gain: the first value of gain.
        **kwargs: of `keras.layers.Layer`.

    Example:
        >>> DynamicTanh()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, alpha=0.5, gain=1.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.alpha = alpha
        self.gain = gain

    def build(self, input_shape):
        alpha, gain = map(keras.initializers.Constant, (self.alpha, self.gain))
        self.slope = self.add_weight(shape=(), initializer=alpha, name="alpha")
        width = (input_shape[-1],)
        self.gamma = self.add_weight(shape=width, initializer=gain, name="gamma")
        self.beta = self.add_weight(shape=width, initializer="zeros", name="beta")

    def call(self, x):
        return self.gamma * ops.tanh(self.slope * x) + self.beta


@keras.saving.register_keras_serializable("residual_keras")
class RootMeanSquare(keras.layers.RMSNormalization):
    """RMS(x) = gain x / sqrt(mean(x^2) + epsilon), and masks are passed on.

    Args:
        gain: the first value of gain, which Keras' own layer fixes at 1.
        **kwargs: of `keras.layers.RMSNormalization`.

    Example:
        >>> RootMeanSquare(gain=0.0)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, gain=1.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.gain = gain

    def get_config(self):
        return {**super().get_config(), "gain": self.gain}

    def build(self, input_shape):
        gain = keras.initializers.Constant(self.gain)
        width = (input_shape[-1],)
        self.scale = self.add_weight(shape=width, initializer=gain, name="scale")


def layer_norm(gain, **kwargs):
    """Keras' layer, its gain starting at `gain`."""
    gain = keras.initializers.Constant(gain)
    return keras.layers.LayerNormalization(gamma_initializer=gain, **kwargs)


NORMS = {
    "layer_norm": layer_norm,
    "rms_norm": RootMeanSquare,
    "dyt": lambda epsilon, **kwargs: DynamicTanh(**kwargs),  # divides by nothing
}


def make_norm(kind, epsilon=1e-6, gain=1.0, **kwargs):
    """A norm over the last axis.

    Args:
        kind: "layer_norm" (Ba et al. 2016, arXiv:1607.06450), "rms_norm" (Zhang and
            Sennrich 2019, arXiv:1910.07467) or "dyt" (`DynamicTanh`).
        epsilon: added to the variance, or to the mean square.
        gain: the first value of the gain of each channel.
        **kwargs: of `keras.layers.Layer`.

    Returns:
        A layer.

    Raises:
        ValueError: if the kind is unknown.

    Example:
        >>> make_norm("rms_norm")(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """
    return look_up(NORMS, kind, "norm")(epsilon=epsilon, gain=gain, **kwargs)
