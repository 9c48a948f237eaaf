"""What a training run leaves on disk, every file written beside and renamed."""

import csv
import json
import os
import pathlib
import shutil

from .paths import path_of
from .recipe import Recipe


class RunFolder:
    """The files of one run.

    config.json     the recipe
    history.csv     a row an epoch
    curves.png      the same, drawn
    metrics.json    how it ended
    model.keras     the `TextClassifier` with the best weights
    export/1/       the same as a SavedModel
    best.weights.h5, state/    only until it has ended: what `--resume` needs

    Args:
        path: of the folder.

    Example:
        >>> RunFolder("runs/a").history
        PosixPath('runs/a/history.csv')
    """

    kind = Recipe  # what its config.json holds
    verb = "train"  # of `residual-keras`, which makes it

    def __init__(self, path):
        self.path = path_of(path, "The folder of a run")
        self.config = self.path / "config.json"
        self.history = self.path / "history.csv"
        self.curves = self.path / "curves.png"
        self.metrics = self.path / "metrics.json"
        self.model = self.path / "model.keras"
        self.export = self.path / "export"
        self.best = self.path / "best.weights.h5"
        self.state = self.path / "state"
        self.tensorboard = self.path / "tensorboard"

    def create(self, recipe):
        """Makes the folder for a new run.

        Raises:
            ValueError: if there is something at the path, or it cannot be written.
        """
        if self.config.exists():
            raise ValueError(
                f"{self.path} holds a run already. Choose another folder, or go on "
                "with it by --resume."
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise ValueError(
                    f"{self.path} is not empty. Choose another folder for the run."
                )
            self.state.mkdir()
            write(self.config, recipe.to_json())
        except OSError as error:
            raise ValueError(
                f"Cannot make the run's folder {self.path}: {error.strerror}."
            ) from None

    def recipe(self):
        """The recipe of a run that was begun.

        Raises:
            ValueError: if there is none, or it is damaged.
        """
        try:
            return self.kind.from_json(self.config.read_text(encoding="utf-8"))
        except OSError:
            raise ValueError(
                f"{self.path} holds no run: it has no config.json. Give the folder "
                f"that `residual-keras {self.verb}` made."
            ) from None
        except ValueError as error:
            raise ValueError(f"{self.config}: {error}") from None

    def unfinished(self):
        """The recipe of a run to go on with.

        Raises:
            ValueError: if there is none, it is damaged, or it is finished.
        """
        recipe = self.recipe()
        if self.read_metrics().get("status") == "finished":
            raise ValueError(f"The run in {self.path} is finished: nothing to resume.")
        return recipe

    def rows(self):
        """history.csv as a list of dicts from column to number."""
        if not self.history.exists():
            return []
        with open(self.history, encoding="utf-8", newline="") as file:
            return [
                {name: float(value) for name, value in row.items()}
                for row in csv.DictReader(file)
            ]

    def keep_rows(self, epochs):
        """Drops the rows of history.csv from `epochs` on: they will be run again."""
        rows = [row for row in self.rows() if row["epoch"] < epochs]
        if rows:
            lines = [",".join(rows[0])] + [
                ",".join(map(repr, r.values())) for r in rows
            ]
            write(self.history, "\n".join(lines) + "\n")
        else:
            self.history.unlink(missing_ok=True)

    def write_metrics(self, metrics):
        """Writes metrics.json."""
        write(self.metrics, json.dumps(metrics, indent=2) + "\n")

    def read_metrics(self):
        """What metrics.json says, or {} where the run has not ended."""
        if not self.metrics.exists():
            return {}
        return json.loads(self.metrics.read_text(encoding="utf-8"))

    def clear_state(self):
        """Removes what only an unfinished run needs."""
        shutil.rmtree(self.state, ignore_errors=True)
        self.best.unlink(missing_ok=True)


def merit(row):
    """What the best epoch has most of: validation accuracy, then less loss.

    Loss alone would choose earlier: a model goes on learning to tell labels apart while
    it already grows too sure of itself.
    """
    return row["val_accuracy"], -row["val_loss"]


def next_folder(recipe, base="runs"):
    """The first free folder for a recipe: runs/<data>-<scheme>-<number>.

    Example:
        >>> str(next_folder(Recipe(), base="nowhere"))
        'nowhere/reviews-pre_ln-1'
    """
    data = pathlib.Path(recipe.data).name.split(".")[0]
    name = f"{file_name(data)}-{file_name(recipe.residual)}"
    number = 1
    while (pathlib.Path(base) / f"{name}-{number}").exists():
        number += 1
    return pathlib.Path(base) / f"{name}-{number}"


def file_name(spec):
    """A spec as a part of a file's name.

    Example:
        >>> file_name("attention_residual(dropout=0.1)")
        'attention_residual_dropout=0.1'
    """
    return "".join(c if c.isalnum() or c in "_.=" else "_" for c in spec).strip("_")


def newest_folder(base="runs"):
    """The folder under `base` whose model is the newest.

    Raises:
        ValueError: if there is none.
    """
    models = sorted(
        pathlib.Path(base).glob("*/model.keras"), key=lambda path: path.stat().st_mtime
    )
    if not models:
        raise ValueError(
            f"There is no trained model under {base}/. Train one with "
            "`residual-keras train`, or give its folder with --run-dir."
        )
    return models[-1].parent


def write(path, text):
    """Writes a text file beside and renames it, so that it is never half there."""
    save(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def save(path, writer):
    """Lets `writer(path)` write beside, keeping the file's ending, and renames."""
    beside = path.with_name(f"writing-{path.name}")
    writer(beside)
    os.replace(beside, path)
