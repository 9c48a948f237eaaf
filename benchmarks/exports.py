"""What each export gives for each residual scheme, asked in the export's own runtime.

    python benchmarks/exports.py [--schemes SPEC ...] [--formats NAME ...]
        [--weights float32 ...] [--csv benchmarks/exports.csv]

A classifier of two narrow blocks, its weights moved off their first values, is exported
and compared with its model, as `export_model` does: the largest difference between two
probabilities, the size of the files, and the CPU seconds that it took. A cell that
cannot be has the reason in its stead.
"""

import argparse
import tempfile

from measuring import Results, Worker
from schemes import names

WEIGHTS = {
    "float32": {},
    "float16": {"half_precision": True},
    "int8": {"quantize": True},
}
SIZES = {"num_layers": 2, "embed_dim": 16, "num_heads": 2, "max_len": 37}
KEY = "scheme", "format", "weights"
COLUMNS = {
    "scheme": "`{scheme}`",
    "format": "{format}",
    "weights": "{weights}",
    "largest difference": "{difference}",
    "to the float32 model": "{cost}",
    "kB": "{kilobytes}",
    "CPU seconds": "{seconds}",
}


def main():
    options = argparse.ArgumentParser(
        description="The largest difference of each export to its model, by scheme."
    )
    options.add_argument("--schemes", nargs="+", metavar="SPEC", help="default: all")
    options.add_argument("--formats", nargs="+", metavar="NAME", help="default: all")
    options.add_argument("--weights", nargs="+", choices=WEIGHTS, default=["float32"])
    options.add_argument("--csv", help="a file whose rows of these exports to replace")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    with Worker(Exporter) as exporter:
        specs = args.schemes or exporter("names")[0]
        for spec in specs:
            exporter("build", spec)
            for name in args.formats or exporter("formats")[0]:
                for weights in args.weights:
                    row, cpu, _ = exporter("export", name, weights)
                    key = {"scheme": spec, "format": name, "weights": weights}
                    results.add({**key, **row, "seconds": f"{cpu:.1f}"})


class Exporter:
    """A model, and what its exports give."""

    def __init__(self):
        from measuring import load_quietly

        load_quietly()

    def names(self):
        return names()

    def formats(self):
        from residual_keras.export import FORMATS

        return list(FORMATS)

    def build(self, spec):
        """Makes the model of a scheme."""
        import keras

        from residual_keras import TextClassifier, TextVectorizer, build_classifier

        keras.utils.set_random_seed(0)
        vectorizer = TextVectorizer(vocab_size=100, max_len=SIZES["max_len"])
        vectorizer.adapt(["the plot was superb , and the cast felt dull : a pity !"])
        classifier = build_classifier(
            vectorizer.vocab_size, num_classes=3, residual=spec, **SIZES
        )
        for seed, weight in enumerate(classifier.trainable_variables):
            weight.assign_add(keras.random.normal(weight.shape, 0, 0.1, seed=seed))
        self.model = TextClassifier(classifier, vectorizer, ["bad", "so so", "good"])

    def export(self, name, weights):
        """Exports the model; the cells that this gives."""
        from residual_keras.export import export_model

        with tempfile.TemporaryDirectory() as folder:
            try:
                found = export_model(self.model, folder, name, **WEIGHTS[weights])
            except ValueError as error:
                reason = " ".join(str(error).split())[:120]
                return {"difference": reason, "cost": "", "kilobytes": ""}
        return {
            "difference": f"{found.difference:.1e}",
            "cost": f"{found.cost:.1e}",
            "kilobytes": f"{found.size / 1000:.0f}",
        }


if __name__ == "__main__":
    main()
