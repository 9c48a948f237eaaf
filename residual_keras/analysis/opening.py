"""What a user calls a model, as the network to look into, its input and its words."""

import dataclasses

import numpy as np
from keras import ops

from ..optimization import layers_of
from ..stack import Stack
from ..text_classifier import TextClassifier
from ..vectorizer import Vectorizer, as_texts


@dataclasses.dataclass
class Opened:
    """A model and a batch, ready to be run.

    Attributes:
        network: what is called, a model or a stack.
        inputs: what it is called with, a tensor.
        words: the tokens of each text, a list of lists of strings; None where the input
            is no text.
        label_names: of the classes, or None.
    """

    network: object
    inputs: object
    words: list | None = None
    label_names: list | None = None


def opened(model, x):
    """A model and a batch, whichever way they are given.

    Args:
        model: a `TextClassifier`; a model of ids, such as `Classifier`; one that was
            wired by hand from our layers; or a `TransformerEncoder` or
            `TransformerBlock` by itself.
        x: what the model takes: a list of texts, token ids (batch, time), or for a
            layer by itself (batch, time, width).

    Returns:
        An `Opened`.

    Raises:
        ValueError: if x is not what the model takes.
    """
    if isinstance(model, TextClassifier):
        texts = as_texts(x)
        words = model.vectorizer.tokens(texts)
        ids = model.vectorizer(texts)
        return Opened(model.classifier, ids, words, model.label_names)
    layers = [] if isinstance(model, Stack) else layers_of(model)
    vectorizers = [one for one in layers if isinstance(one, Vectorizer)]
    if vectorizers:
        texts = as_texts(x)
        return Opened(model, texts, vectorizers[0].tokens(texts))
    try:
        rows = isinstance(x, (list, tuple))
        inputs = ops.convert_to_tensor(np.asarray(x) if rows else x)
        # Past the check, numbers of the wrong kind are the embedding's to refuse.
        fits = inputs.dtype != "string" and len(inputs.shape) >= 2
    except (TypeError, ValueError):  # of rows of unlike length, the backend's words
        fits = False
    if not fits:
        raise ValueError(
            "A model without a TextVectorizer takes token ids (batch, time), padded "
            f"with 0. Received: {type(x).__name__}. Texts go to a TextClassifier."
        )
    return Opened(model, inputs)


def check_number(name, number, count):
    """Raises ValueError if a number is none of 0 .. count - 1."""
    if not 0 <= number < count:
        raise ValueError(
            f"{name} must be a number below {count}. Received: {name}={number}"
        )


def words_of(words, mask):
    """How the real tokens of one text are called.

    Args:
        words: the text's tokens, or None.
        mask: (time,), True at real tokens; there may be more of them than words, of
            which the first, such as a class token, come before the text.

    Returns:
        A list of strings.
    """
    count = int(mask.sum())
    if words is None:
        return [str(place) for place in range(count)]
    return ["[class]"] * (count - len(words)) + words[:count]
