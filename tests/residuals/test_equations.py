"""Every scheme computes its equation, at any weights."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import residuals
from residual_keras.spec import parse


def named(scheme):
    """The scheme's weights by their path inside it."""
    return {weight.path.split("/", 1)[1]: weight for weight in scheme.weights}


def trainable(scheme):
    """The paths of the weights that training changes."""
    return [weight.path.split("/", 1)[1] for weight in scheme.trainable_weights]


def carry(scheme, x, sublayers):
    """What the scheme's verbs make of x, with NumPy functions as sublayers."""
    state = scheme.start(ops.convert_to_tensor(x))
    for i, f in enumerate(sublayers):
        update = f(
            keras.tree.map_structure(ops.convert_to_numpy, scheme.read(state, i))
        )
        state = scheme.write(state, scheme.drop(ops.convert_to_tensor(update)), i)
    return ops.convert_to_numpy(scheme.finish(state))


def sublayer(scale, shift):
    """c tanh(roll(u)) + b; of three inputs, no two count alike."""

    def f(u):
        if isinstance(u, tuple):
            query, key, value = u
            u = query + 2 * key - value / 2
        return scale * np.tanh(np.roll(u, 1, axis=-1)) + shift

    return f


def test_every_scheme_has_a_reference(name, reference):
    assert hasattr(reference, name), f"Write the equation of {name!r} in reference.py"


@pytest.mark.parametrize("num_layers", [1, 2, 5])
@pytest.mark.parametrize("width", [5, 7])
def test_equals_the_reference(spec, num_layers, width, reference, rng):
    n = 2 * num_layers
    scheme = residuals.get(spec, num_sublayers=n, epsilon=1e-3, dtype="float64")
    scheme.build((None, None, width))
    for weight in scheme.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    x = rng.normal(size=(2, 3, width))
    sublayers = [sublayer(*rng.normal(size=2)) for _ in range(n)]

    name, options = parse(spec)
    weights = {path: weight.numpy() for path, weight in named(scheme).items()}
    expected = getattr(reference, name)(x, sublayers, weights, 1e-3, **options)
    got = carry(scheme, x, sublayers)

    assert got.dtype == "float64"
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)
    # Every weight takes part, far beyond that tolerance.
    for path in trainable(scheme):
        other = {**weights, path: weights[path] + rng.normal(size=weights[path].shape)}
        changed = getattr(reference, name)(x, sublayers, other, 1e-3, **options)
        assert np.abs(changed - expected).max() > 1e-8, path


# Golden traces: four sublayers, one token of width 4, gains 1, offsets and biases 0; at
# the end LN, where the scheme leaves it to the stack.

EPSILON = 1e-12
START = np.array([[[1.0, -2.0, 3.0, 0.5]]])
SLOPE = np.array([1.0, 2.0, 3.0, 4.0]) / 4
GOLDEN_SUBLAYERS = [
    sublayer(scale, shift * SLOPE)
    for scale, shift in [(0.5, 0.1), (-0.25, 0.2), (0.75, -0.1), (-0.5, 0.3)]
]


def mat(rows, columns, shift):
    p, q = np.indices((rows, columns))
    return 0.3 * np.sin(1 + p * columns + q + shift)


def fusion(project, fuse):
    """Weights from P and F as functions of i; they stand on the left of a column."""
    return {
        path: value
        for i in range(4)
        for path, value in {
            f"project_{i}/kernel": project(i).T,
            f"fuse_{i}/kernel": fuse(i).T,
        }.items()
    }


GOLDEN = [
    ("pre_ln", {}, [-0.006676, -1.553920, 1.208993, 0.351604]),
    ("post_ln", {}, [-0.101592, -1.565421, 1.107066, 0.559948]),
    ("none", {}, [0.106783, 0.055612, 0.281122, 0.323483]),
    (
        "attention_residual",
        fusion(lambda i: np.eye(4), lambda i: mat(4, 8, i)),
        [0.968413, 0.977439, -1.299743, -0.646109],
    ),
    (
        "attention_residual",
        fusion(lambda i: mat(4, 4, i + 0.5), lambda i: mat(4, 8, i)),
        [0.193872, 1.502296, -0.482687, -1.213481],
    ),
    (
        "attention_residual",
        fusion(lambda i: np.eye(4), lambda i: np.eye(4, 8)),
        [0.210559, -1.473911, 1.333539, -0.070186],
    ),
    # F = [I | I], P = I: the start of fusion_init="identity" is post_ln
    (
        "attention_residual(fusion_init='identity')",
        {},
        [-0.101592, -1.565421, 1.107066, 0.559948],
    ),
]


@pytest.mark.parametrize(("asked", "given", "expected"), GOLDEN)
def test_golden_trace(asked, given, expected, reference):
    scheme = residuals.get(asked, num_sublayers=4, epsilon=EPSILON, dtype="float64")
    scheme.build(START.shape)
    weights = named(scheme)
    for path, value in given.items():
        weights[path].assign(value)
    name, options = parse(asked)
    values = {path: weight.numpy() for path, weight in weights.items()}
    from_equation = getattr(reference, name)(
        START, GOLDEN_SUBLAYERS, values, EPSILON, **options
    )
    for y in (carry(scheme, START, GOLDEN_SUBLAYERS), from_equation):
        # The trace of `none` is that of the bare sublayers.
        if scheme.final_norm and name != "none":
            y = reference.layer_norm(y, EPSILON)
        np.testing.assert_allclose(y[0, 0], expected, rtol=0, atol=1e-6)
