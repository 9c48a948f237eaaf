"""The softmax over words against NumPy, over all of them and over some."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras.pretraining.candidates import frequencies, inclusion
from residual_keras.pretraining.word_head import WordHead

WORDS, WIDTH, TOKENS = 23, 5, 11


@pytest.fixture
def inputs(rng):
    x = rng.normal(size=(TOKENS, WIDTH))
    table = rng.normal(size=(WORDS, WIDTH))
    return x, rng.integers(0, WORDS, TOKENS), table, rng.integers(40, 500, WORDS)


def head(counts, rng, samples):
    made = WordHead(counts, samples, dtype="float64")
    made.build((None, WIDTH))
    for weight in made.trainable_weights:
        weight.assign(weight + rng.normal(size=weight.shape))
    return made


def scores(made, x, table):
    kernel, bias = (np.array(w) for w in (made.transform.kernel, made.bias))
    return x @ kernel @ table.T + bias


def test_all_words(inputs, rng):
    x, words, table, counts = inputs
    made = head(counts, rng, samples=None)
    s = scores(made, x, table)
    expected = np.log(np.exp(s).sum(1)) - s[np.arange(TOKENS), words]
    for training in (True, False):
        found = made(x, words, table, training=training)
        assert float(found) == pytest.approx(expected.mean(), abs=1e-12)


def test_some_words(inputs, rng, monkeypatch):
    x, words, table, counts = inputs
    samples, offset = 7, 0.37
    made = head(counts, rng, samples)
    monkeypatch.setattr(keras.random, "uniform", lambda shape, seed: offset)
    chance = inclusion(frequencies(counts), samples)
    ends = np.cumsum(chance)
    chosen = [int(np.argmax(ends > offset + j)) for j in range(samples)]
    s = scores(made, x, table)
    losses = []
    for t, word in enumerate(words):
        others = [c for c in chosen if c != word]
        z = np.exp(s[t, word]) + sum(np.exp(s[t, c]) / chance[c] for c in others)
        losses.append(np.log(z) - s[t, word])
    assert set(words.tolist()) & set(chosen), "one of the right words is a candidate"
    found = made(x, words, table, training=True)
    assert float(found) == pytest.approx(np.mean(losses), abs=1e-5)
    # and in validation it is all words again
    whole = np.log(np.exp(s).sum(1)) - s[np.arange(TOKENS), words]
    assert float(made(x, words, table, training=False)) == pytest.approx(whole.mean())


@pytest.mark.parametrize("samples", [WORDS, 10 * WORDS])
def test_all_words_as_candidates_are_the_full_softmax(inputs, rng, samples):
    x, words, table, counts = inputs
    made = head(counts, rng, samples)
    gradients = []
    for training in (True, False):
        tensors = [tf.constant(x), tf.constant(table)]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = made(tensors[0], words, tensors[1], training=training)
        weights = [w.value for w in made.trainable_weights]
        found = tape.gradient(loss, [*tensors, *weights])
        gradients.append([loss, *map(tf.convert_to_tensor, found)])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_estimate_of_the_sum_is_right_on_average(inputs, rng, monkeypatch):
    x, words, table, counts = inputs
    made = head(counts, rng, samples=6)
    s = scores(made, x, table)
    right = s[np.arange(TOKENS), words]
    y = x @ np.array(made.transform.kernel)
    # Between two of these numbers all offsets draw the same candidates.
    steps = np.unique([0.0, 1.0, *np.float32(made.cumulative) % 1])
    mean, sums = 0.0, []
    for low, high in zip(steps[:-1], steps[1:], strict=True):
        middle = (low + high) / 2
        monkeypatch.setattr(keras.random, "uniform", lambda shape, seed, o=middle: o)
        sums.append(np.exp(made.estimate(y, words, table, right)))
        mean += (high - low) * sums[-1]
    expected = np.exp(s).sum(1)
    assert not np.allclose(sums[0], expected, rtol=0.01)
    np.testing.assert_allclose(mean, expected, rtol=1e-4)


def test_at_first_words_are_guessed_by_their_frequency(inputs):
    x, words, table, counts = inputs
    made = WordHead(counts)
    expected = -np.log(frequencies(counts))[words].mean()
    assert float(made(x, words, 1000 * table)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("samples", [0, -3, 2.5, "7"])
def test_a_number_of_candidates_that_cannot_be_is_refused(samples):
    with pytest.raises(ValueError, match="samples must be a positive integer"):
        WordHead(np.ones(9), samples)
