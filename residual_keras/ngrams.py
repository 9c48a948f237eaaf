"""ids -> logits without an encoder: every word and every run of words has its vote."""

import keras
import numpy as np
from keras import ops

from .classifier import Classifier
from .embedding import PADDING_ID, UNKNOWN_ID

FACTOR = 1999  # of the hash; odd, so that no bucket of a power of two is left out
MOST_BUCKETS = 2**20  # times FACTOR it is just below 2**31
STRENGTH = 0.1  # of the votes before training, against naive Bayes' own


def build_ngram_classifier(
    vocab_size, num_classes, *, order=2, buckets=MOST_BUCKETS, name="classifier"
):
    """Builds a linear classifier of runs of words: what a Transformer has to beat.

    Args:
        vocab_size: number of token ids; 0 is padding and 1 the unknown token.
        num_classes: number of logits; 1 gives the single logit of a yes-or-no question.
        order: words in the longest run.
        buckets: numbers that the runs share.
        name: of the model.

    Returns:
        An `NGramClassifier`: token ids, int32 (batch, time) -> logits (batch,
        num_classes), float32. Its only layer is named ngrams.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> model = build_ngram_classifier(vocab_size=20_000, num_classes=4)
        >>> model(keras.ops.ones((2, 7), "int32")).shape
        TensorShape([2, 4])
    """
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    votes = NGramLogits(vocab_size, num_classes, order, buckets, name="ngrams")
    return NGramClassifier(ids, votes(ids), name=name)


@keras.saving.register_keras_serializable("residual_keras")
class NGramClassifier(Classifier):
    """A `Classifier` whose votes start as the texts' own statistics.

    Example:
        >>> model = build_ngram_classifier(vocab_size=100, num_classes=2)
        >>> model.calibrate([(np.array([[5, 6]]), np.array([1]))])
    """

    def calibrate(self, batches):
        """Sets the votes to naive Bayes' before training; see `NGramLogits.adapt`."""
        self.get_layer("ngrams").adapt(batches)


@keras.saving.register_keras_serializable("residual_keras")
class NGramLogits(keras.layers.Layer):
    """b_c + sum over the runs of words g of a text of w[h(g), c].

    Runs of one to `order` words count as often as they stand in the text. The hash
    h(g) = (...(g_1 1999 + g_2) 1999 + ...) mod `buckets` lets runs share a vote, which
    costs little (Weinberger et al. 2009, arXiv:0902.2206). The first class has no votes
    of its own: its logit is 0.

    Args:
        vocab_size: number of token ids; any other id is read as unknown.
        num_classes: number of logits; with 1, that of label 1.
        order: words in the longest run.
        buckets: rows of w, at most 2**20.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        ids: integers, (batch, time); 0 is padding.

    Returns:
        (batch, num_classes).

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> votes = NGramLogits(vocab_size=9, num_classes=2)
        >>> votes(keras.ops.ones((3, 5), "int32")).shape
        TensorShape([3, 2])
    """

    def __init__(
        self, vocab_size, num_classes, order=2, buckets=MOST_BUCKETS, **kwargs
    ):
        kwargs.setdefault("dtype", "float32")  # sums over a long text
        super().__init__(**kwargs)
        numbers = {
            "vocab_size": vocab_size,
            "num_classes": num_classes,
            "order": order,
            "buckets": buckets,
        }
        for argument, value in numbers.items():
            if value < 1:
                raise ValueError(
                    f"{argument} must be positive. Received: {argument}={value}"
                )
        if buckets > MOST_BUCKETS:
            raise ValueError(
                f"buckets must be at most {MOST_BUCKETS}, or the hash of a run would "
                f"not fit 32 bits. Received: buckets={buckets}"
            )
        self.vocab_size = vocab_size
        self.num_classes = num_classes
        self.order = order
        self.buckets = buckets

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "num_classes": self.num_classes,
            "order": self.order,
            "buckets": self.buckets,
        }

    def build(self, input_shape):
        columns = max(1, self.num_classes - 1)
        self.votes = self.add_weight(
            shape=(self.buckets, columns), initializer="zeros", name="votes"
        )
        self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")

    def runs(self, ids):
        """The buckets of a text's runs, and which of them have no padding inside.

        Args:
            ids: integers, (batch, time).

        Returns:
            Two tensors of one shape, (batch, runs), int32 and bool.
        """
        ids = ops.cast(ids, "int32")
        known = ops.logical_and(ids >= 0, ids < self.vocab_size)
        ids = ops.where(known, ids, UNKNOWN_ID)
        real = ids != PADDING_ID
        hashes, inside = ids % self.buckets, real
        found, kept = [hashes], [inside]
        for length in range(1, self.order):
            hashes = (hashes[:, :-1] * FACTOR + ids[:, length:]) % self.buckets
            inside = ops.logical_and(inside[:, :-1], real[:, length:])
            found.append(hashes)
            kept.append(inside)
        return ops.concatenate(found, axis=1), ops.concatenate(kept, axis=1)

    def call(self, ids):
        hashes, real = self.runs(ids)
        votes = ops.take(self.votes, hashes, axis=0)
        real = ops.cast(ops.expand_dims(real, -1), votes.dtype)
        logits = ops.sum(votes * real, axis=1) + self.bias
        if self.num_classes == 1:
            return logits
        return ops.pad(logits, [[0, 0], [1, 0]])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_classes)

    def adapt(self, batches):
        """Sets the votes to a tenth of naive Bayes' log ratios.

            w[g, c] = 0.1 log(P(g | c) / P(g | first class)),
            P(g | c) = (1 + texts of c with g) / (buckets + sum over g of these)

        Source: Wang and Manning 2012, ACL, https://aclanthology.org/P12-2018.

        Args:
            batches: pairs of ids (batch, time) and labels, which are numbers (batch,),
                or probabilities (batch, classes).
        """
        classes = max(2, self.num_classes)
        texts = np.ones((self.buckets, classes))
        for ids, labels in batches:
            hashes, real = map(ops.convert_to_numpy, self.runs(ids))
            labels = np.asarray(labels)
            if labels.ndim == 1:
                labels = np.eye(classes)[labels.astype(int)]
            for row, inside, label in zip(hashes, real, labels, strict=True):
                texts[np.unique(row[inside])] += label
        logarithm = np.log(texts / texts.sum(axis=0))
        self.votes.assign(STRENGTH * (logarithm[:, 1:] - logarithm[:, :1]))

    @property
    def spared(self):
        """The weights that weight decay leaves alone: they say what the texts said."""
        return [self.votes]
