"""Words drawn by their frequency: for a softmax over some of them, and as noise."""

import numpy as np
from keras import ops


def frequencies(counts):
    """The words' shares (words,), none of them 0, from how often each was seen.

    Example:
        >>> frequencies(np.array([0, 3, 1])).tolist()
        [0.14285714285714285, 0.5714285714285714, 0.2857142857142857]
    """
    seen = np.asarray(counts, "float64") + 1
    return seen / seen.sum()


def inclusion(shares, samples):
    """With which probability each word is among so many different candidates.

        pi_w = min(1, c p_w),   c such that they add up to the number of candidates

    Args:
        shares: p, (words,), none of them 0.
        samples: number of candidates, at most that of words.

    Returns:
        (words,), float64.

    Example:
        >>> inclusion(np.array([0.8, 0.1, 0.1]), 2).tolist()
        [1.0, 0.5, 0.5]
    """
    falling = np.sort(shares)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]  # of this word and all rarer ones
    # With the k most frequent ones certain, c is what is left over the rest's share.
    factors = (samples - np.arange(len(falling))) / rest
    certain = int(np.argmax(factors * falling <= 1 + 1e-9))
    return np.minimum(1.0, factors[certain] * shares)


def drawn(cumulative, numbers):
    """The words on which numbers fall, int32 like them.

    Args:
        cumulative: sums of the words' weights, rising, a NumPy array (words,).
        numbers: in [0, the last sum), of any shape.
    """
    sums = ops.convert_to_tensor(cumulative, dtype="float32")
    found = ops.searchsorted(sums, ops.reshape(numbers, (-1,)), side="right")
    words = ops.minimum(ops.cast(found, "int32"), len(cumulative) - 1)
    return ops.reshape(words, ops.shape(numbers))
