"""Blocks run once more for their gradient: the same numbers in less memory."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from residual_keras import TransformerEncoder

SIZES = {"embed_dim": 6, "num_heads": 3, "ff_dim": 7}
DROPOUT = {
    "rate": 0.5,
    "attention_rate": 0.3,
    "ff_rate": 0.3,
    "stochastic_depth": 0.3,
}


def encoder_of(num_layers=3, rate=0.0, **kwargs):
    return TransformerEncoder(num_layers, **SIZES, rate=rate, **kwargs)


def gradients(encoder, x):
    """Output and gradients of a training pass."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = encoder(x, training=True)
        loss = tf.reduce_sum(y * tf.sin(y))
    sources = [x, *(weight.value for weight in encoder.trainable_weights)]
    return [y, *map(ops.convert_to_tensor, tape.gradient(loss, sources))]


@pytest.mark.parametrize(
    "in_graph", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_the_gradients_of_every_scheme(trained, in_graph, rng):
    """Also what the blocks pass on beside the stream: values and scores."""
    shared = {"value_residual": True, "score_residual": True, "dtype": "float64"}
    pair = [
        encoder_of(2, residual=trained, recompute=recompute, **shared)
        for recompute in (False, True)
    ]
    x = tf.constant(rng.normal(size=(2, 5, 6)))
    for encoder in pair:
        encoder.build(x.shape)
    for own, other in zip(*(encoder.weights for encoder in pair), strict=True):
        if own.trainable:
            own.assign_add(rng.normal(0, 0.3, own.shape))
        other.assign(own)
    run = tf.function(gradients, autograph=False) if in_graph else gradients
    for _ in range(2):  # prores counts its passes: the second is another one
        right, found = (run(encoder, x) for encoder in pair)
        for own, other in zip(right, found, strict=True):
            np.testing.assert_allclose(other, own, atol=1e-10)


@pytest.mark.parametrize("way", ["eager", "graph", "xla"])
def test_both_runs_drop_the_same(way, rng):
    """The gradient is that of the very function whose value came out."""
    encoder = encoder_of(2, recompute=True, **DROPOUT, dtype="float64")
    x = tf.constant(rng.normal(size=(2, 5, 6)))
    encoder.build(x.shape)

    def value(x):
        y = encoder(x, training=True)
        return tf.reduce_sum(y * tf.sin(y))

    def value_and_slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = value(x)
        return y, tape.gradient(y, x)

    if way != "eager":
        value, value_and_slope = (
            tf.function(function, jit_compile=way == "xla", autograph=False)
            for function in (value, value_and_slope)
        )
    drawn = [v for v in encoder.variables if "seed" in v.path]
    before = [v.numpy() for v in drawn]

    def again(function, x):
        for variable, start in zip(drawn, before, strict=True):
            variable.assign(start)
        return function(x)

    y, slope = again(value_and_slope, x)
    step = 1e-6 * rng.normal(size=x.shape)
    rise = again(value, x + step) - again(value, x - step)
    np.testing.assert_allclose(rise, 2 * tf.reduce_sum(slope * step), rtol=1e-5)
    again(value_and_slope, x)
    assert value_and_slope(x)[0] != y, "the next step drops others"


def test_dropout_differs_from_block_to_block(rng):
    """All blocks draw from one scheme's dropout, each from numbers of its own."""
    encoder = encoder_of(2, rate=0.5, recompute=True, residual="pre_ln")
    x = rng.normal(size=(1, 64, 6)).astype("float32")
    encoder.build(x.shape)
    seen = []
    drop = encoder.residual.drop
    encoder.residual.drop = lambda update: seen.append(drop(update)) or seen[-1]
    encoder(x, training=True)
    masks = [np.array(update) == 0 for update in seen]
    assert len(masks) == 4
    for i, one in enumerate(masks):
        assert 0.3 < one.mean() < 0.7
        assert all((one != other).any() for other in masks[:i])


def test_a_fit_is_the_same_with_it(rng):
    """Through a mask and in half precision, which the second run must know of too."""
    ids = rng.integers(0, 11, size=(8, 5))
    labels = rng.normal(size=(8, 5, 6))
    start, losses = None, []
    for recompute in (False, True):
        encoder = encoder_of(2, recompute=recompute, dtype="mixed_bfloat16")
        embedding = keras.layers.Embedding(11, 6, mask_zero=True)
        model = keras.Sequential([embedding, encoder])
        model.build(ids.shape)
        start = start or model.get_weights()
        model.set_weights(start)
        model.compile(keras.optimizers.Adam(1e-2), "mse", jit_compile=False)
        found = model.fit(ids, labels, batch_size=4, epochs=3, verbose=0, shuffle=False)
        losses.append(found.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][2] < losses[0][0]


def test_weights_go_from_one_to_the_other(tmp_path, rng):
    """It is not part of what a model has learned."""
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    for here, there in ((False, True), (True, False)):
        model, other = (
            keras.Sequential([encoder_of(recompute=recompute, rate=0.1)])
            for recompute in (here, there)
        )
        model.build(x.shape)
        other.build(x.shape)
        assert model.count_params() == other.count_params()
        model.save_weights(tmp_path / "model.weights.h5")
        other.load_weights(tmp_path / "model.weights.h5")
        np.testing.assert_array_equal(other(x), model(x))


def test_a_saved_model_still_does_it(tmp_path, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    model = keras.Sequential([encoder_of(recompute=True, rate=0.1)])
    y = model(x)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.layers[0].recompute
    np.testing.assert_array_equal(loaded(x), y)
