"""The feed-forward network against NumPy."""

import json

import keras
import numpy as np
import pytest

from residual_keras import FeedForward
from residual_keras.norms import NORMS


def built(rng, **kwargs):
    layer = FeedForward(5, dtype="float64", **kwargs)
    layer.build((None, None, 7))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return layer


@pytest.mark.parametrize("inner_norm", [None, *NORMS])
def test_against_numpy(inner_norm, rng):
    """The norm stands between the activation and the second kernel."""
    x = rng.normal(size=(2, 3, 7))
    layer = built(rng, activation="gelu", inner_norm=inner_norm, epsilon=0.1)
    (first, first_bias), (second, second_bias) = (
        dense.get_weights() for dense in (layer.expand, layer.project)
    )
    hidden = np.array(keras.activations.gelu(x @ first + first_bias))
    if inner_norm is not None:
        hidden = np.array(layer.hidden_norm(hidden))
    np.testing.assert_allclose(layer(x), hidden @ second + second_bias, atol=1e-12)
    again = FeedForward.from_config(json.loads(json.dumps(layer.get_config())))
    again.build(x.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(x), layer(x), atol=1e-12)


def test_what_is_dropped_has_been_normalised(rng):
    """A rate of 1 leaves the last bias; the norm itself saw every hidden value."""
    layer = built(rng, rate=1.0, inner_norm="layer_norm")
    y = layer(rng.normal(size=(2, 3, 7)), training=True)
    bias = layer.project.bias.numpy()
    np.testing.assert_allclose(y, np.broadcast_to(bias, y.shape), atol=1e-12)


def test_weights_are_counted_and_spared_from_nothing():
    """It adds a gain and an offset a hidden unit."""
    layer = FeedForward(5, inner_norm="layer_norm")
    layer.build((None, None, 7))
    assert layer.count_params() == 7 * 5 + 5 + 5 * 7 + 7 + 2 * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ff_dim": 0}, "ff_dim must be positive. Received: ff_dim=0"),
        ({"inner_norm": "norm"}, "No norm 'norm'. Did you mean"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**{"ff_dim": 5, **arguments})
