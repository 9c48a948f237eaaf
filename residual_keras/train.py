"""One recipe around `model.fit`: from a data set to a run folder to serve from."""

import dataclasses
import importlib.util
import sys

import keras
import numpy as np

from . import building, curves, fitting, teaching
from . import data as data_sets
from .data import batches
from .export import export_saved_model
from .layer_rates import layerwise
from .optimization import SmoothedCrossentropy, recipe_schedule
from .pretraining import pretrained
from .run_folder import RunFolder, merit, save
from .training_state import TrainingState


def train(
    recipe,
    folder,
    *,
    resume=False,
    verbose=1,
    tensorboard=False,
    export=True,
    seconds=30.0,
):
    """Trains a classifier from raw texts, evaluates it, and exports it.

    The weights of the epoch with the highest validation accuracy are kept; training
    stops early when the validation loss falls no more. The test split is looked at
    once, at the end. A run that is stopped, by Ctrl-C or a kill, is taken up
    again at its step.

    Args:
        recipe: a `Recipe`; None with `resume`, for the run has its own.
        folder: the path of the run folder; see `RunFolder` for what it will hold.
        resume: go on with the run that the folder holds.
        verbose: 1 shows Keras' progress bar, 2 a line an epoch, 0 nothing.
        tensorboard: also write logs for TensorBoard (its package must be installed).
        export: also write the model as a SavedModel to serve.
        seconds: how often the state is written inside an epoch.

    Returns:
        What metrics.json says: a dict with status ("finished" or "interrupted"),
        validation and test loss and accuracy, and what it took.

    Raises:
        ValueError: if the recipe, the data or the folder cannot be used.

    Example:
        >>> train(Recipe(epochs=1), "runs/first", verbose=0)["status"]
        'finished'
    """
    folder = RunFolder(folder)
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "TensorBoard's logs need its package. Install it: "
            "pip install 'residual_keras[tensorboard]'."
        )
    if resume:
        recipe = folder.unfinished()
    elif recipe.init:
        recipe = pretrained.take_over(recipe)
    data = data_sets.load(recipe.data, **recipe.data_options())
    rows = teaching.lessons(recipe, data)
    texts = teaching.texts_to_read(recipe, data, rows)
    keras.utils.set_random_seed(recipe.seed)
    model = building.build(recipe, rows, texts)
    steps = batches.steps_per_epoch(rows.train, recipe.batch_size)
    epochs = recipe.epochs_for(rows.train.texts)
    compile_for(recipe, model.classifier, total_steps=epochs * steps)
    if not resume:
        folder.create(recipe)  # only now: what is wrong with the recipe was told above

    if verbose:
        count, parameters = len(rows.train), model.classifier.count_params()
        kind = recipe.classifier
        kind = recipe.residual if kind == "transformer" else kind
        print(
            f"Training {kind}, {parameters:,} weights, on {count:,} texts "
            f"for at most {epochs} epochs into {folder.path}",
            file=sys.stderr,
        )
    state = TrainingState(folder, steps, seconds)
    status = state.status_of(
        fit, recipe, folder, model, rows, texts, state, epochs, verbose, tensorboard
    )
    return finish(recipe, folder, model, data, state, status, export)


def compile_for(recipe, classifier, total_steps):
    """Compiles a classifier with the recipe's optimizer and loss."""
    smoothing = recipe.label_smoothing
    loss = SmoothedCrossentropy(smoothing) if smoothing else None
    metrics = None
    if recipe.teacher:
        loss, metrics = teaching.loss(smoothing), [teaching.accuracy()]
    classifier.compile(optimizer_for(recipe, classifier, total_steps), loss, metrics)


def optimizer_for(recipe, classifier, total_steps):
    """The optimizer of a recipe: AdamW, with one rate or with one for each layer."""
    options = {"global_clipnorm": recipe.clipnorm}
    if recipe.ema_momentum is not None:
        options |= {"use_ema": True, "ema_momentum": recipe.ema_momentum}
    rate = recipe_schedule(recipe, total_steps)
    if recipe.layer_decay == 1:
        decay = recipe.weight_decay
        return keras.optimizers.AdamW(rate, weight_decay=decay, **options)
    return layerwise(
        rate, classifier, recipe.layer_decay, recipe.weight_decay, **options
    )


