"""Means, intervals and verdicts, against figures from books and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_keras.compare.paired import difference, quantile, share_within

# Two-sided points of Student's t as every table of it has them.
BOOK = [
    (0.95, 1, 12.706),
    (0.95, 2, 4.303),
    (0.95, 3, 3.182),
    (0.95, 4, 2.776),
    (0.95, 9, 2.262),
    (0.95, 10, 2.228),
    (0.95, 30, 2.042),
    (0.95, 120, 1.980),
    (0.99, 1, 63.657),
    (0.99, 2, 9.925),
    (0.99, 7, 3.499),
    (0.5, 6, 0.718),
]


@pytest.mark.parametrize(("share", "freedom", "point"), BOOK)
def test_quantiles_are_those_of_the_tables(share, freedom, point):
    assert quantile(share, freedom) == pytest.approx(point, abs=6e-4)
    assert share_within(point, freedom) == pytest.approx(share, abs=4e-4)


def test_a_difference_by_hand():
    ours, theirs = {0: 0.93, 1: 0.92, 2: 0.94, 7: 0.1}, {2: 0.9, 1: 0.9, 0: 0.9, 3: 1.0}
    found = difference(ours, theirs)
    assert found.pairs == 3, "seeds that only one has are left out"
    assert found.mean == pytest.approx(0.03)
    assert found.half == pytest.approx(4.30265 * 0.01 / math.sqrt(3), rel=1e-4)
    assert found.verdict == "better"
    assert difference(theirs, ours).verdict == "worse"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ({0: 0.95, 1: 0.85, 2: 0.92}, "within the noise"),
        ({0: 0.95}, "one seed cannot tell"),
        ({5: 0.95}, "no pair of runs"),
        ({0: 0.9, 1: 0.9}, "within the noise"),
    ],
)
def test_noise_is_called_so(ours, verdict):
    assert difference(ours, {0: 0.9, 1: 0.9, 2: 0.9}).verdict == verdict


def test_seeds_that_agree_by_chance_prove_no_more_than_one_text():
    ours, theirs = {0: 0.9125, 1: 0.9125}, {0: 0.9, 1: 0.9}
    assert difference(ours, theirs).verdict == "better"
    assert difference(ours, theirs, least=1 / 40).verdict == "within the noise"


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.floats(-1, 1))
def test_a_shift_is_found_again(values, shift):
    theirs = dict(enumerate(values))
    ours = {seed: value + shift for seed, value in theirs.items()}
    found = difference(ours, theirs)
    assert found.mean == pytest.approx(shift, abs=1e-12)
    assert found.half == math.inf or found.half < 1e-6


def test_the_interval_holds_the_truth_as_often_as_it_says(rng):
    held = 0
    for row in rng.normal(0.3, 2.0, (3000, 3)):
        found = difference(dict(enumerate(row)), dict.fromkeys(range(3), 0.0))
        assert found.mean == pytest.approx(np.mean(row))
        held += abs(found.mean - 0.3) <= found.half
    assert held / 3000 == pytest.approx(0.95, abs=0.012)
