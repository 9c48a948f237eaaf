"""Which residual schemes learn at which depth, with one recipe for all.

    python benchmarks/depth.py [--schemes SPEC ...] [--layers 24 48] [--csv PATH]

The recipe is the default one but for its size: narrow blocks and short reviews whose
label single words decide, so that a stack which carries anything at all learns them,
and one which does not stays at one half. Prints a row a training; with `--csv`,
those that the file holds already are not trained again.
"""

import argparse
import os
import tempfile

from measuring import Results, alone
from schemes import names

SIZES = {
    "data": "reviews(depth=0, train_size=2000, validation_size=200, test_size=500)",
    "embed_dim": 16,
    "num_heads": 2,
    "epochs": 6,
    "patience": 6,
}
KEY = "scheme", "layers"
COLUMNS = {
    "scheme": "`{scheme}`",
    "blocks": "{layers}",
    "test accuracy": "{accuracy}",
    "seconds": "{seconds}",
}


def main():
    options = argparse.ArgumentParser(
        description="Test accuracy of each residual scheme by number of blocks."
    )
    options.add_argument("--schemes", nargs="+", metavar="SPEC", help="default: all")
    options.add_argument("--layers", nargs="+", type=int, default=[24, 48])
    options.add_argument("--csv", help="a file to add the rows to")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for spec in args.schemes or alone(names):
        for layers in args.layers:
            found = results.find(spec, layers)
            results.add(found or alone(measure, spec, layers))


def measure(spec, layers):
    """Trains a classifier of so many blocks; its row."""
    from residual_keras import Recipe
    from residual_keras.train import train

    recipe = Recipe(residual=spec, num_layers=layers, **SIZES)
    with tempfile.TemporaryDirectory() as folder:
        found = train(recipe, os.path.join(folder, "run"), verbose=0)
    return {
        "scheme": spec,
        "layers": layers,
        "accuracy": f"{found['test']['accuracy']:.3f}",
        "seconds": f"{found['seconds']:.0f}",
    }


if __name__ == "__main__":
    main()
