"""What must hold for the schemes that turn the stream."""

import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, residuals


def scheme(spec, n=4, width=7, dtype="float64", **options):
    made = residuals.get(spec, num_sublayers=n, dtype=dtype, **options)
    made.build((None, None, width))
    return made


def shaken(layer, rng):
    for weight in layer.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


def draws(rng, *shape):
    return (ops.convert_to_tensor(rng.normal(size=shape)) for _ in range(2))


def written(made, x, y, i=1):
    """The stream after sublayer i gave y."""
    return numpy(made.finish(made.write((x, made.norms[i](x)), y, i)))


@pytest.mark.parametrize("spec", ["delta(beta=2.5)", "delta(beta=0)", "delta(beta=2)"])
def test_the_share_is_between_identity_and_reflection(spec):
    with pytest.raises(ValueError, match="beta must be between 0 and 2.*Received: b"):
        residuals.get(spec, num_sublayers=2)


@pytest.mark.parametrize("spec", ["ngpt_lerp(alpha=0)", "ngpt_lerp(alpha='1')"])
def test_the_step_is_positive(spec):
    with pytest.raises(ValueError, match="alpha must be .*Received: alpha="):
        residuals.get(spec, num_sublayers=2)


# delta


@pytest.mark.parametrize("beta", [0.2, 1.0, 1.7])
def test_delta_replaces_what_lies_along_the_update(beta, rng):
    """At first k^T x' = (1 - b) k^T x + 2 b, and the rest of x stays."""
    made = scheme(f"delta(beta={beta})", epsilon=1e-12)
    x, y = draws(rng, 2, 3, 7)
    after = written(made, x, y)
    x, k = numpy(x), numpy(y) / np.linalg.norm(y, axis=-1, keepdims=True)
    along, along_after = (k * x).sum(-1), (k * after).sum(-1)
    # The bias that b starts from is rounded to float32.
    np.testing.assert_allclose(along_after, (1 - beta) * along + 2 * beta, atol=1e-6)
    rest, rest_after = x - along[..., None] * k, after - along_after[..., None] * k
    np.testing.assert_allclose(rest_after, rest, atol=1e-10)


def test_delta_between_identity_and_reflection(rng):
    made = shaken(scheme("delta", epsilon=1e-12), rng)
    x, y = draws(rng, 2, 3, 7)
    k = numpy(y) / np.linalg.norm(y, axis=-1, keepdims=True)
    made.value_bias.assign(np.full(4, -1e3))  # v = 0
    made.share_bias.assign(np.full(4, -1e3))  # b = 0
    np.testing.assert_allclose(written(made, x, y), x, atol=1e-12)
    made.share_bias.assign(np.full(4, 1e3))  # b = 2
    mirrored = numpy(x) - 2 * (k * numpy(x)).sum(-1, keepdims=True) * k
    np.testing.assert_allclose(written(made, x, y), mirrored, atol=1e-10)
    np.testing.assert_allclose(
        np.linalg.norm(mirrored, axis=-1), np.linalg.norm(x, axis=-1)
    )


def test_delta_ignores_the_size_of_an_update(rng):
    made = shaken(scheme("delta", epsilon=1e-12), rng)
    x, y = draws(rng, 2, 3, 7)
    np.testing.assert_allclose(written(made, x, 9 * y), written(made, x, y), atol=1e-10)


def test_delta_normalises_once_for_read_and_write(rng, monkeypatch):
    made = scheme("delta")
    calls = []
    for norm in made.norms:
        monkeypatch.setattr(norm, "call", lambda x, norm=norm: calls.append(norm) or x)
    state = made.start(ops.convert_to_tensor(rng.normal(size=(2, 3, 7))))
    for i in range(4):
        state = made.write(state, made.read(state, i), i)
    assert calls == list(made.norms)


@pytest.mark.parametrize("spec", ["delta", "ngpt_lerp"])
@pytest.mark.parametrize("dtype", ["float64", "mixed_float16"])
def test_an_update_dropped_to_zero_does_no_harm(spec, dtype, rng):
    import tensorflow as tf

    made = shaken(scheme(spec, dtype=dtype), rng)
    x = ops.cast(rng.normal(size=(2, 3, 7)), made.compute_dtype)
    y = tf.Variable(ops.zeros_like(x))
    with tf.GradientTape() as tape:
        state = made.write(made.start(x), y, 0)
        after = made.finish(state)
        # At y = 0 the gradient is 1/sqrt(epsilon) = 1000 times that of the direction:
        # in float16 that is the loss scale's to make room for.
        loss = ops.sum(ops.cast(after, "float64") ** 3) / 1000
    variables = [y, *(w.value for w in made.trainable_weights)]
    gradients = [g for g in tape.gradient(loss, variables) if g is not None]
    assert all(np.isfinite(numpy(g)).all() for g in gradients)
    if spec == "delta":
        np.testing.assert_array_equal(numpy(after), numpy(x))
    else:  # towards zero, and back on the sphere
        size = np.linalg.norm(numpy(after).astype("float64"), axis=-1)
        np.testing.assert_allclose(size, 1, atol=2e-3)


# ngpt_lerp


def test_every_token_stays_on_the_unit_sphere(rng):
    layer = TransformerEncoder(
        3,
        7,
        num_heads=3,
        key_dim=5,
        ff_dim=11,
        residual="ngpt_lerp",
        epsilon=1e-12,
        dtype="float64",
    )
    layer.build((None, None, 7))
    shaken(layer, rng)
    x = rng.normal(size=(2, 5, 7))
    size = np.linalg.norm(numpy(layer(x)), axis=-1)
    np.testing.assert_allclose(size, 1, atol=1e-9)
    state = layer.residual.start(ops.convert_to_tensor(x))
    np.testing.assert_allclose(np.linalg.norm(state, axis=-1), 1, atol=1e-9)


def test_the_step_starts_at_alpha_whatever_the_width(rng):
    for width in (3, 50):
        made = scheme("ngpt_lerp(alpha=0.3)", width=width, epsilon=1e-12)
        np.testing.assert_allclose(made.alphas[0].numpy(), width**-0.5, rtol=1e-6)
        x, y = draws(rng, 2, 3, width)
        x = made.start(x)
        toward = numpy(y) / np.linalg.norm(y, axis=-1, keepdims=True)
        moved = 0.7 * numpy(x) + 0.3 * toward
        moved /= np.linalg.norm(moved, axis=-1, keepdims=True)
        np.testing.assert_allclose(numpy(made.write(x, y, 0)), moved, atol=1e-6)


def test_the_sign_of_a_step_does_not_count(rng):
    made = scheme("ngpt_lerp")
    x, y = draws(rng, 2, 3, 7)
    before = numpy(made.write(x, y, 2))
    made.alphas[2].assign(-made.alphas[2])
    np.testing.assert_array_equal(numpy(made.write(x, y, 2)), before)


def test_stacked_by_hand_the_unit_sphere_is_entered_once(rng):
    """A token that is on it is not moved by another start."""
    made = scheme("ngpt_lerp", epsilon=1e-12)
    x = made.start(ops.convert_to_tensor(rng.normal(size=(2, 3, 7))))
    np.testing.assert_allclose(numpy(made.start(x)), numpy(x), atol=1e-10)
