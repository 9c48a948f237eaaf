"""The linear classifier of words and runs of words."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import LatentFeatures, NGramLogits, build_ngram_classifier
from residual_keras import data as data_sets
from residual_keras.recipe import Recipe
from residual_keras.word_runs import runs_of_words

VOCAB, BUCKETS = 23, 101
IDS = np.array([[7, 3, 7, 3, 1], [22, 2, 0, 0, 0], [0, 0, 0, 0, 0]], "int32")


def runs(ids, order, buckets, vocab_size=VOCAB):
    """The buckets that a text's runs of words fall into."""
    ids = [i if 0 <= i < vocab_size else 1 for i in ids]
    found = set()
    for length in range(1, order + 1):
        for start in range(len(ids) - length + 1):
            run = ids[start : start + length]
            if all(run):
                number = 0
                for one in run:
                    number = (number * 1999 + one) % buckets
                found.add(number)
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
    votes = (layer.votes + layer.shares * layer.ratios).numpy()
    bias = layer.bias.numpy()
    expected = np.zeros((len(rows), votes.shape[1]))
    for row, text in enumerate(ids.tolist()):
        expected[row] = bias
        for number in runs(text, order, BUCKETS):
            expected[row] += votes[number]
    if classes > 1:
        expected = np.pad(expected, [[0, 0], [1, 0]])
    np.testing.assert_allclose(layer(ids), expected, rtol=1e-5, atol=1e-5)


def test_the_largest_hash_fits_its_integer():
    layer = NGramLogits(2**20, 1, order=2, buckets=2**20)
    ids = np.array([[2**20 - 1, 2**20 - 1]], "int32")
    hashes, _ = layer.runs(ids)
    pair = ((2**20 - 1) * 1999 + 2**20 - 1) % 2**20
    assert set(hashes.numpy()[0]) == {pair, 2**20 - 1}
    with pytest.raises(ValueError, match="a power of two above 1048576"):
        NGramLogits(9, 1, buckets=2**20 + 1)
    with pytest.raises(ValueError, match="a power of two above 1048576"):
        NGramLogits(9, 1, buckets=2**31)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_hash_that_wraps_around_stays_right(jit_compile):
    rows = np.random.default_rng(5).integers(2, 30_000, (7, 11), dtype="int32")
    found = tf.function(
        lambda ids: runs_of_words(ids, 30_000, order=3, buckets=2**30),
        jit_compile=jit_compile,
    )(rows)
    for ids, hashes, counted in zip(rows.tolist(), *found, strict=True):
        expected = runs(ids, 3, 2**30, vocab_size=30_000)
        assert set(hashes.numpy()[counted.numpy()]) == expected
    assert max(expected) > 2**29
    with pytest.raises(ValueError, match="order must be positive"):
        build_ngram_classifier(9, 2, order=0)


@pytest.mark.parametrize("soft", [False, True])
def test_the_ratios_are_those_of_naive_bayes(soft):
    labels = np.array([1, 0, 2, 1])
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 4)
    given = shares if soft else labels
    ids = np.concatenate([IDS, [[7, 3, 9, 0, 0]]])
    layer = NGramLogits(VOCAB, 3, order=2, buckets=BUCKETS)
    layer.build((None, None))
    layer.adapt([(ids[:2], given[:2]), (ids[2:], given[2:])])
    texts, seen = np.ones((BUCKETS, 3)), np.zeros(BUCKETS)
    for row, label in zip(
        ids.tolist(), shares if soft else np.eye(3)[labels], strict=True
    ):
        for number in runs(row, 2, BUCKETS):
            texts[number] += label
            seen[number] += 1
    logarithm = np.log(texts / texts.sum(axis=0))
    expected = logarithm[:, 1:] - logarithm[:, :1]
    expected[seen < 2] = 0
    np.testing.assert_allclose(layer.ratios, expected, rtol=1e-5, atol=1e-6)
    assert np.count_nonzero(expected) >= 4  # 7, 3 and their pair, in two texts


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("classes", [1, 3])
def test_votes_start_as_those_of_latent_features(classes, soft):
    rng = np.random.default_rng(7)
    number = np.arange(100) % max(2, classes)
    ids = rng.integers(2, 9, (100, 6), dtype="int32") + 7 * number[:, None]
    labels = np.eye(max(2, classes), dtype="float32")[number] if soft else number
    batches = [(ids[:21], labels[:21]), (ids[21:40], labels[21:40])]
    batches.append((np.zeros((3, 5), "int32"), labels[:3]))  # empty texts
    layer = NGramLogits(VOCAB, classes, order=2, buckets=1024, rank=4)
    layer.build((None, None))
    layer.adapt(batches, texts=list(ids))
    layer.shares.assign(np.zeros(layer.shares.shape))
    logits = np.array(layer(ids))
    found = logits[:, 0] > 0 if classes == 1 else logits.argmax(1)
    np.testing.assert_array_equal(found, number)  # of texts without a label too

    latent = LatentFeatures(VOCAB, 4, order=2, buckets=1024)
    latent.adapt(ids)
    sums = np.array(latent.sums(ids))
    votes = logits if classes == 1 else logits[:, 1:]
    votes = votes - np.array(layer.bias)
    weights, *_ = np.linalg.lstsq(sums, votes, rcond=None)
    np.testing.assert_allclose(sums @ weights, votes, atol=1e-4)


