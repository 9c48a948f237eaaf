"""What the head makes of the stream after every block."""

import dataclasses

import numpy as np

from .decision import checked_labels, labels, logits, probabilities
from .drawing import over_depth, panels
from .opening import opened
from .recording import numpy, record, replaced


@dataclasses.dataclass(frozen=True)
class LogitLens:
    """A batch as the head reads it before the first block and after each.

    Attributes:
        logits: (blocks + 1, batch, classes).
        probabilities: (blocks + 1, batch, classes), or two for a single logit.
        labels: (blocks + 1, batch), the label decided for.
        accuracy: (blocks + 1,), the share of right labels; None where none were given.
    """

    logits: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray
    accuracy: np.ndarray | None

    @property
    def agreement(self):
        """(blocks + 1,), the share of texts that have the whole model's label."""
        return (self.labels == self.labels[-1]).mean(-1)

    @property
    def confidence(self):
        """(blocks + 1,), the mean probability of the whole model's label."""
        picked = self.labels[-1][None, :, None]
        return np.take_along_axis(self.probabilities, picked, axis=-1).mean((1, 2))

    def plot(self, ax=None):
        """Draws how the decision comes about with depth.

        Args:
            ax: a matplotlib axes; None for that of a new figure.

        Returns:
            The axes.
        """
        (axes,) = panels(ax, 1, width=5.0, height=3.2)
        axes.plot(self.confidence, "o-", label="probability of the final label")
        axes.plot(self.agreement, "^--", label="share with the final label")
        if self.accuracy is not None:
            axes.plot(self.accuracy, "s-", label="accuracy")
        over_depth(axes, len(self.labels), "blocks passed")
        axes.set(title="the head's reading along depth", ylim=(-0.03, 1.03))
        axes.legend()
        return axes


def logit_lens(model, x, y=None):
    """Reads the stream after every block as if the stack ended there.

    What leaves the scheme after a block goes through the stack's last norm and all that
    comes behind the stack: pooling and head (nostalgebraist 2020, "interpreting GPT:
    the logit lens"; it is not on arXiv). The last entry is the model's own output. What
    the head cannot read may still be there: it learned to read the end alone.

    Args:
        model: as in `stream_profile`; a classifier.
        x: a batch of what the model takes.
        y: its labels, integers (batch,), for the accuracy.

    Returns:
        A `LogitLens`.

    Raises:
        ValueError: if y does not fit x, if blocks have unlike widths, and as
            `stream_profile`.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=3)
        >>> logit_lens(model, keras.ops.ones((4, 7), "int32")).logits.shape
        (3, 4, 3)
    """
    model = opened(model, x)
    network = model.network
    passes, output = record(network, model.inputs)
    widths = {one.stack.embed_dim for one in passes}
    if len(widths) > 1:
        raise ValueError(
            "One head reads all blocks, so their streams must be as wide. "
            f"Received: embed_dim={sorted(widths)}"
        )
    exits = passes[0].block_exits
    for one in passes[1:]:
        exits = exits + one.block_exits[1:]
    found = [read(network, model.inputs, passes[-1], z) for z in exits[:-1]]
    found.append(output)
    decided = np.stack([labels(network, one) for one in found])
    right = None
    if y is not None:
        right = (decided == checked_labels(y, decided.shape[1])).mean(-1)
    return LogitLens(
        np.stack([numpy(logits(network, one)) for one in found]),
        np.stack([probabilities(network, one) for one in found]),
        decided,
        right,
    )


def read(network, inputs, last, stream):
    """What the model returns if its last stack ends with this stream."""
    stack = last.stack
    y = stream if stack.norm is None else stack.norm(stream)
    result = (y, last.result[1]) if isinstance(last.result, tuple) else y
    with replaced(stack, call=lambda *args, **kwargs: result):
        return network(inputs)
