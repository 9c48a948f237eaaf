"""Self-attention against its equation in NumPy: masks, causality, rotary positions."""

import itertools
import json
import warnings

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from residual_keras import SelfAttention, TransformerBlock, attention_bias
from residual_keras.attention import turn
from residual_keras.dot_product import softmax_product

SIZES = {"odd sizes": (2, 5, 4, 3), "all sizes alike": (3, 3, 3, 3)}  # B, T, H, key_dim
HALF = ["float16", "mixed_float16", "mixed_bfloat16"]


def exact(tensor):
    """A tensor of any precision as a float64 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float64"))


def layer_of(num_heads, key_dim, width, **kwargs):
    """A built float64 layer with every weight, biases too, away from its default."""
    kwargs = {"dtype": "float64", **kwargs}
    layer = SelfAttention(num_heads, key_dim, **kwargs)
    layer.build((None, None, width))
    rng = np.random.default_rng(3)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return layer


def rms_norm(x, norm):
    scale = norm.scale.numpy()
    return scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.epsilon)


def reference(layer, x, allowed, memory=None):
    """softmax(Q K^T / sqrt(key_dim)) V over what is allowed, and all that is asked for.

    Returns what the layer returns: the result, the weights and the memory.
    """
    parts = []
    weights = (np.split(weight.numpy(), 3, axis=-1) for weight in layer.qkv.weights)
    for one, kernel, bias in zip(
        x if type(x) is tuple else 3 * [x], *weights, strict=True
    ):
        part = (one @ kernel + bias).reshape(*one.shape[:2], layer.num_heads, -1)
        parts.append(part.swapaxes(1, 2))
    query, key, value = parts
    if layer.qk_norm:
        query, key = rms_norm(query, layer.query_norm), rms_norm(key, layer.key_norm)
    if layer.rotary:
        query, key = turned(query), turned(key)
    if layer.value_norm:
        value = rms_norm(value, layer.values_norm)
    first, previous = memory or (value, 0)
    if layer.value_residual and memory:
        value = layer.own.numpy() * value + layer.first.numpy() * first
    scores = query @ key.swapaxes(2, 3) / np.sqrt(layer.key_dim)
    if layer.score_residual:
        scores = scores + previous
    weights = np.exp(scores - scores.max(-1, keepdims=True)) * np.expand_dims(
        allowed, 1
    )
    weights = weights / weights.sum(-1, keepdims=True)
    heads = weights @ value
    if layer.head_scale:
        heads = layer.scales.numpy()[:, None, None] * heads
    heads = np.concatenate(heads.swapaxes(0, 1), axis=-1)  # side by side
    if layer.inner_norm == "rms_norm":
        heads = rms_norm(heads, layer.heads_norm)
    kernel, bias = (weight.numpy() for weight in layer.output_dense.weights)
    return heads @ kernel + bias, weights, (first, scores)


def some_masks(batch, time, rng):
    """Padding and attention masks under which each query sees the first token."""
    mask = np.arange(time) < np.arange(time, time - batch, -1)[:, None]
    attention_mask = rng.random((batch, time, time)) < 0.6
    attention_mask[..., 0] = True
    return mask, attention_mask


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("attention_rank", [None, 3, 4])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_masks_against_numpy(sizes, causal, attention_rank, padded, dtype, rng):
    batch, time, heads, key_dim = SIZES[sizes]
    x = rng.normal(size=(batch, time, 7))
    mask, attention_mask = some_masks(batch, time, rng)
    allowed = np.ones((batch, time, time), bool)
    given_masks = {}
    if padded:
        allowed = allowed & mask[:, None, :]
        given_masks["mask"] = mask.astype(dtype)
    if attention_rank:
        allowed = allowed & attention_mask
        given_masks["attention_mask"] = attention_mask.astype(dtype)
        if attention_rank == 4:
            given_masks["attention_mask"] = given_masks["attention_mask"][:, None]
    if causal:
        allowed = allowed & np.tri(time, dtype=bool)

    layer = layer_of(heads, key_dim, 7)
    bias = attention_bias(x, causal=causal, **given_masks)
    y, weights = layer(x, bias, return_attention_scores=True)
    right_y, right_weights, _ = reference(layer, x, allowed)
    np.testing.assert_allclose(y, right_y, atol=1e-10)
    np.testing.assert_allclose(weights, right_weights, atol=1e-12)
    assert (
        np.array(weights)[~np.broadcast_to(allowed[:, None], weights.shape)] == 0
    ).all()

    # A post_ln block's attention reads the block's input, so its scores are the same.
    block = TransformerBlock(
        7, heads, 5, key_dim=key_dim, causal=causal, dtype="float64"
    )
    block.build(x.shape)
    block.attention.set_weights(layer.get_weights())
    _, block_weights = block(x, **given_masks, return_attention_scores=True)
    np.testing.assert_allclose(block_weights, right_weights, atol=1e-12)


def test_one_attention_mask_serves_the_batch(rng):
    x = rng.normal(size=(2, 5, 7))
    past = np.tri(5, dtype=bool)
    layer = layer_of(2, 3, 7)
    right, *_ = reference(layer, x, past[None])
    for one in (past[None], past[None, None]):
        y = layer(x, attention_bias(x, attention_mask=one))
        np.testing.assert_allclose(y, right, atol=1e-10)


def test_nothing_masked_adds_nothing():
    assert attention_bias(np.ones((2, 5, 7))) is None


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (
            {"mask": np.ones((2, 5, 5), bool)},
            r"\(batch, time\).*mask.shape=\(2, 5, 5\)",
        ),
        ({"mask": np.ones(5, bool)}, r"mask.shape=\(5,\)"),
        ({"attention_mask": np.ones((5, 5), bool)}, r"attention_mask.shape=\(5, 5\)"),
        ({"attention_mask": np.ones((2, 4, 5, 5), bool)}, r"shape=\(2, 4, 5, 5\)"),
        ({"mask": np.ones((2, 5), "float32")}, "mask must be boolean.*float32"),
        ({"attention_mask": np.ones((2, 5, 5))}, "attention_mask must be boolean"),
    ],
)
@pytest.mark.parametrize("through_block", [False, True])
def test_masks_that_could_be_misread_are_refused(masks, message, through_block):
    x = np.ones((2, 5, 6), "float32")
    call = TransformerBlock(6, 2, 5) if through_block else attention_bias
    with pytest.raises(ValueError, match=message) as error:
        call(x, **masks)
    assert "Received: " in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", *HALF])
def test_a_query_that_sees_nothing_sees_all_alike(dtype, rng):
    x = rng.normal(size=(2, 5, 6))
    mask = np.array([[True] * 5, [False] * 5])
    layer = layer_of(3, 2, 6, dtype=dtype)
    bias = attention_bias(x, mask=mask, causal=True)
    y, weights = layer(x, bias, return_attention_scores=True)
    assert np.isfinite(exact(y)).all()
    np.testing.assert_allclose(exact(weights)[1], 0.2, atol=1e-3)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_leaves_padding_out_exactly(dtype, rng):
    """Causal and padding masks overlap: two extreme numbers must not be summed."""
    x = rng.normal(size=(3, 7, 6))
    mask = np.arange(7) < np.array([[7], [4], [1]])
    layer = layer_of(3, 2, 6, dtype=dtype)
    y, weights = layer(
        x, attention_bias(x, mask=mask, causal=True), return_attention_scores=True
    )
    assert keras.backend.standardize_dtype(weights.dtype) == layer.compute_dtype
    weights = exact(weights)
    allowed = np.tri(7, dtype=bool) & mask[:, None, None, :]
    assert (weights[~np.broadcast_to(allowed, weights.shape)] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-2)
    assert np.isfinite(exact(y)).all()


def test_half_precision_scores_do_not_overflow(rng):
    """Queries and keys of 1e3 give products beyond float16's 65504."""
    x = 1e3 * rng.normal(size=(2, 5, 6))
    y, weights = layer_of(3, 2, 6, dtype="float16")(x, return_attention_scores=True)
    assert np.isfinite(exact(y)).all()
    np.testing.assert_allclose(exact(weights).sum(-1), 1, atol=1e-2)


