"""What half precision saves a training step and an inference.

    python benchmarks/precision.py [--layers N ...] [--csv PATH]

The model is `build_classifier(dtype=PRECISION)`; it takes turns with the same in single
precision, in one process. Printed are CPU seconds of all threads and the quartiles of
the ratio to single precision. A processor without instructions for bfloat16 computes it
at a loss, and few compute float16 at all.
"""

import argparse
import statistics

from measuring import Results, alone, cpu_seconds, load_quietly, quartiles
from schemes import SIZES, SMALL

VOCAB_SIZE = 20_000
KEY = "precision", "layers", "task"
COLUMNS = {
    "precision": "`{precision}`",
    "blocks": "{layers}",
    "task": "{task}",
    "CPU s": "{cpu_seconds}",
    "in float32": "{float32_cpu_seconds}",
    "ratio": "{ratio}",
    "quartiles": "{ratio_low} to {ratio_high}",
}


def main():
    options = argparse.ArgumentParser(description="Half precision's CPU seconds.")
    options.add_argument("--precisions", nargs="+", default=["mixed_bfloat16"])
    options.add_argument("--layers", nargs="+", type=int, default=[4, 12])
    options.add_argument("--steps", type=int, default=10, help="of each; default: 10")
    options.add_argument("--small", action="store_true", help="tiny, for a quick look")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for precision in args.precisions:
        for layers in args.layers:
            sizes = {"layers": layers, **(SMALL if args.small else SIZES)}
            found = alone(in_turns, precision, sizes, args.steps)
            for task, (half, single) in found.items():
                low, middle, high = quartiles(half, single)
                results.add(
                    {
                        "precision": precision,
                        "layers": layers,
                        "task": task,
                        "cpu_seconds": f"{statistics.median(half):.3f}",
                        "float32_cpu_seconds": f"{statistics.median(single):.3f}",
                        "ratio": middle,
                        "ratio_low": low,
                        "ratio_high": high,
                        "steps": args.steps,
                    }
                )


def in_turns(precision, sizes, steps):
    """By task, the CPU seconds of every step in this precision and in single."""
    load_quietly()
    import numpy as np

    rng = np.random.default_rng(0)
    ids = rng.integers(1, VOCAB_SIZE, (sizes["batch"], sizes["length"]))
    labels = rng.integers(0, 2, sizes["batch"])
    models = [make(dtype, sizes) for dtype in (precision, "float32")]
    found = {"train": ([], []), "infer": ([], [])}
    for step in range(-2, steps):
        for place, model in enumerate(models):
            train = cpu_seconds(lambda m=model: m.train_on_batch(ids, labels))
            infer = cpu_seconds(lambda m=model: m.predict_on_batch(ids))
            if step >= 0:  # the first ones make graphs
                found["train"][place].append(train)
                found["infer"][place].append(infer)
    return found


def make(dtype, sizes):
    """A classifier to train."""
    from residual_keras import build_classifier

    model = build_classifier(
        VOCAB_SIZE,
        num_classes=2,
        num_layers=sizes["layers"],
        embed_dim=sizes["embed_dim"],
        num_heads=sizes["num_heads"],
        ff_dim=sizes["ff_dim"],
        max_len=sizes["length"],
        dtype=dtype,
    )
    model.compile("adam", jit_compile=False)
    return model


if __name__ == "__main__":
    main()
