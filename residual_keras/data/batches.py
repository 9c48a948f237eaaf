"""Batches: a split's texts as a `tf.data.Dataset`, bucketed by length.

A batch is padded to its own longest text, so texts of like length go together. Which
texts make up the batch of a step depends on the seed and the step's number alone: a
resumed run sees the very batches that the uninterrupted one would have seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from .splits import Split

# Sorting all texts would fix the batches for good, sorting few would save no padding.
_POOL = 50  # batches


def plan(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[np.ndarray]:
    """Deal the texts out to the batches of one epoch.

    The texts are shuffled and cut into pools of 50 batches, each pool is sorted by
    length and cut into batches, and the batches of all pools are shuffled. One batch
    is short where the texts do not fill it.

    Args:
        lengths: Each text's length, in any unit.
        batch_size: Texts in a batch.
        seed: Decides the order, together with `epoch`.
        epoch: The epoch's number, counted from 0.

    Returns:
        One array of text indices per batch; each index stands in one of them.

    Raises:
        ValueError: If `batch_size` is not a positive integer, or `seed` or `epoch`
            not a non-negative one.

    Example:
        >>> batches = plan([3, 1, 2, 9, 8], 2, seed=0, epoch=0)
        >>> sorted(len(batch) for batch in batches)
        [1, 2, 2]
    """
    _check_integer("batch_size", batch_size, 1)
    _check_integer("seed", seed, 0)
    _check_integer("epoch", epoch, 0)
    lengths = np.asarray(lengths)
    rng = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = rng.permutation(len(lengths))
    batches = []
    for pool in _cut(order, _POOL * batch_size):
        # The sort is stable, so texts of one length stay in their random order.
        by_length = pool[np.argsort(lengths[pool], kind="stable")]
        batches += _cut(by_length, batch_size)
    return [batches[i] for i in rng.permutation(len(batches))]


def steps_per_epoch(split: Split, batch_size: int) -> int:
    """Count the batches that hold each text of a split once.

    Args:
        split: The texts.
        batch_size: Texts in a batch.

    Returns:
        The number of batches, a short one included.

    Raises:
        ValueError: If `batch_size` is not a positive integer.

    Example:
        >>> steps_per_epoch(Split(["a", "b", "c"], [0, 1, 0]), 2)
        2
    """
    _check_integer("batch_size", batch_size, 1)
    return -(-len(split) // batch_size)


def training_batches(
    split: Split,
    vectorizer: Callable[[tf.Tensor], tf.Tensor],
    batch_size: int,
    *,
    seed: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Batch a split for training, epoch after epoch without end.

    Args:
        split: The texts and labels.
        vectorizer: Turns strings (batch,) into int32 ids (batch, time), padded with 0
            to the longest text of the batch.
        batch_size: Texts in a batch.
        seed: Decides the order of the texts in every epoch.
        start_step: The step, counted from 0 over all epochs, to begin at.

    Returns:
        An infinite dataset of pairs: ids, int32 (batch, time), and labels, int32
        (batch,), or float32 (batch, classes) where they are probabilities. Give
        `steps_per_epoch` to `model.fit` along with it.

    Raises:
        ValueError: If the split is empty, `batch_size` is not a positive integer, or
            `seed` or `start_step` not a non-negative one.

    Example:
        >>> import tensorflow as tf
        >>> split = Split(["ab", "a", "abc"], [0, 1, 0])
        >>> vectorizer = lambda texts: tf.strings.unicode_decode(
        ...     texts, "UTF-8").to_tensor()
        >>> batches = training_batches(split, vectorizer, 3, seed=0)
        >>> ids, labels = next(iter(batches))
        >>> ids.shape, labels.shape
        (TensorShape([3, 3]), TensorShape([3]))
    """
    steps = steps_per_epoch(split, batch_size)
    _check_integer("seed", seed, 0)
    _check_integer("start_step", start_step, 0)
    if not steps:
        raise ValueError(
            "Training needs one text or more. Received: split with 0 texts. "
            "Load a data set that is not empty."
        )
    found = step_indices(
        _lengths(split, vectorizer), batch_size, seed=seed, start_step=start_step
    )
    return _fetch(split, vectorizer, found)


