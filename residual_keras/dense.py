"""A dense layer over the tokens of a batch."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("residual_keras")
class Dense(keras.layers.Dense):
    """y = activation(x W + b), with all tokens of the batch as the rows of one matrix.

    The numbers and weights of `keras.layers.Dense`, and its name, by which saved files
    find the layers of a list. For a matrix TensorFlow makes product, bias and
    activation one operation.

    Call arguments:
        x: (..., width).

    Returns:
        (..., units).

    Example:
        >>> Dense(4)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 4])
    """

    def call(self, x, training=None):
        y = super().call(ops.reshape(x, (-1, x.shape[-1])), training=training)
        return ops.reshape(y, (*ops.shape(x)[:-1], self.units))
