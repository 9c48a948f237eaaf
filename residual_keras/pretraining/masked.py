"""Which words are hidden."""

import keras
from keras import ops

from ..embedding import PADDING_ID, UNKNOWN_ID
from .objective import Objective, check_rate
from .word_head import WordHead


class Masked(Objective):
    """-log p(w_t | the row with a share of its words hidden), the mean over these.

    Of the hidden words 80% are read as unknown, 10% as any word, and 10% as they are.
    Unknown is what `WordDropout` makes of words too: no entry of the vocabulary is
    spent on a mask that no text has. The same number is hidden in each row, and the
    softmax is computed for them alone. Source: Devlin et al. 2018, arXiv:1810.04805.

    Args:
        counts: as in `Objective`.
        rate: share of a row's words that is hidden.
        samples: as in `WordHead`.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: if `rate` is out of range.
    """

    def __init__(self, counts, rate=0.15, samples=1024, **kwargs):
        super().__init__(counts, **kwargs)
        check_rate(rate)
        self.rate = rate
        self.words = len(counts)
        self.head = WordHead(counts, samples, dtype="float32", name="words")

    def build(self, x_shape):
        self.head.build(x_shape)

    def ask(self, ids, training):
        time = ids.shape[1]
        number = max(1, round(self.rate * time))
        seeds = self.seeds(training)
        shape = ops.shape(ids)
        draw = keras.random.uniform(shape, seed=next(seeds))
        draw = ops.where(ids == PADDING_ID, -1.0, draw)
        largest, places = ops.top_k(draw, number)
        hidden = draw >= largest[:, -1:]
        kind = keras.random.uniform(shape, seed=next(seeds))
        word = keras.random.randint(shape, UNKNOWN_ID + 1, self.words, seed=next(seeds))
        read = ops.where(kind < 0.8, UNKNOWN_ID, ops.where(kind < 0.9, word, ids))
        # Counted through the batch: one look-up finds them.
        places += time * ops.expand_dims(ops.arange(shape[0]), 1)
        places = ops.reshape(places, (-1,))
        answers = places, ops.take(ops.reshape(ids, (-1,)), places)
        return ops.where(hidden, read, ids), answers

    def loss(self, x, answers, table, training):
        places, words = answers
        x = ops.take(ops.reshape(x, (-1, x.shape[-1])), places, axis=0)
        return self.head(ops.cast(x, "float32"), words, table, training=training)
