"""Tables of counts taken apart: what stands together more often than chance has it."""

import numpy as np

SMOOTHING = 0.75  # power of the columns' counts that rows are compared with


def positive_information(table):
    """max(0, log(n(i, j) / (n(i) p(j)))) of counts n(i, j).

    n(i) is the sum of row i and p(j) = n(j)^0.75 / sum_k n(k)^0.75, of the sums of
    columns. Source: Levy and Goldberg 2014, NeurIPS (what word2vec factorises
    implicitly), and Levy et al. 2015, TACL, https://aclanthology.org/Q15-1016 (the
    smoothing).

    Args:
        table: counts, sparse (rows, columns).

    Returns:
        float32, a sparse array of the table's shape.

    Example:
        >>> from scipy import sparse
        >>> positive_information(sparse.eye_array(3)).nnz
        3
    """
    from scipy import sparse

    rows, common = table.sum(axis=1), table.sum(axis=0) ** SMOOTHING
    common /= common.sum() or 1
    table = table.tocoo()
    i, j = table.coords
    values = np.log(table.data / (rows[i] * common[j]))
    more = values > 0
    found = values[more].astype("float32"), (i[more], j[more])
    return sparse.csr_array(found, table.shape)


def directions(matrix, count):
    """U, S and V^T of a sparse matrix's largest singular values, largest first.

    Args:
        matrix: float32, sparse (rows, columns).
        count: how many; all but one where it has no more rows or columns.

    Returns:
        Arrays (rows, found), (found,) and (found, columns).
    """
    from scipy.sparse.linalg import svds

    smaller = min(matrix.shape)
    count = min(count, smaller - 1)
    if count < 1:
        rows, columns = matrix.shape
        return np.zeros((rows, 0)), np.zeros(0), np.zeros((0, columns))
    start = np.ones(smaller, matrix.dtype)  # the same result each time
    left, sizes, right = svds(matrix, count, v0=start)
    return left[:, ::-1], sizes[::-1], right[::-1]
