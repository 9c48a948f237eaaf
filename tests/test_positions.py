"""What positions add, for which lengths and widths."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import LearnedPositions, NoPositions, SinusoidalPositions


def sinusoids(length, width, wavelength=10_000.0):
    """The table of the paper, a number at a time: pairs of sine and cosine."""
    table = np.zeros((length, width))
    for t in range(length):
        for j in range(width):
            angle = t / wavelength ** (2 * (j // 2) / width)
            table[t, j] = math.cos(angle) if j % 2 else math.sin(angle)
    return table


def added(layer, length, width, dtype="float32"):
    """What a layer adds to zeros, (length, width)."""
    return np.asarray(layer(np.zeros((1, length, width), dtype)))[0]


# --- sinusoidal


@pytest.mark.parametrize("length", [1, 50])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 128])
def test_sinusoids_equal_the_papers_interleaved_table(length, width):
    table = added(SinusoidalPositions(), length, width)
    assert table.dtype == "float32"
    np.testing.assert_allclose(table, sinusoids(length, width), atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 33))
def test_sinusoids_of_a_longer_text_begin_with_those_of_a_shorter(shorter, more, width):
    layer = SinusoidalPositions()
    long = added(layer, shorter + more, width)
    np.testing.assert_allclose(long[:shorter], added(layer, shorter, width), atol=1e-6)


def test_sinusoids_are_added_to_each_text(rng):
    x = rng.normal(size=(3, 5, 7)).astype("float32")
    y = SinusoidalPositions()(x)
    np.testing.assert_allclose(y, x + sinusoids(5, 7), atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "epsilon"), [("float16", 2**-11), ("bfloat16", 2**-8)]
)
def test_sinusoids_keep_their_angles_in_half_precision(rng, dtype, epsilon):
    x = tf.cast(rng.normal(size=(1, 1001, 6)), dtype)
    y = SinusoidalPositions(dtype=f"mixed_{dtype}")(x)
    assert y.dtype == dtype
    exact = np.asarray(tf.cast(x, "float32"))[0] + sinusoids(1001, 6)
    error = np.abs(np.asarray(tf.cast(y, "float32"))[0] - exact)
    # One rounding of the table, at most 1, and one of the sum; a float32 angle of
    # 1000 adds 6e-5. Half-precision angles would be off by up to 0.5 there.
    assert np.all(error <= epsilon * (1 + np.abs(exact)) + 6e-5)


def test_sinusoids_of_a_graph_that_learns_the_length_as_it_runs():
    layer = SinusoidalPositions()
    graph = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 3))])
    for length in (1, 11):
        y = graph(tf.zeros((1, length, 3)))
        np.testing.assert_allclose(y[0], sinusoids(length, 3), atol=1e-6)


def test_wavelength_survives_the_config():
    layer = SinusoidalPositions(wavelength=100.0)
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    np.testing.assert_allclose(
        added(again, 11, 6), sinusoids(11, 6, wavelength=100.0), atol=1e-5
    )


# --- learned


@pytest.fixture
def learned(rng):
    layer = LearnedPositions(max_len=5, dtype="float64")
    layer.build((None, None, 3))
    layer.table.assign(rng.normal(size=(5, 3)))
    return layer


@pytest.mark.parametrize("length", [1, 3, 5])
def test_learned_positions_add_the_first_rows(learned, rng, length):
    x = rng.normal(size=(2, length, 3))
    expected = x + np.asarray(learned.table)[:length]
    np.testing.assert_array_equal(learned(x), expected)


def test_learned_positions_train_the_rows_in_use(learned):
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(learned(tf.zeros((2, 3, 3), "float64")))
    slope = tf.convert_to_tensor(tape.gradient(y, learned.table.value))
    expected = np.repeat([[2.0], [2.0], [2.0], [0.0], [0.0]], 3, axis=1)
    np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize(
    "x", [np.zeros((1, 6, 3)), keras.KerasTensor((None, 6, 3))], ids=["eager", "symbol"]
)
def test_a_text_that_is_too_long_is_an_error_with_both_lengths(learned, x):
    with pytest.raises(ValueError, match=r"max_len=5.*Received: a length of 6"):
        learned(x)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_graph_that_learns_the_length_as_it_runs_raises_too(learned, jit_compile):
    graph = tf.function(
        learned,
        input_signature=[tf.TensorSpec((None, None, 3), "float64")],
        jit_compile=jit_compile,
    )
    assert graph(tf.zeros((1, 5, 3), "float64")).shape == (1, 5, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 5\], but got 6"):
        graph(tf.zeros((1, 6, 3), "float64"))


def test_one_position_is_not_spread_over_longer_texts():
    graph = tf.function(
        LearnedPositions(max_len=1),
        input_signature=[tf.TensorSpec((None, None, 3))],
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="but got 2"):
        graph(tf.zeros((1, 2, 3)))


@pytest.mark.parametrize("max_len", [0, -1])
def test_max_len_must_be_positive(max_len):
    with pytest.raises(ValueError, match=f"max_len={max_len}"):
        LearnedPositions(max_len)


# --- all


def test_no_positions_add_nothing(rng):
    x = rng.normal(size=(2, 3, 5)).astype("float32")
    np.testing.assert_array_equal(NoPositions()(x), x)


@pytest.mark.parametrize(
    "layer", [LearnedPositions(7), SinusoidalPositions(), NoPositions()]
)
def test_positions_pass_the_mask_and_the_shape_on(layer):
    tokens = keras.layers.Embedding(9, 3, mask_zero=True)(np.array([[4, 5, 0]]))
    np.testing.assert_array_equal(layer(tokens)._keras_mask, [[True, True, False]])
    assert layer(keras.KerasTensor((None, None, 3))).shape == (None, None, 3)
    assert layer.compute_output_shape((None, None, 3)) == (None, None, 3)
