"""What comes next."""

from keras import ops

from .objective import Objective
from .word_head import WordHead


class NextToken(Objective):
    """-log p(w_{t+1} | w_1 .. w_t), the mean over a row's tokens.

    The encoder is causal here, and sees both ways where it is trained on afterwards:
    that adds no weight and takes none away. Every token is a question; so a step
    teaches more than where some are. Source: Radford et al. 2018, "Improving Language
    Understanding by Generative Pre-Training".

    Args:
        counts: as in `Objective`.
        samples: as in `WordHead`.
        **kwargs: of `keras.layers.Layer`.
    """

    causal = True

    def __init__(self, counts, samples=1024, **kwargs):
        super().__init__(counts, **kwargs)
        self.head = WordHead(counts, samples, dtype="float32", name="words")

    def build(self, x_shape):
        self.head.build(x_shape)

    def ask(self, ids, training):
        return ids[:, :-1], ids[:, 1:]

    def loss(self, x, answers, table, training):
        x = ops.reshape(ops.cast(x, "float32"), (-1, x.shape[-1]))
        return self.head(x, ops.reshape(answers, (-1,)), table, training=training)
