"""ids -> logits without an encoder: every word and every run of words has its vote."""

import keras
import numpy as np
from keras import ops

from .classifier import Classifier
from .latent import LatentFeatures, texts_of
from .spec import check_positive
from .word_runs import check_buckets, runs_of_words

BUCKETS = 2**19
SHARE = 0.05  # of naive Bayes' votes that each run has before training
PENALTY = 1e-4  # on the squares of the shares


def build_ngram_classifier(
    vocab_size, num_classes, *, order=2, buckets=BUCKETS, rank=0, name="classifier"
):
    """Builds a linear classifier of runs of words: what a Transformer has to beat.

    Args:
        vocab_size: number of token ids; 0 is padding and 1 the unknown token.
        num_classes: number of logits; 1 gives the single logit of a yes-or-no question.
        order: words in the longest run.
        buckets: numbers that the runs share.
        rank: latent features of all texts whose votes the runs have before training.
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
    votes = NGramLogits(vocab_size, num_classes, order, buckets, rank, name="ngrams")
    return NGramClassifier(ids, votes(ids), name=name)


@keras.saving.register_keras_serializable("residual_keras")
class NGramClassifier(Classifier):
    """A `Classifier` whose votes start as the training texts' own statistics.

    Example:
        >>> model = build_ngram_classifier(vocab_size=100, num_classes=2)
        >>> model.calibrate([(np.array([[5, 6]]), np.array([1]))])
    """

    def calibrate(self, batches, texts=None):
        """Reads the votes off the training texts; see `NGramLogits.adapt`."""
        self.get_layer("ngrams").adapt(batches, texts)


@keras.saving.register_keras_serializable("residual_keras")
class NGramLogits(keras.layers.Layer):
    """b_c + sum over a text's different runs of words g of v[g, c] + s[g, c] r[g, c].

    Naive Bayes' log ratios r are read off the training texts once (`adapt`); what is
    trained is the share s of each that counts, under a penalty on s^2. Runs of one to
    `order` words count once, however often they stand in the text. Source: Wang and
    Manning 2012, ACL, https://aclanthology.org/P12-2018 (NBSVM), with logistic loss.

    With a `rank`, v are the votes of the `LatentFeatures` of that rank, of all texts,
    labelled or not; without, v = 0. A text's features are a sum over its runs, but for
    their length, and so is a linear classifier's logit of them: v[g] = w u_g, times
    sqrt(rank) and the mean of 1 / |z| over the training texts. What s learns is added.

    Runs share `buckets` rows by a hash (`runs_of_words`). The first class has no votes
    of its own: its logit is 0.

    Args:
        vocab_size: number of token ids; any other id is read as unknown.
        num_classes: number of logits; with 1, that of label 1.
        order: words in the longest run.
        buckets: rows of v, s and r, at most 2**20, or a power of two up to 2**30.
        rank: of the latent features whose votes are v; 0 for none.
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
        self, vocab_size, num_classes, order=2, buckets=BUCKETS, rank=0, **kwargs
    ):
        kwargs.setdefault("dtype", "float32")  # sums over a long text
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, num_classes=num_classes, order=order)
        if rank != 0:
            check_positive(rank=rank)
        check_buckets(buckets)
        self.vocab_size = vocab_size
        self.num_classes = num_classes
        self.order = order
        self.buckets = buckets
        self.rank = rank

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "num_classes": self.num_classes,
            "order": self.order,
            "buckets": self.buckets,
            "rank": self.rank,
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
        self.votes = self.add_weight(
            shape=(self.buckets, columns),
            initializer="zeros",
            trainable=False,
            name="votes",
        )
        self.bias = self.add_weight(shape=(columns,), initializer="zeros", name="bias")

    def runs(self, ids):
        """As `runs_of_words`, for this layer's vocabulary and buckets."""
        return runs_of_words(ids, self.vocab_size, self.order, self.buckets)

    def call(self, ids):
        hashes, counted = self.runs(ids)
        tables = self.votes, self.shares, self.ratios
        votes, shares, ratios = (ops.take(table, hashes, axis=0) for table in tables)
        votes += shares * ratios  # not of the whole tables, for one short text
        counted = ops.cast(ops.expand_dims(counted, -1), votes.dtype)
        logits = ops.sum(votes * counted, axis=1) + self.bias
        if self.num_classes == 1:
            return logits
        return ops.pad(logits, [[0, 0], [1, 0]])

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_classes)

    def adapt(self, batches, texts=None):
        """Reads off texts what each run says before training.

        The log ratios are those of naive Bayes,

            r[g, c] = log(P(g | c) / P(g | first class)),
            P(g | c) = (1 + texts of c with g) / (buckets + sum over g of these)

        A run that only one text has says nothing: its ratio is 0.

        Args:
            batches: pairs of ids (batch, time) and labels, which are numbers (batch,),
                or probabilities (batch, classes); with a rank, read more than once.
            texts: with a rank, all texts' ids, labelled or not, 1D integer arrays;
                None: those of the batches.
        """
        self.ratios.assign(self.naive_bayes(batches))
        if self.rank:
            latent = LatentFeatures(
                self.vocab_size, self.rank, self.order, buckets=self.buckets
            )
            latent.adapt(texts_of(batches) if texts is None else texts)
            labelled = ((ids, self.probabilities(labels)) for ids, labels in batches)
            votes, bias = latent.votes(labelled)
            self.votes.assign(votes[:, -self.votes.shape[1] :])
            self.bias.assign(bias[-self.bias.shape[0] :])

    def probabilities(self, labels):
        """Labels as float32 (batch, classes), two of them for a single logit."""
        labels = np.asarray(labels)
        if labels.ndim == 1:
            labels = np.eye(max(2, self.num_classes))[labels.astype(int)]
        return labels.astype("float32")

    def naive_bayes(self, batches):
        """The ratios of `adapt`, (buckets, columns)."""
        texts = np.zeros((self.buckets, max(2, self.num_classes)))
        seen = np.zeros(self.buckets, int)
        for ids, labels in batches:
            hashes, counted = map(ops.convert_to_numpy, self.runs(ids))
            labels = self.probabilities(labels)
            for row, once, label in zip(hashes, counted, labels, strict=True):
                texts[row[once]] += label
                seen[row[once]] += 1
        logarithm = np.log((1 + texts) / (1 + texts).sum(axis=0))
        ratios = logarithm[:, 1:] - logarithm[:, :1]
        return np.where(seen[:, None] > 1, ratios, 0.0)

    @property
    def spared(self):
        """The weights that weight decay leaves alone: they have a penalty already."""
        return [self.shares]
