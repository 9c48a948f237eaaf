"""Which words pushed the decision, and which way."""

import dataclasses
import html

import keras
import numpy as np
from keras import ops

from ..embedding import PADDING_ID, UNKNOWN_ID, TokenAndPositionEmbedding
from ..optimization import layers_of
from .decision import labels, log_odds
from .differentiation import gradients
from .drawing import panels
from .opening import check_number, opened, words_of
from .recording import numpy, replaced

LINE = 76  # characters in a line of a drawing


@dataclasses.dataclass(frozen=True)
class WordAttributions:
    """What each word of a text adds to the log-odds of a label.

    Attributes:
        words: the text's tokens, strings.
        values: (tokens,); above 0 a word speaks for the label. Their sum is `score` -
            `baseline`, but for an error of the numerical integral, `gap`.
        label: the label's name, or its number.
        score: the log-odds of the label, log p / (1 - p), for the text.
        baseline: that of a text of as many unknown words.
    """

    words: list
    values: np.ndarray
    label: object
    score: float
    baseline: float

    @property
    def gap(self):
        """By how much the values miss what they should sum to."""
        return float(self.values.sum() - (self.score - self.baseline))

    @property
    def title(self):
        """The decision in a line."""
        return (
            f"{self.label}: log-odds {self.score:+.2f}; "
            f"of unknown words {self.baseline:+.2f}"
        )

    def colours(self):
        """(tokens, 3), red for the label and blue against it, between 0 and 1."""
        strength = self.values / max(np.abs(self.values).max(initial=0), 1e-12)
        faded = 1 - 0.75 * np.abs(strength)[:, None]
        full = np.where(strength[:, None] > 0, [0.9, 0.2, 0.15], [0.15, 0.35, 0.9])
        return faded + (1 - faded) * full

    def plot(self, ax=None):
        """Draws the text, its words on red where they speak for the label, else blue.

        Args:
            ax: a matplotlib axes; None for that of a new figure.

        Returns:
            The axes.
        """
        places, x, line = [], 0, 0
        for word in self.words:
            if x and x + len(word) > LINE:
                x, line = 0, line + 1
            places.append((x, line))
            x += len(word) + 2
        (axes,) = panels(ax, 1, width=7.5, height=0.9 + 0.36 * line)
        axes.set(xlim=(-1, LINE + 1), ylim=(line + 0.6, -0.6))
        axes.set_axis_off()
        axes.set_title(self.title, fontsize=10, loc="left")
        axes.figure.draw_without_rendering()  # now its axes have their place
        points = axes.get_window_extent().width * 72 / axes.figure.dpi
        size = points / (LINE + 2) / 0.62  # of a fixed-width letter
        for word, (x, y), colour in zip(
            self.words, places, self.colours(), strict=True
        ):
            box = {"facecolor": colour, "edgecolor": "none", "pad": 2}
            style = {"family": "monospace", "fontsize": size, "va": "center"}
            axes.text(x, y, word.replace("$", r"\$"), bbox=box, **style)
        return axes

    def html(self):
        """The same as HTML; a notebook shows it by itself."""
        words = []
        for word, value, colour in zip(
            self.words, self.values, self.colours(), strict=True
        ):
            red, green, blue = (round(255 * one) for one in colour)
            style = (
                f"background:rgb({red},{green},{blue});color:black;"
                "padding:1px 3px;border-radius:3px"
            )
            shown = html.escape(word)
            words.append(f'<span style="{style}" title="{value:+.3f}">{shown}</span>')
        title = f"<div><b>{html.escape(self.title)}</b></div>"
        return f'{title}<div style="line-height:1.9">{" ".join(words)}</div>'

    def _repr_html_(self):
        return self.html()


def word_attributions(model, text, label=None, steps=64):
    """What each word of one text adds to the log-odds of a label.

    Integrated gradients (Sundararajan et al. 2017, arXiv:1703.01365): from the
    embedding of a text of unknown words on a straight line to that of the text, the
    gradient by the embedding is averaged, and multiplied by the difference of the two.
    Gradient times input is the one end of that line: where a label is certain the
    gradient has faded there, and its values sum to nothing that has a meaning. These
    sum to what the words make of the decision.

    Args:
        model: as in `stream_profile`; a classifier that embeds token ids.
        text: one text for a model of texts, else its ids, (time,).
        label: the number of a label; None for that which the model decides for.
        steps: points on the line; more make `gap` smaller.

    Returns:
        A `WordAttributions`.

    Raises:
        ValueError: if the model has no embedding, or there is no such label.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> word_attributions(model, [5, 6, 7]).values.shape
        (3,)
    """
    if steps < 1:
        raise ValueError(f"steps must be positive. Received: steps={steps}")
    model = opened(model, [text])
    network, embedding = model.network, the_embedding(model.network)
    ids, end, output = embedded(network, embedding, model.inputs)
    if label is None:
        (label,) = labels(network, output)
    check_number("label", label, max(2, output.shape[-1]))
    real = ids != PADDING_ID
    start = embedding(ops.where(real, UNKNOWN_ID, ids))

    def score(x):
        inputs = ops.repeat(model.inputs, len(x), axis=0)
        with replaced(embedding, call=lambda *args, **kwargs: x):
            return log_odds(network, network(inputs), label)

    shares = (np.arange(steps) + 0.5) / steps  # the middles of equal parts
    shares = ops.cast(ops.reshape(shares, (-1, 1, 1)), end.dtype)
    line = start + shares * (end - start)
    (slopes,) = gradients(lambda: score(line), [line])
    values = numpy(ops.sum(ops.mean(slopes, axis=0) * (end - start)[0], axis=-1))
    ends = numpy(score(ops.concatenate([end, start], axis=0)))

    real = numpy(real)[0].astype(bool)
    words = words_of(model.words and model.words[0], real)
    name = label if model.label_names is None else model.label_names[label]
    return WordAttributions(words, values[real], name, *map(float, ends))


def the_embedding(network):
    """The first layer that embeds token ids."""
    kinds = TokenAndPositionEmbedding, keras.layers.Embedding
    layers = getattr(network, "layers", None) and layers_of(network)
    found = [layer for layer in layers or [] if isinstance(layer, kinds)]
    if not found:
        raise ValueError(
            "Words are told apart by their embedding: the model must hold a "
            "TokenAndPositionEmbedding or a keras.layers.Embedding. "
            f"Received: {network.name} without one"
        )
    return found[0]


def embedded(network, embedding, inputs):
    """The ids that the embedding got in a call, what it gave, and the output."""
    found, call = [], embedding.call

    def recorded(ids, *args, **kwargs):
        found[:] = ids, call(ids, *args, **kwargs)
        return found[1]

    with replaced(embedding, call=recorded):
        output = network(inputs)
    return *found, output
