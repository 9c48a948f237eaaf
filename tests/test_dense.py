"""A dense layer over tokens against Keras' own."""

import keras
import numpy as np
import pytest

from residual_keras.dense import Dense


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (2, 1, 3, 7)])
def test_it_is_keras_own_layer(shape, rng):
    options = {"activation": "gelu", "dtype": "float64"}
    ours, right = Dense(11, **options), keras.layers.Dense(11, **options)
    x = rng.normal(size=shape)
    right.build(shape)
    right.bias.assign(rng.normal(size=11))
    ours.build(shape)
    ours.set_weights(right.get_weights())
    np.testing.assert_allclose(ours(x), right(x), atol=1e-12)


def test_masks_config_and_unknown_lengths(rng):
    inputs = keras.Input((None, 7))
    layer = Dense(5, name="mine")
    model = keras.Model(inputs, layer(keras.layers.Masking()(inputs)))
    assert model.output_shape == (None, None, 5)
    x = rng.normal(size=(2, 3, 7)).astype("float32")
    x[0, 2] = 0
    y = model(x)
    np.testing.assert_array_equal(y._keras_mask, [[True, True, False], [True] * 3])
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(layer)
    )
    assert type(again) is Dense and again.get_config() == layer.get_config()
