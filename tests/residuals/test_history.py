"""What must hold for the schemes that mix what was written before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from residual_keras import TransformerBlock, residuals
from residual_keras.residuals import sources

WIDTH = 7
EPSILON = 1e-12


def built(spec, num_sublayers, width=WIDTH, **options):
    options = {"dtype": "float64", "epsilon": EPSILON, **options}
    scheme = residuals.get(spec, num_sublayers=num_sublayers, **options)
    scheme.build((None, None, width))
    return scheme


def shaken(scheme, rng):
    for weight in scheme.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    return scheme


def carry(scheme, x, updates):
    """What each sublayer reads, whatever it then gives, and what the stack returns."""
    state, inputs = scheme.start(ops.convert_to_tensor(x)), []
    for i, update in enumerate(updates):
        read = scheme.read(state, i)
        inputs.append(tuple(map(numpy, read)) if isinstance(read, tuple) else read)
        state = scheme.write(state, ops.convert_to_tensor(update), i)
    return inputs, numpy(scheme.finish(state))


def numpy(y):
    return ops.convert_to_numpy(y)


def sums(x, updates):
    """The stream of `pre_ln`, at the input of every sublayer and at the end."""
    return np.cumsum([x, *updates], axis=0)


# Attention along depth


@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 4, 5, 11, 12, 100])
def test_attn_res_starts_as_pre_ln(block_size, reference, rng):
    """The mean of the sources is the stream, but for the number of them."""
    n = 11
    x, *updates = rng.normal(size=(n + 1, 2, 3, WIDTH))
    scheme = built(f"attn_res(block_size={block_size})", n)
    inputs, y = carry(scheme, x, updates)
    size = block_size or 1
    streams = sums(x, updates)
    for i, (read, stream) in enumerate(zip(inputs, streams, strict=False)):
        expected = reference.layer_norm(stream, EPSILON)
        np.testing.assert_allclose(numpy(read), expected, rtol=0, atol=1e-9, err_msg=i)
    assert scheme.final_norm
    # v_0, and a source for each block, the last of which may be incomplete
    sources = (n - 1) // size + 2
    np.testing.assert_allclose(y * sources, streams[-1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("block_size", [None, 1, 2, 3, 5, 100])
def test_number_of_sources_of_each_reader(block_size, rng):
    """At w = 0 it is what the mean must be multiplied by to be the sum."""
    n = 7
    scheme = built(f"attn_res(block_size={block_size})", n)
    x, *updates = rng.normal(size=(n + 1, 1, 1, WIDTH))
    state, size = scheme.start(ops.convert_to_tensor(x)), block_size or 1
    for i, stream in enumerate(sums(x, updates)[:-1]):
        expected = i // size + 1 + (i % size > 0)
        mean = numpy(scheme.mean(state, i))
        np.testing.assert_allclose(mean * expected, stream, rtol=0, atol=1e-12)
        state = scheme.write(state, ops.convert_to_tensor(updates[i]), i)


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_delta_attn_res_starts_as_pre_ln(scale, reference, rng):
    n = 11
    x, *updates = rng.normal(size=(n + 1, 2, 3, WIDTH))
    scheme = built("delta_attn_res", n)
    for query in scheme.queries:
        query.assign(scale * rng.normal(size=WIDTH))
    inputs, y = carry(scheme, x, updates)
    streams = sums(x, updates)
    far = [
        np.abs(numpy(read) - reference.layer_norm(stream, EPSILON)).max()
        for read, stream in zip(inputs, streams, strict=False)
    ]
    assert far[0] < 1e-9  # one source, whatever the queries
    assert (max(far) < 1e-9) == (scale == 0)
    np.testing.assert_allclose(y, streams[-1], rtol=0, atol=1e-12)  # no last read


def test_a_block_of_all_sublayers_is_not_pre_ln(reference, rng):
    """The input stays a source of its own, weighed against the sum of updates."""
    n = 5
    x, *updates = rng.normal(size=(n + 1, 2, 3, WIDTH))
    _, y = carry(shaken(built("attn_res(block_size=5)", n), rng), x, updates)
    stream = sums(x, updates)[-1]
    normed = [reference.layer_norm(z, EPSILON) for z in (y, stream)]
    assert np.abs(normed[0] - normed[1]).max() > 0.1
    share = (2 * y - stream) / (2 * x - stream)  # y = a x + (1 - a) (stream - x)
    np.testing.assert_allclose(share, share[..., :1].repeat(WIDTH, -1), atol=1e-6)
    assert (np.abs(share) < 1).all()


@settings(deadline=None, max_examples=30)
@given(
    queries=st.lists(
        st.lists(st.floats(-1e3, 1e3), min_size=12, max_size=12),
        min_size=11,
        max_size=11,
    )
)
def test_a_reader_takes_a_mean_of_its_sources(queries):
    """Of sources that are unit vectors it shows the weights: none below 0, 1 in all."""
    scheme = built("attn_res", 11, width=12)
    for query, value in zip(scheme.queries, queries, strict=True):
        query.assign(value)
    x, *updates = ops.convert_to_tensor(np.eye(12)[:, None, None])
    state = scheme.start(x)
    for i, update in enumerate(updates):
        state = scheme.write(state, update, i)
        weights = numpy(scheme.mean(state, i + 1))[0, 0]
        assert (weights >= 0).all() and (weights[i + 2 :] == 0).all()
        assert weights.sum() == pytest.approx(1, abs=1e-9)
        # No 1/sqrt(d): of unit vectors the logits are sqrt(d) w, as RMS sees to it.
        scores = np.sqrt(12) * np.array(queries[i])[: i + 2]
        expected = np.exp(scores - scores.max())
        np.testing.assert_allclose(
            weights[: i + 2], expected / expected.sum(), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("spec", ["attn_res", "delta_attn_res"])
@pytest.mark.parametrize("group", [1, 2, 3, 5, 13, 100])
def test_how_readers_are_grouped_changes_nothing(spec, group, rng, monkeypatch):
    n = 13
    x, *updates = rng.normal(size=(n + 1, 2, 3, WIDTH))
    scheme = shaken(built(spec, n), rng)
    expected, y = carry(scheme, x, updates)
    monkeypatch.setattr(sources, "GROUP", group)
    inputs, z = carry(scheme, x, updates)
    for one, two in zip([*inputs, z], [*expected, y], strict=True):
        np.testing.assert_allclose(numpy(one), numpy(two), rtol=0, atol=1e-9)


def test_weights_along_depth_are_exact_in_half_precision(rng):
    """Values of 300 have squares that float16 cannot hold, nor their logits' sizes."""
    x, *updates = 300 * rng.normal(size=(6, 2, 3, WIDTH))
    half, single = (
        built("attn_res(block_size=2)", 5, dtype=dtype, epsilon=1e-6)
        for dtype in ("mixed_float16", "float32")
    )
    shaken(single, rng)
    half.set_weights(single.get_weights())
    kept = [z.astype(np.float16) for z in (x, *updates)]
    state = half.start(ops.convert_to_tensor(kept[0]))
    for i, update in enumerate(kept[1:]):
        state = half.write(state, ops.convert_to_tensor(update), i)
    y = half.finish(state)
    _, expected = carry(single, *(z.astype(np.float32) for z in (x, np.stack(updates))))
    assert str(y.dtype.name) == "float16"
    np.testing.assert_allclose(numpy(y), expected, rtol=0, atol=2)


