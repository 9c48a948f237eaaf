"""What `train` starts with: words and weights of a pretraining run."""

import dataclasses

import keras

from ..options import ModelOptions
from ..saved import load_model
from ..tokenizers import make_vectorizer
from .folder import PretrainingFolder

POSITIONS = "embedding/positions/table"


def take_over(recipe, given=None):
    """A recipe whose vocabulary and model are those of the run that `init` names.

    Texts may be shorter than in pretraining, and longer where no positions are learned.

    Args:
        recipe: a `Recipe` with `init`.
        given: the names of the options that were asked for; None: those that differ
            from their default.

    Returns:
        A `Recipe`.

    Raises:
        ValueError: if the folder holds no pretraining run, or an option that was asked
            for differs from its.

    Example:
        >>> take_over(Recipe(init="pretrained/imdb-pre_ln-1")).num_layers
        4
    """
    theirs = PretrainingFolder(recipe.init).recipe()
    taken, differing = {}, []
    defaults = {field.name: field.default for field in dataclasses.fields(recipe)}
    for field in dataclasses.fields(ModelOptions):
        name = field.name
        ours, value = getattr(recipe, name), getattr(theirs, name)
        asked = ours != defaults[name] if given is None else name in given
        if not asked:
            taken[name] = min(ours, value) if name == "max_len" else value
        elif ours != value and not (name == "max_len" and fits(ours, theirs)):
            differing.append(f"{name}={ours!r} and not {value!r}")
    if differing:
        raise ValueError(
            f"With init the model is that of {recipe.init}. Received: "
            f"{', '.join(differing)}. Leave it out, or pretrain with it."
        )
    return dataclasses.replace(recipe, **taken)


def fits(max_len, theirs):
    """Whether a pretrained encoder takes texts of so many tokens."""
    return max_len <= theirs.max_len or theirs.positions != "learned"


def vectorizer(recipe):
    """The vectorizer of a recipe, with the words of its `init`."""
    tokens = PretrainingFolder(recipe.init).read_vocabulary()
    return make_vectorizer(recipe, vocabulary=tokens, truncation=recipe.truncation)


def load_encoder(classifier, recipe):
    """Puts the weights of a recipe's `init` into embedding and encoder.

    Args:
        classifier: a `Classifier` of that recipe.
        recipe: a `Recipe` with `init`.

    Raises:
        ValueError: if the file cannot be read, or does not fit.
    """
    path = PretrainingFolder(recipe.init).encoder
    ours = {variable.path: variable for variable in classifier.weights}
    for variable in load_model(path).weights:
        value = keras.ops.convert_to_numpy(variable)
        target = ours.get(variable.path)
        if variable.path == POSITIONS:
            value = value[: recipe.max_len]
        if target is None or value.shape != tuple(target.shape):
            raise ValueError(
                f"{path} does not fit the recipe. Received: {variable.path} of shape "
                f"{value.shape}. Pretrain again."
            )
        target.assign(value)
