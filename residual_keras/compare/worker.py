"""What the processes of a study do: look ahead, or do one run.

A process of its own for each run measures its memory, and takes no other down with it.
Its standard input is never written to: when it closes, whoever wanted the result is
gone, and the run ends after its step.
"""

import dataclasses
import importlib
import json
import math
import os
import pathlib
import shutil
import signal
import sys
import threading
import time

from ..recipe import Recipe
from ..run_folder import RunFolder, write
from .plan import Outlook, Run

STEPS = 4  # that are timed, after the first, which builds the graph


def main(task):
    """Does what a task says, a dict with `verb`, `modules` and the verb's arguments."""
    threading.Thread(target=end_with_the_asker, daemon=True).start()
    verb = {"look": look, "run": run}[task.pop("verb")]
    verb(**task)


def end_with_the_asker():
    """Waits until nobody holds the other end of standard input, then asks to stop."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def look(recipes, measured, answer, modules, started):
    """Checks all recipes, and times the first steps of one; writes what it found.

    Args:
        recipes: dicts of options, one for each scheme and depth.
        measured: the dict of the one that is timed.
        answer: the path of the JSON to write: the fields of an `Outlook`, or "error".
        modules: the names of what is imported first, which may register schemes.
        started: when the process was asked for, in seconds since the epoch.
    """
    try:
        for module in modules:
            importlib.import_module(module)
        for recipe in recipes:
            check_scheme(Recipe(**recipe))
        found = dataclasses.asdict(time_steps(Recipe(**measured), started))
    except (ValueError, ImportError) as error:
        found = {"error": str(error)}
    write(pathlib.Path(answer), json.dumps(found))


def check_scheme(recipe):
    """Raises ValueError if there is no such scheme for so many blocks."""
    from .. import residuals

    per_block = 1 if recipe.parallel else 2
    residuals.get(
        recipe.residual,
        num_sublayers=per_block * recipe.num_layers,
        per_block=per_block,
    )


def time_steps(recipe, started):
    """The `Outlook` of a recipe."""
    from .. import building, train
    from ..data import batches, load

    data = load(recipe.data, **recipe.data_options())
    model = building.build(recipe, data)
    steps = batches.steps_per_epoch(data.train, recipe.batch_size)
    epochs = recipe.epochs_for(data.train.texts)
    train.compile_for(recipe, model.classifier, total_steps=epochs * steps)
    training = batches.training_batches(
        data.train, model.vectorizer, recipe.batch_size, seed=recipe.seed
    )
    model.classifier.fit(training, steps_per_epoch=1, verbose=0)
    ready = time.time()
    model.classifier.fit(training, steps_per_epoch=STEPS, verbose=0)
    taken = (time.time() - ready) / STEPS
    # A step forward and back costs about three times one forward.
    validation = batches.steps_per_epoch(data.validation, recipe.batch_size) / 3
    test = batches.steps_per_epoch(data.test or [], recipe.batch_size) / 3
    return Outlook(
        layers=recipe.num_layers,
        step_seconds=taken,
        setup_seconds=ready - started,
        steps=epochs * (steps + validation) + validation + test,
        texts=len(data.train),
        classes=len(data.label_names),
        epochs=epochs,
    )


def run(recipe, path, modules):
    """Does a run, or the rest of it, and writes how it ended.

    Args:
        recipe: the dict of its options.
        path: of its folder.
        modules: the names of what is imported first.
    """
    this = Run(Recipe(**recipe), pathlib.Path(path))
    try:
        for module in modules:
            importlib.import_module(module)
        outcome = train_and_measure(this)
    except Exception as error:  # whatever it is, the study goes on
        first, *_ = str(error).strip().split("\n")
        this.end("failed", message=f"{type(error).__name__}: {first[:300]}")
        raise  # into the log, with all that TensorFlow has to say
    if outcome is not None:
        this.end(**outcome)


def train_and_measure(this):
    """What goes into a run's outcome.json, or None where it was stopped."""
    import numpy as np

    from ..train import train

    folder = RunFolder(this.path)
    resume = folder.config.exists()
    if not resume:
        shutil.rmtree(this.path, ignore_errors=True)  # killed before it had begun
    if folder.read_metrics().get("status") != "finished":
        metrics = train(
            None if resume else this.recipe,
            this.path,
            resume=resume,
            verbose=2,
            export=False,
        )
        if metrics["status"] == "interrupted":
            return None
    memory = peak_memory()
    labels, gradients = gradients_of(this.recipe, folder)
    majority = float(np.bincount(labels).max() / len(labels))
    return {
        "status": judge(folder.rows(), majority, len(labels)),
        "majority": majority,
        "peak_memory_mb": memory,
        "gradients": gradients,
    }


def judge(rows, majority, texts):
    """How a run went that has ended.

    Args:
        rows: its history, a dict an epoch.
        majority: the share of the largest class among the validation texts.
        texts: how many they are.

    Returns:
        "diverged" if a loss was no finite number. "stalled" if the best accuracy is
        within two standard deviations of what the largest class alone would give on so
        many texts. Else "finished".
    """
    if not all(math.isfinite(row[n]) for row in rows for n in ("loss", "val_loss")):
        return "diverged"
    chance = majority + 2 * math.sqrt(majority * (1 - majority) / texts)
    best = max(row["val_accuracy"] for row in rows)
    return "stalled" if best <= min(chance, 1 - 1 / texts) else "finished"


def gradients_of(recipe, folder):
    """The validation labels, and the norms of the gradient by each block.

    They are those of the first batch, by the initial weights, which the seed gives
    again, and by the ones that were kept.
    """
    import keras

    from .. import building
    from ..data import batches, load
    from ..saved import load_model
    from .depth import BlockGradients

    keras.utils.set_random_seed(recipe.seed)
    data = load(recipe.data, **recipe.data_options())
    model = building.build(recipe, data)
    training = batches.training_batches(
        data.train, model.vectorizer, recipe.batch_size, seed=recipe.seed
    )
    model.classifier.calibrate(training)
    ids, labels = next(iter(training))
    norms = BlockGradients(model.classifier)
    initial = norms(ids, labels)
    trained = load_model(folder.model).classifier
    model.classifier.set_weights(trained.get_weights())
    found = {"initial": initial, "final": norms(ids, labels)}
    return data.validation.labels, found


def peak_memory():
    """The most memory, in MB, that this process has held; None where none can say."""
    try:
        # Linux' other figure starts at what the process held that made this one.
        with open("/proc/self/status", encoding="ascii") as file:
            [peak] = [line.split()[1] for line in file if line.startswith("VmHWM")]
        return int(peak) / 2**10
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2 ** (20 if sys.platform == "darwin" else 10)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
