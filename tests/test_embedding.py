"""Ids -> vectors: tokens, unknown ids, masks, word dropout, the class token."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras import ClassToken, TokenAndPositionEmbedding, WordDropout
from residual_keras.embedding import POSITIONS

INT32 = np.iinfo("int32")
UNKNOWN = [7, 10_000, -1, -7, INT32.min, INT32.max]  # of a vocabulary of 7


@pytest.fixture
def embed():
    layer = TokenAndPositionEmbedding(7, 5, 3)
    layer.build((None, None))
    return layer


# --- tokens and positions


def test_learned_positions_are_added_to_the_tokens(embed):
    ids = np.array([[3, 1, 0], [6, 3, 2]])
    expected = np.asarray(embed.tokens.embeddings)[ids]
    expected = expected + np.asarray(embed.place.table)[:3]
    np.testing.assert_array_equal(embed(ids), expected)


def test_sinusoids_are_added_to_tokens_of_their_size(rng):
    layer = TokenAndPositionEmbedding(997, 5, 8, positions="sinusoidal")
    ids = rng.integers(0, 997, (2, 11))  # beyond max_len
    added = layer(ids) - np.asarray(layer.tokens.embeddings)[ids]
    angle = np.arange(11) * 10_000 ** (-2 / 8)
    np.testing.assert_allclose(added[1, :, 2], np.sin(angle), atol=1e-5)
    np.testing.assert_allclose(added[1, :, 3], np.cos(angle), atol=1e-5)
    assert np.std(layer.tokens.embeddings) == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_tokens_start_as_asked(positions):
    """Or as it fits the positions; either way the config says which it was."""
    start = keras.initializers.RandomNormal(stddev=3.0, seed=5)
    layer = TokenAndPositionEmbedding(
        997, 5, 8, positions=positions, embeddings_initializer=start
    )
    config = json.loads(json.dumps(layer.get_config()))
    for one in (layer, TokenAndPositionEmbedding.from_config(config)):
        one.build((None, None))
        np.testing.assert_array_equal(one.tokens.embeddings, start((997, 8)))
    plain = TokenAndPositionEmbedding(997, 5, 8, positions=positions)
    assert plain.get_config()["embeddings_initializer"] is None
    again = TokenAndPositionEmbedding.from_config(plain.get_config())
    assert again.get_config() == plain.get_config()


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_rotary_and_none_add_nothing_and_know_no_limit(positions):
    layer = TokenAndPositionEmbedding(7, 2, 3, positions=positions)
    ids = np.array([[3, 1, 0, 6, 6]])
    np.testing.assert_array_equal(layer(ids), np.asarray(layer.tokens.embeddings)[ids])
    assert len(layer.weights) == 1


def test_too_long_a_text_is_refused_with_learned_positions(embed):
    for ids in (np.ones((1, 6), "int32"), keras.KerasTensor((None, 6), "int32")):
        with pytest.raises(ValueError, match=r"max_len=5.*a length of 6"):
            embed(ids)


@pytest.mark.parametrize("positions", POSITIONS)
def test_padding_makes_the_mask(positions):
    layer = TokenAndPositionEmbedding(7, 5, 3, positions=positions)
    y = layer(np.array([[3, 1, 0], [0, 7, -1]]))
    expected = [[True, True, False], [False, True, True]]
    np.testing.assert_array_equal(y._keras_mask, expected)


# --- ids that are no ids


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("jit_compile", [None, False, True])
def test_ids_out_of_range_are_read_as_unknown(embed, dtype, jit_compile):
    call = embed
    if jit_compile is not None:
        call = tf.function(embed, jit_compile=jit_compile)
    ids = tf.constant([[id_, 3] for id_ in UNKNOWN], dtype)
    as_unknown = call(tf.constant([[1, 3]], dtype))
    np.testing.assert_array_equal(call(ids), np.repeat(as_unknown, len(UNKNOWN), 0))
    assert np.any(as_unknown[0, 0] != embed(np.array([[6]]))[0, 0])  # the last row


def test_unsigned_ids(embed):
    np.testing.assert_array_equal(
        embed(np.array([[3, 200]], "uint8")), embed(np.array([[3, 1]]))
    )


def test_unknown_ids_train_and_predict_as_unknown():
    model = keras.Sequential(
        [
            keras.Input((2,), dtype="int32"),
            TokenAndPositionEmbedding(7, 5, 3),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    start = model.get_weights()

    def trained(ids):
        model.set_weights(start)
        model.fit(ids, np.ones((len(ids), 1)), verbose=0)
        return [*model.get_weights(), model.predict(ids, verbose=0)]

    odd = np.array([[id_, 3] for id_ in UNKNOWN])
    found, expected = trained(odd), trained(np.where(odd == 3, 3, 1))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.any(found[0] != start[0])


@pytest.mark.parametrize(
    "ids",
    [np.array([[3.0]]), tf.constant([[3.0]], "float16"), keras.KerasTensor((None, 1))],
    ids=["float", "half", "symbol"],
)
def test_float_ids_are_refused(embed, ids):
    with pytest.raises(ValueError, match=r"must be integers. Received: dtype=.*float"):
        embed(ids)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_large_ids_survive_half_precision(policy):
    layer = TokenAndPositionEmbedding(5003, 5, 3, "none", dtype=policy)
    y = layer(np.array([[4097, 5002]]))
    table = tf.cast(layer.tokens.embeddings.value, y.dtype)
    assert y.dtype == policy.removeprefix("mixed_")
    np.testing.assert_array_equal(y[0], tf.gather(table, [4097, 5002]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 1}, "vocab_size=1"),
        ({"embed_dim": 0}, "embed_dim=0"),
        ({"max_len": 0}, "max_len=0"),
        ({"positions": "sinusoid"}, "Did you mean 'sinusoidal'"),
        ({"positions": None}, "Known: learned, none, rotary, sinusoidal"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    fine = {"vocab_size": 7, "max_len": 5, "embed_dim": 3}
    with pytest.raises(ValueError, match=message):
        TokenAndPositionEmbedding(**{**fine, **arguments})


# --- word dropout


def test_word_dropout_drops_its_share_and_no_padding(rng):
    ids = rng.integers(0, 97, (101, 997))
    dropped = np.asarray(WordDropout(0.3)(ids, training=True))
    words = ids > 1
    assert np.mean(dropped[words] == 1) == pytest.approx(0.3, abs=0.01)
    np.testing.assert_array_equal(dropped[~words], ids[~words])
    changed = dropped != ids
    np.testing.assert_array_equal(dropped[changed], 1)


@pytest.mark.parametrize("time", [5, None])
def test_word_dropout_spares_short_texts(time):
    ids = tf.constant([[7, 7, 7, 7, 0], [7, 7, 7, 0, 0], [0, 0, 0, 0, 0]])
    symbolic = keras.Input((time,), dtype="int32")
    model = keras.Model(symbolic, WordDropout(0.9, min_len=4)(symbolic))
    draws = np.stack([model(ids, training=True) for _ in range(20)])
    np.testing.assert_array_equal(draws[:, 1:], np.stack([ids[1:]] * 20))
    assert np.mean(draws[:, 0, :4] == 1) > 0.7


def test_word_dropout_is_off_at_inference(rng):
    ids = rng.integers(0, 97, (3, 5))
    for training in (False, None):
        np.testing.assert_array_equal(WordDropout(0.9)(ids, training=training), ids)
    np.testing.assert_array_equal(WordDropout(0)(ids, training=True), ids)


@pytest.mark.parametrize("graph", [False, True])
def test_word_dropout_is_fresh_every_call_and_reproducible(graph):
    def two_draws():
        keras.utils.set_random_seed(7)
        layer = WordDropout(0.5)
        call = tf.function(layer) if graph else layer
        ids = tf.fill((3, 101), 5)
        return np.stack([call(ids, training=True) for _ in range(2)])

    first, second = two_draws()
    assert np.mean(first != second) > 0.3
    np.testing.assert_array_equal(two_draws(), [first, second])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_word_dropout_keeps_the_dtype(dtype):
    ids = tf.constant([[5, 0]], dtype)
    assert WordDropout(0.5)(ids, training=True).dtype == dtype
    assert WordDropout(0.5)(keras.KerasTensor((None, 2), dtype)).dtype == dtype


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5])
def test_word_dropout_refuses_a_rate_that_is_no_share(rate):
    with pytest.raises(ValueError, match=f"rate={rate}"):
        WordDropout(rate)


def test_word_dropout_refuses_a_negative_length():
    with pytest.raises(ValueError, match="min_len=-1"):
        WordDropout(0.1, min_len=-1)


# --- class token


def test_class_token_stands_first(rng):
    x = rng.normal(size=(2, 3, 5)).astype("float32")
    layer = ClassToken()
    y = layer(x)
    np.testing.assert_array_equal(y[:, 1:], x)
    np.testing.assert_array_equal(y[:, 0], np.repeat(layer.token[0], 2, axis=0))
    assert getattr(y, "_keras_mask", None) is None


def test_class_token_lengthens_the_mask():
    embedded = keras.layers.Embedding(9, 3, mask_zero=True)(np.array([[4, 0], [0, 0]]))
    y = ClassToken()(embedded)
    expected = [[True, True, False], [True, False, False]]
    np.testing.assert_array_equal(y._keras_mask, expected)


@pytest.mark.parametrize("time", [None, 3])
def test_class_token_lengthens_the_shape(time):
    y = ClassToken()(keras.KerasTensor((None, time, 5)))
    assert y.shape == (None, time and time + 1, 5)


def test_class_token_in_half_precision():
    layer = ClassToken(dtype="mixed_bfloat16")
    assert layer(tf.zeros((1, 3, 5), "bfloat16")).dtype == "bfloat16"
    assert layer.token.dtype == "float32"


# --- all


@pytest.mark.parametrize(
    "layer",
    [
        TokenAndPositionEmbedding(7, 5, 3, "sinusoidal", name="e"),
        WordDropout(0.25, min_len=3, name="w"),
        ClassToken(name="c", dtype="mixed_bfloat16"),
    ],
)
def test_configs_make_the_same_layer(layer):
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()
