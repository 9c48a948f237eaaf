"""What every registered scheme owes its users: saving, calls, masks, precision.

A new scheme is tested by being registered.
"""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, residuals

WIDTH, TIME = 6, 5

USERS_SCHEME = """
@residuals.register("users_own")
class UsersOwn(residuals.Residual):
    def __init__(self, num_sublayers, share=0.5, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        self.share = share

    def build(self, input_shape):
        self.scales = self.add_weight((self.num_sublayers,), "ones", name="scales")

    def write(self, state, update, i):
        return state + self.share * self.scales[i] * update
"""

# Another process, which knows only what it imports and the user's own scheme.
READER = f"""
import pathlib, sys
import keras
import numpy as np
import residual_keras
from residual_keras import residuals
{USERS_SCHEME}
folder = pathlib.Path(sys.argv[1])
x = np.load(folder / "x.npy")
for path in folder.glob("*.keras"):
    y = keras.models.load_model(path)(x)
    np.save(path.with_suffix(".loaded.npy"), keras.ops.convert_to_numpy(y))
"""


def encoder(residual, **options):
    options = {"rate": 0.0, **options}
    layer = TransformerEncoder(2, WIDTH, 2, ff_dim=7, residual=residual, **options)
    layer.build((None, None, WIDTH))
    return layer


def shaken(layer, rng):
    """The layer with no weight as it started, so that losing one is seen."""
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    return layer


def stream(rng, *shape):
    return rng.normal(size=shape or (2, TIME, WIDTH)).astype("float32")


def numpy(y):
    return ops.convert_to_numpy(y)


# Weights and configs


def test_all_weights_exist_before_the_first_call(spec, rng):
    layer = encoder(spec, rate=0.1)
    before = [variable.path for variable in layer.variables]
    layer(stream(rng), training=True)
    assert [variable.path for variable in layer.variables] == before
    assert len(set(before)) == len(before)


def test_config_round_trip(spec):
    layer = encoder(spec, rate=0.3, epsilon=1e-3, final_norm=True)
    config = json.loads(json.dumps(layer.get_config()))
    clone = TransformerEncoder.from_config(config)
    clone.build((None, None, WIDTH))
    assert clone.get_config() == layer.get_config()
    assert [v.path for v in clone.weights] == [v.path for v in layer.weights]
    assert clone.residual.dropout.rate == 0.3
    assert clone.residual.epsilon == 1e-3


def test_a_scheme_by_itself_survives_its_config(spec):
    scheme = residuals.get(spec, num_sublayers=4, rate=0.3, epsilon=1e-3, name="mine")
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(scheme)))
    clone = residuals.get(config, num_sublayers=4)
    assert type(clone) is type(scheme)
    assert clone.get_config() == scheme.get_config()
    assert (clone.name, clone.dropout.rate, clone.epsilon) == ("mine", 0.3, 1e-3)


def test_weights_file_of_models_that_were_never_called(most_specs, rng, tmp_path):
    one, two = (keras.Sequential([encoder(most_specs)]) for _ in range(2))
    for model in (one, two):
        model.build((None, None, WIDTH))
        shaken(model, rng)
    one.save_weights(tmp_path / "x.weights.h5")
    two.load_weights(tmp_path / "x.weights.h5")
    assert len(one.weights) == len(two.weights) >= 16
    for mine, theirs in zip(one.weights, two.weights, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_saved_models_are_the_same_in_a_new_process(specs, rng, tmp_path):
    exec(USERS_SCHEME, {"residuals": residuals, "__name__": "__main__"})
    try:
        specs = [*specs, "users_own(share=0.25)"]
        x = stream(rng)
        np.save(tmp_path / "x.npy", x)
        expected = {}
        for i, spec in enumerate(specs):
            inputs = keras.Input((None, WIDTH))
            model = keras.Model(inputs, shaken(encoder(spec), rng)(inputs))
            expected[spec] = numpy(model(x))
            model.save(tmp_path / f"{i}.keras")
    finally:
        del residuals.SCHEMES["users_own"]

    subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
    )

    for i, spec in enumerate(specs):
        loaded = np.load(tmp_path / f"{i}.loaded.npy")
        np.testing.assert_array_equal(loaded, expected[spec], err_msg=spec)


def test_exported_model_gives_the_same(one_of_each_kind, rng, tmp_path):
    import tensorflow as tf

    inputs = keras.Input((None, WIDTH))
    model = keras.Model(inputs, shaken(encoder(one_of_each_kind), rng)(inputs))
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "exported"))
    for x in (stream(rng), stream(rng, 3, 7, WIDTH)):  # any batch and length
        np.testing.assert_allclose(numpy(loaded.serve(x)), numpy(model(x)), atol=1e-5)


# Calls and masks


