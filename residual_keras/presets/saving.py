"""A trained model as a preset that others load."""

import importlib.metadata
import json
import shutil

import keras

from .. import __version__, catalogue
from ..export.card import built_from
from ..export.precision import in_float32
from ..paths import path_of
from ..run_folder import save
from ..spec import parse
from ..text_classifier import TextClassifier
from . import files, weights
from .card import card


def save_to_preset(model, folder, facts=None):
    """Writes a model as a preset: preset.json, weights.npz and README.md, its card.

    Weights are stored in half precision where that is precise enough, what is not
    trained exactly. The optimizer is left out. It is written beside and renamed.

    Args:
        model: a `TextClassifier`.
        folder: the path of the preset, whose last part is its name; nothing may be
            there yet.
        facts: a dict of what the card should tell, all of it plain values. It knows
            about, data, licence, source, size, command, recipe (a dict), hardware,
            seconds, metrics (what `measure` gives), float32_accuracy, behaviour (what
            `check_behaviour` gives), limits and papers (lists of sentences), and tells
            whatever else there is too.

    Returns:
        The path of the folder.

    Raises:
        ValueError: if the model is none, a weight is not finite, `facts` are not plain
            values, or the folder is there already or cannot be written.

    Example:
        >>> save_to_preset(model, "presets/mine", {"data": "my letters"}).name
        'mine'
    """
    folder = path_of(folder, "The folder of a preset").absolute()
    if not isinstance(model, TextClassifier):
        raise ValueError(
            "A preset is made of a TextClassifier, which has its vocabulary with it. "
            f"Received: {type(model).__name__}"
        )
    if folder.exists():
        raise ValueError(
            f"{folder} is there already. Choose another folder for the preset."
        )
    model = in_float32(model)
    said = {
        "format": files.FORMAT,
        "name": folder.name,
        "made": made(model),
        "facts": plain({} if facts is None else facts),
    }
    contents = {
        files.CARD: card_of(said).encode("utf-8"),
        files.WEIGHTS: weights.packed(model.classifier.weights),
    }
    said["model"] = config(model)
    said["sha256"] = {
        files.WEIGHTS: files.digest(contents[files.WEIGHTS]),
        files.PRESET: files.seal(said),
    }
    contents[files.PRESET] = files.written(said)

    def write(beside):
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, data in contents.items():
            (beside / name).write_bytes(data)

    try:
        save(folder, write)
    except OSError as error:
        raise ValueError(
            f"Cannot write the preset {folder}: {error.strerror}."
        ) from None
    return folder


def card_of(said):
    """The card, or a ValueError where a fact that it has a place for does not fit."""
    try:
        return card(said)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(
            "Facts that a card has a place for are texts, what `measure` and "
            "`check_behaviour` give, or lists of sentences. "
            f"Received: facts={said['facts']!r:.80} ({error!r:.80})"
        ) from None


def plain(facts):
    """Facts as they come back from JSON, or a ValueError where they would not."""
    try:
        if not isinstance(facts, dict):
            raise TypeError(f"a {type(facts).__name__}")
        found = json.loads(json.dumps(facts, allow_nan=False))
        files.check_facts(found)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Facts are a dict of texts, finite numbers, lists and dicts. "
            f"Received: facts={facts!r:.80} ({error})"
        ) from None
    return found


def config(model):
    """What Keras needs to build the model again; its optimizer is nobody's concern."""
    found = keras.saving.serialize_keras_object(model)
    for part in (found, found["config"]["classifier"]):
        part.pop("compile_config", None)
    return found


def made(model):
    """Of what it is made, by whom the scheme is, and what made it."""
    vectorizer, encoder = model.vectorizer, built_from(model.classifier)
    return {
        **encoder,
        "parameters": model.classifier.count_params(),
        "vocab_size": vectorizer.vocab_size,
        "max_len": vectorizer.max_len,
        "truncation": vectorizer.truncation,
        "labels": model.label_names,
        "papers": papers(encoder.get("residual")),
        "residual_keras": __version__,
        "keras": importlib.metadata.version("keras"),
    }


def papers(spec):
    """Who published a scheme, and where, as far as its docstring tells."""
    if spec is None:
        return []
    source = catalogue.describe(parse(spec)[0]).source
    return [source] if source else []
