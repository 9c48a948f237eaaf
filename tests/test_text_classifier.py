"""From raw texts to probabilities: what may come in, in which order, and saving."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import TextClassifier, TextVectorizer, build_classifier

LABELS = ["dull", "fair", "fine"]
TEXTS = [
    "A warm and funny film.",
    "",
    "Dull!",
    "It was long, it was dull, and it had no end that anyone could wish for.",
    "fine fine",
    "word " * 40,  # longer than max_len
    "好看 👍",
]


@pytest.fixture(scope="module")
def vectorizer():
    layer = TextVectorizer(vocab_size=50, max_len=16)
    layer.adapt(TEXTS)
    return layer


def make(vectorizer, num_classes, labels, **kwargs):
    keras.utils.set_random_seed(7)
    classifier = build_classifier(
        vectorizer.vocab_size,
        num_classes,
        num_layers=1,
        embed_dim=8,
        num_heads=2,
        max_len=16,
        **kwargs,
    )
    return TextClassifier(classifier, vectorizer, labels)


@pytest.fixture(scope="module")
def model(vectorizer):
    return make(vectorizer, 3, LABELS)


@pytest.fixture(scope="module")
def yes_or_no(vectorizer):
    return make(vectorizer, 1, ["no", "yes"])


def one_by_one(model, texts):
    """Probabilities of each text by itself: no padding, no order."""
    rows = [model(tf.constant([text]), training=False)[0] for text in texts]
    return np.stack(rows)


# --- predict


class Column:
    """What NumPy sees of a pandas Series."""

    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.texts, dtype)


@pytest.mark.parametrize(
    "hold",
    [
        list,
        tuple,
        np.array,
        lambda texts: np.array(texts, object),
        lambda texts: np.array(texts)[:, None],
        lambda texts: [text.encode("utf-8") for text in texts],
        tf.constant,
        lambda texts: tf.constant(texts)[:, None],
        Column,
    ],
    ids=["list", "tuple", "str_", "object", "n1", "bytes", "tensor", "tn1", "series"],
)
def test_whatever_holds_the_texts_gives_the_same(model, hold):
    found = model.predict(hold(TEXTS))
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, one_by_one(model, TEXTS), atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_rows_come_in_the_order_of_the_texts(model, batch_size):
    found = model.predict(TEXTS, batch_size=batch_size)
    np.testing.assert_allclose(found, one_by_one(model, TEXTS), atol=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(range(len(TEXTS))), min_size=1, max_size=12))
def test_a_text_gets_the_same_row_in_any_company(model, chosen):
    found = model.predict([TEXTS[i] for i in chosen], batch_size=3)
    np.testing.assert_allclose(found, model.predict(TEXTS)[chosen], atol=1e-6)


def test_rows_are_probabilities_also_of_empty_texts(model):
    found = model.predict(["", " "])
    assert np.all(found > 0)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    "none", [[], (), np.array([], object), tf.constant([], "string")]
)
def test_no_texts_give_no_rows(model, none):
    assert model.predict(none).shape == (0, 3)
    assert model.classify(none) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "not one string"),
        (["fine", None], "None .* at row 1"),
        (["fine", 3], "3 .* at row 1"),
        ([["a", "b"]], r"shape=\(1, 2\)"),
        (np.array([[3, 4]]), "shape|strings"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(model, texts, message):
    with pytest.raises(ValueError, match=message):
        model.predict(texts)


def test_classify_names_the_likeliest_label(model):
    rows = model.predict(TEXTS)
    for (name, probability), row in zip(model.classify(TEXTS), rows, strict=True):
        assert name == LABELS[int(np.argmax(row))]
        assert probability == pytest.approx(row.max(), abs=1e-6)
        assert isinstance(probability, float)


def test_probabilities_are_the_softmax_of_the_logits(model, vectorizer):
    logits = np.asarray(model.classifier(vectorizer(TEXTS), training=False), "float64")
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(TEXTS), expected, atol=1e-6)


def test_a_single_logit_makes_two_columns(yes_or_no, vectorizer):
    ids = vectorizer(TEXTS)
    yes = 1 / (1 + np.exp(-np.asarray(yes_or_no.classifier(ids, training=False))))
    found = yes_or_no.predict(TEXTS)
    np.testing.assert_allclose(found, np.concatenate([1 - yes, yes], 1), atol=1e-6)
    assert yes_or_no.classify(TEXTS)[0][0] == ("yes" if yes[0] > 0.5 else "no")


def test_dropout_is_off_unless_training(model):
    texts = tf.constant(TEXTS)
    np.testing.assert_array_equal(model(texts), model(texts))
    assert np.any(model(texts, training=True) != model(texts, training=True))


def test_a_model_of_symbols(model):
    y = model(keras.Input((), dtype="string"))
    assert y.shape == (None, 3)


# --- what does not fit


@pytest.mark.parametrize(
    ("num_classes", "labels", "message"),
    [
        (3, ["a", "b"], "head of 3 logits has 3 labels"),
        (3, [], "3 labels"),
        (2, ["a", "b", "c"], "2 labels"),
        (1, ["yes"], "head of 1 logits has 2 labels"),
        (3, ["a", "b", "a"], "must differ.*'a', 'b', 'a'"),
        (2, [1, "1"], "must differ"),
    ],
)
def test_labels_that_do_not_fit_are_refused(vectorizer, num_classes, labels, message):
    with pytest.raises(ValueError, match=message):
        make(vectorizer, num_classes, labels)


def test_a_vectorizer_without_words_is_refused(model):
    with pytest.raises(ValueError, match="has no vocabulary yet"):
        TextClassifier(model.classifier, TextVectorizer(50, 16), LABELS)


def test_labels_are_kept_as_strings(vectorizer):
    assert make(vectorizer, 2, (0, 1)).label_names == ["0", "1"]


# --- compilation


def test_texts_are_never_compiled_by_xla(model):
    assert model.jit_compile is False
    model.compile(loss="mse")
    assert model.jit_compile is False
    with pytest.warns(UserWarning, match="Proceeding with `jit_compile=False`"):
        model.compile(loss="mse", jit_compile=True)
    assert model.jit_compile is False


# --- saving

LOAD = """
import json, sys
import residual_keras
import keras  # after it: then nothing of ours is registered

