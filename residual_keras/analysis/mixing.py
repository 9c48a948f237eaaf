"""The weights that a scheme has learned to mix by, along depth."""

import dataclasses

import numpy as np

from .drawing import drawn, heatmap, panels
from .opening import check_number, opened
from .recording import numpy, record


@dataclasses.dataclass(frozen=True)
class MixingWeights:
    """What a scheme mixes by; its dicts' keys are the letters of the scheme's equation.

    Attributes:
        places: by name, which sublayer each entry belongs to, a list of strings; "end"
            is what the stack returns.
        over: by name, what the axes of an entry run over, such as ("source",).
        tokens: by name, a list of arrays, one for each place: (batch, time, ...) where
            each token has its own, else (...).
        mask: (batch, time), True at real tokens.
    """

    places: dict
    over: dict
    tokens: dict
    mask: np.ndarray

    @property
    def names(self):
        """The names of the weights; none where a scheme has learned no mixing."""
        return list(self.tokens)

    def mean(self, name, text=None):
        """The weights of a name, averaged over real tokens.

        Args:
            name: one of `names`.
            text: the number of one text in the batch; None for all of them.

        Returns:
            A list of arrays, one for each place.

        Raises:
            ValueError: if there is no such name or text.
        """
        if name not in self.tokens:
            raise ValueError(
                f"name must be one of {self.names}. Received: name={name!r}"
            )
        mask = self.mask
        if text is not None:
            check_number("text", text, len(mask))
            mask = mask & (np.arange(len(mask)) == text)[:, None]
        inner = len(self.over[name])
        return [
            one if one.ndim == inner else one[mask].mean(0) for one in self.tokens[name]
        ]

    def plot(self, ax=None, text=None):
        """Draws the weights of every name, depth from left to right.

        One number is a line; numbers for the channels are their mean, and a band from
        the tenth to the ninetieth of a hundred; all else is a map of colours.

        Args:
            ax: as many matplotlib axes as there are names; None for a new figure.
            text: as in `mean`.

        Returns:
            The axes, an array where they are several.

        Raises:
            ValueError: if the scheme has learned no mixing.
        """
        if not self.names:
            raise ValueError(
                "The scheme mixes by no learned weights, so there is nothing to draw. "
                "Received: names=[]"
            )
        axes = panels(ax, len(self.names), width=4.6)
        for one, name in zip(axes, self.names, strict=True):
            draw = {0: draw_numbers, 1: draw_vectors, 2: draw_matrices}
            over = self.over[name]
            draw = draw_channels if over == ("channel",) else draw[len(over)]
            draw(one, self.mean(name, text), self.places[name], over)
            one.set_title(name)
        return drawn(axes)


def mixing_weights(model, x):
    """What a model's scheme mixes by, for a batch.

    attn_res and delta_attn_res: the attention to what was written before. The
    connections between several streams. dense_former and mudd: the sums over blocks.
    Gates, and learned scales. What a scheme has is named as in its equation, see
    `residual-keras schemes NAME`; one's own scheme calls `show` of `Residual`.

    Args:
        model: as in `stream_profile`.
        x: as in `stream_profile`.

    Returns:
        A `MixingWeights`, without names where the scheme has learned no mixing.

    Raises:
        ValueError: as `stream_profile`.

    Example:
        >>> model = build_classifier(100, 2, residual="attn_res")
        >>> weights = mixing_weights(model, keras.ops.ones((4, 7), "int32"))
        >>> [a.shape for a in weights.mean("a")]
        [(1,), (2,), (3,), (4,), (5,)]
    """
    model = opened(model, x)
    passes, _ = record(model.network, model.inputs)
    places, over, tokens, first = {}, {}, {}, 0
    for one in passes:
        count = len(one.writes)
        for name, found in one.shown.items():
            for i, (weights, axes) in sorted(found.items()):
                over[name] = axes
                place = "end" if i == count else str(first + i)
                places.setdefault(name, []).append(place)
                tokens.setdefault(name, []).append(numpy(weights))
        first += count
    return MixingWeights(places, over, tokens, passes[0].mask)


def draw_numbers(axes, values, places, over):
    """A line."""
    axes.plot(values, "o-")
    label_depth(axes, places)
    axes.grid(alpha=0.3)


def draw_channels(axes, values, places, over):
    """The mean over channels, and where most of them are."""
    places_drawn = range(len(values))
    low, high = (np.array([np.quantile(v, q) for v in values]) for q in (0.1, 0.9))
    axes.fill_between(
        places_drawn, low, high, alpha=0.3, label="10 to 90 % of channels"
    )
    axes.plot([v.mean() for v in values], "o-", label="mean")
    label_depth(axes, places)
    axes.grid(alpha=0.3)
    axes.legend()


def draw_vectors(axes, values, places, over):
    """A column of colours for each place."""
    table = np.full((max(map(len, values)), len(values)), np.nan)
    for k, one in enumerate(values):
        table[: len(one), k] = one
    heatmap(axes, table)
    label_depth(axes, places)
    axes.set_ylabel(over[0])
    axes.yaxis.get_major_locator().set_params(integer=True)


def draw_matrices(axes, values, places, over):
    """The matrices of all places side by side, a gap between them."""
    rows = max(len(one) for one in values)
    parts, middles, width = [], [], 0
    for one in values:
        part = np.full((rows, one.shape[1] + 1), np.nan)
        part[-len(one) :, :-1] = one  # the last reader is the one that all have
        middles.append(width + (one.shape[1] - 1) / 2)
        width += part.shape[1]
        parts.append(part)
    heatmap(axes, np.concatenate(parts, axis=1)[:, :-1])
    label_depth(axes, places, middles)
    axes.set_ylabel(over[0])
    axes.set_xlabel(f"{over[1]}, by sublayer")
    axes.yaxis.get_major_locator().set_params(integer=True)


def label_depth(axes, places, ticks=None):
    """Names the places along the horizontal axis, some of them if they are many."""
    ticks = range(len(places)) if ticks is None else ticks
    step = -(-len(places) // 12)
    axes.set_xticks(list(ticks)[::step], places[::step])
    axes.set_xlabel("sublayer")
