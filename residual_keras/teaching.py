"""Texts without labels as lessons: a trained model says what it makes of them."""

import dataclasses

import keras
import numpy as np

from . import building, negation
from . import data as data_sets
from .options import DataOptions
from .presets.loading import load_preset
from .run_folder import RunFolder
from .saved import load_model


@dataclasses.dataclass(frozen=True)
class Lessons:
    """Texts and how probable each label is for them.

    Args:
        texts: the raw texts.
        labels: float32 (texts, label names), each row of sum 1.
    """

    texts: list
    labels: np.ndarray

    def __len__(self):
        return len(self.texts)


def lessons(recipe, data):
    """A data set with texts that have no label, as the recipe's teacher answers them.

    Training rows keep their label; each text without one gets the probabilities that
    the teacher gives it, in inference, while the student learns under dropout. The
    student's vocabulary is of all of them. With `negations`, short sentences of these
    texts are lessons too, and so are their negations (`lessons_in_negation`). Source:
    Xie et al. 2020 (noisy student), arXiv:1911.04252, with soft labels as in Hinton et
    al. 2015, arXiv:1503.02531.

    Args:
        recipe: a `Recipe`.
        data: its `TextData`.

    Returns:
        A `TextData` whose training and validation rows are `Lessons`; `data` itself if
        the recipe has no teacher.

    Raises:
        ValueError: if the teacher cannot be had or has other labels, there is no text
            that is not in the data already, or nobody to answer it.

    Example:
        >>> lessons(recipe, data)  # doctest: +SKIP
    """
    if not recipe.teacher:
        return data
    count = len(data.label_names)
    train, validation = (
        Lessons(split.texts, np.eye(count, dtype="float32")[split.labels])
        for split in (data.train, data.validation)
    )
    texts = unlabelled(recipe, data)
    parts = [train, Lessons(texts, ask(recipe.teacher, texts, data.label_names))]
    if recipe.negations:
        parts += lessons_in_negation(recipe, texts, data.label_names)
    train = Lessons(
        [text for part in parts for text in part.texts],
        np.concatenate([part.labels for part in parts]),
    )
    return dataclasses.replace(data, train=train, validation=validation)


def lessons_in_negation(recipe, texts, label_names):
    """Short sentences of texts, with and without a "not", as lessons for two labels.

    With p what the teacher makes of "It is good.", "It is not good." gets 1 - p. These
    come in runs, so that a "not" is learned to turn its own sentence only. Passages
    with a "not" that their writers put there get the teacher's answer.
    """
    if len(label_names) != 2:
        raise ValueError(
            "A negation turns one label into the other, so there must be two. "
            f"Received: negations={recipe.negations}, labels {list(label_names)}."
        )
    count, seed = recipe.negations, recipe.seed
    pairs = negation.pairs(texts, count, seed)
    sentences, negated = map(list, zip(*pairs, strict=True))
    answers = ask(recipe.teacher, sentences, label_names)
    both = np.concatenate([answers, answers[:, ::-1]])
    yield in_runs(Lessons(sentences + negated, both), seed)
    passages = negation.passages(texts, -(-count // 2), seed)
    if passages:
        yield Lessons(passages, ask(recipe.teacher, passages, label_names))


def in_runs(rows, seed):
    """Texts in runs of one to three, drawn anew, each with the answer to all of it.

    Each text counts as if the others said nothing of it (naive Bayes): the run's
    probabilities are as the products of its texts'.

    Args:
        rows: `Lessons`.
        seed: of what is drawn.

    Returns:
        `Lessons`, every text in one of them once.

    Example:
        >>> rows = Lessons(["Fine.", "So good!"], np.float32([[0.4, 0.6], [0.2, 0.8]]))
        >>> run = in_runs(rows, seed=1)
        >>> print(run.texts, run.labels.round(2))
        ['Fine. So good!'] [[0.14 0.86]]
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    starts = np.cumsum(rng.integers(1, 4, len(rows)))
    starts = np.concatenate([[0], starts[starts < len(rows)]])
    runs = np.split(order, starts[1:])
    logits = np.log(np.maximum(rows.labels[order], 1e-6))
    labels = keras.ops.softmax(np.add.reduceat(logits, starts))
    texts = [" ".join(rows.texts[i] for i in run) for run in runs]
    return Lessons(texts, keras.ops.convert_to_numpy(labels))


def texts_to_read(recipe, data, rows):
    """All texts that words and their vectors are learned from, whatever their label.

    Args:
        recipe: a `Recipe`.
        data: its `TextData`.
        rows: what `lessons` made of it.

    Raises:
        ValueError: if the recipe has texts without labels and no use for them.
    """
    if recipe.teacher or not recipe.unlabelled:
        return rows.train.texts
    if not building.reads_texts(recipe):
        raise ValueError(
            "Texts without labels need a teacher, or a model that reads them. "
            f"Received: unlabelled={recipe.unlabelled!r}. Name a trained run with "
            "--teacher, or ask for --word-vectors neighbours, --classifier latent or "
            "--classifier 'ngrams(rank=400)'."
        )
    return rows.train.texts + unlabelled(recipe, data)


def unlabelled(recipe, data):
    """The texts of the recipe's `unlabelled` that are in no split of the data."""
    source = recipe.unlabelled or recipe.data
    options = DataOptions.data_options(recipe)
    if source != recipe.data:  # then these say nothing about it
        options = {"text_column": recipe.text_column} if recipe.text_column else {}
    splits = data.train, data.validation, data.test
    known = {text for split in splits if split is not None for text in split.texts}
    found = data_sets.load_unlabelled(source, **options)
    texts = [text for text in dict.fromkeys(found) if text not in known]
    if not texts:
        raise ValueError(
            "Texts without labels are such that the data set has not already. "
            f"Received: unlabelled={source!r}, which has none. Name others with "
            "--unlabelled."
        )
    return texts


def ask(teacher, texts, label_names):
    """What a teacher makes of texts: float32 (texts, label names).

    Args:
        teacher: the folder of a run, or a preset by its name or folder; several apart
            by commas, whose answers are averaged.
        texts: the raw texts.
        label_names: the labels in the order of their numbers.

    Raises:
        ValueError: if there is no such model, or it has other labels.
    """
    models = [one_teacher(name.strip(), label_names) for name in teacher.split(",")]
    found = 0.0
    for model in models:
        order = [model.label_names.index(name) for name in label_names]
        found += model.predict(texts)[:, order] / len(models)
    return found.astype("float32")


def one_teacher(name, label_names):
    """A trained model by its run's folder, or as a preset."""
    run = RunFolder(name)
    model = load_model(run.model) if run.model.exists() else load_preset(name)
    if sorted(model.label_names) != sorted(label_names):
        raise ValueError(
            f"A teacher has the labels of the data. Received: teacher={name!r} with "
            f"{list(model.label_names)}, data with {list(label_names)}."
        )
    return model


def loss(label_smoothing):
    """The cross-entropy of logits against `Lessons`."""
    return keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=label_smoothing
    )


def accuracy():
    """How often the likeliest label is that of the `Lessons`."""
    return keras.metrics.CategoricalAccuracy(name="accuracy")
