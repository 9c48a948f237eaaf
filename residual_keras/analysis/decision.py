"""What a model's output says: logits, the label it decides for, how sure it is."""

import keras
import numpy as np
from keras import ops

from .recording import numpy


def logits(network, output):
    """The logits behind an output, which may be probabilities.

    Args:
        network: the model; its last layer says what it gives.
        output: (batch, classes), or (batch, 1) for a yes-or-no question.

    Returns:
        A tensor, but for a constant for each text.
    """
    ends = getattr(network, "layers", [None])[-1]
    activation = getattr(ends, "activation", None)
    if activation is keras.activations.softmax:
        return ops.log(output)
    if activation is keras.activations.sigmoid:
        return ops.log(output) - ops.log1p(-output)
    return output


def labels(network, output):
    """The label that each text gets, NumPy (batch,)."""
    found = numpy(logits(network, output))
    if found.ndim != 2:
        raise ValueError(
            "Only a classifier decides: its output is (batch, classes). "
            f"Received: an output of shape {found.shape}"
        )
    return (found[:, 0] > 0).astype(int) if found.shape[1] == 1 else found.argmax(1)


def accuracy(network, output, y):
    """The share of texts that get their label."""
    return float(np.mean(labels(network, output) == checked_labels(y, len(output))))


def checked_labels(y, count):
    """Labels as NumPy (count,), or an error."""
    y = np.asarray(y)
    if y.size != count or y.dtype.kind not in "iub":
        raise ValueError(
            f"y must hold one integer label for each of the {count} texts. "
            f"Received: y.shape={y.shape}, y.dtype={y.dtype}"
        )
    return y.reshape(count)


def log_odds(network, output, label):
    """The log-odds of one label, log p / (1 - p), a tensor (batch,).

    Of two logits it is their difference: by how much the label wins.
    """
    found = logits(network, output)
    if found.shape[-1] == 1:
        return found[:, 0] if label else -found[:, 0]
    others = [k for k in range(found.shape[-1]) if k != label]
    others = ops.stack([found[:, k] for k in others], axis=-1)
    return found[:, label] - ops.logsumexp(others, axis=-1)


def probabilities(network, output):
    """NumPy (batch, max(classes, 2)), rows of sum 1."""
    found = logits(network, output)
    if found.shape[-1] == 1:
        found = ops.concatenate([ops.zeros_like(found), found], axis=-1)
    return numpy(ops.softmax(found))
