"""Word vectors from which words stand near which, before any label is looked at."""

import keras
import numpy as np

from .data.packing import whole_texts
from .embedding import UNKNOWN_ID
from .factors import directions, positive_information
from .spec import check_positive

WINDOW = 5  # tokens on either side that count as near


def start_from_neighbours(model, texts):
    """Gives the embedding of a classifier the word vectors of texts, to learn on from.

    They are scaled to the variance that the embedding has; words that have no
    neighbours keep what they were drawn.

    Args:
        model: a `TextClassifier` with an embedding.
        texts: the raw texts.

    Example:
        >>> start_from_neighbours(model, ["a fine film", "a dull film"])
    """
    table = model.classifier.get_layer("embedding").tokens.embeddings
    drawn = keras.ops.convert_to_numpy(table)
    rows = whole_texts(texts, model.vectorizer)
    found = word_vectors(rows, *drawn.shape) * drawn.std()
    table.assign(np.where(found.any(axis=1, keepdims=True), found, drawn))


def word_vectors(rows, vocab_size, embed_dim, *, window=WINDOW):
    """Vectors that are alike for words which have like neighbours.

    With n(i, j) for how often word j stands at most `window` tokens from word i, and
    n(i) for its sum over j, they are the first columns of U sqrt(S) in

        U S V^T = max(0, log(n(i, j) / (n(i) p(j))))

    of `positive_information`, moved to a mean of 0 and scaled to a variance of 1.
    Source: Levy et al. 2015, TACL, https://aclanthology.org/Q15-1016.

    Args:
        rows: an iterable of the texts' ids, 1D integer arrays; 0 (padding) and 1
            (unknown) are no one's neighbours.
        vocab_size: number of ids.
        embed_dim: width of a vector.
        window: tokens on either side that count as near.

    Returns:
        float32 (vocab_size, embed_dim). Words without neighbours are 0, and so are all
        the columns beyond the rank of the matrix.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> rows = [np.array([2, 3, 4]), np.array([5, 3, 4])]
        >>> word_vectors(rows, vocab_size=6, embed_dim=2).shape
        (6, 2)
    """
    check_positive(embed_dim=embed_dim, window=window)
    near = neighbours(joined(rows, window), vocab_size, window)
    information = positive_information(near)
    met = np.flatnonzero(np.diff(information.indptr))
    left, sizes, _ = directions(information[met], embed_dim)
    vectors = left * np.sqrt(sizes)
    vectors -= vectors.mean(axis=0) if len(met) else 0
    found = np.zeros((vocab_size, embed_dim), "float32")
    found[met, : len(sizes)] = vectors / (vectors.std() if vectors.any() else 1)
    return found


def joined(rows, window):
    """The texts' tokens in one row, padding between texts."""
    gap = np.zeros(window, "int32")
    return np.concatenate([part for row in rows for part in (row, gap)] or [gap])


def neighbours(tokens, vocab_size, window):
    """How often each word stands near each other one: sparse, (words, words)."""
    from scipy import sparse

    shape = vocab_size, vocab_size
    found = sparse.csr_array(shape, dtype="float32")
    for distance in range(1, window + 1):
        left, right = tokens[:-distance], tokens[distance:]
        words = (left > UNKNOWN_ID) & (right > UNKNOWN_ID)
        pairs = left[words], right[words]
        ones = np.ones(len(pairs[0]), "float32")
        found += sparse.coo_array((ones, pairs), shape).tocsr()
    return found + found.T
