"""One recipe around `model.fit`: from texts to an encoder to start with."""

import math
import sys

import keras
import numpy as np

from .. import curves, fitting
from ..classifier import build_classifier
from ..data import Split, load_unlabelled, packing, stratified_split
from ..optimization import recipe_schedule, spare
from ..run_folder import save
from ..tokenizers import make_vectorizer
from ..training_state import TrainingState
from . import objectives
from .folder import PretrainingFolder
from .pretrainer import Pretrainer


def pretrain(recipe, folder, *, resume=False, verbose=1, seconds=30.0):
    """Pretrains an encoder on texts without labels.

    `train` starts with it where its recipe's `init` is the folder. A run that is
    stopped, by Ctrl-C or a kill, is taken up again at its step.

    Args:
        recipe: a `PretrainingRecipe`; None with `resume`, for the run has its own.
        folder: the path of the run's folder; see `PretrainingFolder` for what it will
            hold.
        resume: go on with the run that the folder holds.
        verbose: 1 shows Keras' progress bar, 2 a line an evaluation, 0 nothing.
        seconds: how often the state is written between evaluations.

    Returns:
        What metrics.json says: a dict with status ("finished" or "interrupted"), the
        loss on texts held out, in nats a token, and what it took.

    Raises:
        ValueError: if the recipe, the data or the folder cannot be used.

    Example:
        >>> pretrain(PretrainingRecipe(), "pretrained/first", verbose=0)["status"]
        'finished'
    """
    folder = PretrainingFolder(folder)
    if resume:
        recipe = folder.unfinished()
    objectives.get(recipe.objective, np.ones(9))  # a wrong one is told at once
    keras.utils.set_random_seed(recipe.seed)
    texts = load_unlabelled(recipe.data, **recipe.data_options())
    training, held_out = hold_out(texts, recipe.held_out, recipe.data_seed)
    if resume:
        tokens = folder.read_vocabulary()
        vectorizer = make_vectorizer(recipe, vocabulary=tokens)
    else:
        vectorizer = make_vectorizer(recipe)
        vectorizer.adapt(training)
    rows = packed(training, vectorizer, recipe.max_len)
    validation = packed(held_out, vectorizer, recipe.max_len)
    model = build(recipe, vectorizer, rows)
    evaluations, steps = recipe.plan(len(rows))
    compile_for(recipe, model, total_steps=evaluations * steps)
    if not resume:
        folder.create(recipe)  # only now: what is wrong with the recipe was told above
        folder.write_vocabulary(vectorizer.get_vocabulary())

    if verbose:
        print(
            f"Pretraining {recipe.residual}, {model.encoder.count_params():,} weights, "
            f"on {rows.size:,} tokens for {evaluations * steps:,} steps of "
            f"{recipe.batch_size * recipe.max_len:,} into {folder.path}",
            file=sys.stderr,
        )
    state = TrainingState(folder, steps, seconds, merit=lambda row: (-row["val_loss"],))
    status = state.status_of(
        fit, recipe, folder, model, rows, validation, state, evaluations, verbose
    )
    return finish(folder, model, state, status)


def hold_out(texts, share, seed):
    """The texts to train on, and a share of them to measure on."""
    if len(set(texts)) < 2:
        raise ValueError(
            "Pretraining needs many texts, two of them different. "
            f"Received: {len(texts)} texts. Give more."
        )
    alike = np.zeros(len(texts), "int32")
    return (part.texts for part in stratified_split(Split(texts, alike), share, seed))


def packed(texts, vectorizer, length):
    """Packed rows (rows, length), or a ValueError if the texts do not fill one."""
    rows = packing.pack(texts, vectorizer, length)
    if not len(rows):
        raise ValueError(
            "The texts to train on, and those held out, must fill a row each. "
            f"Received: {len(texts)} texts of less than max_len={length} tokens in "
            "all. Give more texts, raise held_out, or lower max_len."
        )
    return rows


def build(recipe, vectorizer, rows):
    """The untrained `Pretrainer` of a recipe."""
    words = vectorizer.vocab_size
    counts = np.bincount(rows.ravel(), minlength=words)
    objective = objectives.get(recipe.objective, counts)
    classifier = build_classifier(
        words, num_classes=1, causal=objective.causal, **recipe.encoder_options()
    )
    stream = classifier.get_layer("encoder").output
    encoder = keras.Model(classifier.input, stream, name="pretrained")
    return Pretrainer(encoder, objective, dtype=recipe.precision)


def compile_for(recipe, model, total_steps):
    """Compiles a `Pretrainer` with the recipe's optimizer."""
    optimizer = keras.optimizers.AdamW(
        recipe_schedule(recipe, total_steps),
        weight_decay=recipe.weight_decay,
        global_clipnorm=recipe.clipnorm,
    )
    spare(optimizer, model)
    model.compile(optimizer)


def fit(recipe, folder, model, rows, validation, state, evaluations, verbose):
    """Trains from the state's step on to the last evaluation."""

    def training(step):
        found = packing.training_rows(
            rows, recipe.batch_size, seed=recipe.seed, start_step=step
        )
        if step == 0:
            model.calibrate(next(iter(found)))
        return found

    # A softmax over all words: a score for each of them at each token.
    tokens = 2**25 // max(rows.max(), 1)
    size = min(recipe.batch_size, max(1, tokens // recipe.max_len))
    fitting.fit(
        model,
        folder,
        state,
        evaluations,
        training,
        packing.evaluation_rows(validation, size),
        over=lambda rows: False,
        verbose=verbose,
    )


def finish(folder, model, state, status):
    """Writes the encoder, what it reached, and the curves."""
    if folder.best.exists():
        model.load_weights(folder.best)
    history = folder.rows()
    best = min(history, key=lambda row: row["val_loss"], default=None)
    metrics = {
        "status": status,
        "steps": state.step,
        "parameters": model.encoder.count_params(),
        "seconds": sum(row["seconds"] for row in history),
        "cpu_seconds": sum(row["cpu_seconds"] for row in history),
    }
    if best:
        loss = best["val_loss"]
        metrics["validation"] = {"loss": loss, "perplexity": math.exp(min(loss, 700))}
        save(folder.curves, lambda path: curves.draw(history, path))
    save(folder.encoder, model.encoder.save)
    folder.write_metrics(metrics)
    if status == "finished":
        folder.clear_state()
    return metrics
