"""Packed rows hold the texts, in order, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras.data.packing import evaluation_rows, pack, training_rows
from residual_keras.text import TextVectorizer

WORDS = ["", "[UNK]", "a", "b", "c"]


@pytest.fixture(scope="module")
def vectorizer():
    return TextVectorizer(vocab_size=9, max_len=2, vocabulary=WORDS)


@settings(deadline=None, max_examples=50)
@given(
    texts=st.lists(st.lists(st.sampled_from([1, 2, 3, 4]), max_size=7), max_size=9),
    length=st.integers(1, 11),
)
def test_no_token_is_lost_or_invented(vectorizer, texts, length):
    raw = [" ".join(["", "unknown", "a", "b", "c"][i] for i in ids) for ids in texts]
    rows = pack(raw, vectorizer, length)
    stream = [i for ids in texts if ids for i in [*ids, 0]]
    assert rows.dtype == np.int32 and rows.shape[1] == length
    assert rows.ravel().tolist() == stream[: rows.size]
    assert len(stream) - rows.size < length, "only what does not fill a row is dropped"


def test_more_texts_than_are_encoded_at_once(vectorizer):
    rows = pack(["a"] * 2500, vectorizer, 4)
    assert rows.shape == (1250, 4) and (rows == [2, 0, 2, 0]).all()


def test_sub_words_are_packed_too():
    pytest.importorskip("tokenizers")
    from residual_keras import WordPieceVectorizer

    pieces = WordPieceVectorizer(vocab_size=40, max_len=3)
    pieces.adapt(["a fine film", "a fine find"])
    whole = [i for i in pieces(["a fine"]).numpy()[0].tolist() if i]
    assert pack(["a fine"], pieces, 2).ravel().tolist()[: len(whole)] == whole


def test_each_time_through_has_each_row_once_in_a_new_order():
    rows = np.arange(7, dtype="int32").reshape(7, 1)
    batches = list(training_rows(rows, 3, seed=0).take(6).as_numpy_iterator())
    first, second = (
        np.concatenate(part).ravel() for part in (batches[:3], batches[3:])
    )
    assert sorted(first) == sorted(second) == list(range(7))
    assert first.tolist() != second.tolist()
    later = training_rows(rows, 3, seed=0, start_step=4).take(2).as_numpy_iterator()
    for found, expected in zip(later, batches[4:], strict=True):
        np.testing.assert_array_equal(found, expected)
    other = next(iter(training_rows(rows, 7, seed=1))).numpy().ravel()
    assert other.tolist() != first.tolist()
    ordered = np.concatenate(list(evaluation_rows(rows, 3).as_numpy_iterator()))
    np.testing.assert_array_equal(ordered, rows)
