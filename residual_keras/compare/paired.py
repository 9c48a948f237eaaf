"""Whether two schemes differ, by pairs of runs that share a seed."""

import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Difference:
    """The mean of paired differences, and how far off it may be.

    Args:
        mean: of ours minus theirs; nan without a pair.
        half: half the width of the 95 % confidence interval; inf with one pair.
        pairs: how many there are.
    """

    mean: float
    half: float
    pairs: int

    @property
    def verdict(self):
        """What it comes to, in words."""
        if self.pairs < 2:
            return "one seed cannot tell" if self.pairs else "no pair of runs"
        if abs(self.mean) <= self.half:
            return "within the noise"
        return "better" if self.mean > 0 else "worse"


def difference(ours, theirs, least=0.0):
    """Compares what two schemes reached by the same seeds.

    The interval is Student's, t s / sqrt(n) on either side of the mean of the n
    differences, s being their standard deviation.

    Args:
        ours: a dict from seed to figure.
        theirs: another; seeds that only one of them has are left out.
        least: what half the interval is at least, such as the share of one text: two
            seeds may agree by chance.

    Returns:
        A `Difference`.

    Example:
        >>> found = difference({0: 0.93, 1: 0.92, 2: 0.94}, {0: 0.9, 1: 0.9, 2: 0.9})
        >>> round(found.mean, 3), round(found.half, 3), found.verdict
        (0.03, 0.025, 'better')
    """
    found = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    n = len(found)
    if not n:
        return Difference(math.nan, math.inf, 0)
    half = math.inf
    if n > 1:
        half = quantile(0.95, n - 1) * statistics.stdev(found) / math.sqrt(n)
    return Difference(statistics.mean(found), max(half, least), n)


def share_within(t, freedom):
    """The probability that Student's t lies between -t and t.

    The finite sums for whole degrees of freedom, Abramowitz & Stegun 26.7.3 and 26.7.4.

    Args:
        t: not negative.
        freedom: the number of degrees of freedom, 1 or more.

    Returns:
        A float in [0, 1].
    """
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= square * k / (k + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def quantile(share, freedom):
    """The t within which `share` of Student's distribution lies, on both sides of 0.

    Example:
        >>> round(quantile(0.95, 2), 3)
        4.303
    """
    low, high = 0.0, 1.0
    while share_within(high, freedom) < share:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if share_within(middle, freedom) < share else (low, middle)
        )
    return high
