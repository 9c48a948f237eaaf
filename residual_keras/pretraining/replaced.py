"""Which words are not the text's own."""

import keras
import numpy as np
from keras import ops

from ..dense import Dense
from ..embedding import PADDING_ID
from .candidates import drawn, frequencies
from .objective import Objective, check_rate


class Replaced(Objective):
    """Binary cross-entropy of whether a word was replaced, the mean over all words.

    A share of the words gives way to others, drawn by their frequency. There is no
    softmax, and no second network that would write likelier ones as in the source:
    Clark et al. 2020, arXiv:2003.10555. A word that is drawn for itself is none that
    was replaced.

    Args:
        counts: as in `Objective`.
        rate: share of the words that gives way.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: if `rate` is out of range.
    """

    def __init__(self, counts, rate=0.15, **kwargs):
        super().__init__(counts, **kwargs)
        check_rate(rate)
        self.rate = rate
        self.cumulative = np.cumsum(frequencies(counts))

    def build(self, x_shape):
        self.hidden = Dense(
            x_shape[-1], activation="gelu", dtype="float32", name="hidden"
        )
        self.logit = Dense(1, dtype="float32", name="logit")
        self.hidden.build(x_shape)
        self.logit.build(x_shape)

    def ask(self, ids, training):
        seeds = self.seeds(training)
        shape = ops.shape(ids)
        chosen = keras.random.uniform(shape, seed=next(seeds)) < self.rate
        number = keras.random.uniform(shape, seed=next(seeds))
        word = drawn(self.cumulative, number)
        is_word = ids != PADDING_ID
        read = ops.where(ops.logical_and(chosen, is_word), word, ids)
        return read, (read != ids, is_word)

    def loss(self, x, answers, table, training):
        replaced, is_word = (ops.cast(answer, "float32") for answer in answers)
        logits = self.logit(self.hidden(ops.cast(x, "float32")))[..., 0]
        # log(1 + e^z) - z where it was replaced
        losses = ops.softplus(logits) - replaced * logits
        return ops.sum(losses * is_word) / ops.sum(is_word)
