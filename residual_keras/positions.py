"""Where a token stands, added to what it is."""

import keras
from keras import ops

from .spec import check_positive


@keras.saving.register_keras_serializable("residual_keras")
class LearnedPositions(keras.layers.Layer):
    """y_t = x_t + P_t, with P learned, (max_len, embed_dim).

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1.

    Args:
        max_len: number of tokens in the longest sequence.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, embed_dim), time at most `max_len`.

    Returns:
        Like x; a mask is passed on.

    Raises:
        ValueError: if a sequence is longer than `max_len`. Where a graph learns the
            length only as it runs, TensorFlow raises InvalidArgumentError instead,
            which names both lengths too.

    Example:
        >>> LearnedPositions(max_len=5)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    token_initializer = "uniform"  # of the tokens that are added, as large as P

    def __init__(self, max_len, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        check_positive(max_len=max_len)
        self.max_len = max_len

    def build(self, input_shape):
        self.table = self.add_weight(
            shape=(self.max_len, input_shape[-1]), initializer="uniform", name="table"
        )

    def call(self, x):
        self.check_length(x.shape[1])
        # A slice beyond the table is an error on every device, under XLA too; a look-up
        # would give zeros on a GPU and repeat the last row under XLA.
        table = ops.convert_to_tensor(self.table)  # JAX slices no variable
        return x + ops.slice(table, (0, 0), ops.shape(x)[1:])

    def compute_output_shape(self, input_shape):
        self.check_length(input_shape[1])
        return input_shape

    def check_length(self, length):
        """Raises ValueError if a length is known and above `max_len`."""
        if length is not None and length > self.max_len:
            raise ValueError(
                f"A sequence may have at most max_len={self.max_len} tokens with "
                f"learned positions. Received: a length of {length}. Truncate the "
                "texts, raise max_len, or use other positions."
            )

    @property
    def spared(self):
        """The weights that weight decay leaves alone."""
        return [self.table]


@keras.saving.register_keras_serializable("residual_keras")
class SinusoidalPositions(keras.layers.Layer):
    """y_t = x_t + P_t, with P fixed, for any length and any width.

        P_{t, 2j} = sin(t w^(-2j/d)),   P_{t, 2j+1} = cos(t w^(-2j/d))

    Sine and cosine take turns along the width d; an odd width ends with a sine. The
    angles are float32 under every policy. Source: Vaswani et al. 2017,
    arXiv:1706.03762, section 3.5.

    Args:
        wavelength: w, in tokens (times 2 pi, the longest wave).
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, embed_dim).

    Returns:
        Like x; a mask is passed on.

    Example:
        >>> SinusoidalPositions()(keras.ops.ones((1, 3, 7))).shape
        TensorShape([1, 3, 7])
    """

    # P has a root mean square of 0.7: tokens that start much smaller are drowned.
    token_initializer = keras.initializers.RandomNormal(stddev=0.7)

    def __init__(self, wavelength=10_000.0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.wavelength = wavelength

    def call(self, x):
        width = x.shape[-1]
        column = ops.arange(width)
        pair = ops.cast(column - column % 2, "float32")  # 2j
        speed = self.wavelength ** (-pair / width)
        place = ops.cast(ops.arange(ops.shape(x)[1]), "float32")
        angle = ops.expand_dims(place, 1) * ops.expand_dims(speed, 0)
        table = ops.where(column % 2 == 0, ops.sin(angle), ops.cos(angle))
        return x + ops.cast(table, x.dtype)

    def compute_output_shape(self, input_shape):
        return input_shape


@keras.saving.register_keras_serializable("residual_keras")
class NoPositions(keras.layers.Layer):
    """y = x: a text is a bag of its words, or attention knows the positions itself.

    Example:
        >>> NoPositions()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    token_initializer = "uniform"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x):
        return x

    def compute_output_shape(self, input_shape):
        return input_shape
