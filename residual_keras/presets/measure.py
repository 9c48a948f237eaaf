"""What a preset's card says of it: accuracy, loss, confusion and calibration."""

import numpy as np


def measure(model, split, bins=15):
    """How good a classifier's answers are, and whether it is as sure as it is right.

    The calibration error is the expected one of Guo et al. 2017 (arXiv:1706.04599):
    texts are put into bins of equal width by the probability of the likeliest label,
    and it is the mean over all texts of |accuracy - mean probability| of their bins.

    Args:
        model: a `TextClassifier`.
        split: a `Split` with the model's label numbers.
        bins: number of bins; one holds its upper edge, not its lower one.

    Returns:
        A dict: texts (how many), accuracy, loss (nats a text), calibration_error,
        confusion (a list of rows, one a true label, of counts, one a label answered),
        and calibration (a dict with above, up_to, texts, probability and accuracy for
        each bin that is not empty). Plain numbers, which JSON holds.

    Raises:
        ValueError: if there are no texts, or a label is none of the model's.

    Example:
        >>> measure(model, Split(["a fine film", "a dull film"], [1, 0]))["texts"]
        2
    """
    count = len(model.label_names)
    labels = np.asarray(split.labels)
    if not len(labels) or labels.max() >= count:
        raise ValueError(
            f"Texts to measure on have labels from 0 to {count - 1}. Received: "
            f"{len(labels)} texts, labels={sorted(set(labels.tolist()))[-5:]}"
        )
    found = model.predict(split.texts).astype("float64")
    answers, sure = found.argmax(axis=1), found.max(axis=1)
    right = answers == labels
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (labels, answers), 1)
    # A softmax in float32 may come to 0, whose logarithm nobody could write down.
    given = np.maximum(found[np.arange(len(labels)), labels], np.finfo("float32").tiny)
    calibration = list(calibrated(sure, right, bins))
    off = sum(
        row["texts"] * abs(row["accuracy"] - row["probability"]) for row in calibration
    )
    return {
        "texts": len(labels),
        "accuracy": float(right.mean()),
        "loss": float(-np.log(given).mean()),
        "calibration_error": off / len(labels),
        "confusion": confusion.tolist(),
        "calibration": calibration,
    }


def calibrated(sure, right, bins):
    """A dict for each bin of probabilities (n,) that is not empty."""
    homes = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    for home in np.unique(homes):
        inside = homes == home
        yield {
            "above": float(home / bins),
            "up_to": float((home + 1) / bins),
            "texts": int(inside.sum()),
            "probability": float(sure[inside].mean()),
            "accuracy": float(right[inside].mean()),
        }
