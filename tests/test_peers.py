"""The block against other libraries' layers, with the same weights.

peers.json holds what PyTorch and KerasHub gave, see make_peers.py; the block of the
Keras tutorials is built here from Keras' own layers.
"""

import json
import pathlib

import keras
import numpy as np
import pytest

from residual_keras import TransformerBlock

STORE = json.loads(
    pathlib.Path(__file__).with_name("peers").joinpath("peers.json").read_text("utf-8")
)


def torch_weights(w):
    """Ours from a state_dict, whose matrices are transposed."""
    return {
        "attention/qkv/kernel": w["self_attn.in_proj_weight"].T,
        "attention/qkv/bias": w["self_attn.in_proj_bias"],
        "attention/output/kernel": w["self_attn.out_proj.weight"].T,
        "attention/output/bias": w["self_attn.out_proj.bias"],
        "feed_forward/expand/kernel": w["linear1.weight"].T,
        "feed_forward/expand/bias": w["linear1.bias"],
        "feed_forward/project/kernel": w["linear2.weight"].T,
        "feed_forward/project/bias": w["linear2.bias"],
        "residual/norm_0/gamma": w["norm1.weight"],
        "residual/norm_0/beta": w["norm1.bias"],
        "residual/norm_1/gamma": w["norm2.weight"],
        "residual/norm_1/beta": w["norm2.bias"],
    }


def fused(w, attention):
    """Ours from a `keras.layers.MultiHeadAttention`: (d, heads, key_dim) kernels."""
    width = w[f"{attention}/query/bias"].size
    three = ("query", "key", "value")
    kernels = [w[f"{attention}/{name}/kernel"].reshape(-1, width) for name in three]
    biases = [w[f"{attention}/{name}/bias"].reshape(-1) for name in three]
    return {
        "attention/qkv/kernel": np.concatenate(kernels, axis=1),
        "attention/qkv/bias": np.concatenate(biases),
        "attention/output/kernel": w[f"{attention}/attention_output/kernel"].reshape(
            width, -1
        ),
        "attention/output/bias": w[f"{attention}/attention_output/bias"],
    }


def keras_hub_weights(w):
    return {
        **fused(w, "self_attention_layer"),
        "feed_forward/expand/kernel": w["feedforward_intermediate_dense/kernel"],
        "feed_forward/expand/bias": w["feedforward_intermediate_dense/bias"],
        "feed_forward/project/kernel": w["feedforward_output_dense/kernel"],
        "feed_forward/project/bias": w["feedforward_output_dense/bias"],
        "residual/norm_0/gamma": w["self_attention_layer_norm/gamma"],
        "residual/norm_0/beta": w["self_attention_layer_norm/beta"],
        "residual/norm_1/gamma": w["feedforward_layer_norm/gamma"],
        "residual/norm_1/beta": w["feedforward_layer_norm/beta"],
    }


def set_weights(block, weights):
    """Gives every weight of a built block its value, by the end of its path."""
    ours = {variable.path.split("/", 1)[1]: variable for variable in block.weights}
    ours = {path: v for path, v in ours.items() if "seed_generator" not in path}
    assert ours.keys() == weights.keys()
    for path, variable in ours.items():
        variable.assign(weights[path])


@pytest.mark.parametrize("case", STORE["torch"]["outputs"])
@pytest.mark.parametrize("peer", ["torch", "keras_hub"])
def test_block_equals_the_peers(peer, case):
    scheme, activation, masks = case.split(", ")
    x, mask = np.array(STORE["x"]), np.array(STORE["mask"])
    weights = {name: np.array(v) for name, v in STORE[peer]["weights"].items()}
    weights = {"torch": torch_weights, "keras_hub": keras_hub_weights}[peer](weights)
    embed_dim, ff_dim = weights["feed_forward/expand/kernel"].shape
    block = TransformerBlock(
        embed_dim,
        STORE["num_heads"],
        ff_dim,
        residual=scheme,
        activation=activation,
        causal="causal" in masks,
        epsilon=STORE["epsilon"],
        dtype="float64",
    )
    block.build(x.shape)
    set_weights(block, weights)
    y = block(x, mask=mask if "padding" in masks else None)
    np.testing.assert_allclose(y, STORE[peer]["outputs"][case], rtol=0, atol=1e-8)


@pytest.mark.parametrize("key_dim", [6, 2], ids=["as wide as the input", "narrow"])
def test_block_equals_the_tutorials(key_dim, rng):
    """Attention, Dense(relu), Dense, dropout and norms, wired as in the tutorials."""
    embed_dim, num_heads, ff_dim = 6, 3, 7
    x = rng.normal(size=(2, 5, embed_dim))
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    layers = {
        "attention": keras.layers.MultiHeadAttention(
            num_heads, key_dim, dtype="float64"
        ),
        "expand": keras.layers.Dense(ff_dim, activation="relu", dtype="float64"),
        "project": keras.layers.Dense(embed_dim, dtype="float64"),
        "norm_0": keras.layers.LayerNormalization(epsilon=1e-6, dtype="float64"),
        "norm_1": keras.layers.LayerNormalization(epsilon=1e-6, dtype="float64"),
    }

    drop = keras.layers.Dropout(0.1, dtype="float64")

    def tutorial(x):
        update = layers["attention"](x, x, attention_mask=mask[:, None, :])
        x = layers["norm_0"](x + drop(update))
        update = layers["project"](layers["expand"](x))
        return layers["norm_1"](x + drop(update))

    tutorial(x)  # builds
    weights = {}
    for name, layer in layers.items():
        for variable in layer.trainable_weights:
            variable.assign(rng.normal(0, 0.5, variable.shape))
            path = variable.path.split("/", 1)[1]
            weights[f"{name}/{path}"] = variable.numpy()
    block = TransformerBlock(
        embed_dim, num_heads, ff_dim, key_dim=key_dim, dtype="float64"
    )
    block.build(x.shape)
    home = {"expand": "feed_forward", "project": "feed_forward"}
    rest = {
        f"{home.get(path.split('/')[0], 'residual')}/{path}": value
        for path, value in weights.items()
        if not path.startswith("attention/")
    }
    set_weights(block, {**fused(weights, "attention"), **rest})
    # Keras' attention rounds 1 / sqrt(key_dim) to float32.
    np.testing.assert_allclose(block(x, mask=mask), tutorial(x), rtol=0, atol=1e-6)


def test_default_block_has_the_tutorials_arguments():
    config = TransformerBlock(6, 3, 7).get_config()
    published = {"rate": 0.1, "residual": "post_ln", "activation": "relu"}
    assert {**config, **published, "epsilon": 1e-6} == config
