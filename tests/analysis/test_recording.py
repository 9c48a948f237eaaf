"""A model is watched and left as it was, however it was wired."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import (
    MeanPooling,
    TextClassifier,
    TextVectorizer,
    TransformerBlock,
    TransformerEncoder,
    analysis,
    load_model,
)
from residual_keras.analysis.recording import record, replaced, stacks

TEXTS = ["a fine plot", "a dull, dull film", "fine", ""]


def test_nothing_is_left_behind(classifier, ids):
    stack = classifier.get_layer("encoder")
    before = set(vars(stack)), set(vars(stack.residual))
    tracked = len(stack._layers), len(classifier.weights)
    expected = ops.convert_to_numpy(classifier(ids))
    _, output = record(classifier, ops.convert_to_tensor(ids))
    np.testing.assert_allclose(output, expected, atol=1e-6)
    assert (set(vars(stack)), set(vars(stack.residual))) == before
    assert (len(stack._layers), len(classifier.weights)) == tracked
    np.testing.assert_array_equal(classifier(ids), expected)


def test_nothing_is_left_behind_after_an_error(make):
    model = make("pre_ln")
    stack = model.get_layer("encoder")
    before = set(vars(stack)), set(vars(stack.residual))
    with pytest.raises(Exception, match="max_len"):
        analysis.stream_profile(model, np.ones((2, 10), "int32"))
    assert (set(vars(stack)), set(vars(stack.residual))) == before


def test_what_was_replaced_before_comes_back(make):
    layer = make("pre_ln").get_layer("encoder")
    with replaced(layer, mark=1):
        with replaced(layer, mark=2):
            assert layer.mark == 2
        assert layer.mark == 1
    assert not hasattr(layer, "mark")


def test_a_mask_of_padding_is_found(make, ids):
    passes, _ = record(make("pre_ln"), ops.convert_to_tensor(ids))
    np.testing.assert_array_equal(passes[0].mask, ids != 0)


def every_analysis(model, x, y):
    """The numbers of all analyses, by name."""
    maps = analysis.attention_maps(model, x)
    lens = analysis.logit_lens(model, x, y)
    words = analysis.word_attributions(model, x[1], steps=4)
    return {
        "stream": analysis.stream_profile(model, x).rms,
        "attention": maps.weights[-1],
        "lens": lens.logits,
        "accuracy": lens.accuracy,
        "skipped": analysis.skipped_blocks(model, x, y).without,
        "words": words.values,
    }


def test_a_model_from_a_file_is_the_same(make, labels, tmp_path):
    vectorizer = TextVectorizer(vocab_size=23, max_len=9)
    vectorizer.adapt(TEXTS)
    model = TextClassifier(make("gru_gate"), vectorizer, ["bad", "good", "so-so"])
    y = labels[: len(TEXTS)]
    ours = analysis.logit_lens(model, TEXTS, y)
    model.save(tmp_path / "x.keras")
    loaded = load_model(tmp_path / "x.keras")
    theirs = every_analysis(loaded, TEXTS, y)
    np.testing.assert_allclose(theirs["lens"], ours.logits, atol=1e-6)
    np.testing.assert_array_equal(theirs["accuracy"], ours.accuracy)
    inner = analysis.stream_profile(model.classifier, vectorizer(TEXTS))
    np.testing.assert_allclose(inner.rms, theirs["stream"], rtol=1e-6)
    assert analysis.word_attributions(loaded, "A dull zebra!").words == [
        "a",
        "dull",
        "zebra",
        "!",
    ]
    assert analysis.attention_maps(loaded, TEXTS).of_text(1)[0][-1] == "film"


def by_hand():
    """The same layers in a functional model and in a Sequential one."""
    keras.utils.set_random_seed(3)
    options = {"embed_dim": 8, "num_heads": 2, "ff_dim": 11}
    embedding = keras.layers.Embedding(23, 6, mask_zero=True)
    blocks = [TransformerBlock(**options, residual="resi_dual") for _ in range(2)]
    layers = [embedding, *blocks, keras.layers.LayerNormalization()]
    layers += [MeanPooling(), keras.layers.Dense(3, activation="softmax")]
    sequential = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    x = inputs = keras.Input((None,), dtype="int32")
    for layer in layers:
        x = layer(x)
    return keras.Model(inputs, x), sequential, layers


def test_blocks_stacked_by_hand(ids, labels):
    functional, sequential, layers = by_hand()
    found = every_analysis(functional, ids, labels)
    again = analysis.logit_lens(sequential, ids, labels)
    np.testing.assert_array_equal(again.logits, found["lens"])
    np.testing.assert_array_equal(again.accuracy, found["accuracy"])
    assert found["stream"].shape == (5,)
    assert found["attention"].shape == (5, 2, 7, 7)
    # What the first block returned is the stream after it; then come norm and head.
    embedding, first, _, norm, pool, head = layers
    x = embedding(ids)
    passed = ops.convert_to_numpy(first(x))
    rms = np.sqrt(np.mean(passed[ids != 0] ** 2))
    np.testing.assert_allclose(found["stream"][2], rms, rtol=1e-5)
    p = head(pool(norm(passed), mask=ids != 0))
    np.testing.assert_allclose(np.exp(found["lens"][1]), p, atol=1e-5)
    np.testing.assert_allclose(np.exp(found["lens"][2]), functional(ids), atol=1e-5)


def test_a_model_of_strings_and_a_stack_by_itself(make):
    vectorizer = TextVectorizer(vocab_size=23, max_len=9)
    vectorizer.adapt(TEXTS)
    inputs = keras.Input((), dtype="string")
    model = keras.Model(inputs, make("pre_ln")(vectorizer(inputs)))
    found = analysis.stream_profile(model, TEXTS)
    ids = vectorizer(TEXTS).numpy()
    inner = analysis.stream_profile(make("pre_ln"), ids)
    np.testing.assert_allclose(found.rms, inner.rms, rtol=1e-6)
    words = analysis.word_attributions(model, "a fine film", steps=3)
    assert words.words == ["a", "fine", "film"]

    encoder = TransformerEncoder(2, 8, 2, 11)
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    alone = analysis.stream_profile(encoder, x)
    np.testing.assert_allclose(alone.rms[0], np.sqrt(np.mean(x**2)), rtol=1e-6)


def test_one_layer_used_twice_is_watched_twice(make, ids):
    encoder = TransformerEncoder(1, 8, 2, 11, residual="rezero")
    x = inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(23, 8, mask_zero=True)(x)
    model = keras.Model(inputs, encoder(encoder(x)))
    assert len(stacks(model)) == 1
    assert len(analysis.stream_profile(model, ids).rms) == 5


def test_what_cannot_be_looked_into_is_refused(make, ids):
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="only")])
    with pytest.raises(ValueError, match=r"TransformerEncoder.*\['only'\]"):
        analysis.stream_profile(plain, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"token ids.*TextClassifier"):
        analysis.stream_profile(make("pre_ln"), ["a text"])
    with pytest.raises(ValueError, match="token ids"):
        analysis.stream_profile(make("pre_ln"), [[1, 2], [3]])
    with pytest.raises(ValueError, match="padding alone"):
        analysis.stream_profile(make("pre_ln"), np.zeros_like(ids))