path, texts = sys.argv[1], json.loads(sys.argv[2])
try:
    keras.models.load_model(path)
    error = None
except TypeError as raised:
    error = str(raised)
model = residual_keras.load_model(path)
found = {
    "error": error,
    "rows": model.predict(texts).tolist(),
    "labels": model.label_names,
    "vocabulary": model.vectorizer.get_vocabulary(),
    "compiled": model.classifier.compiled,
    "rows of keras": keras.models.load_model(path).predict(texts).tolist(),
}
print(json.dumps(found))
"""


def test_a_new_process_loads_the_very_model(model, tmp_path, new_process):
    path = tmp_path / "model.keras"
    model.classifier.compile("adam")
    model.save(path)
    found = new_process(LOAD, path, json.dumps(TEXTS))

    # Documented: the package loads Keras, and so registers, only when it is used.
    assert "Could not locate class" in found["error"]
    rows = model.predict(TEXTS)
    np.testing.assert_array_equal(np.float32(found["rows"]), rows)
    np.testing.assert_array_equal(np.float32(found["rows of keras"]), rows)
    assert found["labels"] == LABELS
    assert found["vocabulary"] == model.vectorizer.get_vocabulary()
    assert found["compiled"]


def test_a_model_survives_its_config(model):
    again = TextClassifier.from_config(model.get_config())
    again.set_weights(model.get_weights())
    assert again.name == model.name
    np.testing.assert_array_equal(again.predict(TEXTS), model.predict(TEXTS))


@pytest.mark.parametrize(("vocab_size", "max_len"), [(4, 9), (9, 8)])
def test_a_vectorizer_beyond_the_classifier_is_refused(vocab_size, max_len):
    vectorizer = TextVectorizer(max_len=9)
    vectorizer.adapt(["a b c d e f g"])  # nine ids
    classifier = build_classifier(
        vocab_size, 2, max_len=max_len, embed_dim=4, num_heads=2, num_layers=1
    )
    with pytest.raises(ValueError, match="Received: a vectorizer with .*=9"):
        TextClassifier(classifier, vectorizer, ["no", "yes"])
