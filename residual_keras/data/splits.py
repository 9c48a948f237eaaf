"""Splits: labelled texts, the three of them that make up a data set, and a cut."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Split:
    """Texts and their labels, in one order.

    Args:
        texts: The raw texts.
        labels: One class number per text, counted from 0; kept as int32.

    Raises:
        ValueError: If `labels` is not one non-negative integer per text.

    Example:
        >>> split = Split(["a fine film", "a dull film"], [1, 0])
        >>> len(split)
        2
    """

    texts: list[str]
    labels: np.ndarray

    def __post_init__(self):
        """Check the labels and turn them into int32."""
        labels = np.asarray(self.labels)
        if labels.size == 0:
            labels = labels.astype(np.int32)
        if labels.shape != (len(self.texts),) or labels.dtype.kind not in "iu":
            raise ValueError(
                "A split needs one integer label per text. "
                f"Received: {len(self.texts)} texts, labels of shape "
                f"{labels.shape} and type {labels.dtype}. Give labels of shape "
                f"({len(self.texts)},) that count the classes from 0."
            )
        if labels.size and labels.min() < 0:
            raise ValueError(
                "Labels count the classes from 0. "
                f"Received: labels[{int(labels.argmin())}]={labels.min()}. "
                "Number the classes 0, 1, 2, ..."
            )
        object.__setattr__(self, "labels", labels.astype(np.int32))

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts)

    def take(self, indices) -> Split:
        """Return the rows at `indices`, in that order, as a new split.

        Args:
            indices: Row numbers.

        Returns:
            A `Split` of those rows.

        Example:
            >>> Split(["a", "b"], [0, 1]).take([1]).texts
            ['b']
        """
        indices = np.asarray(indices, dtype=np.int64)
        return Split([self.texts[i] for i in indices], self.labels[indices])


@dataclasses.dataclass(frozen=True)
class TextData:
    """A data set for text classification.

    Args:
        name: What the data set is called.
        label_names: The classes' names; a label is an index into them.
        train: What is trained on.
        validation: What checkpoints and settings are chosen by.
        test: What the final figure is measured on, or `None`.

    Example:
        >>> rows = Split(["a fine film", "a dull film"], [1, 0])
        >>> TextData("films", ("bad", "good"), rows, rows, None).label_names
        ('bad', 'good')
    """

    name: str
    label_names: tuple[str, ...]
    train: Split
    validation: Split
    test: Split | None = None


def stratified_split(
    split: Split, fraction: float, seed: int, *, label_names: Sequence[str] = ()
) -> tuple[Split, Split]:
    """Cut a validation part off a split, class by class.

    Rows with equal texts fall on one side together, so no validation text also
    stands in the training part. A text that carries several labels is drawn with
    the rarest of them. Both parts keep the order of the rows.

    Args:
        split: The rows to cut.
        fraction: The validation part's share of each class's distinct texts, above
            0 and below 1. Each class keeps at least one text on either side.
        seed: Decides which texts are drawn; the same seed draws the same texts on
            every platform.
        label_names: The classes' names, for the error message.

    Returns:
        The pair `(train, validation)`.

    Raises:
        ValueError: If `fraction` is not between 0 and 1, or a class has fewer than
            two distinct texts of its own.

    Example:
        >>> rows = Split([f"text {i}" for i in range(10)], [0, 1] * 5)
        >>> train, validation = stratified_split(rows, 0.2, seed=0)
        >>> len(train), len(validation)
        (8, 2)
    """
    if not 0 < fraction < 1:
        raise ValueError(
            "The validation fraction lies between 0 and 1. "
            f"Received: fraction={fraction!r}. Give a share such as 0.1."
        )
    texts_of = collections.defaultdict(dict)  # a dict keeps the order, a set does not
    for text, label in zip(split.texts, split.labels.tolist(), strict=True):
        texts_of[label][text] = True

    rng = np.random.Generator(np.random.PCG64(seed))
    drawn, held_out = set(), set()
    for label in sorted(texts_of, key=lambda label: (len(texts_of[label]), label)):
        texts = [text for text in texts_of[label] if text not in drawn]
        if len(texts) < 2:
            name = f" ({label_names[label]!r})" if label_names else ""
            raise ValueError(
                "Each class needs two distinct texts of its own, one to train on and "
                f"one to validate on. Received: class {label}{name} with {len(texts)}. "
                "Add texts to the class, leave it out, or give a validation set."
            )
        drawn.update(texts)
        count = min(max(round(fraction * len(texts)), 1), len(texts) - 1)
        held_out.update(texts[i] for i in rng.permutation(len(texts))[:count])

    is_held_out = np.array([text in held_out for text in split.texts], dtype=bool)
    train, validation = np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)
    return split.take(train), split.take(validation)
