"""How an export stores a weight, and what its graph makes of it again."""

import tensorflow as tf


class Exact(tf.Module):
    """A weight as the model has it.

    Args:
        value: the `tf.Variable`.
    """

    def __init__(self, value):
        super().__init__()
        self.stored = value

    def read(self):
        """The weight as the model computes with it."""
        return tf.convert_to_tensor(self.stored)


class Half(Exact):
    """A weight as float16: half the size, eleven bits of precision.

    Raises:
        ValueError: if the weight is beyond float16's range.
    """

    def __init__(self, value):
        super().__init__(value)
        self.dtype = value.dtype
        if value.dtype.is_floating:
            half = tf.cast(value, tf.float16)
            if not tf.reduce_all(tf.math.is_finite(half)):
                raise ValueError(
                    "Half precision ends at 65504. Received: a weight of shape "
                    f"{tuple(value.shape)} with {float(tf.reduce_max(abs(value)))}. "
                    "Export without half_precision."
                )
            self.stored = tf.Variable(half, trainable=False)

    def read(self):
        return tf.cast(self.stored, self.dtype)


class Int8(Exact):
    """A matrix as int8 with a scale for each column; anything else as it is.

    W = q s, with s the largest number of a column over 127: a quarter of the size.
    """

    def __init__(self, value):
        super().__init__(value)
        self.scale = None
        if value.dtype.is_floating and value.shape.rank > 1:
            above = list(range(value.shape.rank - 1))
            largest = tf.reduce_max(abs(value), axis=above, keepdims=True)
            scale = tf.where(largest > 0, largest / 127, tf.ones_like(largest))
            self.stored = tf.Variable(
                tf.cast(tf.round(value / scale), tf.int8), trainable=False
            )
            self.scale = tf.Variable(scale, trainable=False)

    def read(self):
        if self.scale is None:
            return super().read()
        return tf.cast(self.stored, self.scale.dtype) * self.scale


STORAGES = {"float32": Exact, "float16": Half, "int8": Int8}
