"""Latent semantic analysis of runs of words, against a dense decomposition."""

import keras
import numpy as np
import pytest

from residual_keras import LatentFeatures, build_latent_classifier
from residual_keras import data as data_sets
from residual_keras.recipe import Recipe

VOCAB = 23


def runs(ids, order):
    """The different runs of words of a text, as tuples of known ids."""
    ids = [i if 0 <= i < VOCAB else 1 for i in ids]
    starts = [(start, n) for n in range(1, order + 1) for start in range(len(ids))]
    found = {tuple(ids[start : start + n]) for start, n in starts}
    return {run for run in found if all(run)}


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    texts = [rng.integers(-1, VOCAB + 1, n) for n in rng.integers(0, 12, 37)]
    return [*texts, texts[0]]


def filled(rows):
    """Rows as one array, padding behind."""
    ids = np.zeros((len(rows), max(map(len, rows))), "int32")
    for place, row in zip(ids, rows, strict=True):
        place[: len(row)] = row
    return ids


@pytest.mark.parametrize("order", [1, 2, 3])
def test_against_numpy(rows, order):
    """Up to the sign of each feature, which a decomposition leaves open."""
    of_texts = [runs(row.tolist(), order) for row in rows]
    counts = {}
    for run in [run for text in of_texts for run in text]:
        counts[run] = counts.get(run, 0) + 1
    known = [run for run, count in counts.items() if count > 1]
    table = np.array([[run in text for run in known] for text in of_texts], float)
    per_text = np.sqrt(np.maximum(table.sum(1), 1))
    per_run = np.sqrt(table.sum(0))
    _, _, right = np.linalg.svd(table / per_text[:, None] / per_run)
    found = table / per_run @ right[:5].T
    size = np.linalg.norm(found, axis=1, keepdims=True)
    expected = found * np.sqrt(5) / np.maximum(size, 1e-9)

    latent = LatentFeatures(VOCAB, rank=5, order=order, runs=1000)
    latent.adapt(rows)
    np.testing.assert_allclose(
        np.abs(latent(filled(rows))), np.abs(expected), atol=2e-4
    )
    ours = np.array(latent(filled(rows)))
    np.testing.assert_allclose(ours @ ours.T, expected @ expected.T, atol=2e-3)


def test_the_most_frequent_runs_are_known(rows):
    latent = LatentFeatures(VOCAB, rank=3, order=1, runs=4)
    latent.adapt(rows)
    counts = np.zeros(VOCAB, int)
    for row in rows:
        for (word,) in runs(row.tolist(), 1):
            counts[word] += 1
    known = np.array(latent(np.arange(1, VOCAB)[:, None])).any(1)
    assert known.sum() == 4
    assert counts[1:][known].min() >= counts[1:][~known].max()


def test_padding_and_other_texts_change_nothing(rows):
    latent = LatentFeatures(VOCAB, rank=3)
    latent.adapt(rows)
    alone = np.array(latent(np.asarray(rows[0])[None]))
    np.testing.assert_allclose(np.array(latent(filled(rows)))[0], alone[0], atol=1e-6)
    assert not np.array(latent(np.zeros((2, 5), "int32"))).any()


@pytest.mark.parametrize("rows", [[], [[]], [[2, 3]], [[2, 3], [2, 3]]])
def test_too_few_texts_give_zeros(rows):
    latent = LatentFeatures(VOCAB, rank=3)
    latent.adapt([np.array(row, int) for row in rows])
    assert np.isfinite(np.array(latent(np.array([[2, 3]])))).all()


@pytest.mark.parametrize("argument", ["vocab_size", "rank", "order", "runs"])
def test_arguments_are_checked(argument):
    with pytest.raises(ValueError, match=f"{argument} must be positive"):
        LatentFeatures(**{"vocab_size": 9, argument: 0})


def test_it_is_at_home_in_keras(rows, tmp_path):
    model = build_latent_classifier(VOCAB, 3, rank=4, runs=50)
    model.calibrate([], rows)
    model.compile(keras.optimizers.Adam(0.1))
    ids, labels = filled(rows), np.arange(len(rows)) % 3
    model.fit(ids, labels, epochs=2, verbose=0)
    assert len(model.trainable_variables) == 2
    after = model.predict(ids, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(ids, verbose=0), after)
    assert type(again) is type(model)


def test_texts_without_labels_help_it(tmp_path):
    """Few labels; what tells good from bad is learned from texts without any."""
    from residual_keras.train import train

    few = "reviews(depth=0, train_size=24, validation_size=50, test_size=300)"
    more = data_sets.load("reviews(depth=0, train_size=600)", seed=5).train
    path = tmp_path / "more.txt"
    path.write_text("\n".join(more.texts) + "\n", encoding="utf-8")
    options = {"data": few, "classifier": "latent(rank=8)", "max_len": 40}
    options |= {"epochs": 30, "patience": 30, "learning_rate": 0.03, "batch_size": 8}
    reached = {
        unlabelled: train(
            Recipe(**options, unlabelled=unlabelled),
            tmp_path / f"run-{bool(unlabelled)}",
            verbose=0,
            export=False,
        )["test"]["accuracy"]
        for unlabelled in (None, str(path))
    }
    print(reached)
    assert reached[str(path)] > reached[None] + 0.03


def test_texts_that_nobody_reads_are_refused(tmp_path):
    from residual_keras.train import train

    recipe = Recipe(unlabelled="reviews")
    with pytest.raises(ValueError, match="need a teacher, or a model that reads"):
        train(recipe, tmp_path / "run", verbose=0)
