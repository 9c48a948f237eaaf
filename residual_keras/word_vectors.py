"""Word vectors from which words stand near which, before any label is looked at."""

import keras
import numpy as np

from .data.packing import whole_texts
from .embedding import UNKNOWN_ID

WINDOW = 5  # tokens on either side that count as near
SMOOTHING = 0.75  # power of the words' frequencies that nearness is compared with


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
    rows = [
        row
        for ids in whole_texts(texts, model.vectorizer)
        for row in np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])
    ]
    found = word_vectors(rows, *drawn.shape) * drawn.std()
    table.assign(np.where(found.any(axis=1, keepdims=True), found, drawn))


def word_vectors(rows, vocab_size, embed_dim, *, window=WINDOW):
    """Vectors that are alike for words which have like neighbours.

    With n(i, j) for how often word j stands at most `window` tokens from word i, and
    n(i) for its sum over j, they are the first columns of U sqrt(S) in

        U S V^T = max(0, log(n(i, j) / (n(i) p(j)))),
        p(j) = n(j)^0.75 / sum_k n(k)^0.75

    moved to a mean of 0 and scaled to a variance of 1. Source:
    Levy and Goldberg 2014, NeurIPS (what word2vec factorises implicitly), and Levy et
    al. 2015, TACL, https://aclanthology.org/Q15-1016 (the smoothing, the root of S).

    Args:
        rows: the texts' ids, 1D integer arrays; 0 (padding) and 1 (unknown) are no
            one's neighbours.
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
    for name, value in {"embed_dim": embed_dim, "window": window}.items():
        if value < 1:
            raise ValueError(f"{name} must be positive. Received: {name}={value}")
    tokens = joined(rows, window)
    information = positive_information(neighbours(tokens, vocab_size, window))
    met = np.flatnonzero(np.diff(information.indptr))
    found = np.zeros((vocab_size, embed_dim), "float32")
    columns = min(embed_dim, len(met) - 1)
    if columns > 0:
        found[met, :columns] = principal(information[met], columns)
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


def positive_information(near):
    """max(0, log(n(i, j) / (n(i) p(j)))) of counts: sparse, as they are."""
    from scipy import sparse

    totals = near.sum(axis=1)
    common = totals**SMOOTHING
    common /= common.sum() or 1
    near = near.tocoo()
    i, j = near.coords
    values = np.log(near.data / (totals[i] * common[j]))
    more = values > 0
    return sparse.csr_array((values[more], (i[more], j[more])), near.shape)


def principal(matrix, columns):
    """U sqrt(S) of a sparse matrix, with a mean of 0 and a variance of 1."""
    from scipy.sparse.linalg import svds

    start = np.ones(min(matrix.shape), matrix.dtype)  # the same result each time
    left, sizes, _ = svds(matrix, columns, v0=start)
    vectors = left[:, ::-1] * np.sqrt(sizes[::-1])
    vectors -= vectors.mean(axis=0)
    return vectors / (vectors.std() or 1)
