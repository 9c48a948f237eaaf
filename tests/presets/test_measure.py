"""Accuracy, loss, confusion and calibration against numbers worked out by hand."""

import math

import keras
import numpy as np
import pytest

from residual_keras import TextClassifier, TextVectorizer
from residual_keras.data import Split
from residual_keras.presets.measure import calibrated, measure

GIVEN = {"ash": (0.7, 0.2, 0.1), "elm": (0.1, 0.25, 0.65), "oak": (0.3, 0.45, 0.25)}


@pytest.fixture(scope="module")
def model():
    """One that gives each word the probabilities of the table."""
    vectorizer = TextVectorizer(vocab_size=9, max_len=3)
    vectorizer.adapt(list(GIVEN))
    ids = keras.Input((None,), dtype="int32")
    logits = keras.layers.Embedding(vectorizer.vocab_size, 3)
    found = keras.layers.GlobalMaxPooling1D()(logits(ids))
    words = vectorizer.get_vocabulary()
    rows = [np.log(GIVEN.get(word, (1, 1, 1))) for word in words]
    logits.set_weights([np.array(rows)])
    return TextClassifier(keras.Model(ids, found), vectorizer, ["a", "b", "c"])


def test_measure_is_what_one_works_out_by_hand(model):
    split = Split(["ash", "ash", "elm", "oak", "oak"], [0, 1, 2, 1, 2])
    found = measure(model, split, bins=4)
    assert found["texts"] == 5 and found["accuracy"] == 3 / 5
    assert found["confusion"] == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    loss = -sum(map(math.log, (0.7, 0.2, 0.65, 0.45, 0.25))) / 5
    assert found["loss"] == pytest.approx(loss, abs=1e-6)
    # oak twice, once rightly; ash twice, once rightly, and elm
    right = [(0.25, 0.5, 2, 0.45, 1 / 2), (0.5, 0.75, 3, 2.05 / 3, 2 / 3)]
    for row, expected in zip(found["calibration"], right, strict=True):
        assert list(row) == ["above", "up_to", "texts", "probability", "accuracy"]
        assert list(row.values()) == pytest.approx(expected, abs=1e-6)
    off = (2 * (1 / 2 - 0.45) + 3 * (2.05 / 3 - 2 / 3)) / 5
    assert found["calibration_error"] == pytest.approx(off, abs=1e-6)


def test_a_bin_holds_its_upper_edge():
    sure, right = np.array([0.25, 0.5, 0.51, 1.0, 0.0]), np.array([1, 1, 0, 1, 1])
    edges = {
        row["up_to"]: (row["texts"], row["accuracy"])
        for row in calibrated(sure, right, 4)
    }
    assert edges == {0.25: (2, 1.0), 0.5: (1, 1.0), 0.75: (1, 0.0), 1.0: (1, 1.0)}


def test_a_probability_of_0_has_a_loss_that_json_holds(model):
    sure = keras.models.clone_model(model.classifier)
    sure.set_weights([100 * weight for weight in model.classifier.get_weights()])
    one = TextClassifier(sure, model.vectorizer, model.label_names)
    assert one.predict(["ash"])[0, 2] == 0
    loss = measure(one, Split(["ash"], [2]))["loss"]
    assert 87 < loss < 88


@pytest.mark.parametrize(("texts", "labels"), [([], []), (["ash"], [3])])
def test_what_cannot_be_measured_is_refused(model, texts, labels):
    with pytest.raises(ValueError, match="labels from 0 to 2"):
        measure(model, Split(texts, labels))
