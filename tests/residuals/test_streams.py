"""What holds for one scheme alone, among those that carry several streams."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, residuals
from residual_keras.residuals.mixing import normed_products, sinkhorn

WIDTH = 7


def built(spec, num_sublayers=6, width=WIDTH, **options):
    options = {"dtype": "float64", "epsilon": 1e-12, **options}
    scheme = residuals.get(spec, num_sublayers=num_sublayers, **options)
    scheme.build((None, None, width))
    return scheme


def shaken(scheme, rng):
    for weight in scheme.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    return scheme


def encoder(residual, **options):
    options = {"rate": 0.0, "dtype": "float64", "epsilon": 1e-12, **options}
    layer = TransformerEncoder(3, 6, 2, ff_dim=11, residual=residual, **options)
    layer.build((None, None, 6))
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


def states(scheme, x, updates):
    """The state before each sublayer, and the last one."""
    found = [scheme.start(ops.convert_to_tensor(x))]
    for i, update in enumerate(updates):
        found.append(scheme.write(found[-1], ops.convert_to_tensor(update), i))
    return found


# How they start.


@pytest.mark.parametrize(
    "asked",
    [
        f"hyper_connections(streams={n}, dynamic={d})"
        for n in (1, 2, 5)
        for d in (True, False)
    ]
    + [f"mhc(streams={n}, init='identity')" for n in (2, 5)],
)
def test_every_stream_is_that_of_pre_ln_at_first(asked, rng):
    x = rng.normal(size=(2, 5, 6))
    n = int(asked.partition("streams=")[2][0])
    for final_norm, factor in ((True, 1), (False, n)):
        one = encoder("pre_ln", final_norm=final_norm)
        other = encoder(asked, final_norm=final_norm)
        for mine, theirs in zip(other.blocks, one.blocks, strict=True):
            mine.set_weights(theirs.get_weights())
        y = factor * numpy(one(x))
        np.testing.assert_allclose(numpy(other(x)), y, rtol=0, atol=1e-9)


def test_mhc_is_close_to_pre_ln_and_would_be_it_without_its_draw(rng):
    x = rng.normal(size=(2, 5, 6))
    one, other = encoder("pre_ln"), encoder("mhc")
    for mine, theirs in zip(other.blocks, one.blocks, strict=True):
        mine.set_weights(theirs.get_weights())
    difference = np.abs(numpy(other(x)) - numpy(one(x))).max()
    assert 0 < difference < 1e-2
    for kernel in other.residual.kernels:
        kernel.assign(ops.zeros_like(kernel))
    np.testing.assert_allclose(numpy(other(x)), numpy(one(x)), rtol=0, atol=1e-9)


def test_identity_is_close_to_one_hot_reads_and_no_mixing(rng):
    scheme = built("mhc(init='identity')")
    banks = ops.convert_to_tensor(rng.normal(size=(2, 3, 4 * WIDTH)))
    for i in range(1, 6):
        share, read, *mix = scheme.by_token(banks, i)
        np.testing.assert_allclose(numpy(share), 1, atol=1e-12)
        np.testing.assert_allclose(numpy(read)[1, 2], np.eye(4)[i % 4], atol=0.01)
        for one in mix:
            np.testing.assert_allclose(numpy(one)[1, 2], np.eye(4), atol=0.03)
        assert bool(mix) == (i < 5)


def test_what_no_gradient_could_reach_is_not_made():
    """The first streams are equal; the last matrix of mHC leaves their sum alone."""
    for spec, shapes in {
        "hyper_connections": {"static": [(4, 5), (4, 6), (4, 6)]},
        "mhc": {"bias": [(4,), (24,), (8,)], "scale": [(1,), (3,), (2,)]},
        "mhc(streams=2)": {"kernel": [(7, 2), (14, 8), (14, 4)]},
    }.items():
        weights = {w.name: w.shape for w in built(spec, num_sublayers=3).weights}
        for name, expected in shapes.items():
            assert [tuple(weights[f"{name}_{i}"]) for i in range(3)] == expected


# What they compute. The equations are in reference.py.


@pytest.mark.parametrize("dynamic", [True, False])
def test_streams_are_mixed(dynamic, rng):
    """Two steps of A, a cyclic shift; the best-known codes returned them unmixed."""
    x, one, two, three = rng.normal(size=(4, 2, 3, WIDTH))
    scheme = built(f"hyper_connections(streams=3, dynamic={dynamic})", 4)
    shift = np.roll(np.eye(3), 1, axis=1)  # stream k to k + 1
    for i, marks in enumerate([[1, 2, 4], [8, 16, 32], [64, 128, 256], [0, 0, 0]]):
        columns = [np.eye(3)[:, :1], shift, np.array(marks)[:, None]]
        scheme.static[i].assign(np.concatenate(columns[i == 0 :], axis=1))
    found = states(scheme, x, [one, two, three])
    expected = x + 2 * one + 32 * two + 64 * three  # by streams 1 and 2 into stream 0

    np.testing.assert_allclose(numpy(found[3][0]), expected, atol=1e-9)


@pytest.mark.parametrize("iterations", [1, 20])
def test_rows_and_columns_of_mhc_sum_to_1(iterations, rng):
    for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        scheme = built(f"mhc(iterations={iterations})", dtype=dtype)
        for weight in scheme.trainable_weights:
            weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
        v = ops.convert_to_tensor(rng.normal(size=(2, 3, 4 * WIDTH)).astype(dtype))
        for i in range(1, 5):
            *_, mix = scheme.by_token(v, i)
            rows, columns = numpy(mix).sum(2), numpy(mix).sum(3)  # it is transposed
            np.testing.assert_allclose(rows, 1, rtol=0, atol=tolerance)
            worst = np.abs(columns - 1).max()
            assert worst < 1e-3 if iterations == 20 else worst > 1e-3
            assert np.abs(numpy(mix) - 1).min() > 0.01  # no matrix of ones
            assert numpy(mix).std(axis=(2, 3)).min() > 0.01  # nor of equal numbers


def test_sinkhorn_is_finite_and_has_a_gradient_at_any_logits(rng):
    import tensorflow as tf

    logits = tf.constant(1e4 * rng.normal(size=(2, 5, 9)), "float32")
    with tf.GradientTape() as tape:
        tape.watch(logits)
        mix = sinkhorn(logits, 3, 20)
        loss = tf.reduce_sum(mix**2)
    np.testing.assert_allclose(numpy(mix).sum(-1), 1, atol=1e-5)
    assert np.isfinite(numpy(tape.gradient(loss, logits))).all()


def test_mixing_leaves_the_mean_of_mhc_alone(rng):
    scheme = built("mhc(iterations=200)")
    for weight in scheme.trainable_weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    x, *updates = rng.normal(size=(7, 2, 3, WIDTH))
    *found, last = states(scheme, x, updates)
    mean = x
    for (_, mixed, share), update in zip(found, updates, strict=True):
        np.testing.assert_allclose(numpy(mixed).mean(-1), mean, rtol=0, atol=1e-9)
        mean = mean + update * numpy(share).mean(-1)[..., None]
    y = numpy(scheme.finish(last))
    np.testing.assert_allclose(y, 4 * mean, rtol=0, atol=1e-8)
    assert numpy(found[-1][1]).std(-1).min() > 1e-3


@pytest.mark.parametrize("asked", ["hyper_connections", "mhc"])
def test_each_token_has_weights_of_its_own(asked, rng):
    scheme = shaken(built(asked), rng)
    x, *updates = rng.normal(size=(4, 1, 2, WIDTH))
    *_, share = states(scheme, x, updates)[-1]
    assert np.abs(numpy(share)[0, 0] - numpy(share)[0, 1]).max() > 0.01
    *_, other = states(scheme, x[:, ::-1], [u[:, ::-1] for u in updates])[-1]
    np.testing.assert_allclose(numpy(other), numpy(share)[:, ::-1])


def test_gated_residual_writes_one_update_with_a_weight_for_each_stream(rng):
    scheme = shaken(built("gated_residual"), rng)
    x, update = rng.normal(size=(2, 2, 3, WIDTH))
    (_, bank, share) = scheme.start(ops.convert_to_tensor(x))
    after = numpy(scheme.write((_, bank, share), ops.convert_to_tensor(update), 0)[1])
    expected = x[:, :, None] + numpy(share) * update[:, :, None]
    np.testing.assert_allclose(after, expected, rtol=0, atol=1e-12)
    assert numpy(share).min() > 0
    assert numpy(share).max() < 2
    assert numpy(share).std(axis=2).min() > 0.01
    assert not scheme.final_norm


@pytest.mark.parametrize(("parts", "width"), [(2, 6), (3, 6), (2, 10)])
def test_parts_of_frac_connections_are_slices(parts, width, reference, rng):
    scheme = shaken(built(f"frac_connections(parts={parts})", 4, width), rng)
    x, *updates = rng.normal(size=(5, 2, 3, width))
    y = numpy(scheme.finish(states(scheme, x, updates)[-1]))
    weights = {w.path.split("/", 1)[1]: w.numpy() for w in scheme.weights}
    sublayers = [lambda u, update=update: update for update in updates]
    expected = reference.frac_connections(x, sublayers, weights, 1e-12)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-9)
    # Part 0 of what is read, its weights one-hot, is that part of the stream.
    scheme.reads[0].assign(np.roll(np.eye(parts), 1, axis=0))
    read = numpy(scheme.start(ops.convert_to_tensor(x))[0])
    size = width // parts
    np.testing.assert_allclose(read[..., :size], x[..., size : 2 * size], atol=1e-12)


@pytest.mark.parametrize(
    ("width", "parts"), [(128, 4), (12, 4), (10, 5), (6, 6), (7, 7), (3, 3)]
)
def test_four_parts_or_as_many_as_fit(width, parts):
    assert built("frac_connections", width=width).shares[0].shape == (parts,)


# Golden traces whose streams start apart, at x + k / 10 in stream k: a sublayer more
# stands in front, whose update is ones.

START = np.array([[[1.0, -2.0, 3.0, 0.5]]])
SLOPE = np.array([1.0, 2.0, 3.0, 4.0]) / 4


def mat(rows, columns, shift):
    p, q = np.indices((rows, columns))
    return 0.3 * np.sin(1 + p * columns + q + shift)


def golden(scheme):
    state = scheme.write(
        scheme.start(ops.convert_to_tensor(START)), ops.ones_like(START), 0
    )
    constants = zip([0.5, -0.25, 0.75, -0.5], [0.1, 0.2, -0.1, 0.3], strict=True)
    for i, (scale, shift) in enumerate(constants, start=1):
        u = numpy(scheme.read(state, i))
        update = scale * np.tanh(np.roll(u, 1, axis=-1)) + shift * SLOPE
        state = scheme.write(state, ops.convert_to_tensor(update), i)
    return numpy(scheme.finish(state))[0, 0]


def test_golden_trace_of_mhc(reference):
    scheme = built("mhc(streams=2)", 5, width=4)
    scheme.scales[0].assign([0.0])
    scheme.biases[0].assign([-50.0, np.log(0.05 / 0.95)])  # 2 sigmoid: 0 and 0.1
    # The trace's kernels take one stream after the other; ours, channel by channel.
    beside = np.arange(8).reshape(2, 4).T.ravel()
    for i in range(4):
        kinds = [(2, i + 0.2), (2, i), (4, i + 0.4)][: 3 if i < 3 else 2]
        kernels = [mat(8, size, shift)[beside] for size, shift in kinds]
        scheme.kernels[i + 1].assign(np.concatenate(kernels, axis=1))
        biases = [mat(1, size, shift)[0] for size, shift in kinds]
        scheme.biases[i + 1].assign(np.concatenate(biases))
        scheme.scales[i + 1].assign(np.full(len(kinds), 0.5))
    y = reference.layer_norm(golden(scheme), 1e-12)
    expected = [0.026129, -1.594363, 1.121492, 0.446742]
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6)


def test_golden_trace_of_gated_residual():
    scheme = built("gated_residual(streams=2, rank=2)", 5, width=4)
    v = np.concatenate([START[0, 0]] * 2) / np.sqrt((START**2).mean())
    logits = np.array([-50.0, np.log(0.05 / 0.95)])
    scheme.shares[0].assign(np.outer(v, logits) * 2 / (v @ v))
    for i in range(5):
        scheme.downs[i + 1].assign(mat(2, 8, i).T)
        scheme.ups[i + 1].assign(mat(8, 2, i + 0.1).T)
        if i < 4:
            scheme.shares[i + 1].assign(mat(2, 8, i + 0.2).T)
    expected = [0.297014, -0.402195, 0.789007, 0.344641]
    np.testing.assert_allclose(golden(scheme), expected, rtol=0, atol=1e-6)


# Training and precision.


def spread(layer, x):
    """How far the streams lie apart before the last write, by their size.

    Before the last but one, where the last finds their sum alone.
    """
    scheme, state, axis = layer.residual, layer.residual.start(x), -1
    if not getattr(scheme, "dynamic", True):
        axis = 0
    sublayers = [f for b in layer.blocks for f in (b.attention, b.feed_forward)]
    for i, f in enumerate(sublayers[:-1]):
        state = scheme.write(state, f(scheme.read(state, i)), i)
        if state[1].shape[axis] > 1:
            bank = numpy(state[1])
    return bank.std(axis).mean() / np.abs(bank).mean()


@pytest.mark.parametrize(
    ("asked", "apart"),
    [
        ("hyper_connections", 1e-2),
        pytest.param("hyper_connections(dynamic=False)", 1e-2, marks=pytest.mark.slow),
        pytest.param("mhc", 5e-4, marks=pytest.mark.slow),  # slowly
        pytest.param("mhc(init='identity')", 1e-2, marks=pytest.mark.slow),
        pytest.param("mhc without its draw", 0, marks=pytest.mark.slow),
    ],
)
def test_training_takes_the_streams_apart(asked, apart, rng):
    layer = encoder(asked.partition(" ")[0], dtype="float32", epsilon=1e-6)
    if not apart:  # why "normal" draws: what is symmetric stays so
        for kernel in layer.residual.kernels:
            kernel.assign(ops.zeros_like(kernel))
    model = keras.Sequential([keras.Input((5, 6)), layer])
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    x, y = rng.normal(size=(2, 16, 5, 6)).astype("float32")
    before = spread(layer, x)
    for _ in range(60):
        model.train_on_batch(x, y)
    after = spread(layer, x)
    print(f"{asked}: streams {before:.1e} apart, after 60 steps {after:.1e}")
    if apart:
        assert after > max(apart, 2 * before)
    else:
        assert max(before, after) < 1e-6


def test_half_precision_bears_large_streams(rng):
    """300 squared is more than float16 holds."""
    bank = 300 * rng.normal(size=(2, 3, WIDTH, 4))
    kernel = ops.convert_to_tensor(rng.normal(size=(WIDTH, 6)).astype("float32"))
    half = normed_products(ops.convert_to_tensor(bank.astype("float16")), kernel, 1e-6)
    single = normed_products(
        ops.convert_to_tensor(bank.astype("float32")), kernel, 1e-6
    )
    assert half.dtype == "float32"
    np.testing.assert_allclose(numpy(half), numpy(single), atol=0.01)
    normed = bank - bank.mean(2, keepdims=True)
    normed = normed / normed.std(2, keepdims=True)
    expected = np.einsum("btdj,dc->btjc", normed, numpy(kernel))
    np.testing.assert_allclose(numpy(single), expected, atol=1e-4)


# Options.


@pytest.mark.parametrize(
    "asked",
    [
        "hyper_connections(streams=0)",
        "hyper_connections(streams=2.0)",
        "hyper_connections(dynamic=1)",
        "frac_connections(parts=1)",
        "mhc(streams=1)",
        "mhc(iterations=0)",
        "mhc(init='zeros')",
        "gated_residual(streams=True)",
        "gated_residual(rank=0)",
    ],
)
def test_options_that_make_no_sense(asked):
    option, _, value = asked.partition("(")[2][:-1].partition("=")
    with pytest.raises(
        ValueError, match=f"{option} must be .*Received: {option}={value}"
    ):
        residuals.get(asked, num_sublayers=2)


def test_parts_must_divide_the_width():
    with pytest.raises(ValueError, match=r"divide the width.*parts=4, width=7"):
        built("frac_connections(parts=4)")