def fit(recipe, folder, model, data, texts, state, epochs, verbose, tensorboard):
    """Trains from the state's step on, to the last epoch or the end of patience."""
    vectorizer = padded_vectorizer(model, recipe.pad_to_multiple_of)
    size, classifier = recipe.batch_size, model.classifier

    def training(step):
        found = batches.training_batches(
            data.train, vectorizer, size, seed=recipe.seed, start_step=step
        )
        if step == 0 and not recipe.init:
            rows = found.take(state.steps_per_epoch)
            building.start(recipe, model, rows, texts)
        return found

    callbacks = [Patience(folder, recipe.patience)]
    if tensorboard:
        callbacks.append(keras.callbacks.TensorBoard(folder.tensorboard))
    fitting.fit(
        classifier,
        folder,
        state,
        epochs,
        training,
        batches.evaluation_batches(data.validation, vectorizer, size),
        callbacks=callbacks,
        over=lambda rows: patience_is_out(rows, recipe.patience),
        verbose=verbose,
    )


def finish(recipe, folder, model, data, state, status, export):
    """Writes the model, what it reached, the curves and, where asked, the export."""
    classifier = model.classifier
    if folder.best.exists():
        classifier.load_weights(folder.best)
    rows = folder.rows()
    best = max(rows, key=merit, default={"epoch": -1})
    metrics = {
        "status": status,
        "steps": state.step,
        "epochs": len(rows),
        "best_epoch": int(best["epoch"]) + 1,
        "parameters": classifier.count_params(),
        "seconds": sum(row["seconds"] for row in rows),
        "cpu_seconds": sum(row["cpu_seconds"] for row in rows),
    }
    if status == "finished":
        sizes = recipe.batch_size, recipe.pad_to_multiple_of
        metrics["validation"] = evaluate(model, data.validation, *sizes)
        if data.test is not None:
            metrics["test"] = evaluate(model, data.test, *sizes)
    save(folder.model, model.save)
    if export:
        facts = {**dataclasses.asdict(recipe), **metrics}
        export_saved_model(model, folder.export, facts=facts)
    if rows:
        save(folder.curves, lambda path: curves.draw(rows, path))
    folder.write_metrics(metrics)
    if status == "finished":
        folder.clear_state()
    return metrics


def padded_vectorizer(model, multiple):
    """A `TextClassifier`'s vectorizer, padding to a multiple of so many ids.

    None takes 64 where XLA runs the classifier, for it makes a program a length.
    """
    multiple = multiple or (64 if model.classifier.jit_compile else 1)
    return batches.padded(model.vectorizer, multiple)


def evaluate(model, split, batch_size=64, pad_to_multiple_of=None):
    """A model's loss and accuracy on a split.

    Args:
        model: a `TextClassifier`.
        split: a `Split` with the model's label numbers.
        batch_size: number of texts that are computed at once.
        pad_to_multiple_of: ids that a batch's length is a multiple of; None for 1, or
            64 under XLA.

    Returns:
        A dict with loss (cross-entropy, nats a text), accuracy and texts (how many).
    """
    vectorizer = padded_vectorizer(model, pad_to_multiple_of)
    found = batches.evaluation_batches(split, vectorizer, batch_size)
    classifier = model.classifier
    copy = keras.Model(classifier.inputs, classifier.outputs)  # keep its own compile
    loss = classifier.default_loss()
    # As a metric, for Keras' own "loss" has the penalties on weights in it.
    entropy = keras.metrics.MeanMetricWrapper(loss.call, name="entropy")
    copy.compile(loss=loss, metrics=[entropy, classifier.accuracy()])
    result = copy.evaluate(found, verbose=0, return_dict=True)
    return {
        "loss": float(result["entropy"]),
        "accuracy": float(result["accuracy"]),
        "texts": len(split),
    }


def patience_is_out(rows, patience):
    """Whether the last `patience` epochs all failed to lower the validation loss."""
    losses = [row["val_loss"] for row in rows]
    return bool(losses) and len(losses) - 1 - int(np.argmin(losses)) >= patience


class Patience(keras.callbacks.Callback):
    """Stops training when `patience_is_out`.

    It reads history.csv, which outlives a kill; Keras' `EarlyStopping` keeps its count
    in memory and forgets it when a run is resumed.
    """

    def __init__(self, folder, patience):
        super().__init__()
        self.folder = folder
        self.patience = patience

    def on_epoch_end(self, epoch, logs=None):
        if patience_is_out(self.folder.rows(), self.patience):
            self.model.stop_training = True
