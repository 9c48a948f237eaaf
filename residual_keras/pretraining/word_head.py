"""Vectors -> words: a softmax over the vocabulary, or over some of it in training."""

import keras
import numpy as np
from keras import ops

from ..dense import Dense
from .candidates import drawn, frequencies, inclusion


class WordHead(keras.layers.Layer):
    """-log p(w | x) with the embedding's vectors E as output weights, in nats a token.

        s_w = E_w . (x A) + b_w
        loss = -s_w + log sum_v exp(s_v)                           over all words
        loss = -s_w + log(exp(s_w) + sum_c exp(s_c) / pi_c)        in training

    The sum over all words v is estimated by different candidates c != w, the same ones
    for the whole batch. Each word is one of them with probability pi, which is 1 for
    frequent words and in proportion to its frequency for others; so the estimate is
    right on average, and exact where all words are candidates. They are drawn at equal
    distances along the sum of pi (Madow 1949), by one random number whose generator is
    saved with a run: `tf.random.log_uniform_candidate_sampler` would start anew.

    A starts as zeros and b as the logarithm of the words' frequencies: the first loss
    is that of guessing by frequency, however large the embedding's vectors are.

    Sources: Press and Wolf 2017, arXiv:1608.05859 (tied weights); Jean et al. 2015,
    arXiv:1412.2007 (candidates); Bengio and Senecal 2003 (importance sampling).

    Args:
        counts: how often each word was seen, (words,).
        samples: number of candidates in training; None: all words.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (tokens, embed_dim).
        words: the right ones, int (tokens,).
        table: E, (words, embed_dim).
        training: whether candidates stand for all words.

    Returns:
        The mean loss.

    Raises:
        ValueError: if `samples` is not a positive integer.
    """

    def __init__(self, counts, samples=None, **kwargs):
        super().__init__(**kwargs)
        if samples is not None and not (isinstance(samples, int) and samples > 0):
            raise ValueError(
                "samples must be a positive integer, or None for all words. "
                f"Received: samples={samples!r}"
            )
        self.shares = frequencies(counts)
        self.samples = None if samples is None else min(samples, len(self.shares))
        self.seed_generator = keras.random.SeedGenerator()
        if samples is not None:
            chance = inclusion(self.shares, self.samples)
            self.cumulative = np.cumsum(chance)
            self.log_chance = np.log(chance)

    def build(self, x_shape):
        self.transform = Dense(
            x_shape[-1],
            use_bias=False,
            kernel_initializer="zeros",
            dtype=self.dtype_policy,
            name="transform",
        )
        self.transform.build(x_shape)
        start = np.log(self.shares)
        self.bias = self.add_weight(
            shape=start.shape,
            initializer=lambda shape, dtype: ops.cast(start, dtype),
            name="bias",
        )

    def call(self, x, words, table, training=None):
        x = self.transform(x)
        right = ops.sum(x * ops.take(table, words, axis=0), axis=-1)
        right += ops.take(self.bias, words)
        if training and self.samples is not None:
            total = self.estimate(x, words, table, right)
        else:
            scores = ops.matmul(x, ops.transpose(table)) + self.bias
            total = ops.logsumexp(scores, axis=-1)
        return ops.mean(total - right)

    def estimate(self, x, words, table, right):
        """The logarithm of the sum over all words, by the candidates' (tokens,)."""
        offset = keras.random.uniform((), seed=self.seed_generator)
        places = offset + ops.arange(self.samples, dtype="float32")
        chosen = drawn(self.cumulative, places)
        scores = ops.matmul(x, ops.transpose(ops.take(table, chosen, axis=0)))
        chance = ops.take(ops.convert_to_tensor(self.log_chance, x.dtype), chosen)
        scores += ops.take(self.bias, chosen) - chance
        same = ops.equal(ops.expand_dims(words, 1), ops.expand_dims(chosen, 0))
        scores = ops.where(same, -1e9, scores)
        return ops.logaddexp(right, ops.logsumexp(scores, axis=-1))
