"""A preset as a model again."""

import keras

from .. import saved  # noqa: F401 - makes all our classes known to Keras
from ..classifier import Classifier
from ..spec import check_positive
from ..text_classifier import TextClassifier
from . import files, shelf, weights


def load_preset(preset, load_weights=True, num_classes=None, label_names=None):
    """Loads a trained classifier of raw texts, that of the package or one's own.

    preset.json and weights.npz are compared with the hashes that were written first. It
    computes in float32, and is not compiled: compile its classifier to go on training.

    Args:
        preset: the name of one of the package, or the path of a folder, "./name" where
            it is called like one.
        load_weights: False: the same model with new weights, the vocabulary kept.
        num_classes: None or the preset's number of logits: its head is kept. Another
            number: a new head, to be trained, on all the rest.
        label_names: the labels' names in the order of their numbers; None: those of
            the preset, or "0", "1", ... for a new head.

    Returns:
        A `TextClassifier`.

    Raises:
        ValueError: if there is no such preset, a file is missing or not what was
            saved, or the labels do not fit the head.

    Example:
        >>> model = load_preset("presets/mine")  # doctest: +SKIP
        >>> model.classify(["A fine film."])  # doctest: +SKIP
        [('positive', 0.93)]
    """
    folder, said = shelf.find(preset)
    data = files.checked(folder, said) if load_weights else None
    model = built(folder, said)
    if data is not None:
        try:
            weights.unpack(data, model.classifier.weights)
        except ValueError as error:
            path = folder / files.WEIGHTS
            raise ValueError(f"{path} does not fit. {error} {files.AGAIN}") from None
    classifier = model.classifier
    if num_classes not in (None, classifier.output_shape[-1]):
        classifier = with_head(classifier, num_classes)
        if label_names is None:
            label_names = map(str, range(max(2, num_classes)))
    elif label_names is None:
        return model
    return TextClassifier(classifier, model.vectorizer, label_names)


def built(folder, said):
    """The model of a preset.json, its weights new."""
    path = folder / files.PRESET
    try:
        model = keras.saving.deserialize_keras_object(said["model"], safe_mode=True)
    except (ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
        while error.__context__:  # Keras wraps it in the whole config
            error = error.__context__
        raise ValueError(
            f"{path} names what cannot be built: {str(error)[:200]}. If it has a class "
            "or a scheme of your own, import its module first."
        ) from None
    if not isinstance(model, TextClassifier):
        raise ValueError(f"{path} holds no TextClassifier. {files.AGAIN}")
    return model


def with_head(classifier, num_classes):
    """A classifier on the same layers, its last one replaced by new logits.

    Raises:
        ValueError: if `num_classes` is no positive whole number, or there is no head to
            replace.
    """
    if classifier.layers[-1].name != "logits":
        raise ValueError(
            "Only the last layer of a Transformer can be replaced, named logits. "
            f"Received: num_classes={num_classes} for a classifier that ends with "
            f"{classifier.layers[-1].name}. Train one on the new labels."
        )
    check_positive(num_classes=num_classes)
    head = keras.layers.Dense(num_classes, dtype="float32", name="logits")
    logits = head(classifier.layers[-1].input)
    return Classifier(classifier.input, logits, name=classifier.name)
