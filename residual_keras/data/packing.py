"""Packed rows: texts joined and cut into rows of one length, without padding.

Between two texts stands one padding id. It needs no entry in the vocabulary, no text
has it, attention looks past it, and so what is learned of it disturbs nothing later.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from .batches import step_indices

SEPARATOR = 0  # the id of padding


def pack(texts: Sequence[str], vectorizer, length: int) -> np.ndarray:
    """Join texts and cut them into rows.

    Args:
        texts: The raw texts; one without a token is left out.
        vectorizer: A `TextVectorizer` or `WordPieceVectorizer` that knows its words; no
            text is truncated.
        length: The ids in a row.

    Returns:
        Ids, int32 (rows, length), in the order of the texts. What does not fill a row
        at the end is dropped; so there may be none.

    Example:
        >>> from residual_keras import TextVectorizer
        >>> vectorizer = TextVectorizer(vocab_size=10, max_len=2)
        >>> vectorizer.adapt(["a a a b b c"])
        >>> pack(["a b c", "", "a a", "b"], vectorizer, 4).tolist()
        [[2, 3, 4, 0], [2, 2, 0, 3]]
    """
    parts = [np.zeros(0, np.int32)]
    for ids in whole_texts(texts, vectorizer):
        if len(ids):
            parts += [ids, np.full(1, SEPARATOR, np.int32)]
    ids = np.concatenate(parts)
    rows = len(ids) // length
    return ids[: rows * length].reshape(rows, length)


def whole_texts(texts: Sequence[str], vectorizer) -> Iterator[np.ndarray]:
    """Give the ids of each text, of which nothing is cut off.

    Args:
        texts: The raw texts.
        vectorizer: As `pack` takes it.

    Yields:
        Ids, int32 (time,).
    """
    config = {**vectorizer.get_config(), "max_len": sys.maxsize}
    whole = type(vectorizer).from_config(config)
    # All strings at once would double their memory.
    for start in range(0, len(texts), 1024):
        ids = whole.token_ids(tf.constant(texts[start : start + 1024]))
        yield from np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])


def training_rows(
    rows: np.ndarray, batch_size: int, *, seed: int, start_step: int = 0
) -> tf.data.Dataset:
    """Batch packed rows for training, in a new order each time through.

    Args:
        rows: Ids, int32 (rows, length).
        batch_size: Rows in a batch; the last one of each time through may be short.
        seed: Decides the order.
        start_step: The step, counted from 0, to begin at.

    Returns:
        An infinite dataset of ids, int32 (batch, length).

    Example:
        >>> rows = np.arange(12, dtype="int32").reshape(3, 4)
        >>> next(iter(training_rows(rows, 2, seed=0))).shape
        TensorShape([2, 4])
    """
    alike = np.zeros(len(rows), np.int64)
    found = step_indices(alike, batch_size, seed=seed, start_step=start_step)
    with tf.device("CPU"):
        kept = tf.constant(rows)
    return found.map(lambda batch: tf.gather(kept, batch)).prefetch(tf.data.AUTOTUNE)


def evaluation_rows(rows: np.ndarray, batch_size: int) -> tf.data.Dataset:
    """Batch packed rows for evaluation, once, in their order.

    Args:
        rows: Ids, int32 (rows, length).
        batch_size: Rows in a batch; the last one may be short.

    Returns:
        A dataset of ids, int32 (batch, length).
    """
    return tf.data.Dataset.from_tensor_slices(rows).batch(batch_size)