def test_every_way_to_call_gives_the_same(most_specs, rng):
    layer, x = shaken(encoder(most_specs, dtype="float64"), rng), stream(rng)
    inputs = keras.Input((None, WIDTH))
    model = keras.Model(inputs, layer(inputs))
    eager = numpy(layer(x))
    np.testing.assert_array_equal(numpy(model(x)), eager)
    np.testing.assert_array_equal(numpy(keras.Sequential([layer])(x)), eager)
    np.testing.assert_allclose(model.predict(x, verbose=0), eager, rtol=0, atol=1e-11)


def test_padding_changes_nothing(most_specs, rng):
    layer, x = shaken(encoder(most_specs, dtype="float64"), rng), stream(rng)
    alone = numpy(layer(x))
    padding = 100 * stream(rng, 2, 67, WIDTH)
    real, pads = np.ones((2, TIME), bool), np.zeros((2, 67), bool)

    mask = np.concatenate([real, pads], axis=1)
    after = numpy(layer(np.concatenate([x, padding], axis=1), mask=mask))
    before = numpy(layer(np.concatenate([padding, x], axis=1), mask=mask[:, ::-1]))

    np.testing.assert_allclose(after[:, :TIME], alone, rtol=0, atol=1e-11)
    np.testing.assert_allclose(before[:, -TIME:], alone, rtol=0, atol=1e-11)


def test_mask_is_heeded_and_passed_on(most_specs, rng):
    ids = np.array([[2, 3, 0, 0, 0], [0, 0, 0, 0, 0], [4, 5, 6, 7, 8]])
    embedding = keras.layers.Embedding(11, WIDTH, mask_zero=True)
    layer = shaken(encoder(most_specs, dtype="float64"), rng)

    y = layer(embedding(ids))

    np.testing.assert_array_equal(numpy(y._keras_mask), ids != 0)
    assert np.isfinite(numpy(y)).all()  # the empty text too
    alone = numpy(layer(embedding(ids[:1, :2])))
    np.testing.assert_allclose(numpy(y)[0, :2], alone[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("training", [False, True])
def test_causal_leaks_nothing(most_specs, training, rng):
    dropped = 0.2 if training else 0.0
    rates = {"rate": dropped, "attention_rate": dropped, "ff_rate": dropped}
    layer, x = shaken(encoder(most_specs, causal=True, **rates), rng), stream(rng)
    changing = layer.non_trainable_variables
    assert any("seed" in v.path for v in changing) == training
    seeds = [(v, v.numpy()) for v in changing]

    def call(x):
        for variable, value in seeds:  # the same tokens are dropped
            variable.assign(value)
        return numpy(layer(x, training=training))

    y = call(x)
    for t in range(TIME - 1):
        other = x.copy()
        other[:, t + 1 :] = stream(rng)[:, t + 1 :]
        changed = call(other)
        np.testing.assert_allclose(changed[:, : t + 1], y[:, : t + 1], atol=1e-6)
        assert np.abs(changed[:, t + 1 :] - y[:, t + 1 :]).max() > 1e-3


def test_dropout_falls_once_on_each_update(spec, rng, monkeypatch):
    layer = encoder(spec, rate=0.5)
    calls = []

    def record(x, training):
        calls.append((tuple(x.shape), training))
        return x

    monkeypatch.setattr(layer.residual.dropout, "call", record)
    layer(stream(rng), training=True)
    assert calls == [((2, TIME, WIDTH), True)] * 4


# Precision


def test_float16(most_specs, rng, tmp_path):
    check_precision("mixed_float16", 0.01, most_specs, rng, tmp_path)


def test_bfloat16(most_specs, rng, tmp_path):
    check_precision("mixed_bfloat16", 0.05, most_specs, rng, tmp_path)


def check_precision(policy, allowed, spec, rng, tmp_path):
    single = shaken(encoder(spec), rng)
    half = encoder(spec, dtype=policy)
    half.set_weights(single.get_weights())
    x = stream(rng, 3, 67, WIDTH)
    mask = np.arange(67) < np.array([[1], [0], [61]])  # long pads, an empty text

    y = half(x, mask=mask)

    assert y.dtype == half.compute_dtype
    assert {weight.dtype for weight in half.trainable_weights} == {"float32"}
    y = numpy(ops.cast(y, "float32"))
    assert np.isfinite(y).all()
    difference = np.abs(y - numpy(single(x, mask=mask)))[mask].mean()
    assert difference < allowed

    keras.Sequential([keras.Input((None, WIDTH)), half]).save(tmp_path / "x.keras")
    loaded = keras.models.load_model(tmp_path / "x.keras").layers[0]
    clone = TransformerEncoder.from_config(half.get_config())
    clone.build((None, None, WIDTH))
    for layer in (half, clone, loaded):
        parts = layer._flatten_layers()
        assert {part.dtype_policy.name for part in parts} == {policy}
