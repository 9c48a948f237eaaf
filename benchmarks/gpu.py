"""A training step on an accelerator, ours beside Keras' own block.

    KERAS_BACKEND=jax python benchmarks/gpu.py [--small] [--csv PATH]

Needs this package and a backend (tensorflow, jax or torch), and no other file. Both
models are trained by `model.fit`, an epoch to compile and then epochs in turns; printed
are wall milliseconds a step, the median, and the ratio ours / theirs, in single
precision and in bfloat16. jit_compile is left to Keras: on where the device gains by it
and the backend has it. On a CPU, `--small` shows in a minute that all of it runs.
"""

import argparse
import csv
import os
import statistics
import time

SIZES = {"batch": 64, "length": 256, "embed_dim": 512, "num_heads": 8, "ff_dim": 2048}
SMALL = {"batch": 4, "length": 16, "embed_dim": 16, "num_heads": 2, "ff_dim": 32}
PRECISIONS = "float32", "mixed_bfloat16"
HEADINGS = "blocks", "precision", "ours ms", "theirs ms", "ratio"


def main():
    options = argparse.ArgumentParser(description="Milliseconds a training step.")
    options.add_argument("--layers", nargs="+", type=int, default=[4, 12])
    options.add_argument("--steps", type=int, default=20, help="of an epoch")
    options.add_argument("--epochs", type=int, default=5, help="of each")
    options.add_argument("--small", action="store_true", help="tiny, for a quick look")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    sizes = SMALL if args.small else SIZES
    import keras

    print(f"{keras.backend.backend()} on {device()}, {sizes}\n")
    print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
    rows = []
    for layers in args.layers:
        for precision in PRECISIONS:
            cells = measure(layers, precision, sizes, args.steps, args.epochs)
            rows.append(dict(zip(HEADINGS, (layers, precision, *cells), strict=True)))
            print("| " + " | ".join(map(str, rows[-1].values())) + " |", flush=True)
    if args.csv:
        with open(f"{args.csv}.new", "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, HEADINGS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        os.replace(f"{args.csv}.new", args.csv)


def device():
    """What the backend computes on."""
    import keras

    return keras.ops.ones(()).device


def measure(layers, precision, sizes, steps, epochs):
    """Milliseconds a step of both, and their ratio."""
    import keras

    keras.config.set_dtype_policy(precision)
    shape = sizes["batch"] * steps, sizes["length"], sizes["embed_dim"]
    x, y = (
        keras.ops.convert_to_numpy(
            keras.random.normal(shape, seed=seed, dtype="float32")
        )
        for seed in (1, 2)
    )
    models = [make(layers, sizes) for make in (ours, theirs)]
    spent = [[], []]
    for epoch in range(epochs + 1):
        for model, seconds in zip(models, spent, strict=True):
            started = time.perf_counter()
            model.fit(x, y, batch_size=sizes["batch"], verbose=0)
            if epoch:  # the first one compiles
                seconds.append(time.perf_counter() - started)
    mine, its = (1000 * statistics.median(seconds) / steps for seconds in spent)
    return f"{mine:.2f}", f"{its:.2f}", f"{mine / its:.2f}"


def ours(layers, sizes):
    """Our encoder."""
    from residual_keras import TransformerEncoder

    return compiled(
        TransformerEncoder(
            layers,
            sizes["embed_dim"],
            sizes["num_heads"],
            sizes["ff_dim"],
            rate=0.0,
            residual="post_ln",
        ),
        sizes,
    )


def theirs(layers, sizes):
    """The block of the Keras tutorials, its heads as wide as ours."""
    from keras import layers as of_keras

    def blocks(x):
        width = sizes["embed_dim"] // sizes["num_heads"]
        for _ in range(layers):
            attention = of_keras.MultiHeadAttention(sizes["num_heads"], width)
            x = of_keras.LayerNormalization(epsilon=1e-6)(x + attention(x, x))
            hidden = of_keras.Dense(sizes["ff_dim"], activation="relu")(x)
            update = of_keras.Dense(sizes["embed_dim"])(hidden)
            x = of_keras.LayerNormalization(epsilon=1e-6)(x + update)
        return x

    return compiled(blocks, sizes)


def compiled(blocks, sizes):
    """A model of the blocks alone, to be trained."""
    import keras

    inputs = keras.Input((sizes["length"], sizes["embed_dim"]))
    model = keras.Model(inputs, blocks(inputs))
    model.compile("adam", "mse")
    return model


if __name__ == "__main__":
    main()
