"""What holds for one scheme alone, among those that join by learned matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keras import ops

from residual_keras import residuals

WIDTH = 5


def built(spec, num_sublayers=2):
    scheme = residuals.get(spec, num_sublayers=num_sublayers, dtype="float64")
    scheme.build((None, None, WIDTH))
    return scheme


def numpy(y):
    return ops.convert_to_numpy(y)


# Gates

BIASED = ["gru_gate", "highway", "output_gate", "sigmoid_tanh_gate"]

# The least and the most that a number of the stream x can be after y = ReLU(update).
BOUNDS = {
    "gru_gate": lambda x, y: (-np.maximum(np.abs(x), 1), np.maximum(np.abs(x), 1)),
    "highway": lambda x, y: (np.minimum(x, y), np.maximum(x, y)),
    "input_gate": lambda x, y: (y + np.minimum(x, 0), y + np.maximum(x, 0)),
    "output_gate": lambda x, y: (x, x + y),
    "sigmoid_tanh_gate": lambda x, y: (x - 1, x + 1),
}


@pytest.fixture(scope="module")
def gates():
    return {name: built(name) for name in BOUNDS}


@pytest.mark.parametrize("name", BOUNDS)
@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    values=arrays(float, (2, 2, 3, WIDTH), elements=st.floats(-1e3, 1e3)),
    size=st.floats(0, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_gate_keeps_the_stream_within_bounds(gates, name, values, size, seed):
    draw = np.random.default_rng(seed)
    for weight in gates[name].trainable_weights:
        weight.assign(size * draw.normal(size=weight.shape))
    x, update = values
    new = numpy(gates[name].write(*map(ops.convert_to_tensor, values), 1))
    low, high = BOUNDS[name](x, np.maximum(update, 0))
    rounding = 1e-9
    assert ((low - rounding <= new) & (new <= high + rounding)).all()


@pytest.mark.parametrize("name", BOUNDS)
def test_a_gate_moves_the_stream(gates, name, rng):
    """So that the bounds are not those of a scheme that does nothing."""
    x, update = rng.normal(size=(2, 2, 3, WIDTH))
    new = built(name).write(*map(ops.convert_to_tensor, (x, update)), 1)
    assert np.abs(numpy(new) - x).max() > 0.01


@pytest.mark.parametrize("name", BIASED)
def test_a_large_bias_shuts_the_gate(name, rng):
    """Whatever the matrices, the stream stays as it is."""
    scheme = built(f"{name}(bias=1e6)")
    for weight in scheme.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    x, update = (ops.convert_to_tensor(v) for v in rng.normal(size=(2, 2, 3, WIDTH)))
    for i in range(2):
        np.testing.assert_allclose(numpy(scheme.write(x, update, i)), x, atol=1e-12)


@pytest.mark.parametrize("name", BIASED)
def test_the_default_bias_leaves_the_gate_a_little_open(name, rng):
    """With the gate's matrices at 0 it is sigmoid(-2) for what is let in."""
    scheme = built(name)
    for kernel in scheme.decayed:
        if "value" not in kernel.path:
            kernel.assign(ops.zeros_like(kernel))
    x, update = rng.normal(size=(2, 2, 3, WIDTH))
    y = np.maximum(update, 0)
    value = y @ numpy(scheme.values[1].kernel) if name == "sigmoid_tanh_gate" else None
    full = {  # what an open gate would give
        "gru_gate": np.zeros_like(x),
        "highway": y,
        "output_gate": x + y,
        "sigmoid_tanh_gate": x if value is None else x + np.tanh(value),
    }[name]
    new = numpy(scheme.write(*map(ops.convert_to_tensor, (x, update)), 1))
    np.testing.assert_allclose(new - x, (full - x) / (1 + np.exp(2)), atol=1e-12)


@pytest.mark.parametrize("name", BOUNDS)
def test_every_matrix_is_a_draw_of_its_own(gates, name):
    scheme = built(name)
    draws = [numpy(kernel) for kernel in scheme.decayed]
    for i, one in enumerate(draws):
        assert one.std() > 0.1
        assert not any(np.allclose(one, other) for other in draws[:i])


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("bias", ["'x'", "None", "1e999"])
def test_a_bias_must_be_a_number(name, bias):
    with pytest.raises(ValueError, match="bias must be a finite number. Received: "):
        residuals.get(f"{name}(bias={bias})", num_sublayers=2)


# Attention-residual fusion


def test_identity_fusion_starts_with_identities():
    scheme = residuals.get(
        "attention_residual(fusion_init='identity')", num_sublayers=2
    )
    scheme.build((None, None, 5))
    eye = np.eye(5)
    for project, fuse in zip(scheme.projections, scheme.fusions, strict=True):
        np.testing.assert_array_equal(project.kernel.numpy(), eye)
        np.testing.assert_array_equal(fuse.kernel.numpy(), np.concatenate([eye, eye]))


def test_fusion_of_the_stream_alone_ignores_the_update(reference, rng):
    """F = [I | 0] gives LN(x)."""
    scheme = residuals.get("attention_residual", num_sublayers=2, dtype="float64")
    scheme.build((None, None, 5))
    scheme.fusions[1].kernel.assign(np.eye(10, 5))
    x, *updates = rng.normal(size=(3, 2, 3, 5))
    for update in updates:
        y = scheme.write(ops.convert_to_tensor(x), ops.convert_to_tensor(update), 1)
        expected = reference.layer_norm(x, 1e-6)
        np.testing.assert_allclose(numpy(y), expected, rtol=0, atol=1e-12)
