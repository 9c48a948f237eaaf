"""ids -> logits without an encoder: every word and every run of words has its vote."""

import keras
import numpy as np
from keras import ops

from .classifier import Classifier
from .embedding import PADDING_ID, known_ids
from .spec import check_positive

FACTOR = 1999  # of the hash; odd, so that no bucket of a power of two is left out
SAFE_BUCKETS = 2**20  # times FACTOR it is just below 2**31
POWERS_OF_TWO = {2**n for n in range(31)}  # a hash that wrapped around stays right
BUCKETS = 2**19
SHARE = 0.05  # of naive Bayes' votes that each run has before training
PENALTY = 1e-4  # on the squares of the shares


def build_ngram_classifier(
    vocab_size, num_classes, *, order=2, buckets=BUCKETS, name="classifier"
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
    """A `Classifier` whose votes start as the training texts' own statistics.

    Example:
        >>> model = build_ngram_classifier(vocab_size=100, num_classes=2)
        >>> model.calibrate([(np.array([[5, 6]]), np.array([1]))])
    """

    def calibrate(self, batches):
        """Reads the votes off the training texts; see `NGramLogits.adapt`."""
        self.get_layer("ngrams").adapt(batches)


@keras.saving.register_keras_serializable("residual_keras")
class NGramLogits(keras.layers.Layer):
    """b_c + sum over the different runs of words g of a text of s[h(g), c] r[h(g), c].

    Naive Bayes' log ratios r are read off the training texts once (`adapt`); what is
    trained is the share s of each that counts, under a penalty on s^2. Runs of one to
    `order` words count once, however often they stand in the text. Source: Wang and
    Manning 2012, ACL, https://aclanthology.org/P12-2018 (NBSVM), with logistic loss.

    The hash h(g) = (...(g_1 1999 + g_2) 1999 + ...) mod `buckets` lets runs share a
    row, which costs little (Weinberger et al. 2009, arXiv:0902.2206). The first class
    has no votes of its own: its logit is 0.

    Args:
        vocab_size: number of token ids; any other id is read as unknown.
        num_classes: number of logits; with 1, that of label 1.
        order: words in the longest run.
        buckets: rows of s and r, at most 2**20, or a power of two up to 2**30.
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

    def __init__(self, vocab_size, num_classes, order=2, buckets=BUCKETS, **kwargs):
        kwargs.setdefault("dtype", "float32")  # sums over a long text
        super().__init__(**kwargs)
        check_positive(
            vocab_size=vocab_size, num_classes=num_classes, order=order, buckets=buckets
        )
        if buckets > SAFE_BUCKETS and buckets not in POWERS_OF_TWO:
            raise ValueError(
                f"buckets must be a power of two above {SAFE_BUCKETS}, and at most "
                f"2**30: the hash of a run has 32 bits. Received: buckets={buckets}"
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
        self.shares = self.add_weight(
            shape=(self.buckets, columns),
            initializer=keras.initializers.Constant(SHARE),
            regularizer=keras.regularizers.L2(PENALTY),
            name="shares",
        )
        self.ratios = self.add_weight(
            shape=(self.buckets, columns),
            initializer="ones",
            trainable=False,
            name="ratios",
        )
        self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")

    def runs(self, ids):
        """As `runs_of_words`, for this layer's vocabulary and buckets."""
        return runs_of_words(ids, self.vocab_size, self.order, self.buckets)

    def call(self, ids):
        hashes, counted = self.runs(ids)
        rows = (ops.take(table, hashes, axis=0) for table in (self.shares, self.ratios))
        votes = ops.multiply(*rows)  # not of the whole tables, for one short text
        counted = ops.cast(ops.expand_dims(counted, -1), votes.dtype)
        logits = ops.sum(votes * counted, axis=1) + self.bias
        if self.num_classes == 1:
            return logits
        return ops.pad(logits, [[0, 0], [1, 0]])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_classes)

    def adapt(self, batches):
        """Sets the log ratios to those of naive Bayes.

            r[g, c] = log(P(g | c) / P(g | first class)),
            P(g | c) = (1 + texts of c with g) / (buckets + sum over g of these)

        A run that only one text has says nothing: its ratio is 0.

        Args:
            batches: pairs of ids (batch, time) and labels, which are numbers (batch,),
                or probabilities (batch, classes).
        """
        classes = max(2, self.num_classes)
        texts = np.zeros((self.buckets, classes))
        seen = np.zeros(self.buckets, int)
        for ids, labels in batches:
            hashes, counted = map(ops.convert_to_numpy, self.runs(ids))
            labels = np.asarray(labels)
            if labels.ndim == 1:
                labels = np.eye(classes)[labels.astype(int)]
            for row, once, label in zip(hashes, counted, labels, strict=True):
                texts[row[once]] += label
                seen[row[once]] += 1
        logarithm = np.log((1 + texts) / (1 + texts).sum(axis=0))
        ratios = logarithm[:, 1:] - logarithm[:, :1]
        self.ratios.assign(np.where(seen[:, None] > 1, ratios, 0.0))

    @property
    def spared(self):
        """The weights that weight decay leaves alone: they have a penalty already."""
        return [self.shares]


def runs_of_words(ids, vocab_size, order, buckets):
    """The buckets of a text's runs of words, and which of them are to be counted.

    Args:
        ids: integers, (batch, time); 0 is padding.
        vocab_size: number of token ids; any other id is read as unknown.
        order: words in the longest run.
        buckets: numbers that the runs share, as `NGramLogits` takes them.

    Returns:
        Two tensors of one shape, (batch, runs), int32 and bool. A run has no padding
        inside, and of equal ones in a text the first counts.
    """
    ids = known_ids(ops.cast(ids, "int32"), vocab_size)
    real = ids != PADDING_ID
    hashes, inside = ids % buckets, real
    found, kept = [hashes], [inside]
    for length in range(1, order):
        hashes = (hashes[:, :-1] * FACTOR + ids[:, length:]) % buckets
        inside = ops.logical_and(inside[:, :-1], real[:, length:])
        found.append(hashes)
        kept.append(inside)
    hashes, kept = (ops.concatenate(parts, axis=1) for parts in (found, kept))
    hashes = ops.sort(ops.where(kept, hashes, -1), axis=1)
    differs = hashes[:, 1:] != hashes[:, :-1]
    first = ops.pad(differs, [[0, 0], [1, 0]], constant_values=True)
    return ops.maximum(hashes, 0), ops.logical_and(first, hashes >= 0)