def test_init_gains_scale_each_part():
    def kernels(gains):
        keras.utils.set_random_seed(5)
        layer = SelfAttention(2, 3, init_gains=gains)
        layer.build((None, None, 7))
        parts = np.split(layer.qkv.kernel.numpy(), 3, axis=1)
        return [*parts, layer.output_dense.kernel.numpy()]

    gains = {"query": 2.0, "key": 3.0, "value": 0.5, "output": 0.25}
    for plain, gained, gain in zip(
        kernels(None), kernels(gains), gains.values(), strict=True
    ):
        np.testing.assert_allclose(gained, gain * plain, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads must be positive. Received: num_heads=0"),
        ({"key_dim": 0}, "key_dim must be positive. Received: key_dim=0"),
        ({"rate": -0.1}, "Received: rate=-0.1"),
        ({"inner_norm": "layernorm"}, "No norm 'layernorm'. Did you mean 'layer_norm'"),
        ({"key_dim": 3, "rotary": True}, "must be even. Received: key_dim=3"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(**{"num_heads": 2, "key_dim": 4, **arguments})


def test_the_gradient_of_a_softmax_and_its_product(rng, assert_same_gradients):
    scores, value = rng.normal(0, 2, (2, 3, 5, 7)), rng.normal(size=(2, 3, 7, 11))
    scores[0, :, :, 4:] = -1e9
    assert_same_gradients(
        softmax_product,
        lambda scores, value: ops.matmul(ops.softmax(scores), value),
        *map(ops.convert_to_tensor, (scores, value)),
        atol=1e-9,
    )
    keep = ops.convert_to_tensor(rng.integers(0, 2, scores.shape) / 0.5)
    assert_same_gradients(
        lambda scores, value: softmax_product(scores, value, keep),
        lambda scores, value: ops.matmul(ops.softmax(scores) * keep, value),
        *map(ops.convert_to_tensor, (scores, value)),
        atol=1e-9,
    )


def test_dropout_of_the_weights_keeps_their_mean(rng):
    """Over many draws, each text's its own."""
    x = np.repeat(rng.normal(size=(1, 5, 6)), 4000, axis=0)
    layer = layer_of(3, 2, 6, rate=0.3)
    plain, dropped = layer(x).numpy()[0], layer(x, training=True).numpy()
    np.testing.assert_allclose(dropped.mean(0), plain, atol=0.1 * plain.std())
    assert dropped.std(0).min() > 0.01 * plain.std()


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_weights_that_are_asked_for_change_nothing(dtype, rng):
    """Nor does a rate of dropout, outside training."""
    x = rng.normal(size=(2, 3, 8)).astype("float32")
    layers = [SelfAttention(2, 4, rate, dtype=dtype) for rate in (0.0, 0.5)]
    for layer in layers:
        layer.build(x.shape)
        layer.set_weights(layers[0].get_weights())
    y = ops.cast(layers[0](x), "float32")
    for layer in layers:
        other, _ = layer(x, return_attention_scores=True)
        np.testing.assert_allclose(ops.cast(other, "float32"), y, atol=1e-6)
        np.testing.assert_allclose(ops.cast(layer(x), "float32"), y, atol=1e-6)


def test_returned_weights_are_those_before_dropout(rng):
    x = rng.normal(size=(2, 5, 6))
    plain, dropped = layer_of(3, 2, 6), layer_of(3, 2, 6, rate=1.0)
    _, right = plain(x, return_attention_scores=True)
    y, weights = dropped(x, training=True, return_attention_scores=True)
    np.testing.assert_allclose(weights, right, atol=1e-12)
    bias = dropped.output_dense.bias.numpy()
    np.testing.assert_allclose(y, np.broadcast_to(bias, y.shape), atol=1e-12)


@pytest.mark.parametrize("rotary", [False, True])
def test_a_lone_token_sees_itself_without_a_warning(rotary, rng):
    layer = layer_of(3, 2, 6, rotary=rotary)
    x = rng.normal(size=(2, 1, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bias = attention_bias(x, mask=np.ones((2, 1), bool), causal=True)
        y, weights = layer(x, bias, return_attention_scores=True)
    np.testing.assert_array_equal(weights, np.ones((2, 3, 1, 1)))
    np.testing.assert_allclose(
        y, reference(layer, x, np.ones((2, 1, 1)))[0], atol=1e-12
    )


# What can be asked for beside.

ASKED = {
    "rotary": {"rotary": True},
    "qk_norm": {"qk_norm": True},
    "value_norm": {"value_norm": True},
    "value_residual": {"value_residual": True},
    "score_residual": {"score_residual": True},
    "head_scale": {"head_scale": True},
    "inner_norm": {"inner_norm": "rms_norm"},
}
ASKED["all"] = {name: value for one in ASKED.values() for name, value in one.items()}
NEEDS_MEMORY = {"value_residual", "score_residual"}


@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("three", [False, True])
@pytest.mark.parametrize("asked", ASKED)
def test_what_is_asked_for_against_numpy(asked, three, remembers, rng):
    x = rng.normal(size=(2, 5, 7))
    x = (x, *rng.normal(size=(2, 2, 5, 7))) if three else x
    memory = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 3, 5, 5))
    memory = memory if remembers else None
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    layer = layer_of(3, 4, 7, epsilon=0.1, **ASKED[asked])
    bias = attention_bias(mask, mask, causal=True)
    y, weights, passed_on = layer(
        x, bias, memory, return_attention_scores=True, return_memory=True
    )
    allowed = np.tri(5, dtype=bool) & mask[:, None]
    right_y, right_weights, right_memory = reference(layer, x, allowed, memory)
    atol = 1e-6 if layer.rotary else 1e-12  # angles are float32
    np.testing.assert_allclose(y, right_y, atol=atol)
    np.testing.assert_allclose(weights, right_weights, atol=atol)
    wanted = layer.value_residual or not remembers, layer.score_residual
    for one, right, want in zip(passed_on, right_memory, wanted, strict=True):
        assert (one is not None) == want, "else a stack would have to keep it"
        if want:
            np.testing.assert_allclose(one, right, atol=atol)

    plain = layer_of(3, 4, 7)
    for weight in ("qkv", "output_dense"):
        getattr(plain, weight).set_weights(getattr(layer, weight).get_weights())
    apart = np.abs(np.array(plain(x, bias)) - right_y).max()
    assert (apart > 1e-2) == (remembers or asked not in NEEDS_MEMORY)


def test_scores_are_passed_on_without_the_mask(rng):
    """A mask is added once, however many blocks pass the scores on."""
    x = rng.normal(size=(2, 5, 7))
    layer = layer_of(3, 4, 7, score_residual=True)
    bias = attention_bias(x, causal=True)
    memory = right = None
    allowed = np.tri(5)[None]
    for _ in range(5):
        y, memory = layer(x, bias, memory, return_memory=True)
        right_y, _, right = reference(layer, x, allowed, right)
        np.testing.assert_allclose(y, right_y, atol=1e-12)
        assert np.abs(memory[1]).max() < 1e3


def test_three_inputs_that_are_one(rng):
    x = rng.normal(size=(2, 5, 7)).astype("float32")
    layer = layer_of(3, 4, 7, dtype="mixed_float16")
    y = layer((x, x, x))
    assert keras.backend.standardize_dtype(y.dtype) == "float16"
    np.testing.assert_allclose(exact(y), exact(layer(x)), atol=1e-2)


def test_three_inputs_in_a_model(rng):
    """The layer is built by them, and the mask that goes on is that of the queries."""
    inputs = [keras.Input((None, 7)) for _ in range(3)]
    layer = SelfAttention(3, 4, **ASKED["all"])
    y, weights, memory = layer(
        tuple(inputs), return_attention_scores=True, return_memory=True
    )
    assert (y.shape, weights.shape) == ((None, None, 7), (None, 3, None, None))
    assert [one.shape for one in memory] == [(None, 3, None, 4), (None, 3, None, None)]
    x = [rng.normal(size=(2, 5, 7)).astype("float32") for _ in range(3)]
    model = keras.Model(inputs, [y, *memory])
    for one, other in zip(
        model(x),
        (layer(tuple(x)), *layer(tuple(x), return_memory=True)[1]),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)
    embed = keras.layers.Embedding(9, 7, mask_zero=True)
    ids = np.array([[3, 4, 0]])
    y = layer((embed(ids), embed(ids + 1), embed(ids)))
    np.testing.assert_array_equal(y._keras_mask, ids != 0)


def test_config_round_trip(rng):
    x = rng.normal(size=(2, 5, 7))
    changed = {**ASKED["all"], "epsilon": 0.1, "rate": 0.3}
    layer = layer_of(3, 4, 7, **changed)
    config = json.loads(json.dumps(layer.get_config()))
    again = SelfAttention.from_config(config)
    assert again.get_config() == layer.get_config()
    assert changed.items() <= config.items()
    again.build(x.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(x), layer(x), atol=1e-12)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_keeps_scores_that_are_passed_on(dtype, rng):
    """Beyond float16's 65504, and masked: nothing turns to infinity."""
    x = 1e3 * rng.normal(size=(2, 5, 6))
    layer = layer_of(3, 2, 6, dtype=dtype, score_residual=True, value_residual=True)
    bias = attention_bias(x, mask=np.zeros((2, 5), bool), causal=True)
    memory = None
    for _ in range(3):
        y, weights, memory = layer(
            x, bias, memory, return_attention_scores=True, return_memory=True
        )
        assert keras.backend.standardize_dtype(memory[1].dtype) == "float32"
        assert np.isfinite(exact(y)).all()
        np.testing.assert_allclose(exact(weights).sum(-1), 1, atol=1e-2)


def test_scores_of_normed_queries_and_keys_are_bounded(rng):
    """By sqrt(key_dim), at gains of 1, whatever the size of x."""
    layer = SelfAttention(2, 4, qk_norm=True, score_residual=True)
    _, (_, scores) = layer(1e4 * rng.normal(size=(2, 5, 7)), return_memory=True)
    assert 1 < np.abs(scores).max() <= 2 + 1e-5


# Causality.


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("return_scores", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("rate", "training"), [(0.0, False), (0.1, False), (0.1, True)]
)
def test_causal_block_never_sees_the_future(
    rate, training, padded, return_scores, rotary, rng
):
    time = 6
    x = rng.normal(size=(2, time, 8)).astype("float32")
    changed = x.copy()
    changed[:, -1] += 3
    mask = np.array([[True] * time, [False] + [True] * (time - 1)]) if padded else None

    def run(x):
        keras.utils.set_random_seed(5)  # the same weights, and the same draws
        block = TransformerBlock(
            8, 2, 7, rate, attention_rate=rate, ff_rate=rate, causal=True, rotary=rotary
        )
        y = block(
            x, mask=mask, training=training, return_attention_scores=return_scores
        )
        return np.array(y[0] if return_scores else y)

    y, y_changed = run(x), run(changed)
    # A padded first token sees nothing but padding, so all alike; nothing reads it.
    first = 1 if padded else 0
    np.testing.assert_allclose(
        y_changed[:, first:-1], y[:, first:-1], rtol=0, atol=1e-6
    )
    assert np.abs(y_changed[:, -1] - y[:, -1]).max() > 1e-2


def test_without_causal_the_future_is_seen(rng):
    x = rng.normal(size=(1, 6, 8)).astype("float32")
    changed = x.copy()
    changed[:, -1] += 3
    block = TransformerBlock(8, 2, 7)
    assert np.abs(np.array(block(changed) - block(x)))[:, :-1].max() > 1e-3


# Rotary positions.


def turned(x, wavelength=10_000.0):
    """Pairs as complex numbers, turned by t w^(-2j/d)."""
    half = x.shape[-1] // 2
    speed = wavelength ** (-2 * np.arange(half) / x.shape[-1])
    angle = np.arange(x.shape[-2])[:, None] * speed
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([pairs.real, pairs.imag], axis=-1)


@pytest.mark.parametrize("wavelength", [10_000.0, 50.0])
@pytest.mark.parametrize("key_dim", [2, 6])
def test_turn_against_complex_numbers(key_dim, wavelength, rng):
    x = rng.normal(size=(2, 3, 11, key_dim))
    np.testing.assert_allclose(
        turn(x, wavelength), turned(x, wavelength), atol=1e-5, rtol=0
    )


def test_rotary_attention_against_numpy(rng):
    x = rng.normal(size=(2, 5, 7))
    layer = layer_of(1, 4, 7, rotary=True)
    _, weights = layer(x, return_attention_scores=True)
    kernel, bias = (weight.numpy() for weight in layer.qkv.weights)
    query, key, _ = np.split(x @ kernel + bias, 3, axis=-1)
    scores = turned(query) @ turned(key).transpose(0, 2, 1) / 2
    right = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.array(weights)[:, 0], right, atol=1e-5)


@given(shift=st.integers(0, 7), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_a_turned_product_depends_on_the_distance_alone(shift, seed):
    rng = np.random.default_rng(seed)
    query, key = (np.tile(rng.normal(size=6), (1, 1, 12, 1)) for _ in range(2))
    scores = np.array(turn(query))[0, 0] @ np.array(turn(key))[0, 0].T
    end = 12 - shift
    np.testing.assert_allclose(scores[shift:, shift:], scores[:end, :end], atol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(turn(query), axis=-1), np.linalg.norm(query, axis=-1), atol=1e-5
    )


def test_without_positions_attention_is_blind_to_order(rng):
    x = rng.normal(size=(1, 5, 6))
    for rotary in (False, True):
        layer = layer_of(1, 2, 6, rotary=rotary)
        moved = np.abs(np.array(layer(x))[:, ::-1] - np.array(layer(x[:, ::-1])))
        assert (moved.max() > 1e-3) == rotary


# Anything goes.


@given(data=st.data(), causal=st.booleans())
@settings(max_examples=30, deadline=None)
def test_what_is_hidden_never_changes_a_result(data, causal):
    """Rows sum to 1, hidden weights are 0, and hidden content is not read."""
    batch, time = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 5))
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    mask = rng.random((batch, time)) < 0.7
    attention_mask = rng.random((batch, time, time)) < 0.7
    x = rng.normal(size=(batch, time, 4))
    layer = layer_of(2, 2, 4)
    bias = attention_bias(x, mask, attention_mask, causal)
    y, weights = layer(x, bias, return_attention_scores=True)
    y, weights = np.array(y), np.array(weights)
    assert np.isfinite(y).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-9)

    allowed = attention_mask & mask[:, None, :]
    if causal:
        allowed = allowed & np.tri(time, dtype=bool)
    sees = allowed.any(-1)  # (batch, time): a query with at least one key
    hidden = np.broadcast_to((~allowed & sees[..., None])[:, None], weights.shape)
    assert (weights[hidden] == 0).all()

    changed = np.where(mask[..., None], x, x + 9)
    y_changed = np.array(layer(changed, bias))
    kept = sees & mask
    np.testing.assert_allclose(y_changed[kept], y[kept], atol=1e-9)


def test_weights_are_there_before_the_first_call():
    layer = SelfAttention(2, 3)
    layer.build((None, None, 7))
    before = [weight.path for weight in layer.weights]
    layer(ops.ones((2, 5, 7)))
    assert [weight.path for weight in layer.weights] == before


def test_the_masks_may_differ_in_dtype():
    x = np.ones((2, 5, 7))
    mask, attention_mask = some_masks(2, 5, np.random.default_rng(1))
    biases = [
        np.array(attention_bias(x, mask.astype(one), attention_mask.astype(other)))
        for one, other in itertools.product(["bool", "int32"], repeat=2)
    ]
    for bias in biases[1:]:
        np.testing.assert_array_equal(bias, biases[0])
