"""What every token attends to, in every layer."""

import dataclasses

import numpy as np

from .drawing import drawn, heatmap, panels
from .opening import check_number, opened, words_of
from .recording import numpy, record


@dataclasses.dataclass(frozen=True)
class AttentionMaps:
    """The attention weights of a batch.

    Attributes:
        weights: a list with an array for each block, (batch, num_heads, time, time);
            the last axis is what is attended to, and sums to 1.
        mask: (batch, time), True at real tokens.
        words: the tokens of each text, or None where the model was given ids.
    """

    weights: list
    mask: np.ndarray
    words: list | None

    def of_text(self, text=0):
        """What one text's real tokens are, and how they attend to each other.

        Args:
            text: its number in the batch.

        Returns:
            A list of words, and a list of arrays (num_heads, tokens, tokens).

        Raises:
            ValueError: if there is no such text.
        """
        check_number("text", text, len(self.mask))
        real = self.mask[text]
        words = words_of(self.words and self.words[text], real)
        return words, [one[text][:, real][:, :, real] for one in self.weights]

    def plot(self, ax=None, text=0, head=None):
        """Draws the maps of every block for one text.

        Args:
            ax: a matplotlib axes for each block; None for those of a new figure.
            text: the text's number in the batch.
            head: a head's number; None for the mean of all.

        Returns:
            The axes, an array where they are several.

        Raises:
            ValueError: if there is no such text or head.
        """
        words, maps = self.of_text(text)
        if head is not None:
            check_number("head", head, len(maps[0]))
        side = max(3.0, 0.19 * len(words) + 1.6)
        axes = panels(ax, len(maps), width=side * 1.15, height=side)
        for k, (one, weights) in enumerate(zip(axes, maps, strict=True)):
            heatmap(one, weights.mean(0) if head is None else weights[head])
            one.set_xticks(range(len(words)), words, rotation=90, fontsize=8)
            one.set_yticks(range(len(words)), words, fontsize=8)
            one.set_title(f"block {k}, {'mean' if head is None else f'head {head}'}")
        return drawn(axes)


def attention_maps(model, x):
    """The attention weights of every block for a batch.

    Args:
        model: as in `stream_profile`.
        x: as in `stream_profile`.

    Returns:
        An `AttentionMaps`.

    Raises:
        ValueError: as `stream_profile`.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> maps = attention_maps(model, keras.ops.ones((4, 7), "int32"))
        >>> [weights.shape for weights in maps.weights]
        [(4, 4, 7, 7), (4, 4, 7, 7)]
    """
    model = opened(model, x)
    passes, _ = record(model.network, model.inputs)
    weights = [numpy(scores) for one in passes for scores in one.scores]
    return AttentionMaps(weights, passes[0].mask, model.words)
