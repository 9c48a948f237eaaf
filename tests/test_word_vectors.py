"""Word vectors from neighbours, against the equation written out in NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import Recipe, building, train
from residual_keras.data import load
from residual_keras.word_vectors import start_from_neighbours, word_vectors

VOCAB = 13


def reference(rows, window):
    """The matrix that is decomposed, dense, pair by pair."""
    near = np.zeros((VOCAB, VOCAB))
    for row in rows:
        for (i, a), (j, b) in itertools.permutations(enumerate(row), 2):
            near[a, b] += abs(i - j) <= window and min(a, b) > 1
    totals = near.sum(1)
    common = totals**0.75 / (totals**0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(near / (totals[:, None] * common))
    return np.where(found > 0, found, 0)


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    return [rng.integers(0, VOCAB, n) for n in (1, 0, 7, 2, 11, 5)]


@pytest.mark.parametrize("window", [1, 3])
def test_against_numpy(rows, window):
    """Up to the turn of each column, which a decomposition leaves open."""
    matrix = reference(rows, window)
    met = matrix.any(1)
    left, sizes, _ = np.linalg.svd(matrix)
    expected = (left[:, :4] * np.sqrt(sizes[:4]))[met]
    expected -= expected.mean(0)
    expected /= expected.std()
    found = word_vectors(rows, VOCAB, 4, window=window)
    assert not found[~met].any()
    np.testing.assert_allclose(
        found[met] @ found[met].T, expected @ expected.T, atol=1e-4
    )


def test_words_with_like_neighbours_are_alike():
    """Two words that nothing but their neighbours tells apart from the others."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(300):
        kind = rng.integers(2)
        middle = 2 + kind * 2 + rng.integers(2)  # 2 and 3, or 4 and 5
        rows.append([6 + kind * 3 + rng.integers(3), middle, 6 + kind * 3])
    vectors = word_vectors([np.array(row) for row in rows], VOCAB, 3)[2:6]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = vectors @ vectors.T
    assert min(alike[0, 1], alike[2, 3]) > 0.9 > 0 > alike[0, 2]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=9), max_size=5),
    st.integers(1, 20),
)
def test_any_texts_give_finite_vectors(texts, embed_dim):
    found = word_vectors([np.array(row, int) for row in texts], VOCAB, embed_dim)
    assert found.shape == (VOCAB, embed_dim) and found.dtype == "float32"
    assert np.isfinite(found).all() and not found[:2].any()


def test_the_same_texts_give_the_same(rows):
    one, two = (word_vectors(rows, VOCAB, 4) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("argument", ["embed_dim", "window"])
def test_arguments_are_checked(rows, argument):
    options = {"embed_dim": 3, "window": 2, argument: 0}
    with pytest.raises(ValueError, match=f"{argument} must be positive"):
        word_vectors(rows, VOCAB, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"word_vectors": "neighbors"}, "Did you mean 'neighbours'"),
        ({"word_vectors": "neighbours", "classifier": "ngrams"}, "Only a new Transf"),
        ({"word_vectors": "neighbours", "init": "runs/x"}, "Only a new Transformer"),
    ],
)
def test_what_cannot_be_had_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        building.build(Recipe(**options), load("reviews(depth=1, train_size=9)"))


def test_a_run_starts_with_them_once(tmp_path, monkeypatch, tiny_recipe):
    """Scaled as the embedding was drawn; a run that goes on keeps what it learned."""
    given = []

    def spy(model, texts):
        table = model.classifier.get_layer("embedding").tokens.embeddings
        before = np.array(table)
        start_from_neighbours(model, texts)
        given.append((before, np.array(table), len(texts)))

    monkeypatch.setitem(building.WORD_VECTORS, "neighbours", spy)
    recipe = Recipe(**{**tiny_recipe, "epochs": 1, "word_vectors": "neighbours"})
    train.train(recipe, tmp_path / "run", verbose=0, export=False)
    [(before, after, texts)] = given
    assert texts == 200
    assert np.isclose(after.std(), before.std(), rtol=0.1)
    np.testing.assert_array_equal(after[:2], before[:2])
    assert (after[2:] != before[2:]).any(axis=1).mean() > 0.9