def test_texts_that_share_no_run_have_no_votes_before_training():
    layer = NGramLogits(VOCAB, 2, buckets=BUCKETS, rank=3)
    layer.build((None, None))
    layer.adapt([(np.array([[2, 3], [4, 5]]), np.array([0, 1]))])
    assert not np.array(layer.votes).any() and not np.array(layer.bias).any()


def test_it_is_at_home_in_keras(tmp_path):
    model = build_ngram_classifier(VOCAB, 3, buckets=BUCKETS, rank=2)
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
    assert model.count_params() == 3 * 2 * BUCKETS + 2


def test_train_compares_with_it(tmp_path):
    from residual_keras import load_model, load_preset, save_to_preset
    from residual_keras.train import train

    data = "reviews(depth=0, train_size=400, validation_size=100, test_size=200)"
    recipe = Recipe(data=data, classifier="ngrams(order=2)", epochs=2, max_len=40)
    metrics = train(recipe, tmp_path / "run", verbose=0)
    test = data_sets.load(data).test
    assert metrics["test"]["accuracy"] > 0.8
    model = load_model(tmp_path / "run" / "model.keras")
    layer = model.classifier.get_layer("ngrams")
    assert np.abs(layer.ratios).max() > 1 and len(np.unique(layer.shares)) > 9
    probabilities = model.predict(test.texts)[np.arange(200), test.labels]
    assert metrics["test"]["loss"] == pytest.approx(-np.log(probabilities).mean())
    folder = save_to_preset(model, tmp_path / "linear")
    stored = load_preset(folder)
    texts = ["A wonderful film .", "It was dull ."]
    np.testing.assert_allclose(stored.predict(texts), model.predict(texts), atol=1e-3)
    with pytest.raises(ValueError, match="can be replaced"):
        load_preset(folder, num_classes=5)


@pytest.mark.parametrize(
    "classifier, told",
    [
        ("ngram", "No classifier 'ngram'. Did you mean 'ngrams'"),
        ("ngrams(ordr=3)", "'ngrams(ordr=3)' has no option 'ordr'. Did you mean 'or"),
        ("ngrams(name='x')", "no option 'name'"),
        ("ngrams(vocab_size=9)", "no option 'vocab_size'"),
        ("ngrams(order='3')", "order must be a whole number. Received: order='3'"),
        ("ngrams(rank=-1)", "rank must be positive"),
        ("latent(rank=1.5)", "rank must be a whole number. Received: rank=1.5"),
        ("transformer(rank=3)", "'transformer' has no option 'rank'. It has none"),
    ],
)
def test_a_bad_classifier_is_named(classifier, told, tmp_path):
    from residual_keras.train import train

    data = "reviews(depth=0, train_size=4, validation_size=4, test_size=4)"
    recipe = Recipe(data=data, classifier=classifier)
    with pytest.raises(ValueError, match=re.escape(told)):
        train(recipe, tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_texts_without_labels_help_it(tmp_path):
    from residual_keras.train import train

    few = "reviews(depth=0, train_size=24, validation_size=50, test_size=300)"
    more = data_sets.load("reviews(depth=0, train_size=600)", seed=5).train
    path = tmp_path / "more.txt"
    path.write_text("\n".join(more.texts) + "\n", encoding="utf-8")
    options = {"data": few, "max_len": 40, "epochs": 3, "batch_size": 8}
    asked = {
        "alone": {"classifier": "ngrams(buckets=4096)"},
        "helped": {
            "classifier": "ngrams(buckets=4096, rank=8)",
            "unlabelled": str(path),
        },
    }
    reached = {
        name: train(
            Recipe(**options, **more), tmp_path / name, verbose=0, export=False
        )["test"]
        for name, more in asked.items()
    }
    print(reached)
    assert reached["helped"]["accuracy"] > reached["alone"]["accuracy"] + 0.03