@pytest.mark.parametrize("spec", ["attn_res", "attn_res(block_size=2)", "dense_former"])
def test_a_state_may_be_written_to_twice(spec, rng):
    """Nothing is kept outside of it, and nothing in it changes."""
    scheme = shaken(built(spec, 5), rng)
    x, *updates = ops.convert_to_tensor(rng.normal(size=(4, 2, 3, WIDTH)))
    before = scheme.start(x)
    for i, update in enumerate(updates):
        read = numpy(scheme.read(before, i))
        scheme.read(scheme.write(before, 9 * update, i), i + 1)
        np.testing.assert_array_equal(numpy(scheme.read(before, i)), read)
        before = scheme.write(before, update, i)


@pytest.mark.parametrize("spec", ["attn_res", "delta_attn_res", "dense_former"])
def test_one_joined_sublayer_is_enough(spec, rng):
    """A block with parallel=True; what has one source gets no query."""
    block = TransformerBlock(6, 2, 7, residual=spec, parallel=True)
    assert np.isfinite(numpy(block(rng.normal(size=(2, 3, 6))))).all()
    queries = [w for w in block.weights if "query" in w.path.split("/")[-1]]
    assert len(queries) == (spec == "attn_res")


@pytest.mark.parametrize("block_size", [0, -1, 2.0, "'a'", True])
def test_a_block_size_is_a_number_of_sublayers(block_size):
    with pytest.raises(ValueError, match="block_size must be .*Received: block_size="):
        residuals.get(f"attn_res(block_size={block_size})", num_sublayers=4)


