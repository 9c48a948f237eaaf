"""The norms, by name, against NumPy."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras.norms import NORMS, layer_norm, make_norm

EACH = pytest.mark.parametrize("kind", NORMS)
EQUATIONS = {
    "layer_norm": lambda x, epsilon, gamma, beta: (
        gamma
        * (x - x.mean(-1, keepdims=True))
        / np.sqrt(x.var(-1) + epsilon)[..., None]
        + beta
    ),
    "rms_norm": lambda x, epsilon, scale: (
        scale * x / np.sqrt((x**2).mean(-1) + epsilon)[..., None]
    ),
    "dyt": lambda x, epsilon, alpha, gamma, beta: gamma * np.tanh(alpha * x) + beta,
}


def built(kind, width=7, **kwargs):
    norm = make_norm(kind, **kwargs)
    norm.build((None, None, width))
    return norm


@EACH
def test_against_numpy(kind, rng):
    x = rng.normal(1, 2, size=(2, 3, 7))
    norm = built(kind, epsilon=0.1, dtype="float64")
    for weight in norm.weights:
        weight.assign(rng.normal(size=weight.shape))
    weights = {weight.name: weight.numpy() for weight in norm.weights}
    np.testing.assert_allclose(norm(x), EQUATIONS[kind](x, 0.1, **weights), atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (2, 1, 3, 7)])
def test_the_gradient_is_that_of_the_equation(shape, rng, assert_same_gradients):
    """To the second order, where that of Keras' own layer is off: it holds the mean."""

    def equation(x, gamma, beta):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        return gamma * centred / ops.sqrt(variance + 0.1) + beta

    args = rng.normal(1, 2, size=shape), rng.normal(size=7), rng.normal(size=7)
    assert_same_gradients(
        lambda *args: layer_norm(*args, epsilon=0.1),
        equation,
        *map(ops.convert_to_tensor, args),
        atol=1e-9,
    )


@EACH
@pytest.mark.parametrize("gain", [1.0, 0.0, 0.3])
def test_it_starts_at_its_gain(kind, gain):
    weights = {weight.name: weight.numpy() for weight in built(kind, gain=gain).weights}
    np.testing.assert_array_equal(
        weights.pop("gamma", weights.get("scale")), np.full(7, gain, "float32")
    )
    assert (weights.get("beta", np.zeros(7)) == 0).all()
    assert weights.get("alpha", 0.5) == 0.5


@EACH
def test_config_and_mask_go_on(kind, rng):
    norm = built(kind, epsilon=0.1, gain=0.3, name="mine")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(norm)))
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == norm.get_config()
    x = rng.normal(size=(2, 3, 7)).astype("float32")
    np.testing.assert_array_equal(again(x), norm(x))

    ids = np.array([[3, 4, 0]])
    x = keras.layers.Embedding(9, 7, mask_zero=True)(ids)
    np.testing.assert_array_equal(norm(x)._keras_mask, ids != 0)


@EACH
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_finite_and_close(kind, dtype, rng):
    """Squares of 1e4 are beyond float16."""
    x = rng.normal(size=(2, 3, 7)) * np.array([[[1e4], [1.0], [0.0]]])
    y = built(kind, dtype=dtype)(x)
    assert keras.backend.standardize_dtype(y.dtype) == dtype.removeprefix("mixed_")
    right = np.array(built(kind)(x))
    np.testing.assert_allclose(ops.cast(y, "float32"), right, atol=3e-2)


def test_an_unknown_kind_gets_the_nearest():
    with pytest.raises(ValueError, match="No norm 'layernorm'.*'layer_norm'"):
        make_norm("layernorm")
