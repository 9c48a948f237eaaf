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
    # Their values have both signs: some schemes take only what is positive.
    sublayers = [sublayer(*rng.uniform([1, -0.5], [2, 0.5])) for _ in range(n)]

    name, options = parse(spec)
    weights = {path: weight.numpy() for path, weight in named(scheme).items()}
    expected = getattr(reference, name)(x, sublayers, weights, 1e-3, **options)
    got = carry(scheme, x, sublayers)

    assert got.dtype == "float64"
    largest = max(1, np.abs(expected).max())  # matrices that nothing bounds: 1e5
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10 * largest)
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


def readers(count):
    """Queries of `attn_res`; the first reader, number 0, has none."""
    return {f"query_{r}": 5 * mat(1, 4, r)[0] for r in range(1, count + 1)}


def connections(dynamic=False):
    """[a | A | b] of two streams, and how tokens add to it."""
    given = {}
    for i in range(4):
        parts = [mat(2, 1, i), mat(2, 2, i), mat(2, 1, i + 0.3)]
        start = [np.eye(2)[:, i % 2 : i % 2 + 1], np.eye(2), np.ones((2, 1))]
        columns = [s + 0.1 * p for s, p in zip(start, parts, strict=True)]
        kernels = [mat(4, 1, i), mat(4, 2, i), mat(4, 1, i + 0.7)]
        given[f"static_{i}"] = np.concatenate(columns[i == 0 :], axis=1)
        if dynamic:
            given[f"kernel_{i}"] = np.concatenate(kernels[i == 0 :], axis=1)
            given[f"scale_{i}"] = np.array([0.1, 0.1])
    return given


GOLDEN = [
    ("pre_ln", {}, [-0.006676, -1.553920, 1.208993, 0.351604]),
    ("post_ln", {}, [-0.101592, -1.565421, 1.107066, 0.559948]),
    ("none", {}, [0.106783, 0.055612, 0.281122, 0.323483]),
    ("sandwich_ln", {}, [-0.690623, -1.249389, 1.170312, 0.769700]),
    ("peri_ln", {}, [-0.933624, -1.022006, 0.684893, 1.270737]),
    (
        "peri_ln(embedding_norm=False)",
        {},
        [-0.690623, -1.249389, 1.170312, 0.769700],
    ),
    # Beside its sublayers' own norms, it is pre_ln.
    ("sub_ln", {}, [-0.006676, -1.553920, 1.208993, 0.351604]),
    (
        "res_post_norm(init_gain=1.0)",
        {},
        [-0.247344, -1.499432, 1.160541, 0.586234],
    ),
    ("mix_ln(fraction=0.5)", {}, [-0.160910, -1.528666, 1.168789, 0.520788]),
    ("hybrid_norm", {}, [-0.051591, -1.572651, 1.132300, 0.491942]),
    (
        "rezero",
        {"alpha": np.full(2, 0.3)},
        [1.088997, -1.818156, 2.965289, 0.799811],
    ),
    (
        "layer_scale",
        {f"gamma_{i}": np.array([0.1, 0.2, 0.3, 0.4]) for i in range(4)},
        [0.154232, -1.522715, 1.284733, 0.083750],
    ),
    ("deepnorm", {}, [0.026202, -1.558162, 1.212070, 0.319890]),
    (
        "admin",
        {f"omega_{i}": np.array([1, 1.1, 1.2, 1.3]) + 0.1 * i for i in range(4)},
        [-0.190574, -1.471800, 1.287116, 0.375259],
    ),
    ("ln_scaling", {}, [0.017275, -1.554108, 1.217595, 0.319238]),
    ("keel", {}, [0.074682, -1.514917, 1.295578, 0.144658]),
    (
        "delta",
        {f"share_{i}": mat(1, 4, i).T for i in range(4)}
        | {f"value_{i}": mat(1, 4, i + 0.5).T for i in range(4)},
        [0.299725, -1.411531, -0.250225, 1.362032],
    ),
    ("ngpt_lerp", {}, [0.270836, -0.472527, 0.812356, 0.208429]),
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
    (
        "highway",
        {f"gate_{i}/kernel": mat(4, 4, i).T for i in range(4)},
        [0.539529, -1.173968, 1.926661, 0.381833],
    ),
    (
        "gru_gate",
        {
            f"{name}_{i}/kernel": mat(4, 4, 6 * i + k).T
            for k, name in enumerate(["w_r", "u_r", "w_z", "u_z", "w_g", "u_g"])
            for i in range(4)
        },
        [0.695707, -1.392897, 1.295519, 0.408969],
    ),
    (
        "output_gate",
        {f"gate_{i}/kernel": mat(4, 4, i).T for i in range(4)},
        [1.017488, -1.945916, 3.180714, 0.604853],
    ),
    (
        "sigmoid_tanh_gate",
        {f"gate_{i}/kernel": mat(4, 4, i).T for i in range(4)}
        | {f"value_{i}/kernel": mat(4, 4, i + 0.5).T for i in range(4)},
        [0.974814, -1.997856, 3.038508, 0.465377],
    ),
    ("resi_dual", {}, [-0.103076, -3.130506, 2.292494, 0.941088]),
    ("b2t", {}, [0.035931, -1.540589, 1.248967, 0.255690]),
    ("siamese_norm", {}, [-0.080035, -3.090504, 2.425975, 0.744564]),
    (
        "hyper_connections(streams=2, dynamic=False)",
        connections(),
        [-0.013174, -1.552300, 1.209842, 0.355632],
    ),
    (
        "hyper_connections(streams=2)",
        connections(dynamic=True),
        [0.030775, -1.556389, 1.217206, 0.308408],
    ),
    ("attn_res", readers(4), [-0.388458, -1.086098, 1.626754, -0.152198]),
    (
        "attn_res(block_size=2)",
        readers(4),
        [-1.023558, -0.664053, 0.106464, 1.581148],
    ),
    (
        "attn_res(block_size=3)",
        readers(4),
        [-1.227025, -0.620080, 1.373004, 0.474100],
    ),
    ("delta_attn_res", readers(3), [0.023634, -1.568908, 1.187385, 0.357889]),
    # These are the numbers of the authors' own module as well.
    (
        "dense_former",
        {"alpha_1": np.array([-0.1, 1.1]), "alpha_2": np.array([0.2, -0.3, 1.1])},
        [-0.003306, -1.556484, 1.204674, 0.355115],
    ),
]

# Schemes whose trace is that of the bare stream.
BARE = ["none", "output_gate", "sigmoid_tanh_gate"]


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
        if scheme.final_norm and name not in BARE:
            y = reference.layer_norm(y, EPSILON)
        np.testing.assert_allclose(y[0, 0], expected, rtol=0, atol=1e-6)
