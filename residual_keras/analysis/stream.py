"""The stream along depth: how large it is, and how it turns."""

import dataclasses

import numpy as np

from .drawing import drawn, over_depth, panels
from .opening import opened
from .recording import numpy, record


@dataclasses.dataclass(frozen=True)
class StreamProfile:
    """The stream along n sublayers, padding left out.

    Attributes:
        rms: (n + 1,), the root of the mean square of the stream, before the first
            sublayer and after each.
        updates: (n,), that of what each sublayer gave, before the scheme wrote it.
        cosine: (n,), between the stream after each sublayer and before it, the mean
            over tokens.
        token_cosine: (n + 1,), between the tokens of a text, the mean over pairs and
            then over texts; near 1 the tokens have become alike (rank collapse). NaN
            where no text has two tokens.
    """

    rms: np.ndarray
    updates: np.ndarray
    cosine: np.ndarray
    token_cosine: np.ndarray

    @property
    def ratio(self):
        """(n,), the RMS of each update over that of the stream before it."""
        return self.updates / np.maximum(self.rms[:-1], np.finfo(float).tiny)

    def plot(self, ax=None):
        """Draws sizes, their ratio, and cosines.

        Args:
            ax: three matplotlib axes; None for those of a new figure.

        Returns:
            The three axes.
        """
        axes = panels(ax, 3)
        count = len(self.updates)
        before, sublayers = np.arange(count + 1) - 0.5, np.arange(count)
        axes[0].plot(before, self.rms, "o-", label="stream")
        axes[0].plot(sublayers, self.updates, "s", label="update")
        axes[0].set(title="RMS", yscale="log")
        axes[1].plot(sublayers, self.ratio, "s", color="C1")
        axes[1].set(title="RMS of update / stream", yscale="log")
        axes[2].plot(sublayers, self.cosine, "o-", label="before and after")
        axes[2].plot(before, self.token_cosine, "^-", label="between tokens")
        axes[2].set(title="cosine")
        for one in axes:
            over_depth(one, count)
            one.set_xlim(-0.8, count - 0.2)
        axes[0].legend()
        axes[2].legend()
        return drawn(axes)


def stream_profile(model, x):
    """Follows the stream of a batch through all sublayers.

    The stream after a sublayer is what the stack would return if it ended there, but
    for its last norm, under every scheme: of several streams it is what they are joined
    to. Blocks that were stacked by hand are followed one after the other.

    Args:
        model: a `TextClassifier`, a model of token ids, or a model wired by hand around
            `TransformerEncoder` or `TransformerBlock`s.
        x: a batch of what the model takes: a list of texts, or ids (batch, time).

    Returns:
        A `StreamProfile`; even sublayers are attention, odd ones feed-forward.

    Raises:
        ValueError: if the model holds no such layer, or the batch no token.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2, num_layers=3)
        >>> stream_profile(model, keras.ops.ones((4, 7), "int32")).rms.shape
        (7,)
    """
    model = opened(model, x)
    passes, _ = record(model.network, model.inputs)
    sizes, updates, cosines, alike = [], [], [], []
    for one in passes:
        states = [numpy(state).astype("float64") for state in one.exits]
        after = states if one is passes[0] else states[1:]
        sizes += [rms(state[one.mask]) for state in after]
        alike += [between_tokens(state, one.mask) for state in after]
        updates += [rms(numpy(update)[one.mask]) for _, update in one.writes]
        cosines += [
            np.mean(np.sum(unit(a[one.mask]) * unit(b[one.mask]), axis=-1))
            for a, b in zip(states[:-1], states[1:], strict=True)
        ]
    return StreamProfile(*map(np.array, (sizes, updates, cosines, alike)))


def rms(x):
    """The root of the mean square of all numbers."""
    return np.sqrt(np.mean(np.square(x, dtype="float64")))


def unit(x):
    """Vectors along the last axis, of length 1; 0 stays 0."""
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.maximum(length, np.finfo(float).tiny)


def between_tokens(state, mask):
    """The mean cosine between two tokens of a text, over all texts that have two."""
    found = []
    for tokens, real in zip(state, mask, strict=True):
        count = int(real.sum())
        if count > 1:  # of the sum's square, the pairs of a token with itself are off
            square = np.sum(np.square(unit(tokens[real]).sum(0)))
            found.append((square - count) / (count * (count - 1)))
    return np.mean(found) if found else np.nan
