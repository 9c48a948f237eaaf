"""What must hold for prores: its factor knows how far training has come."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, build_classifier, residuals
from residual_keras.run_folder import RunFolder
from residual_keras.training_state import TrainingState

# Of the golden trace, as in test_equations.py.
START = np.array([[[1.0, -2.0, 3.0, 0.5]]])
FACTORS = [(0.5, 0.1), (-0.25, 0.2), (0.75, -0.1), (-0.5, 0.3)]


def numpy(y):
    return ops.convert_to_numpy(y)


def classifier(**options):
    options = {"embed_dim": 6, "num_heads": 2, "ff_dim": 7, "rate": 0.1, **options}
    return build_classifier(
        23, 3, residual="prores(warmup_steps=3)", num_layers=1, max_len=11, **options
    )


def texts(rng, count=7):
    return rng.integers(2, 23, (count, 5)), rng.integers(0, 3, count)


def counter(model):
    return model.get_layer("encoder").residual.counter.steps


def steps(model):
    return int(numpy(counter(model)))


def in_training(made, x, sublayers):
    """What a scheme's verbs make of x in a training pass."""

    class Carry(keras.layers.Layer):
        def call(self, x, training=None):
            state = made.start(x)
            for i, f in enumerate(sublayers):
                update = ops.convert_to_tensor(f(numpy(made.read(state, i))))
                state = made.write(state, update, i)
            return made.finish(state)

    return numpy(Carry(dtype="float64")(ops.convert_to_tensor(x), training=True))


def sublayer(scale, shift):
    slope = np.arange(1, 5) / 4
    return lambda u: scale * np.tanh(np.roll(u, 1, axis=-1)) + shift * slope


def test_golden_trace_in_training(reference):
    made = residuals.get("prores", num_sublayers=4, epsilon=1e-12, dtype="float64")
    made.build(START.shape)
    made.counter.steps.assign(1500)
    sublayers = [sublayer(*factors) for factors in FACTORS]
    y = reference.layer_norm(in_training(made, START, sublayers), 1e-12)
    expected = [0.037297, -1.551111, 1.229583, 0.284231]
    np.testing.assert_allclose(y[0, 0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("t", [0, 1, 8, 14, 10_000])
def test_the_ramp_is_the_references(t, reference, rng):
    spec = {"warmup_steps": 5, "block": 2}
    made = residuals.get(
        "prores(warmup_steps=5, block=2)", num_sublayers=4, dtype="float64"
    )
    made.build(START.shape)
    made.counter.steps.assign(t)
    sublayers = [sublayer(*factors) for factors in FACTORS]
    weights = {w.path.split("/", 1)[1]: w.numpy() for w in made.weights}
    expected = reference.prores(START, sublayers, weights, 1e-6, **spec, training=True)
    got = in_training(made, START, sublayers)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)
    assert (got == START).all() == (t == 0)  # the identity
    assert int(made.counter.steps) == t + 1


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("float32", {"run_eagerly": True}),
        ("float32", {"jit_compile": False}),
        pytest.param("float32", {"jit_compile": True}, marks=pytest.mark.slow),
        ("mixed_float16", {"jit_compile": False}),
        pytest.param("mixed_float16", {"jit_compile": True}, marks=pytest.mark.slow),
    ],
)
def test_steps_are_those_of_the_optimizer(options, policy, rng, tmp_path):
    model = classifier(dtype=policy)
    model.compile(keras.optimizers.AdamW(1e-3), **options)
    ids, labels = texts(rng)
    model.fit(ids, labels, batch_size=3, epochs=2, verbose=0)
    assert steps(model) == 6
    if policy == "float32":  # loss scaling leaves out steps that overflow
        assert int(model.optimizer.iterations) == 6
    assert "int" in counter(model).dtype
    model.evaluate(ids, labels, verbose=0)  # neither of these is training
    model.predict(ids, verbose=0)
    model(ids)
    assert steps(model) == 6

    model.save(tmp_path / "x.keras")
    model.save_weights(tmp_path / "x.weights.h5")
    loaded = keras.models.load_model(tmp_path / "x.keras")
    other = classifier(dtype=policy)
    other.load_weights(tmp_path / "x.weights.h5")
    assert steps(loaded) == steps(other) == 6
    loaded.fit(ids, labels, batch_size=3, verbose=0)
    assert steps(loaded) == 9


def test_a_stopped_run_goes_on_at_its_step(rng, tmp_path):
    ids, labels = texts(rng)
    folder = RunFolder(tmp_path)
    folder.state.mkdir(parents=True, exist_ok=True)
    model, other = classifier(), classifier()
    for each in (model, other):
        each.compile(keras.optimizers.AdamW(1e-3))
    state = TrainingState(folder, steps_per_epoch=9, seconds=0)
    model.fit(ids[:4], labels[:4], batch_size=1, verbose=0, callbacks=[Only(state)])
    assert TrainingState(folder, steps_per_epoch=9).restore(other) == 4
    assert steps(other) == 4


class Only(keras.callbacks.Callback):
    """Hands on the ends of batches, not of epochs, whose row would have to be there."""

    def __init__(self, state):
        super().__init__()
        self.state = state

    def set_model(self, model):
        super().set_model(model)
        self.state.set_model(model)

    def on_train_batch_end(self, batch, logs=None):
        self.state.on_train_batch_end(batch, logs)


def test_inference_is_pre_ln_at_any_step(rng):
    options = {"num_heads": 3, "key_dim": 5, "ff_dim": 11, "rate": 0.0}
    one, two = (
        TransformerEncoder(3, 7, residual=name, dtype="float64", **options)
        for name in ("pre_ln", "prores")
    )
    for layer in (one, two):
        layer.build((None, None, 7))
    for mine, theirs in zip(two.trainable_weights, one.trainable_weights, strict=True):
        theirs.assign(theirs + 0.1 * rng.normal(size=theirs.shape))
        mine.assign(theirs)
    x = rng.normal(size=(2, 5, 7))
    for t in (0, 1500):
        two.residual.counter.steps.assign(t)
        for call in (lambda: two(x), lambda: two(x, training=False)):
            np.testing.assert_array_equal(numpy(call()), numpy(one(x)))
    assert int(two.residual.counter.steps) == 1500
    assert not np.allclose(numpy(two(x, training=True)), numpy(one(x)), atol=1e-3)
