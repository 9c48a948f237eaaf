"""A training step and an inference beside other libraries' encoders, on equal weights.

    pip install '.[peers]' && python benchmarks/peers.py [--peers NAME ...] [--csv PATH]

Ours is `TransformerEncoder(residual="post_ln")`; dropout falls where the peer's falls.
Each peer is measured in a process of its own, which takes turns with ours step by step,
once both have given the same output. Printed are the quartiles of the ratio ours /
theirs of CPU seconds, all threads together; the CSV holds the seconds too, and our
utilisation, the share of what a product of matrices in single precision reaches,
measured in the same run.
"""

import argparse
import itertools
import os
import statistics
from typing import NamedTuple

import numpy as np
from measuring import MatrixProduct, Results, Worker, load_quietly, quartiles

BATCH, LENGTH, EMBED_DIM, NUM_HEADS, FF_DIM, EPSILON = 32, 256, 128, 4, 512, 1e-5
KEY = "peer", "layers", "rate", "activation", "task"
COLUMNS = {
    "peer": "{peer}",
    "blocks": "{layers}",
    "dropout": "{rate}",
    "activation": "{activation}",
    "task": "{task}",
    "ours / theirs": "{ratio}",
    "quartiles": "{ratio_low} to {ratio_high}",
    "utilisation": "{utilisation}",
}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options.add_argument("--layers", nargs="+", type=int, default=[4, 12])
    options.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.1])
    options.add_argument("--activations", nargs="+", default=["relu", "gelu"])
    options.add_argument("--steps", type=int, default=10, help="of each; default: 10")
    options.add_argument("--csv", help="a file whose rows of these peers to replace")
    args = options.parse_args()
    # Threads that wait for work must not count as work: the peers would be slandered.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    settings = args.layers, args.rates, args.activations, args.peers
    for layers, rate, activation, peer in itertools.product(*settings):
        for row in compare(peer, layers, rate, activation, args.steps):
            results.add(row)


