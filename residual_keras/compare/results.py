"""What the runs of a study reached: a row a run, and the rows taken together."""

import csv
import dataclasses
import functools
import io
import math
import statistics

from ..run_folder import RunFolder, merit, write
from .paired import difference

COLUMNS = (
    "scheme",
    "layers",
    "seed",
    "learning_rate",
    "status",
    "parameters",
    "train_accuracy",
    "train_loss",
    "validation_accuracy",
    "validation_loss",
    "test_accuracy",
    "test_loss",
    "epochs",
    "steps",
    "steps_to_threshold",
    "cpu_seconds",
    "cpu_seconds_an_epoch",
    "peak_memory_mb",
    "gradient_ratio_initial",
    "gradient_ratio_final",
    "message",
    "folder",
)


@dataclasses.dataclass(frozen=True)
class Result:
    """One run as it stands: its row of results.csv, and what is drawn of it.

    Args:
        row: a dict of `COLUMNS`; None stands for what is not known.
        history: its epochs, a list of dicts.
        gradients: a dict with the lists "initial" and "final", or {}.
        resolution: of its accuracy, the share of one text; None where unknown.
    """

    row: dict
    history: list
    gradients: dict
    resolution: float | None

    @property
    def usable(self):
        """Whether its figures count: training went to its end on finite numbers."""
        return self.learnt or self.row["status"] == "stalled"

    @property
    def learnt(self):
        """Whether it came to more than chance."""
        return self.row["status"] == "finished"


def read(run, threshold=None):
    """The `Result` of a `Run`.

    Args:
        run: it.
        threshold: the validation accuracy whose first step is looked for; None:
            half-way from the share of the largest class to 1.
    """
    outcome, folder = run.outcome(), RunFolder(run.path)
    metrics, history = folder.read_metrics(), folder.rows()
    recipe = run.recipe
    row = dict.fromkeys(COLUMNS) | {
        "scheme": recipe.residual,
        "layers": recipe.num_layers,
        "seed": recipe.seed,
        "learning_rate": recipe.learning_rate,
        "status": outcome.get("status", "waiting"),
        "message": outcome.get("message"),
        "folder": str(run.path),
        "peak_memory_mb": outcome.get("peak_memory_mb"),
    }
    for name in ("parameters", "epochs", "steps", "cpu_seconds"):
        row[name] = metrics.get(name)
    for split in ("validation", "test"):
        for name in ("accuracy", "loss"):
            row[f"{split}_{name}"] = metrics.get(split, {}).get(name)
    gradients = outcome.get("gradients", {})
    if "majority" in outcome:  # trained to its end
        best = max(history, key=merit)
        row |= {"train_accuracy": best["accuracy"], "train_loss": best["loss"]}
        if threshold is None:
            threshold = (1 + outcome["majority"]) / 2
        seconds = [epoch["cpu_seconds"] for epoch in history]
        row["cpu_seconds_an_epoch"] = statistics.median(seconds)
        row["steps_to_threshold"] = steps_to(threshold, history, metrics)
        for name, norms in gradients.items():
            row[f"gradient_ratio_{name}"] = ratio(norms)
    measured = metrics.get("test") or metrics.get("validation") or {}
    resolution = 1 / measured["texts"] if measured else None
    return Result(row, history, gradients, resolution)


def steps_to(threshold, history, metrics):
    """The steps until the first epoch that validates so well; None if none did."""
    for row in history:
        if row["val_accuracy"] >= threshold:
            return round((row["epoch"] + 1) * metrics["steps"] / metrics["epochs"])
    return None


def ratio(norms):
    """The first block's by the last one's; None where that is 0 or no number."""
    first, last = norms[0], norms[-1]
    found = first / last if last else math.nan
    return found if math.isfinite(found) else None


def write_csv(results, path):
    """Writes results.csv: a row a run, nothing where a figure is not known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.row for result in results)
    write(path, text.getvalue())


@dataclasses.dataclass(frozen=True)
class Cell:
    """All seeds of one scheme at one depth and learning rate.

    Args:
        results: a list of `Result`.
    """

    results: list

    @property
    def usable(self):
        """Those whose figures count."""
        return [result for result in self.results if result.usable]

    def by_seed(self, column):
        """A dict from seed to the figure of that column."""
        return {result.row["seed"]: result.row[column] for result in self.usable}

    def mean(self, column):
        """The mean of a column over the seeds; nan without any."""
        found = list(self.by_seed(column).values())
        return statistics.mean(found) if found else math.nan

    def spread(self, column):
        """The standard deviation of a column over the seeds; nan with one."""
        found = list(self.by_seed(column).values())
        return statistics.stdev(found) if len(found) > 1 else math.nan


@dataclasses.dataclass(frozen=True)
class Study:
    """The results of all runs, and the scheme that the others are held against.

    Args:
        results: a list of `Result`.
        baseline: a scheme's spec.
    """

    results: list
    baseline: str

    def values(self, column):
        """The different values of a column, in the order of the results."""
        return list(dict.fromkeys(result.row[column] for result in self.results))

    @property
    def schemes(self):
        """The specs."""
        return self.values("scheme")

    @property
    def depths(self):
        """The numbers of blocks, rising."""
        return sorted(self.values("layers"))

    @property
    def measure(self):
        """The column that schemes are compared by: of the test split, if there is."""
        found = [result.row for result in self.results if result.usable]
        tested = all(row["test_accuracy"] is not None for row in found)
        return "test_accuracy" if found and tested else "validation_accuracy"

    @property
    def split(self):
        """The split of that column."""
        return self.measure.split("_")[0]

    @functools.cached_property
    def cells(self):
        """A dict from (scheme, layers, learning rate) to `Cell`."""
        found = {}
        for result in self.results:
            row = result.row
            key = row["scheme"], row["layers"], row["learning_rate"]
            found.setdefault(key, Cell([])).results.append(result)
        return found

    @functools.cached_property
    def chosen(self):
        """A dict from (scheme, layers) to the `Cell` of its best learning rate.

        The best is the one whose runs validate best; a rate at which fewer of them
        came to their end comes after those at which more did.
        """
        found = {}
        for (scheme, layers, _), cell in self.cells.items():
            found.setdefault((scheme, layers), []).append(cell)
        return {key: max(cells, key=standing) for key, cells in found.items()}

    def difference(self, scheme, layers, against=None):
        """The `Difference` of a scheme and another, the baseline's, at one depth."""
        ours = self.chosen[scheme, layers]
        theirs = self.chosen[against or self.baseline, layers]
        return difference(
            ours.by_seed(self.measure),
            theirs.by_seed(self.measure),
            least=max((r.resolution for r in ours.usable), default=0.0),
        )

    def best(self, layers):
        """The scheme that validates best at a depth; None where no run counts."""
        found = [s for s in self.schemes if self.chosen[s, layers].usable]
        return max(found, key=lambda s: accuracy(self.chosen[s, layers]), default=None)


def standing(cell):
    """What the best learning rate has most of: runs that count, then accuracy."""
    return len(cell.usable), accuracy(cell)


def accuracy(cell):
    """What is chosen by: the mean validation accuracy, -inf where no run counts."""
    return cell.mean("validation_accuracy") if cell.usable else -math.inf
