"""What each block adds: the accuracy without it."""

import dataclasses

import numpy as np
from keras import ops

from .decision import accuracy, checked_labels
from .drawing import over_depth, panels
from .opening import opened
from .recording import replaced, stacks


@dataclasses.dataclass(frozen=True)
class SkippedBlocks:
    """Accuracies with one block skipped at a time.

    Attributes:
        whole: the accuracy of the whole model.
        without: (blocks,), the accuracy without each of them.
        texts: how many texts were classified.
    """

    whole: float
    without: np.ndarray
    texts: int

    @property
    def losses(self):
        """(blocks,), what the accuracy falls by without each block."""
        return self.whole - self.without

    def plot(self, ax=None):
        """Draws the accuracies, that of the whole model as a line.

        Args:
            ax: a matplotlib axes; None for that of a new figure.

        Returns:
            The axes.
        """
        (axes,) = panels(ax, 1, width=max(4.0, 0.35 * len(self.without)))
        axes.bar(range(len(self.without)), self.without, label="one block skipped")
        axes.axhline(self.whole, color="C1", label="whole model")
        over_depth(axes, len(self.without), "block skipped")
        axes.set(title="accuracy", ylim=(0, 1.3))
        axes.set_yticks(np.linspace(0, 1, 6))
        axes.legend(loc="upper center", ncols=2, fontsize=8)
        return axes


def skipped_blocks(model, x, y, batch_size=64):
    """The accuracy of a classifier with each block skipped.

    A block is skipped by setting the updates of its sublayers to 0, before the scheme
    writes them: under `pre_ln` the stream passes it by. What the scheme itself does to
    the stream there stays, such as a norm, a gate or the mixing of streams; under
    `none` nothing is left of the text.

    Args:
        model: as in `stream_profile`; a classifier.
        x: all texts to measure on: a list, or ids (texts, time).
        y: their labels, integers (texts,).
        batch_size: number of texts that are computed at once.

    Returns:
        A `SkippedBlocks`.

    Raises:
        ValueError: if y does not fit x, and as `stream_profile`.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> skipped_blocks(model, keras.ops.ones((4, 7), "int32"), [0, 1, 0, 1]).whole
        0.5
    """
    y = checked_labels(y, len(x))
    blocks = [
        (stack.residual, block)
        for stack in stacks(opened(model, x[:1]).network)
        for block in range(stack.num_layers)
    ]
    right = np.zeros(1 + len(blocks))
    for first in range(0, len(y), batch_size):
        part = slice(first, first + batch_size)
        batch = opened(model, x[part])
        share = len(y[part]) / len(y)
        for k, block in enumerate([None, *blocks]):
            output = run_without(block, batch.network, batch.inputs)
            right[k] += share * accuracy(batch.network, output, y[part])
    return SkippedBlocks(float(right[0]), right[1:], len(y))


def run_without(block, network, inputs):
    """What a model returns without a block, a pair of the scheme and a number."""
    if block is None:
        return network(inputs)
    residual, number = block
    write = residual.write

    def write_nothing(state, update, i):
        skipped = i // residual.per_block == number
        return write(state, ops.zeros_like(update) if skipped else update, i)

    with replaced(residual, write=write_nothing):
        return network(inputs)