def compare(peer, layers, rate, activation, steps):
    """The rows of a peer, one for training and one for inference."""
    make, key_dim, drops_attention, drops_ff = PEERS[peer]
    setting = {
        "layers": layers,
        "activation": activation,
        "rate": rate,
        "attention_rate": rate if drops_attention else 0.0,
        "ff_rate": rate if drops_ff else 0.0,
        "key_dim": key_dim,
    }
    found = {"train": ([], []), "infer": ([], [])}
    with Worker(make, setting) as theirs, Worker(MatrixProduct) as product:
        with Worker(Ours, setting) as ours:
            gap = np.abs(ours("output")[0] - theirs("output")[0]).max()
        if gap > 1e-4:
            raise SystemExit(f"{peer} gives another output than ours, by {gap:.1e}.")
        # Wider heads are the tutorial's choice, not ours.
        with Worker(Ours, {**setting, "key_dim": EMBED_DIM // NUM_HEADS}) as ours:
            for worker in (ours, theirs):
                for task in found:
                    worker(task)
            rates = []
            for _ in range(steps):
                rates.append(product("rate")[0])
                for task, sides in found.items():
                    for worker, side in zip((ours, theirs), sides, strict=True):
                        side.append(worker(task)[1:])
    peak = statistics.median(rates)
    for task, sides in found.items():
        (cpu, wall), (their_cpu, their_wall) = (
            zip(*side, strict=True) for side in sides
        )
        cpu_s = statistics.median(cpu)
        low, middle, high = quartiles(cpu, their_cpu)
        yield {
            "peer": peer,
            "layers": layers,
            "rate": rate,
            "activation": activation,
            "task": task,
            "ratio": middle,
            "ratio_low": low,
            "ratio_high": high,
            "cpu_seconds": f"{cpu_s:.3f}",
            "their_cpu_seconds": f"{statistics.median(their_cpu):.3f}",
            "wall_seconds": f"{statistics.median(wall):.3f}",
            "their_wall_seconds": f"{statistics.median(their_wall):.3f}",
            "utilisation": f"{operations(layers, task) / cpu_s / peak:.2f}",
            "gflops": f"{peak:.0f}",
            "gap": f"{gap:.0e}",
            "steps": steps,
        }


def operations(layers, task):
    """What the matrix products of a step need, in billions of operations."""
    tokens, width = BATCH * LENGTH, EMBED_DIM
    dense = tokens * width * (4 * width + 2 * FF_DIM)
    attention = 2 * tokens * LENGTH * width
    forward = 2e-9 * layers * (dense + attention)
    return 3 * forward if task == "train" else forward


def arrays(layers, key_dim):
    """The weights of every block; some biases stay 0, which x-transformers lacks."""
    rng, inner = np.random.default_rng(0), NUM_HEADS * key_dim

    def kernel(*shape):
        return rng.normal(0, shape[0] ** -0.5, shape).astype("float32")

    def vector(width, start=0.0):
        return (start + 0.1 * rng.normal(size=width)).astype("float32")

    return [
        {
            "query": kernel(EMBED_DIM, inner),
            "key": kernel(EMBED_DIM, inner),
            "value": kernel(EMBED_DIM, inner),
            "output": kernel(inner, EMBED_DIM),
            "gain": vector(EMBED_DIM, 1.0),
            "expand": kernel(EMBED_DIM, FF_DIM),
            "expand_bias": vector(FF_DIM),
            "project": kernel(FF_DIM, EMBED_DIM),
            "project_bias": vector(EMBED_DIM),
            "ff_gain": vector(EMBED_DIM, 1.0),
        }
        for _ in range(layers)
    ]


def batch():
    """What goes in, and what shall come out."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, BATCH, LENGTH, EMBED_DIM)).astype("float32")


class KerasPeer:
    """A Keras model of blocks, trained by `train_on_batch`."""

    def __init__(self, setting):
        load_quietly()
        import keras

        self.setting = setting
        inputs = keras.Input((LENGTH, EMBED_DIM))
        self.model = keras.Model(inputs, self.blocks(inputs))
        for place, weights in enumerate(arrays(setting["layers"], setting["key_dim"])):
            self.set_weights(place, weights)
        self.model.compile("adam", "mse", jit_compile=False)
        self.x, self.y = map(keras.ops.convert_to_tensor, batch())

    def output(self):
        return self.model.predict_on_batch(self.x)

    def train(self):
        self.model.train_on_batch(self.x, self.y)

    def infer(self):
        self.model.predict_on_batch(self.x)


class Ours(KerasPeer):
    """Our encoder."""

    def blocks(self, x):
        from residual_keras import TransformerEncoder

        options = {k: v for k, v in self.setting.items() if k != "layers"}
        self.encoder = TransformerEncoder(
            self.setting["layers"],
            EMBED_DIM,
            NUM_HEADS,
            FF_DIM,
            residual="post_ln",
            epsilon=EPSILON,
            **options,
        )
        return self.encoder(x)

    def set_weights(self, place, w):
        block = self.encoder.blocks[place]
        block.attention.qkv.kernel.assign(
            np.concatenate([w["query"], w["key"], w["value"]], axis=1)
        )
        block.attention.output_dense.kernel.assign(w["output"])
        first, second = self.encoder.residual.norms[2 * place : 2 * place + 2]
        first.gamma.assign(w["gain"])
        second.gamma.assign(w["ff_gain"])
        block.feed_forward.expand.set_weights([w["expand"], w["expand_bias"]])
        block.feed_forward.project.set_weights([w["project"], w["project_bias"]])


class KerasBlock(KerasPeer):
    """The block of the Keras tutorials, made of Keras' own layers."""

    def blocks(self, x):
        names = ("layers", "rate", "activation", "key_dim")
        x, self.parts = tutorial_blocks(x, *(self.setting[name] for name in names))
        return x

    def set_weights(self, place, w):
        attention, expand, project, first, second = self.parts[place]
        values = {f"{k}/kernel": w[k] for k in ("query", "key", "value")}
        assign(attention, {**values, "attention_output/kernel": w["output"]})
        expand.set_weights([w["expand"], w["expand_bias"]])
        project.set_weights([w["project"], w["project_bias"]])
        first.gamma.assign(w["gain"])
        second.gamma.assign(w["ff_gain"])


def tutorial_blocks(
    x, layers, rate, activation, key_dim, num_heads=NUM_HEADS, ff_dim=FF_DIM
):
    """The blocks of the Keras tutorials on x, and the layers of each."""
    from keras.layers import Dense, Dropout, LayerNormalization, MultiHeadAttention

    parts = []
    for _ in range(layers):
        attention = MultiHeadAttention(num_heads, key_dim)
        expand, project = Dense(ff_dim, activation=activation), Dense(x.shape[-1])
        norms = [LayerNormalization(epsilon=EPSILON) for _ in range(2)]
        parts.append((attention, expand, project, *norms))
        x = norms[0](x + Dropout(rate)(attention(x, x)))
        x = norms[1](x + Dropout(rate)(project(expand(x))))
    return x, parts


class KerasHub(KerasPeer):
    """keras_hub.layers.TransformerEncoder."""

    def blocks(self, x):
        import keras_hub

        self.encoders = [
            keras_hub.layers.TransformerEncoder(
                FF_DIM,
                NUM_HEADS,
                dropout=self.setting["rate"],
                activation=self.setting["activation"],
                layer_norm_epsilon=EPSILON,
            )
            for _ in range(self.setting["layers"])
        ]
        for encoder in self.encoders:
            x = encoder(x)
        return x

    def set_weights(self, place, w):
        attention = "self_attention_layer"
        values = {f"{attention}/{k}/kernel": w[k] for k in ("query", "key", "value")}
        assign(
            self.encoders[place],
            {
                **values,
                f"{attention}/attention_output/kernel": w["output"],
                "self_attention_layer_norm/gamma": w["gain"],
                "feedforward_intermediate_dense/kernel": w["expand"],
                "feedforward_intermediate_dense/bias": w["expand_bias"],
                "feedforward_output_dense/kernel": w["project"],
                "feedforward_output_dense/bias": w["project_bias"],
                "feedforward_layer_norm/gamma": w["ff_gain"],
            },
        )


def assign(layer, values):
    """Sets a Keras layer's weights by the end of their path, whatever their axes."""
    for end, value in values.items():
        [variable] = [v for v in layer.weights if v.path.endswith(f"/{end}")]
        variable.assign(value.reshape(variable.shape))


class TorchPeer:
    """A PyTorch module, trained eagerly with the fused Adam."""

    def __init__(self, setting):
        import torch

        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.torch, self.setting = torch, setting
        self.model = self.blocks()
        with torch.no_grad():
            for place, weights in enumerate(
                arrays(setting["layers"], setting["key_dim"])
            ):
                tensors = {k: torch.tensor(v.T) for k, v in weights.items()}
                self.set_weights(place, tensors)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        self.x, self.y = map(torch.tensor, batch())

    def output(self):
        self.model.eval()
        with self.torch.inference_mode():
            return self.model(self.x).numpy()

    infer = output

    def train(self):
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()


class Torch(TorchPeer):
    """torch.nn.TransformerEncoder."""

    def blocks(self):
        nn = self.torch.nn
        layer = nn.TransformerEncoderLayer(
            EMBED_DIM,
            NUM_HEADS,
            FF_DIM,
            dropout=self.setting["rate"],
            activation=self.setting["activation"],
            layer_norm_eps=EPSILON,
            batch_first=True,
        )
        return nn.TransformerEncoder(layer, self.setting["layers"])

    def set_weights(self, place, w):
        layer = self.model.layers[place]
        layer.self_attn.in_proj_weight.copy_(
            self.torch.cat([w["query"], w["key"], w["value"]])
        )
        layer.self_attn.out_proj.weight.copy_(w["output"])
        layer.linear1.weight.copy_(w["expand"])
        layer.linear1.bias.copy_(w["expand_bias"])
        layer.linear2.weight.copy_(w["project"])
        layer.linear2.bias.copy_(w["project_bias"])
        layer.norm1.weight.copy_(w["gain"])
        layer.norm2.weight.copy_(w["ff_gain"])


class XTransformers(TorchPeer):
    """x_transformers.Encoder with PyTorch's fused attention."""

    def blocks(self):
        from x_transformers import Encoder

        activations = {"relu": self.torch.nn.ReLU(), "gelu": self.torch.nn.GELU()}
        return Encoder(
            dim=EMBED_DIM,
            depth=self.setting["layers"],
            heads=NUM_HEADS,
            attn_dim_head=EMBED_DIM // NUM_HEADS,
            pre_norm=False,
            attn_flash=True,
            attn_sublayer_dropout=self.setting["rate"],
            ff_sublayer_dropout=self.setting["rate"],
            ff_mult=FF_DIM // EMBED_DIM,
            ff_custom_activation=activations[self.setting["activation"]],
        )

    def set_weights(self, place, w):
        weights = dict(self.model.named_parameters())
        attention, feed_forward = f"layers.{2 * place}", f"layers.{2 * place + 1}"
        for name, value in {
            f"{attention}.0.2.gamma": w["gain"] - 1,  # a gain is 1 more there
            f"{attention}.1.to_q.weight": w["query"],
            f"{attention}.1.to_k.weight": w["key"],
            f"{attention}.1.to_v.weight": w["value"],
            f"{attention}.1.to_out.weight": w["output"],
            f"{feed_forward}.0.2.gamma": w["ff_gain"] - 1,
            f"{feed_forward}.1.ff.0.0.weight": w["expand"],
            f"{feed_forward}.1.ff.0.0.bias": w["expand_bias"],
            f"{feed_forward}.1.ff.2.weight": w["project"],
            f"{feed_forward}.1.ff.2.bias": w["project_bias"],
        }.items():
            weights[name].copy_(value)


class Peer(NamedTuple):
    """What is measured, how wide its heads are, and where else than we it drops."""

    make: type
    key_dim: int = EMBED_DIM // NUM_HEADS
    drops_attention: bool = False
    drops_ff: bool = False


PEERS = {
    "Keras MultiHeadAttention": Peer(KerasBlock),
    "tutorial block": Peer(KerasBlock, key_dim=EMBED_DIM),
    "keras_hub": Peer(KerasHub, drops_attention=True),
    "torch.nn": Peer(Torch, drops_attention=True, drops_ff=True),
    "x-transformers": Peer(XTransformers),
}


if __name__ == "__main__":
    main()
