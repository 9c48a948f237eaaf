"""Raw text -> probabilities: classifier, vectoriser and label names in one."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from .vectorizer import as_texts


@keras.saving.register_keras_serializable("residual_keras")
class TextClassifier(keras.Model):
    """A model from raw texts to probabilities, saved as one file.

    It is never compiled by XLA, which knows no strings; the classifier inside may be.

    Args:
        classifier: a model from ids (batch, time) to logits (batch, classes), such as
            `build_classifier` gives; with one logit, label 1 has its probability.
        vectorizer: an adapted `TextVectorizer` or `WordPieceVectorizer`.
        label_names: the labels' names in the order of their numbers.
        **kwargs: of `keras.Model`.

    Call arguments:
        texts: string tensor, (batch,).

    Returns:
        Probabilities, float32 (batch, len(label_names)).

    Raises:
        ValueError: if the parts do not fit each other.

    Example:
        >>> vectorizer = TextVectorizer(vocab_size=100, max_len=16)
        >>> vectorizer.adapt(["good film", "bad film"])
        >>> classifier = build_classifier(vectorizer.vocab_size, 2, max_len=16)
        >>> model = TextClassifier(classifier, vectorizer, ["bad", "good"])
        >>> model.predict(["good film", ""]).shape
        (2, 2)
    """

    def __init__(self, classifier, vectorizer, label_names, **kwargs):
        super().__init__(**kwargs)
        label_names = [str(name) for name in label_names]
        num_classes = classifier.output_shape[-1]
        if len(label_names) != max(2, num_classes):
            raise ValueError(
                f"A head of {num_classes} logits has {max(2, num_classes)} labels. "
                f"Received: label_names={label_names}"
            )
        if len(set(label_names)) != len(label_names):
            raise ValueError(
                f"Label names must differ. Received: label_names={label_names}"
            )
        vectorizer.get_vocabulary()  # raises where it has none yet
        check_fit(vectorizer, classifier)
        self.classifier = classifier
        self.vectorizer = vectorizer
        self.label_names = label_names
        self.built = True  # both parts are

    def get_config(self):
        return {
            "name": self.name,
            "classifier": keras.saving.serialize_keras_object(self.classifier),
            "vectorizer": keras.saving.serialize_keras_object(self.vectorizer),
            "label_names": self.label_names,
        }

    @classmethod
    def from_config(cls, config):
        parts = {
            key: keras.saving.deserialize_keras_object(config[key])
            for key in ("classifier", "vectorizer")
        }
        return cls(**{**config, **parts})

    def call(self, texts, training=False):
        return self.probabilities(self.vectorizer.call(texts), training=training)

    def probabilities(self, ids, training=False):
        """(batch, classes) from token ids (batch, time)."""
        return ops.softmax(self.scores(self.classifier(ids, training=training)))

    def scores(self, logits):
        """(batch, labels), a number a label, from logits (batch, classes).

        One logit z becomes -z/2 and z/2, whose softmax has the same odds.
        """
        if logits.shape[-1] == 1:
            return ops.concatenate([-logits / 2, logits / 2], axis=-1)
        return logits

    def predict(self, texts, batch_size=64, verbose=0):
        """Probabilities of any number of texts.

        Texts of like length share a batch, so that short ones cost little.

        Args:
            texts: list, tuple, NumPy array, pandas Series or string tensor, (n,) or
                (n, 1).
            batch_size: number of texts that are computed at once.
            verbose: 1 shows Keras' progress bar.

        Returns:
            NumPy array, (n, len(label_names)), in the order of the texts.

        Raises:
            ValueError: if `texts` holds anything but strings.
        """
        texts = as_texts(texts)
        if not len(texts):
            return np.zeros((0, len(self.label_names)), "float32")
        if len(texts) <= batch_size and not verbose:
            return self.predict_on_batch(texts)  # a pipeline costs more than a text
        order = np.argsort(tf.strings.length(texts), kind="stable")
        batches = tf.data.Dataset.from_tensor_slices(tf.gather(texts, order))
        found = super().predict(batches.batch(batch_size), verbose=verbose)
        return found[np.argsort(order)]

    def classify(self, texts, batch_size=64):
        """The likeliest label's name for each text, and its probability.

        Args:
            texts: as `predict`.
            batch_size: as `predict`.

        Returns:
            A list of `(label name, probability)`.
        """
        return [
            (self.label_names[row.argmax()], float(row.max()))
            for row in self.predict(texts, batch_size)
        ]


def check_fit(vectorizer, classifier):
    """Raises ValueError if the vectoriser gives ids, or lengths, beyond the model's."""
    for layer in classifier.layers:
        for name, limit in {
            "vocab_size": getattr(layer, "vocab_size", None),
            "max_len": getattr(layer, "longest", None),
        }.items():
            given = getattr(vectorizer, name)
            if limit is not None and given > limit:
                raise ValueError(
                    f"The classifier was built for {name}={limit}. Received: a "
                    f"vectorizer with {name}={given}. Build both with the same."
                )
