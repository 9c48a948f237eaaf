"""Initial values: independent draws, their scale, seeds and configs."""

import itertools
import json

import keras
import numpy as np
import pytest

from residual_keras.initializers import independent, scaled, side_by_side

RANDOM = {
    "glorot_uniform": "glorot_uniform",
    "he_normal": "he_normal",
    "fixed seed": keras.initializers.GlorotUniform(seed=3),
    "orthogonal": keras.initializers.Orthogonal(seed=3),
    "scaled": keras.initializers.VarianceScaling(2.0, "fan_out", "normal"),
    "config": {"class_name": "RandomNormal", "config": {"stddev": 0.02, "seed": 5}},
}


def twos(shape, dtype=None):
    return 2 * keras.ops.ones(shape, dtype)


@pytest.mark.parametrize("name", RANDOM)
def test_every_draw_differs(name):
    draw = independent(RANDOM[name])
    draws = [np.array(draw((5, 7), dtype="float32")) for _ in range(4)]
    for one, other in itertools.combinations(draws, 2):
        assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("name", RANDOM)
def test_same_seed_draws_the_same(name):
    runs = []
    for _ in range(2):
        keras.utils.set_random_seed(11)
        draw = independent(RANDOM[name])
        runs.append([np.array(draw((5, 7))) for _ in range(2)])
    np.testing.assert_array_equal(*runs)


def test_fixed_seed_holds_whatever_the_global_seed():
    draws = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        draw = independent(keras.initializers.HeNormal(seed=3))
        draws.append(np.array(draw((5, 7))))
    np.testing.assert_array_equal(*draws)


def test_no_seed_follows_the_global_seed():
    draws = []
    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        draws.append(np.array(independent("he_normal")((5, 7))))
    assert np.abs(draws[0] - draws[1]).max() > 1e-3


@pytest.mark.parametrize("name", RANDOM)
def test_the_distribution_is_kept(name):
    shape = (70, 110)
    plain = keras.initializers.get(RANDOM[name])
    assert np.std(independent(RANDOM[name])(shape)) == pytest.approx(
        np.std(plain(shape)), rel=0.05
    )


def test_orthogonal_stays_orthogonal():
    draw = independent(keras.initializers.Orthogonal(gain=2.0, seed=3))
    for _ in range(2):
        kernel = np.array(draw((7, 5)))
        np.testing.assert_allclose(kernel.T @ kernel, 4 * np.eye(5), atol=1e-5)


def test_a_draw_is_passed_on_as_it_is():
    """So that the blocks of a stack go on with one sequence of numbers."""
    draw = independent("he_normal")
    assert independent(draw) is draw


@pytest.mark.parametrize("name", RANDOM)
def test_config_survives_json(name):
    draw = independent(RANDOM[name])
    config = keras.initializers.serialize(draw)
    again = independent(json.loads(json.dumps(config)))
    assert type(again) is type(draw)
    assert keras.initializers.serialize(again) == config
    assert np.abs(np.array(again((5, 7))) - np.array(again((5, 7)))).max() > 1e-3


@pytest.mark.parametrize("seed", [3, None])
def test_config_survives_a_draw(seed):
    draw = independent(keras.initializers.GlorotUniform(seed=seed))
    before = keras.initializers.serialize(draw)
    draw((2, 3))
    assert keras.initializers.serialize(draw) == before


@pytest.mark.parametrize(
    ("initializer", "value"),
    [("zeros", 0), ("ones", 1), (keras.initializers.Constant(0.5), 0.5), (twos, 2)],
)
def test_what_draws_nothing_is_left_alone(initializer, value):
    draw = independent(initializer)
    np.testing.assert_array_equal(draw((2, 3)), np.full((2, 3), value))


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="glorot_unifrom"):
        independent("glorot_unifrom")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_dtype_is_kept(dtype):
    parts = [scaled(independent("he_normal"), 0.5)] * 3
    kernel = side_by_side(parts)((5, 21), dtype=dtype)
    assert keras.backend.standardize_dtype(kernel.dtype) == dtype


def test_scaled_multiplies():
    draw = keras.initializers.GlorotUniform(seed=3)  # the same at every call
    np.testing.assert_allclose(
        scaled(draw, 0.25)((5, 7)), 0.25 * np.array(draw((5, 7))), rtol=1e-6
    )


def test_side_by_side_joins_in_order():
    parts = [keras.initializers.Constant(value) for value in (1, 2, 3)]
    kernel = np.array(side_by_side(parts)((2, 9)))
    np.testing.assert_array_equal(kernel, [[1, 1, 1, 2, 2, 2, 3, 3, 3]] * 2)


def test_side_by_side_keeps_the_fan_of_the_parts():
    """Glorot's limit for a (64, 64) part, which a (64, 192) draw would not reach."""
    kernel = np.array(side_by_side([independent("glorot_uniform")] * 3)((64, 192)))
    limit = np.sqrt(6 / (64 + 64))
    for part in np.split(kernel, 3, axis=1):
        assert 0.98 * limit < np.abs(part).max() <= limit
