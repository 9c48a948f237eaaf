"""ids -> logits by which runs of words stand in the same texts, labelled or not."""

import keras
import numpy as np
from keras import ops

from .classifier import Classifier
from .embedding import PADDING_ID
from .factors import directions
from .logistic import regress
from .spec import check_positive
from .word_runs import SAFE_BUCKETS, check_buckets, runs_of_words

RANK = 400
RUNS = 2**16
TEXTS_AT_ONCE = 256


def build_latent_classifier(
    vocab_size, num_classes, *, rank=RANK, order=3, runs=RUNS, name="classifier"
):
    """Builds a linear classifier of what texts are about, which texts alone tell it.

    Args:
        vocab_size: number of token ids; 0 is padding and 1 the unknown token.
        num_classes: number of logits; 1 gives the single logit of a yes-or-no question.
        rank: numbers that a text is told by.
        order: words in the longest run.
        runs: how many of the most frequent runs of words are known.
        name: of the model.

    Returns:
        A `LatentClassifier`: token ids, int32 (batch, time) -> logits (batch,
        num_classes), float32. Its layers are named latent and logits.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> model = build_latent_classifier(vocab_size=20_000, num_classes=4)
        >>> model(keras.ops.ones((2, 7), "int32")).shape
        TensorShape([2, 4])
    """
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    x = LatentFeatures(vocab_size, rank, order, runs, name="latent")(ids)
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits")(x)
    return LatentClassifier(ids, logits, name=name)


@keras.saving.register_keras_serializable("residual_keras")
class LatentClassifier(Classifier):
    """A `Classifier` that reads texts without labels before it learns from others.

    Example:
        >>> model = build_latent_classifier(vocab_size=100, num_classes=2)
        >>> model.calibrate([(np.array([[5, 6], [6, 7]]), np.array([0, 1]))])
    """

    def calibrate(self, batches, texts=None):
        """Learns what a text is told by; see `LatentFeatures.adapt`."""
        texts = texts_of(batches) if texts is None else texts
        self.get_layer("latent").adapt(texts)