def step_indices(
    lengths: Sequence[int], batch_size: int, *, seed: int, start_step: int
) -> tf.data.Dataset:
    """Say which texts make up the batch of each step, as `plan` deals them out.

    Args:
        lengths: Each text's length, in any unit; one or more.
        batch_size: Texts in a batch.
        seed: Decides the order of the texts in every epoch.
        start_step: The step, counted from 0 over all epochs, to begin at.

    Returns:
        An infinite dataset of arrays of text indices, int64 (batch,).
    """
    steps = -(-len(lengths) // batch_size)

    def indices():
        first_epoch, first_batch = divmod(start_step, steps)
        for epoch in itertools.count(first_epoch):
            batches = plan(lengths, batch_size, seed=seed, epoch=epoch)
            yield from batches[first_batch if epoch == first_epoch else 0 :]

    spec = tf.TensorSpec((None,), tf.int64)
    dataset = tf.data.Dataset.from_generator(indices, output_signature=spec)
    endless = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
    return dataset.apply(endless)


def evaluation_batches(
    split: Split, vectorizer: Callable[[tf.Tensor], tf.Tensor], batch_size: int
) -> tf.data.Dataset:
    """Batch a split for evaluation and prediction, once, shortest texts first.

    Args:
        split: The texts and labels.
        vectorizer: Turns strings (batch,) into int32 ids (batch, time), padded with 0
            to the longest text of the batch.
        batch_size: Texts in a batch.

    Returns:
        A dataset of `steps_per_epoch(split, batch_size)` pairs: ids, int32
        (batch, time), and labels, int32 (batch,), in the order that
        `evaluation_order(split, vectorizer)` says.

    Raises:
        ValueError: If `batch_size` is not a positive integer.

    Example:
        >>> import tensorflow as tf
        >>> split = Split(["abc", "a", "ab"], [0, 1, 0])
        >>> vectorizer = lambda texts: tf.strings.unicode_decode(
        ...     texts, "UTF-8").to_tensor()
        >>> [ids.shape[1] for ids, _ in evaluation_batches(split, vectorizer, 2)]
        [2, 3]
    """
    _check_integer("batch_size", batch_size, 1)
    order = tf.data.Dataset.from_tensor_slices(evaluation_order(split, vectorizer))
    return _fetch(split, vectorizer, order.batch(batch_size))


def evaluation_order(
    split: Split, vectorizer: Callable[[tf.Tensor], tf.Tensor]
) -> np.ndarray:
    """Say which text stands where in `evaluation_batches`.

    Args:
        split: The texts.
        vectorizer: The one given to `evaluation_batches`.

    Returns:
        The texts' indices, int64 (n,), shortest text first.

    Example:
        Put predictions back into the split's order:

        >>> import tensorflow as tf
        >>> split = Split(["abc", "a", "ab"], [0, 1, 0])
        >>> vectorizer = lambda texts: tf.strings.unicode_decode(
        ...     texts, "UTF-8").to_tensor()
        >>> order = evaluation_order(split, vectorizer)
        >>> predictions = np.array([1.0, 2.0, 3.0])  # of "a", "ab" and "abc"
        >>> restored = np.empty_like(predictions)
        >>> restored[order] = predictions
        >>> restored.tolist()
        [3.0, 1.0, 2.0]
    """
    return np.argsort(_lengths(split, vectorizer), kind="stable")


def padded(
    vectorizer: Callable[[tf.Tensor], tf.Tensor], multiple: int
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Let a vectorizer pad its batches to a multiple of some number of ids.

    A compiler makes a program of its own for each shape, XLA for one: batches of like
    lengths then share theirs.

    Args:
        vectorizer: Turns strings (batch,) into int32 ids (batch, time), padded with 0;
            its `max_len` is the longest time of all.
        multiple: The ids. From `max_len` on, all batches have one length.

    Returns:
        The same with time a multiple of `multiple`, or `max_len` where that is less.

    Raises:
        ValueError: If `multiple` is not a positive integer.

    Example:
        >>> from residual_keras import TextVectorizer
        >>> vectorizer = TextVectorizer(vocab_size=10, max_len=6)
        >>> vectorizer.adapt(["a b c d e f g"])
        >>> padded(vectorizer, 4)(["a b"]).shape
        TensorShape([1, 4])
        >>> padded(vectorizer, 4)(["a b c d e f g"]).shape
        TensorShape([1, 6])
    """
    _check_integer("multiple", multiple, 1)
    if multiple == 1:
        return vectorizer
    longest = vectorizer.max_len

    def vectorize(texts):
        ids = vectorizer(texts)
        time = tf.shape(ids)[1]
        least = tf.maximum(-(-time // multiple), 1) * multiple
        ids = tf.pad(ids, [[0, 0], [0, tf.minimum(least, longest) - time]])
        return tf.ensure_shape(ids, [None, longest]) if multiple >= longest else ids

    return vectorize


def _fetch(split, vectorizer, indices: tf.data.Dataset) -> tf.data.Dataset:
    # Made once, here: a constant inside the mapped function would be copied into its
    # graph. Tokenizing a batch at a time is three times as fast as text by text.
    texts = _texts(split)
    with tf.device("CPU"):
        whole = np.issubdtype(np.asarray(split.labels).dtype, np.integer)
        labels = tf.constant(split.labels, tf.int32 if whole else tf.float32)

    def fetch(batch):
        return vectorizer(tf.gather(texts, batch)), tf.gather(labels, batch)

    return indices.map(fetch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(
        tf.data.AUTOTUNE
    )


def _lengths(split, vectorizer) -> np.ndarray:
    # Counting tokens takes a second for 25,000 reviews, once; going by characters
    # pads 5% more in every epoch.
    def count(texts):
        return tf.math.count_nonzero(vectorizer(texts), axis=1)

    batches = tf.data.Dataset.from_tensor_slices(_texts(split)).batch(512)
    counts = batches.map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate([np.zeros(0, np.int64), *counts.as_numpy_iterator()])


def _texts(split) -> tf.Tensor:
    with tf.device("CPU"):
        return tf.constant(split.texts, tf.string)


def _cut(array: np.ndarray, size: int) -> list[np.ndarray]:
    return [array[start : start + size] for start in range(0, len(array), size)]


def _check_integer(name: str, value: int, least: int) -> None:
    if not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(
            f"{name} is an integer from {least} on. Received: {name}={value!r}. "
            f"Give a number such as {least + 7}."
        )
