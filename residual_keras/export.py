"""A trained model as a SavedModel for serving: raw text in, probabilities out."""

import pathlib
import re
import shutil

import tensorflow as tf


def export_saved_model(model, base):
    """Writes a `TextClassifier` as the next version under a folder, `<base>/<n>/`.

    The layout is TensorFlow Serving's. The version is written beside and renamed, so
    that a server which watches the folder never sees half of it; earlier versions stay.
    Weights are stored once, and neither Keras nor this package is needed to serve.

    Signatures:

    - serving_default: text, string (None,) -> probabilities, float32 (None, classes),
      and label, string (None,).
    - token_ids: token_ids, int32 (None, None), 0 at the end as padding -> the same.

    Longer texts are truncated as the vectoriser says; ids beyond `max_len` of a model
    with learned positions are an error that names both lengths.

    Args:
        model: a `TextClassifier`.
        base: the folder; made where it is missing.

    Returns:
        The path of the version.

    Raises:
        ValueError: if `base` is a file or cannot be written.

    Example:
        >>> export_saved_model(model, "exported").name
        '1'
    """
    base = pathlib.Path(base)
    try:
        base.mkdir(parents=True, exist_ok=True)
        beside = base / ".writing"
        shutil.rmtree(beside, ignore_errors=True)
        module = ServingModule(model)
        tf.saved_model.save(module, str(beside), signatures=module.signatures())
        return claim_version(beside, base)
    except OSError as error:
        raise ValueError(
            "An export goes to a folder that can be written. "
            f"Received: base={str(base)!r} ({error.strerror or error})"
        ) from None


def claim_version(beside, base):
    """Renames `beside` to the number that follows the last version of `base`."""
    version = max(versions(base), default=0) + 1
    while True:
        try:
            # A folder that someone else made meanwhile and filled is not replaced.
            return beside.rename(base / str(version))
        except OSError:
            if not (base / str(version)).exists():
                raise
            version += 1


def versions(base):
    """The numbers of the versions under a folder, as TensorFlow Serving reads them."""
    names = (path.name for path in pathlib.Path(base).iterdir())
    return sorted(int(name) for name in names if re.fullmatch(r"\d+", name))


class ServingModule(tf.Module):
    """The functions of a `TextClassifier` over its bare variables.

    Keras' own export keeps its variables' wrappers beside the variables, and so writes
    every weight twice.
    """

    def __init__(self, model):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        self.tables = model.vectorizer.tables
        self._model = _Untracked(model)

    def signatures(self):
        """The functions by the name that a client calls them by."""
        return {
            "serving_default": self.from_text.get_concrete_function(),
            "token_ids": self.from_ids.get_concrete_function(),
        }

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="text")])
    def from_text(self, text):
        """Probabilities and label of raw texts."""
        return self.answer(self._model.it.vectorizer.call(text))

    @tf.function(
        input_signature=[tf.TensorSpec((None, None), tf.int32, name="token_ids")]
    )
    def from_ids(self, token_ids):
        """Probabilities and label of token ids."""
        return self.answer(token_ids)

    def answer(self, ids):
        """The outputs by name."""
        model = self._model.it
        probabilities = model.probabilities(ids)
        label = tf.gather(tf.constant(model.label_names), tf.argmax(probabilities, 1))
        return {"probabilities": probabilities, "label": label}


class _Untracked:
    """Holds a model so that tf.Module does not see, and save, what is inside."""

    def __init__(self, it):
        self.it = it
