"""A dense layer over the tokens of a batch."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("residual_keras")
class TokenDense(keras.layers.Dense):
    """y = activation(x W + b), with all tokens of the batch as the rows of one matrix.

    The numbers and weights of `keras.layers.Dense`. For a matrix TensorFlow makes
    product, bias and activation one operation: benchmarks/parts.py.

    Call arguments:
        x: (..., width).

    Returns:
        (..., units).

    Example:
        >>> TokenDense(4)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 4])
    """

    def call(self, x, training=None):
        y = super().call(ops.reshape(x, (-1, x.shape[-1])), training=training)
        return ops.reshape(y, (*ops.shape(x)[:-1], self.units))
