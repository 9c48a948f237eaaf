"""Norms over the width of the stream, by name."""

import keras
from keras import ops

from .gradients import with_gradient
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


@keras.saving.register_keras_serializable("residual_keras")
class LayerNormalization(keras.layers.Layer):
    """LN(x) = gain (x - mean(x)) / sqrt(var(x) + epsilon) + offset.

    The equation, the weights and the numbers of `keras.layers.LayerNormalization` over
    the last axis, and its name, by which saved files find the layers of a list. Its
    gradient is written by hand and takes fewer passes over x than automatic
    differentiation does.

    Source: Ba et al. 2016, arXiv:1607.06450.

    Args:
        epsilon: added to the variance.
        gain: the first value of gain.
        **kwargs: of `keras.layers.Layer`.

    Example:
        >>> LayerNormalization()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(self, epsilon=1e-6, gain=1.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # statistics are never below float32
        self.epsilon = epsilon
        self.gain = gain

    def get_config(self):
        return {**super().get_config(), "epsilon": self.epsilon, "gain": self.gain}

    def build(self, input_shape):
        gain = keras.initializers.Constant(self.gain)
        width = (input_shape[-1],)
        self.gamma = self.add_weight(width, gain, name="gamma", autocast=False)
        self.beta = self.add_weight(width, "zeros", name="beta", autocast=False)

    def call(self, x):
        exact = keras.backend.result_type(x.dtype, "float32")
        x, gamma, beta = (ops.cast(t, exact) for t in (x, self.gamma, self.beta))
        return ops.cast(layer_norm(x, gamma, beta, self.epsilon), self.compute_dtype)


def layer_norm(x, gamma, beta, epsilon):
    """The equation of `LayerNormalization`, and its gradient."""

    @with_gradient
    def normalize(x, gamma, beta):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(centred * centred, axis=-1, keepdims=True)
        scale = ops.rsqrt(variance + epsilon)
        unit = centred * scale

        def gradient(dy):
            rows = tuple(range(len(x.shape) - 1))
            along = dy * unit
            # The means of dy gain and of dy gain unit are products with a vector: no
            # array is made for them.
            share = gamma / x.shape[-1]
            dx = dy * gamma - dot(dy, share) - unit * dot(along, share)
            return dx * scale, ops.sum(along, rows), ops.sum(dy, rows)

        return unit * gamma + beta, gradient

    return normalize(x, gamma, beta)


def dot(x, vector):
    """The product over the last axis, which is kept, of size 1."""
    flat = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), ops.expand_dims(vector, 1))
    return ops.reshape(flat, (*ops.shape(x)[:-1], 1))


NORMS = {
    "layer_norm": LayerNormalization,
    "rms_norm": RootMeanSquare,
    "dyt": lambda epsilon, **kwargs: DynamicTanh(**kwargs),  # divides by nothing
}


def make_norm(kind, epsilon=1e-6, gain=1.0, **kwargs):
    """A norm over the last axis.

    Args:
        kind: "layer_norm" (`LayerNormalization`), "rms_norm" (Zhang and Sennrich 2019,
            arXiv:1910.07467) or "dyt" (`DynamicTanh`).
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
