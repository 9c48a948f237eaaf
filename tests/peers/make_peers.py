"""Writes what other libraries' encoder layers give: peers.json, for test_peers.py.

Run it once where each peer is installed (neither is needed by the package or its
tests), then look at the difference:

    python tests/peers/make_peers.py torch
    python tests/peers/make_peers.py keras_hub

Inputs and weights are drawn here, rounded to two decimals and stored under the peer's
own names and shapes; the outputs are computed in float64 on a CPU.
"""

import itertools
import json
import pathlib
import sys

import numpy as np

STORE = pathlib.Path(__file__).with_name("peers.json")
BATCH, TIME, EMBED_DIM, NUM_HEADS, FF_DIM, EPSILON = 2, 5, 6, 3, 7, 1e-5
CASES = list(
    itertools.product(
        ["pre_ln", "post_ln"],
        ["relu", "gelu"],
        ["no mask", "padding", "padding and causal"],
    )
)


def draw(shape, rng):
    return rng.normal(0, 0.5, shape).round(2)


def data():
    """Inputs, and a mask with True at real tokens."""
    mask = [[True] * TIME, [True] * 3 + [False] * 2]
    return draw((BATCH, TIME, EMBED_DIM), np.random.default_rng(1)), np.array(mask)


def from_torch():
    """torch.nn.TransformerEncoderLayer, whose gelu is the exact one."""
    import torch

    # The fast path leaves padded positions out: nothing could be compared there.
    torch.backends.mha.set_fastpath_enabled(False)
    x, mask = (torch.tensor(array) for array in data())
    future = torch.ones(TIME, TIME, dtype=torch.bool).triu(1)
    rng, weights, outputs = np.random.default_rng(2), {}, {}
    for case in CASES:
        scheme, activation, masks = case
        layer = torch.nn.TransformerEncoderLayer(
            EMBED_DIM,
            NUM_HEADS,
            FF_DIM,
            activation=activation,
            layer_norm_eps=EPSILON,
            batch_first=True,
            norm_first=scheme == "pre_ln",
            dtype=torch.float64,
        ).eval()
        for name, value in layer.state_dict().items():
            if name not in weights:
                weights[name] = draw(tuple(value.shape), rng)
        layer.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})
        with torch.no_grad():
            outputs[", ".join(case)] = layer(
                x,
                src_mask=future if "causal" in masks else None,
                src_key_padding_mask=~mask if "padding" in masks else None,
            ).numpy()
    return torch.__version__, weights, outputs


def from_keras_hub():
    """keras_hub.layers.TransformerEncoder; Keras' "gelu" is the exact one."""
    import keras
    import keras_hub

    x, mask = data()
    past = np.tril(np.ones((BATCH, TIME, TIME), bool))
    rng, weights, outputs = np.random.default_rng(3), {}, {}
    for case in CASES:
        scheme, activation, masks = case
        layer = keras_hub.layers.TransformerEncoder(
            FF_DIM,
            NUM_HEADS,
            dropout=0.1,
            activation=activation,
            layer_norm_epsilon=EPSILON,
            normalize_first=scheme == "pre_ln",
            dtype="float64",
        )
        layer.build(x.shape)
        for variable in layer.weights:
            name = variable.path.split("/", 1)[1]
            if "seed_generator" in name:
                continue
            if name not in weights:
                weights[name] = draw(variable.shape, rng)
            variable.assign(weights[name])
        outputs[", ".join(case)] = layer(
            x,
            padding_mask=mask if "padding" in masks else None,
            attention_mask=past if "causal" in masks else None,
        ).numpy()
    version = f"{keras_hub.__version__} on Keras {keras.__version__}"
    return version, weights, outputs


def main(peer):
    """Replaces what the store holds of one peer."""
    version, weights, outputs = PEERS[peer]()
    x, mask = data()
    store = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    store |= {
        "x": x.tolist(),
        "mask": mask.tolist(),
        "num_heads": NUM_HEADS,
        "epsilon": EPSILON,
        peer: {
            "version": version,
            "weights": {name: value.tolist() for name, value in weights.items()},
            "outputs": {case: y.round(10).tolist() for case, y in outputs.items()},
        },
    }
    text = json.dumps(dict(sorted(store.items())), allow_nan=False)
    STORE.write_text(text.replace(', "', ',\n"') + "\n", "utf-8", newline="\n")
    print(f"{STORE}: {peer} {version}")


PEERS = {"torch": from_torch, "keras_hub": from_keras_hub}

if __name__ == "__main__":
    main(sys.argv[1])
