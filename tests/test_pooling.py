"""A text as one vector: against NumPy, without padding, empty texts included."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras.pooling import POOLINGS

MASK = np.array(
    [
        [True, True, True, True, True],
        [True, True, False, False, False],
        [False, False, False, False, False],  # an empty text
        [False, True, False, True, False],  # gaps
        [True, False, False, False, False],
    ]
)


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def attend(layer, tokens):
    kernel, bias, score = (np.asarray(w, "float64") for w in layer.weights)
    return softmax((np.tanh(tokens @ kernel + bias) @ score)[:, 0]) @ tokens


# What each pooling makes of the real tokens (n, width) of one text, n >= 1.
ONE = {
    "mean": lambda layer, tokens: tokens.mean(0),
    "max": lambda layer, tokens: tokens.max(0),
    "mean_max": lambda layer, tokens: np.concatenate([tokens.mean(0), tokens.max(0)]),
    "attention": attend,
}


def expected(name, layer, x, mask):
    rows = []
    for tokens, real in zip(x, mask, strict=True):
        if name == "cls":
            rows.append(tokens[0] * real[0])
        elif real.any():
            rows.append(ONE[name](layer, tokens[real]))
        else:
            rows.append(np.zeros(layer.factor * x.shape[-1]))
    return np.stack(rows)


def make(name, rng, dtype="float64"):
    layer = POOLINGS[name](dtype=dtype)
    layer.build((None, None, 7))
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


@pytest.fixture(params=POOLINGS)
def name(request):
    return request.param


@pytest.fixture
def x(rng):
    return rng.normal(size=(5, 5, 7))


@pytest.mark.parametrize("shift", [0, -9], ids=["mixed", "negative"])
def test_poolings_equal_numpy(name, x, rng, shift):
    layer = make(name, rng)
    found = layer(x + shift, mask=MASK)
    np.testing.assert_allclose(found, expected(name, layer, x + shift, MASK))


def test_no_mask_means_all_tokens(name, x, rng):
    layer = make(name, rng)
    everything = np.ones((5, 5), bool)
    np.testing.assert_allclose(layer(x), expected(name, layer, x, everything))


def test_padding_changes_nothing(name, x, rng):
    layer = make(name, rng)
    noise = 1e3 * rng.normal(size=(5, 6, 7))
    longer, mask = np.concatenate([x, noise], 1), np.pad(MASK, [(0, 0), (0, 6)])
    np.testing.assert_allclose(layer(longer, mask=mask), layer(x, mask=MASK))


def test_empty_texts_give_zeros(name, x, rng):
    layer = make(name, rng)
    found = layer(x, mask=np.zeros((5, 5), bool))
    np.testing.assert_array_equal(found, np.zeros((5, layer.factor * 7)))


@pytest.mark.parametrize("name", sorted(set(POOLINGS) - {"cls"}))
def test_no_text_with_a_token_at_all(name, rng):
    layer = make(name, rng)
    found = layer(np.zeros((3, 0, 7)))
    np.testing.assert_array_equal(found, np.zeros((3, layer.factor * 7)))


def test_the_mask_comes_from_the_layers_before_and_ends_here(name, rng):
    ids = np.array([[4, 5, 6], [4, 5, 0]])
    tokens = keras.layers.Embedding(9, 7, mask_zero=True, dtype="float64")(ids)
    layer = make(name, rng)
    found = layer(tokens)
    np.testing.assert_allclose(found, layer(np.asarray(tokens), mask=ids != 0))
    assert getattr(found, "_keras_mask", None) is None


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 4e-3), ("bfloat16", 4e-2)]
)
def test_half_precision(name, x, rng, dtype, tolerance):
    layer = make(name, rng, dtype=f"mixed_{dtype}")
    found = layer(tf.cast(x, dtype), mask=MASK)
    assert found.dtype == dtype
    np.testing.assert_allclose(
        tf.cast(found, "float64"), expected(name, layer, x, MASK), atol=tolerance * 3
    )


@pytest.mark.parametrize("name", ["mean", "max", "mean_max", "attention"])
def test_long_texts_of_large_values_do_not_overflow_half_precision(name, rng):
    layer = make(name, rng, dtype="float16")
    found = np.asarray(layer(np.full((1, 331, 7), 300, "float16")))
    np.testing.assert_allclose(found, 300, rtol=2e-2)


def test_values_below_any_constant(rng):
    x = np.full((1, 2, 7), -1e9)
    np.testing.assert_array_equal(make("max", rng)(x, mask=[[True, False]]), x[:, 0])


def test_gradients_are_finite_and_pass_padding_by(name, x, rng):
    layer = make(name, rng)
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        y = layer(tensor, mask=MASK)
        loss = tf.reduce_sum(y * y)
    slope, *of_weights = tape.gradient(
        loss, [tensor, *(w.value for w in layer.trainable_weights)]
    )
    assert np.all(np.asarray(slope)[~MASK] == 0)
    assert np.any(np.asarray(slope)[0] != 0)
    assert all(np.all(np.isfinite(g)) for g in (slope, *of_weights))


@pytest.mark.parametrize("time", [None, 5])
def test_shapes_are_known_before_the_data(name, time):
    layer = POOLINGS[name]()
    y = layer(keras.KerasTensor((None, time, 7)))
    assert y.shape == (None, layer.factor * 7)
    assert layer.compute_output_shape((2, time, 7)) == (2, layer.factor * 7)
    assert layer(np.zeros((2, 5, 7))).shape == (2, layer.factor * 7)


def test_configs_make_the_same_layer(name):
    layer = POOLINGS[name](name="p", dtype="float32")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
