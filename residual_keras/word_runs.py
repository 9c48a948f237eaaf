"""Runs of words as numbers: a text's n-grams, hashed."""

from keras import ops

from .embedding import PADDING_ID, known_ids
from .spec import check_positive

FACTOR = 1999  # of the hash; odd, so that no bucket of a power of two is left out
SAFE_BUCKETS = 2**20  # times FACTOR it is just below 2**31
POWERS_OF_TWO = {2**n for n in range(31)}  # a hash that wrapped around stays right


def check_buckets(buckets):
    """Raises ValueError if runs of words cannot be told by so many numbers."""
    check_positive(buckets=buckets)
    if buckets > SAFE_BUCKETS and buckets not in POWERS_OF_TWO:
        raise ValueError(
            f"buckets must be a power of two above {SAFE_BUCKETS}, and at most "
            f"2**30: the hash of a run has 32 bits. Received: buckets={buckets}"
        )


def runs_of_words(ids, vocab_size, order, buckets):
    """The buckets of a text's runs of words, and which of them are to be counted.

    The hash h(g) = (...(g_1 1999 + g_2) 1999 + ...) mod `buckets` lets runs share a
    bucket, which costs little. Source: Weinberger et al. 2009, arXiv:0902.2206.

    Args:
        ids: integers, (batch, time); 0 is padding.
        vocab_size: number of token ids; any other id is read as unknown.
        order: words in the longest run.
        buckets: numbers that the runs share, at most 2**20, or a power of two up to
            2**30.

    Returns:
        Two tensors of one shape, (batch, runs), int32 and bool. A run has no padding
        inside, and of equal ones in a text the first counts.
    """
    ids = known_ids(ops.cast(ids, "int32"), vocab_size)
    real = ids != PADDING_ID
    hashes, inside = ids % buckets, real
    found, kept = [hashes], [inside]
    for length in range(1, order):
        hashes = (hashes[:, :-1] * FACTOR + ids[:, length:]) % buckets
        inside = ops.logical_and(inside[:, :-1], real[:, length:])
        found.append(hashes)
        kept.append(inside)
    hashes, kept = (ops.concatenate(parts, axis=1) for parts in (found, kept))
    hashes = ops.sort(ops.where(kept, hashes, -1), axis=1)
    before = ops.pad(hashes[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    return ops.maximum(hashes, 0), ops.logical_and(hashes != before, hashes >= 0)
