"""Each depth learns at its own rate."""

import keras
import numpy as np
import pytest

from residual_keras import build_classifier, residuals
from residual_keras.layer_rates import LayerwiseAdamW, layerwise, steps_down
from residual_keras.optimization import no_decay

SIZES = {"num_layers": 3, "embed_dim": 8, "num_heads": 2, "max_len": 5}


def built(**options):
    return build_classifier(11, 2, **{**SIZES, **options})


@pytest.mark.parametrize("residual", ["pre_ln", "rezero"])
def test_the_first_step_of_each_weight_is_as_long_as_its_rate(residual):
    model = built(residual=residual)
    variables = model.trainable_variables
    before = [np.array(v) for v in variables]
    optimizer = layerwise(0.01, model, 0.5, weight_decay=0.0)
    optimizer.build(variables)
    # Adam's first step is the rate in each direction that has a gradient.
    optimizer.apply([keras.ops.ones_like(v) for v in variables], variables)
    for variable, old in zip(variables, before, strict=True):
        path = variable.path
        if path.startswith("embedding"):
            expected = 0.5**4
        elif "block_" in path:
            expected = 0.5 ** (3 - int(path.split("block_")[1][0]))
        elif "residual/norm_" in path:
            expected = 0.5 ** (3 - int(path.split("norm_")[1][0]) // 2)
        else:  # the final norm and the logits, or what a scheme has for all sublayers
            expected = 0.5 if "residual" in path else 1.0
        change = (old - np.array(variable)) / 0.01
        np.testing.assert_allclose(change, expected, rtol=1e-3, err_msg=path)


def test_decay_goes_by_the_rate_and_spares_what_adamw_is_told_to():
    model = built()
    variables = model.trainable_variables
    spared = {id(v) for v in no_decay(model)}
    before = [np.array(v) for v in variables]
    optimizer = layerwise(0.01, model, 0.5, weight_decay=0.3)
    optimizer.build(variables)
    optimizer.apply([keras.ops.zeros_like(v) for v in variables], variables)
    for variable, old in zip(variables, before, strict=True):
        rate = 0.01 * optimizer.factors[variable.path]
        decay = 0.0 if id(variable) in spared else 0.3
        np.testing.assert_allclose(variable, old * (1 - rate * decay), atol=1e-7)


def test_with_one_rate_it_is_adamw(rng):
    weights = []
    for kind in ("ours", "keras"):
        keras.utils.set_random_seed(3)
        model = built()
        if kind == "ours":
            optimizer = layerwise(0.01, model, 1.0, 0.3, global_clipnorm=1.0)
        else:
            optimizer = keras.optimizers.AdamW(
                0.01, weight_decay=0.3, global_clipnorm=1.0
            )
            optimizer.exclude_from_weight_decay(var_list=no_decay(model))
        optimizer.build(model.trainable_variables)
        draws = np.random.default_rng(5)
        for _ in range(4):
            gradients = [draws.normal(size=v.shape) for v in model.trainable_variables]
            gradients = [keras.ops.convert_to_tensor(g, "float32") for g in gradients]
            optimizer.apply(gradients, model.trainable_variables)
        weights.append([np.array(v) for v in model.trainable_variables])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_every_scheme_s_weights_have_a_depth():
    for name in residuals.SCHEMES:
        model = built(residual=name)
        encoder = model.get_layer("encoder")
        steps = {v.path: steps_down(v.path, encoder) for v in model.trainable_variables}
        for path, step in steps.items():
            low, high = (1, 3) if "/residual/" in path or "block_" in path else (0, 4)
            assert low <= step <= high, (name, path)
        assert {1, 2, 3} <= set(steps.values())


def test_it_is_saved_with_a_model(tmp_path):
    model = built(num_layers=1, rate=0.0)
    model.compile(layerwise(0.01, model, 0.5, 0.1), run_eagerly=True)
    ids, labels = np.arange(1, 9).reshape(4, 2), np.array([0, 1, 0, 1])
    model.train_on_batch(ids, labels)
    model.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert isinstance(loaded.optimizer, LayerwiseAdamW)
    assert loaded.optimizer.factors == model.optimizer.factors
    assert loaded.optimizer.decays == model.optimizer.decays
    for each in (model, loaded):  # which goes on as the first one would
        each.train_on_batch(ids, labels)
    for one, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6, err_msg=one.path)
