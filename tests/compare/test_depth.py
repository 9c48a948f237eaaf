"""The gradient's norm by block, against TensorFlow's own tape."""

import numpy as np
import pytest
import tensorflow as tf

from residual_keras import build_classifier
from residual_keras.compare.depth import BlockGradients


@pytest.mark.parametrize("classes", [1, 3])
def test_norms_are_those_of_the_tape(rng, classes):
    model = build_classifier(
        31,
        classes,
        num_layers=2,
        embed_dim=10,
        num_heads=2,
        rate=0.0,
        residual="layer_scale",
    )
    for weight in model.trainable_weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    model.compile("sgd")
    optimizer = model.optimizer
    before = [weight.numpy() for weight in model.weights]
    ids = tf.constant(rng.integers(1, 31, (5, 7)), tf.int32)
    labels = tf.constant(rng.integers(0, max(2, classes), 5), tf.int32)
    norms = BlockGradients(model)
    found = norms(ids, labels)

    with tf.GradientTape() as tape:
        loss = model.loss(labels[:, None] if classes == 1 else labels, model(ids))
    blocks = model.get_layer("encoder").blocks
    weights = [[w.value for w in block.trainable_weights] for block in blocks]
    expected = [
        np.sqrt(sum(np.sum(np.square(g)) for g in gradients))
        for gradients in tape.gradient(loss, weights)
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    assert found[0] != found[1]
    assert found == norms(ids, labels), "a call leaves nothing behind"
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    assert model.optimizer is optimizer, "the model keeps its own"
