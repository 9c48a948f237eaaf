"""What a trained model loses where its weights are stored in fewer bits.

    python benchmarks/stored.py RUN [--formats NAME ...]

Exports the model of a run that `residual-keras train` made in each format with weights
as float32, float16 and int8, and asks each export in its own runtime for the run's test
split: accuracy, the largest difference of a probability to the float32 model's, size,
and milliseconds of CPU a text, in batches of 64.
"""

import argparse
import tempfile

from exports import WEIGHTS
from measuring import Results, Worker

KEY = "format", "weights"
COLUMNS = {
    "format": "{format}",
    "weights": "{weights}",
    "test accuracy": "{accuracy}",
    "largest difference": "{cost}",
    "MB": "{megabytes}",
    "CPU ms a text": "{milliseconds}",
}
BATCH = 64


def main():
    options = argparse.ArgumentParser(
        description="Accuracy, size and time of a run's exports, by stored weights."
    )
    options.add_argument(
        "run", metavar="RUN", help="a folder of `residual-keras train`"
    )
    options.add_argument("--formats", nargs="+", metavar="NAME", help="default: all")
    args = options.parse_args()
    results = Results(COLUMNS, KEY)
    print(results.head())
    with Worker(Trained, args.run) as trained:
        for name in args.formats or trained("formats")[0]:
            for weights in WEIGHTS:
                row = trained("export", name, weights)[0]
                if row:
                    right, cpu, _ = trained("count_right")
                    texts = trained("texts")[0]
                    results.add(
                        {
                            **row,
                            "format": name,
                            "weights": weights,
                            "accuracy": f"{right / texts:.4f}",
                            "milliseconds": f"{1000 * cpu / texts:.2f}",
                        }
                    )


class Trained:
    """A run's model, its test split in batches, and the last export's answers."""

    def __init__(self, run):
        from measuring import load_quietly

        load_quietly()
        from residual_keras import data, load_model
        from residual_keras.run_folder import RunFolder

        folder = RunFolder(run)
        recipe = folder.recipe()
        self.model = load_model(folder.model)
        self.test = data.load(recipe.data, **recipe.data_options()).test
        self.batches = []
        for start in range(0, len(self.test), BATCH):
            texts = self.test.texts[start : start + BATCH]
            self.batches.append((texts, self.model.vectorizer(texts).numpy()))

    def texts(self):
        return len(self.test)

    def formats(self):
        from residual_keras.export import FORMATS

        return list(FORMATS)

    def export(self, name, weights):
        """Exports and loads again; the cells of it, none where it is refused."""
        from residual_keras.export import FORMATS, export_model

        with tempfile.TemporaryDirectory() as folder:
            try:
                found = export_model(self.model, folder, name, **WEIGHTS[weights])
            except ValueError:
                return {}
            self.run = FORMATS[name]().load(found.path)
        return {"cost": f"{found.cost:.1e}", "megabytes": f"{found.size / 1e6:.2f}"}

    def count_right(self):
        """How many of the test texts the export labels as they are labelled."""
        import numpy as np

        found = [self.run(*batch)[-1].argmax(1) for batch in self.batches]
        return int((np.concatenate(found) == np.asarray(self.test.labels)).sum())


if __name__ == "__main__":
    main()