# Sums over blocks


@pytest.mark.parametrize("dilation", [1, 2, 3, 4, 11])
@pytest.mark.parametrize("period", [1, 2, 3, 5, 11])
def test_dense_former_starts_as_pre_ln(dilation, period, reference, rng):
    n = 14
    x, *updates = rng.normal(size=(n + 1, 2, 3, WIDTH))
    scheme = built(f"dense_former(dilation={dilation}, period={period})", n)
    inputs, y = carry(scheme, x, updates)
    streams = sums(x, updates)
    for read, stream in zip(inputs, streams, strict=False):
        expected = reference.layer_norm(stream, EPSILON)
        np.testing.assert_allclose(numpy(read), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(y, streams[-1], rtol=0, atol=1e-12)
    # floor(k / dilation) + 1 weights after every block whose number k fits
    numbers = {f"alpha_{k}": k // dilation + 1 for k in range(1, 8) if k % period == 0}
    assert {a.name: a.shape[0] for a in scheme.alphas} == numbers


def test_dense_former_takes_blocks_at_its_distance(rng):
    """Number 5 takes X_1, X_3 and X_5, as the blocks gave them."""
    scheme = shaken(built("dense_former(dilation=2, period=5)", 10), rng)
    x, *updates = rng.normal(size=(11, 2, 3, WIDTH))
    _, y = carry(scheme, x, updates)
    (alpha,) = (numpy(a) for a in scheme.alphas)
    blocks = sums(x, updates)[::2]
    expected = alpha[0] * blocks[1] + alpha[1] * blocks[3] + alpha[2] * blocks[5]
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)


def test_dense_former_keeps_what_blocks_gave_before_it_was_averaged(rng):
    """Kept after it, block 2 would take alpha_1's sum in the place of X_1."""
    scheme = shaken(built("dense_former", 4), rng)
    x, *updates = rng.normal(size=(5, 2, 3, WIDTH))
    _, y = carry(scheme, x, updates)
    one, two = (numpy(a) for a in scheme.alphas)
    first = x + updates[0] + updates[1]
    averaged = one[0] * x + one[1] * first
    second = averaged + updates[2] + updates[3]
    right, wrong = (
        two @ np.stack([x, z, second]).reshape(3, -1) for z in (first, averaged)
    )
    np.testing.assert_allclose(y.ravel(), right, rtol=0, atol=1e-12)
    assert np.abs(y.ravel() - wrong).max() > 0.1


@pytest.mark.parametrize("option", ["dilation", "period"])
@pytest.mark.parametrize("value", [0, -1, 1.5, None])
def test_distances_are_numbers_of_blocks(option, value):
    with pytest.raises(ValueError, match=f"{option} must be .*: {option}={value}"):
        residuals.get(f"dense_former({option}={value})", num_sublayers=4)


def test_mudd_gives_attention_three_inputs_from_the_second_block_on(rng):
    scheme = shaken(built("mudd", 6), rng)
    x, *updates = rng.normal(size=(7, 2, 3, WIDTH))
    inputs, _ = carry(scheme, x, updates)
    assert [isinstance(read, tuple) for read in inputs] == [0, 0, 1, 0, 1, 0]
    query, key, value = inputs[2]
    assert min(np.abs(a - b).max() for a, b in [(query, key), (key, value)]) > 0.1
    with pytest.raises(ValueError, match="per_block=1"):
        residuals.get("mudd", num_sublayers=2, per_block=1)


def test_mudd_sums_by_static_weights_where_nothing_is_dynamic(rng):
    """Each token and each of the four sums has its own; the stream takes the last."""
    scheme = built("mudd", 6)
    for static in scheme.static:
        static.assign(static + rng.normal(size=static.shape))
    x, *updates = rng.normal(size=(7, 2, 3, WIDTH))
    _, y = carry(scheme, x, updates)
    stream, blocks = x, [x]
    for k, static in enumerate(map(numpy, scheme.static)):
        blocks.append(stream + updates[2 * k] + updates[2 * k + 1])
        stream = np.einsum("j,jbtd->btd", static[-1], np.stack(blocks))
    assert [static.shape[0] for static in scheme.static] == [4, 4, 1]
    np.testing.assert_allclose(y, stream, rtol=0, atol=1e-12)
