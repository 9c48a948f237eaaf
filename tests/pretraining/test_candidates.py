"""Candidates are different words, each as likely as is said."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from residual_keras.pretraining.candidates import drawn, frequencies, inclusion

COUNTS = arrays("int64", st.integers(1, 97), elements=st.integers(0, 10**6))


@settings(deadline=None)
@given(counts=COUNTS, data=st.data())
def test_the_probabilities_add_up_to_the_number_of_candidates(counts, data):
    samples = data.draw(st.integers(1, len(counts)))
    shares = frequencies(counts)
    chance = inclusion(shares, samples)
    assert chance.sum() == pytest.approx(samples)
    assert (chance > 0).all() and (chance <= 1).all()
    uncertain = chance < 1 - 1e-6
    ratio = chance[uncertain] / shares[uncertain]
    np.testing.assert_allclose(ratio, ratio[:1].repeat(len(ratio)), rtol=1e-6)


@settings(deadline=None)
@given(counts=COUNTS)
def test_as_many_candidates_as_words_are_all_words(counts):
    chance = inclusion(frequencies(counts), len(counts))
    np.testing.assert_allclose(chance, 1, rtol=1e-9)


def test_each_word_is_drawn_as_often_as_its_probability_says(rng):
    chance = inclusion(frequencies(rng.integers(0, 1000, 53)), 17)
    offsets = (np.arange(300) + 0.5) / 300
    found = np.zeros(53)
    for offset in offsets[:, None]:
        words = np.array(drawn(np.cumsum(chance), (offset + np.arange(17)).tolist()))
        assert len(set(words.tolist())) == 17, "different ones"
        found[words] += 1
    np.testing.assert_allclose(found / 300, chance, atol=5e-3)
