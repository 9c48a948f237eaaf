"""The least mean cross-entropy, against its own condition and Keras' numbers."""

import keras
import numpy as np
import pytest

from residual_keras.logistic import regress


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_the_least(classes, soft):
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(101, 7)) + 0.5
    labels = rng.dirichlet(np.ones(classes), 101)
    if not soft:
        labels = np.eye(classes)[labels.argmax(1)]
    W, b = regress(x, labels)
    assert W.shape == (7, classes) and b.shape == (classes,)
    np.testing.assert_allclose(W.sum(1), 0, atol=1e-5)

    def cost(W, b):
        loss = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="sum")
        return float(loss(labels, x @ W + b)) + 7 / 2 * (W**2).sum()

    least = cost(W, b)
    for _ in range(20):
        other = W + 0.1 * rng.normal(size=W.shape), b + 0.1 * rng.normal(size=b.shape)
        assert cost(*other) > least
    p = keras.ops.convert_to_numpy(keras.ops.softmax(x @ W + b))
    np.testing.assert_allclose(x.T @ (p - labels) + 7 * W, 0, atol=1e-2)
    np.testing.assert_allclose((p - labels).sum(0), 0, atol=1e-2)


def test_one_class_only_says_nothing_else():
    W, b = regress(np.ones((3, 2)), np.eye(2)[[1, 1, 1]])
    assert np.isfinite(W).all() and b[1] > b[0] + 2


def test_no_texts_say_nothing():
    W, b = regress(np.ones((0, 2)), np.ones((0, 3)))
    assert W.shape == (2, 3) and not W.any() and not b.any()
