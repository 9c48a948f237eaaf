"""The linear classifier of words and runs of words."""

import collections

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import NGramLogits, build_ngram_classifier
from residual_keras.recipe import Recipe

VOCAB, BUCKETS = 23, 101
IDS = np.array([[7, 3, 7, 3, 1], [22, 2, 0, 0, 0], [0, 0, 0, 0, 0]], "int32")


def runs(ids, order, buckets):
    """How often each bucket is hit by a text's runs of words."""
    ids = [i if 0 <= i < VOCAB else 1 for i in ids]
    found = collections.Counter()
    for length in range(1, order + 1):
        for start in range(len(ids) - length + 1):
            run = ids[start : start + length]
            if all(run):
                number = 0
                for one in run:
                    number = (number * 1999 + one) % buckets
                found[number] += 1
    return found


def perturbed(classes, order=2, buckets=BUCKETS):
    layer = NGramLogits(VOCAB, classes, order, buckets)
    layer.build((None, None))
    rng = np.random.default_rng(3)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


@pytest.mark.parametrize("classes", [1, 2, 5])
@pytest.mark.parametrize("order", [1, 2, 3])
@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.lists(st.integers(-2, VOCAB + 2), max_size=6), min_size=1))
def test_equals_a_count_of_runs(classes, order, rows):
    layer = perturbed(classes, order)
    time = max(map(len, rows))
    ids = np.zeros((len(rows), time), "int32")
    for row, text in zip(ids, rows, strict=True):
        row[: len(text)] = text
    votes, bias = (weight.numpy() for weight in layer.weights)
    expected = np.zeros((len(rows), votes.shape[1]))
    for row, text in enumerate(ids.tolist()):
        expected[row] = bias
        for number, times in runs(text, order, BUCKETS).items():
            expected[row] += times * votes[number]
    if classes > 1:
        expected = np.pad(expected, [[0, 0], [1, 0]])
    np.testing.assert_allclose(layer(ids), expected, rtol=1e-5, atol=1e-5)


def test_the_largest_hash_fits_its_integer():
    layer = NGramLogits(2**20, 1, order=2)
    ids = np.array([[2**20 - 1, 2**20 - 1]], "int32")
    hashes, _ = layer.runs(ids)
    assert int(hashes[0, 2]) == ((2**20 - 1) * 1999 + 2**20 - 1) % 2**20
    with pytest.raises(ValueError, match="buckets must be at most 1048576"):
        NGramLogits(9, 1, buckets=2**20 + 1)
    with pytest.raises(ValueError, match="order must be positive"):
        build_ngram_classifier(9, 2, order=0)


@pytest.mark.parametrize("soft", [False, True])
def test_the_votes_start_as_naive_bayes_has_them(soft):
    labels = np.array([1, 0, 2])
    shares = np.array([[0.1, 0.7, 0.2], [0.9, 0.0, 0.1], [0.0, 0.3, 0.7]])
    given = shares if soft else labels
    layer = NGramLogits(VOCAB, 3, order=2, buckets=BUCKETS)
    layer.build((None, None))
    layer.adapt([(IDS[:2], given[:2]), (IDS[2:], given[2:])])
    texts = np.ones((BUCKETS, 3))
    each = shares if soft else np.eye(3)[labels]
    for row, label in zip(IDS.tolist(), each, strict=True):
        for number in runs(row, 2, BUCKETS):
            texts[number] += label
    logarithm = np.log(texts / texts.sum(axis=0))
    expected = 0.1 * (logarithm[:, 1:] - logarithm[:, :1])
    np.testing.assert_allclose(layer.votes, expected, rtol=1e-5, atol=1e-6)
    assert np.any(expected)


def test_it_is_at_home_in_keras(tmp_path):
    model = build_ngram_classifier(VOCAB, 3, buckets=BUCKETS)
    model.calibrate([(IDS, np.array([1, 0, 2]))])
    model.compile("adam")
    before = model.predict(IDS, verbose=0)
    model.fit(IDS, np.array([1, 0, 2]), epochs=2, verbose=0)
    after = model.predict(IDS, verbose=0)
    assert np.abs(after - before).max() > 1e-4
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(IDS, verbose=0), after)
    assert type(again) is type(model)
    assert model.count_params() == 2 * BUCKETS + 2


def test_train_compares_with_it(tmp_path):
    from residual_keras import load_model, load_preset, save_to_preset
    from residual_keras.train import train

    data = "reviews(depth=0, train_size=400, validation_size=100, test_size=200)"
    recipe = Recipe(data=data, classifier="ngrams(order=2)", epochs=2, max_len=40)
    metrics = train(recipe, tmp_path / "run", verbose=0)
    assert metrics["test"]["accuracy"] > 0.8
    model = load_model(tmp_path / "run" / "model.keras")
    assert np.abs(model.classifier.get_layer("ngrams").votes).max() > 0.1
    folder = save_to_preset(model, tmp_path / "linear")
    stored = load_preset(folder)
    texts = ["A wonderful film .", "It was dull ."]
    np.testing.assert_allclose(stored.predict(texts), model.predict(texts), atol=1e-3)
    with pytest.raises(ValueError, match="can be replaced"):
        load_preset(folder, num_classes=5)
    with pytest.raises(ValueError, match="classifier"):
        train(Recipe(data=data, classifier="ngram"), tmp_path / "other", verbose=0)
