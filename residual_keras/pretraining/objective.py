"""What an encoder is asked about texts, and how its answers are judged."""

import itertools

import keras


class Objective(keras.layers.Layer):
    """A question about ids that the ids themselves answer.

    One object serves a run. A subclass says in `ask` what the encoder reads and what
    it has to find out, and in `loss` how far off it was; whether a token may see those
    after it is the class attribute `causal`.

    Args:
        counts: how often each word stands in the texts, (words,).
        **kwargs: of `keras.layers.Layer`.
    """

    causal = False

    def __init__(self, counts, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.seed_generator = keras.random.SeedGenerator()

    def ask(self, ids, training):
        """What the encoder reads, and what `loss` has to know.

        Args:
            ids: packed rows, int (batch, time), 0 between two texts.
            training: whether it is for training, which draws anew each time.

        Returns:
            `(ids, answers)`: int (batch, time'), and whatever `loss` takes.
        """
        raise NotImplementedError

    def loss(self, x, answers, table, training):
        """The mean loss, in nats.

        Args:
            x: what the encoder made of the ids, (batch, time', embed_dim).
            answers: as `ask` gave them.
            table: the embedding's vectors, (words, embed_dim).
            training: as in `ask`.
        """
        raise NotImplementedError

    def seeds(self, training):
        """A seed for each draw; in validation the same ones for every batch."""
        if training:
            return itertools.repeat(self.seed_generator)
        return itertools.count()


def check_rate(rate):
    """Raises ValueError if a share of the tokens is not in (0, 1)."""
    if not 0 < rate < 1:
        raise ValueError(f"rate must be a share in (0, 1). Received: rate={rate!r}")
