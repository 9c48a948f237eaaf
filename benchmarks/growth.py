"""How a training step's time and memory grow with the number of blocks.

    python benchmarks/growth.py [--schemes SPEC ...] [--layers N ...] [--csv PATH]
    python benchmarks/growth.py --recompute --layers 12 --batch 32

The encoder and its step are those of benchmarks/schemes.py. Each scheme takes turns
with `pre_ln` of as many blocks, in processes of their own; with `--recompute`, a scheme
that runs its blocks once more for their gradient takes turns with itself that does not.
Printed are CPU seconds of all threads, their ratio, what each block costs beyond those
of the row before it, and the most memory that a process held, the libraries' own share
included.
"""

import argparse
import statistics

from measuring import Results, Worker, load_quietly, quartiles
from schemes import SIZES, make_step

SCHEMES = ["pre_ln", "deepnorm", "hyper_connections", "attn_res"]
SCHEMES += ["attn_res(block_size=8)"]
KEY = "scheme", "recompute", "batch", "layers"
COLUMNS = {
    "scheme": "`{scheme}`",
    "recomputed": "{recompute}",
    "batch": "{batch}",
    "blocks": "{layers}",
    "CPU s": "{cpu_seconds}",
    "CPU ms a block": "{block_ms}",
    "CPU ratio": "{ratio} ({ratio_low} to {ratio_high})",
    "MB": "{memory_mb}",
    "memory ratio": "{memory_ratio}",
}


def main():
    options = argparse.ArgumentParser(
        description="Time and memory of a training step by number of blocks."
    )
    options.add_argument("--schemes", nargs="+", metavar="SPEC", default=SCHEMES)
    options.add_argument("--layers", nargs="+", type=int, default=[12, 24, 48])
    options.add_argument("--batch", type=int, default=8, help="default: 8")
    options.add_argument("--recompute", action="store_true", help="against without")
    options.add_argument("--steps", type=int, default=8, help="of each; default: 8")
    options.add_argument("--csv", help="a file whose rows of these to replace")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for spec in args.schemes:
        other = spec if args.recompute else "pre_ln"
        before = 0, 0.0
        for layers in sorted(args.layers):
            sizes = {**SIZES, "layers": layers, "batch": args.batch}
            row = measure(spec, other, sizes, args.recompute, args.steps)
            more = layers - before[0], float(row["cpu_seconds"]) - before[1]
            row["block_ms"] = f"{1000 * more[1] / more[0]:.1f}"
            before = layers, float(row["cpu_seconds"])
            results.add(row)


def measure(spec, other, sizes, recompute, steps):
    """The row of a scheme, beside another one."""
    with (
        Worker(Step, spec, sizes, recompute) as ours,
        Worker(Step, other, sizes, False) as theirs,
    ):
        spent = [[worker("step")[1] for worker in (ours, theirs)] for _ in range(steps)]
        memory, its_memory = (worker("peak")[0] for worker in (ours, theirs))
    mine, its = zip(*spent, strict=True)
    low, middle, high = quartiles(mine, its)
    return {
        "scheme": spec,
        "recompute": "yes" if recompute else "no",
        "batch": sizes["batch"],
        "layers": sizes["layers"],
        "cpu_seconds": f"{statistics.median(mine):.3f}",
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "memory_mb": round(memory),
        "memory_ratio": f"{memory / its_memory:.3f}",
    }


class Step:
    """A training step, warm."""

    def __init__(self, spec, sizes, recompute):
        load_quietly()
        _, self.train = make_step(spec, sizes, recompute=recompute)
        for _ in range(2):  # the first one makes the graph
            self.train()

    def step(self):
        self.train()

    def peak(self):
        from residual_keras.compare.worker import peak_memory

        return peak_memory()


if __name__ == "__main__":
    main()