@keras.saving.register_keras_serializable("residual_keras")
class LatentFeatures(keras.layers.Layer):
    """sqrt(rank) z / |z|, z = sum over the different runs of words g of a text of u_g.

    Texts that use other words of the same kind have like features. A table N says
    which runs of one to `order` words each text has; with n(d) for the runs of text d
    and n(g) for the texts that have g,

        N(d, g) / sqrt(n(d) n(g)) = (U S V^T)(d, g),   u_g = V(g) / sqrt(n(g)),

    where V keeps the columns of the `rank` largest singular values. It is read off
    texts once (`adapt`), and nothing is trained. Sources: Deerwester et al. 1990, JASIS
    41(6) (latent semantic analysis); Hill 1974, Applied Statistics 23(3)
    (correspondence analysis, whose weights these are); Li et al. 2016,
    arXiv:1512.08183 (what runs of words tell of film reviews).

    Args:
        vocab_size: number of token ids; any other id is read as unknown.
        rank: number of features.
        order: words in the longest run.
        runs: how many of the most frequent runs are known.
        buckets: numbers that the runs share, as `runs_of_words` takes them.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        ids: integers, (batch, time); 0 is padding.

    Returns:
        (batch, rank); zeros for a text without a run that is known.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> latent = LatentFeatures(vocab_size=9, rank=2)
        >>> latent.adapt([np.array([2, 3, 4]), np.array([4, 5]), np.array([2, 5])])
        >>> latent(keras.ops.ones((3, 5), "int32")).shape
        TensorShape([3, 2])
    """

    def __init__(
        self,
        vocab_size,
        rank=RANK,
        order=3,
        runs=RUNS,
        buckets=SAFE_BUCKETS,
        **kwargs,
    ):
        kwargs.setdefault("dtype", "float32")  # sums over a long text
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, rank=rank, order=order, runs=runs)
        check_buckets(buckets)
        self.vocab_size = vocab_size
        self.rank = rank
        self.order = order
        self.runs = runs
        self.buckets = buckets

    def get_config(self):
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "rank": self.rank,
            "order": self.order,
            "runs": self.runs,
            "buckets": self.buckets,
        }

    def build(self, input_shape):
        def add(name, shape, dtype=None):
            return self.add_weight(
                shape, "zeros", dtype, trainable=False, name=name, autocast=False
            )

        # Row 0 is for the runs that are not known.
        self.places = add("places", (self.buckets,), "int32")
        self.vectors = add("vectors", (self.runs + 1, self.rank))

    def call(self, ids):
        found = self.sums(ids)
        size = ops.sqrt(ops.sum(found**2, axis=1, keepdims=True))
        return found * (self.rank**0.5 / ops.maximum(size, 1e-9))

    def sums(self, ids):
        """z, (batch, rank)."""
        hashes, counted = self.hashes(ids)
        places = ops.take(self.places, ops.where(counted, hashes, 0), axis=0)
        places = ops.where(counted, places, 0)  # whose vector is 0
        return ops.sum(ops.take(self.vectors, places, axis=0), axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.rank)

    def hashes(self, ids):
        """As `runs_of_words`, for this layer's vocabulary and buckets."""
        return runs_of_words(ids, self.vocab_size, self.order, self.buckets)

    def adapt(self, rows):
        """Learns the runs of words, how common they are, and their vectors.

        Args:
            rows: the texts' ids, 1D integer arrays.
        """
        from scipy.sparse import diags_array

        if not self.built:
            self.build((None, None))
        texts = [np.zeros(0, "int32")]
        rows = list(rows)
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            part = rows[start : start + TEXTS_AT_ONCE]
            ids = keras.utils.pad_sequences(part, padding="post")
            hashes, counted = map(ops.convert_to_numpy, self.hashes(ids))
            texts += [row[once] for row, once in zip(hashes, counted, strict=True)]
        table = self.table(texts)
        of_text, of_run = (np.sqrt(np.maximum(table.sum(axis=a), 1)) for a in (1, 0))
        weighed = diags_array(1 / of_text) @ table @ diags_array(1 / of_run)
        _, _, right = directions(weighed.astype("float32"), self.rank)
        vectors = np.zeros(self.vectors.shape, "float32")
        vectors[1 : 1 + len(of_run), : len(right)] = (right / of_run).T
        self.vectors.assign(vectors)

    def table(self, texts):
        """Which of the most frequent runs each text has: sparse (texts, runs)."""
        from scipy import sparse

        hashes = np.concatenate(texts)
        counts = np.bincount(hashes, minlength=self.buckets)
        kept = np.argsort(-counts, kind="stable")[: self.runs]
        kept = kept[counts[kept] > 1]  # what one text has says nothing of others
        places = np.zeros(self.buckets, "int32")
        places[kept] = 1 + np.arange(len(kept))
        self.places.assign(places)
        text = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        runs = places[hashes]
        known = runs > 0
        ones = np.ones(known.sum(), "float32")
        places = text[known], runs[known] - 1
        return sparse.csr_array((ones, places), (len(texts), len(kept)))

    def votes(self, batches):
        """What each run adds to the logits of a linear classifier of the features.

        That is fitted here, by `regress`. A text's features are not quite a sum over
        its runs, for they are divided by |z|; the mean of 1 / |z| over the texts that
        have a known run stands for it.

        Args:
            batches: pairs of ids (batch, time) and probabilities (batch, classes).

        Returns:
            float32 (buckets, classes) and (classes,): the votes and the bias, both
            less those of the first class, which are 0.
        """
        found = [(self.sums(ids), labels) for ids, labels in batches]
        sums, labels = map(np.concatenate, zip(*found, strict=True))
        known = sums.any(axis=1)
        sums, labels = sums[known], labels[known]
        over_size = self.rank**0.5 / np.linalg.norm(sums, axis=1)
        kernel, bias = regress(sums * over_size[:, None], labels)
        kernel *= over_size.sum() / max(1, len(sums))
        votes = ops.convert_to_numpy(self.vectors) @ kernel
        found = votes[ops.convert_to_numpy(self.places)]
        return found - found[:, :1], bias - bias[0]


def texts_of(batches):
    """The ids of each text of some batches, 1D integer arrays without padding."""
    for ids, _ in batches:
        for row in np.asarray(ids):
            yield row[row != PADDING_ID]
