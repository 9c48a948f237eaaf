"""The kept weights are the average of those along the way."""

import keras
import numpy as np
import pytest

from residual_keras import Recipe, load_model
from residual_keras.averaging import averaged
from residual_keras.run_folder import RunFolder
from residual_keras.train import evaluate, train


def test_within_the_block_weights_are_their_average(rng):
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    options = {"use_ema": True, "ema_momentum": 0.75}
    model.compile(keras.optimizers.SGD(0.1, **options), "mse")
    average = None
    for _ in range(5):
        model.train_on_batch(rng.normal(size=(7, 3)), rng.normal(size=(7, 2)))
        kernel = np.array(model.layers[0].kernel)
        average = kernel if average is None else 0.75 * average + 0.25 * kernel
    with averaged(model):
        np.testing.assert_allclose(model.layers[0].kernel, average, atol=1e-6)
        assert not np.allclose(average, kernel)
    np.testing.assert_array_equal(model.layers[0].kernel, kernel)


def test_without_an_average_nothing_happens(rng):
    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    model.compile("sgd", "mse")
    kernel = np.array(model.layers[0].kernel)
    with averaged(model):
        np.testing.assert_array_equal(model.layers[0].kernel, kernel)


@pytest.mark.slow
def test_a_run_validates_and_keeps_the_average(tmp_path, tiny_recipe):
    from residual_keras.data import load

    options = {**tiny_recipe, "epochs": 2, "ema_momentum": 0.9}
    metrics = train(Recipe(**options), tmp_path, verbose=0, export=False)
    model = load_model(tmp_path / "model.keras")
    best = RunFolder(tmp_path).rows()[metrics["best_epoch"] - 1]
    found = evaluate(model, load(options["data"]).validation)
    assert found["loss"] == pytest.approx(best["val_loss"], abs=1e-6)
    weights = [np.array(v) for v in model.classifier.trainable_variables]
    with averaged(model.classifier):
        for kept, v in zip(weights, model.classifier.trainable_variables, strict=True):
            np.testing.assert_allclose(kept, v, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ema_momentum": 1.0}, "ema_momentum must be a share"),
        ({"layer_decay": 0.0}, "layer_decay must be in"),
        ({"layer_decay": 1.5}, "layer_decay=1.5"),
    ],
)
def test_a_momentum_or_decay_that_cannot_be_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Recipe(**options)
