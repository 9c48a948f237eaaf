"""What each residual scheme costs: a training step's time and memory, and weights.

    python benchmarks/schemes.py [--schemes SPEC ...] [--csv benchmarks/schemes.csv]

The model is a `TransformerEncoder` alone, with the mean square error of its output as
loss and Adam, its step that of `keras.Model.fit` (`train_on_batch`, jit_compile off).
Each scheme is measured against pre_ln in a new process, where steps of the one and the
other take turns, in CPU seconds of all threads; of the ratios, step by step, the median
is printed, and the quartiles. The row of pre_ln itself says how far noise goes. Memory
is the most that a process held which did nothing but three steps, the libraries' own
share included.
"""

import argparse
import functools
import statistics

from measuring import Results, alone, backend_version, cpu_seconds, quartiles

# Options that change the cost, beside every scheme's defaults.
VARIANTS = [
    "attn_res(block_size=4)",
    "dense_former(dilation=4, period=5)",
    "hyper_connections(dynamic=False)",
    "hyper_connections(streams=2)",
]
SIZES = {"batch": 32, "length": 256, "embed_dim": 128, "num_heads": 4, "ff_dim": 512}
KEY = ("scheme",)
COLUMNS = {
    "scheme": "`{scheme}`",
    "CPU time": "{cpu_ratio}",
    "quartiles": "{cpu_low} to {cpu_high}",
    "memory": "{memory_ratio}",
    "weights": "{weights}",
}
SMALL = {"batch": 4, "length": 32, "embed_dim": 16, "num_heads": 2, "ff_dim": 32}


def main():
    options = argparse.ArgumentParser(
        description="The cost of each residual scheme's training step against pre_ln."
    )
    options.add_argument("--schemes", nargs="+", metavar="SPEC", help="default: all")
    options.add_argument("--layers", type=int, default=12, help="default: 12")
    options.add_argument("--steps", type=int, default=10, help="of each; default: 10")
    options.add_argument("--small", action="store_true", help="tiny, for a quick look")
    options.add_argument("--csv", help="a file whose rows of these schemes to replace")
    args = options.parse_args()
    sizes = {"layers": args.layers, **(SMALL if args.small else SIZES)}
    results = Results(COLUMNS, KEY, args.csv)
    for row in results.rows.values():
        if any(int(row[name]) != size for name, size in sizes.items()):
            options.error(f"{args.csv} holds figures of other sizes: {row}")
    specs = args.schemes or [*alone(names), *VARIANTS]
    pre_ln_mb = alone(peak_memory, "pre_ln", sizes)
    print(results.head())
    for spec in specs:
        row = {"scheme": spec, **sizes, **alone(step_times, spec, sizes, args.steps)}
        mb = pre_ln_mb if spec == "pre_ln" else alone(peak_memory, spec, sizes)
        row |= {"memory_mb": round(mb), "memory_ratio": f"{mb / pre_ln_mb:.3f}"}
        results.add(row)


def names():
    """The name of every scheme, by kind of state."""
    from residual_keras import catalogue

    return [scheme.name for scheme in catalogue.schemes()]


def make_step(spec, sizes, **kwargs):
    """The encoder, and a function without arguments that trains it by a step."""
    import keras

    from residual_keras import TransformerEncoder

    shape = (sizes["length"], sizes["embed_dim"])
    encoder = TransformerEncoder(
        sizes["layers"],
        **{name: sizes[name] for name in ("embed_dim", "num_heads", "ff_dim")},
        rate=0.0,
        activation="relu",
        residual=spec,
        **kwargs,
    )
    model = keras.Sequential([keras.Input(shape), encoder])
    model.compile("adam", "mse", jit_compile=False)
    x, y = (keras.random.normal((sizes["batch"], *shape), seed=seed) for seed in (1, 2))
    return encoder, functools.partial(model.train_on_batch, x, y)


def step_times(spec, sizes, steps):
    """CPU seconds of the scheme's step and pre_ln's, taking turns; the weights."""
    import keras

    encoder, step = make_step(spec, sizes)
    pre_ln, other = make_step("pre_ln", sizes)
    for warm_up in (step, other) * 2:  # the first one makes the graph
        warm_up()
    spent = []
    for _ in range(steps):
        spent.append([cpu_seconds(step), cpu_seconds(other)])
    mine, its = zip(*spent, strict=True)
    low, middle, high = quartiles(mine, its)
    return {
        "steps": steps,
        "cpu_seconds": f"{statistics.median(mine):.3f}",
        "pre_ln_cpu_seconds": f"{statistics.median(its):.3f}",
        "cpu_ratio": middle,
        "cpu_low": low,
        "cpu_high": high,
        "weights": encoder.count_params(),
        "pre_ln_weights": pre_ln.count_params(),
        "versions": f"Keras {keras.__version__}, {backend_version()}",
    }


def peak_memory(spec, sizes):
    """The most memory, in MB, that this process has held after three steps."""
    from residual_keras.compare.worker import peak_memory as peak

    _, step = make_step(spec, sizes)
    for _ in range(3):
        step()
    return peak()


if __name__ == "__main__":
    main()
