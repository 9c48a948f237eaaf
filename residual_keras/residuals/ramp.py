"""Layers that know how far training has come."""

import keras
from keras import ops

from .numbers import times


class Counter(keras.layers.Layer):
    """x as it is; `steps` is the number of times that it came by in training."""

    supports_masking = True

    def build(self, input_shape):
        # A whole number, as the optimizer's own count is, under any dtype policy.
        self.steps = self.add_weight(
            shape=(),
            initializer="zeros",
            dtype="int",
            trainable=False,
            aggregation="only_first_replica",
            name="steps",
        )

    def call(self, x, training=None):
        if training:
            self.steps.assign_add(ops.ones((), self.steps.dtype))
        return x


class Ramp(keras.layers.Layer):
    """min(share, 1) x in training, x otherwise."""

    supports_masking = True

    def call(self, x, share, training=None):
        return times(ops.minimum(share, 1.0), x) if training else x
