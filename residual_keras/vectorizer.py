"""What every way from raw text to token ids shares: inputs, truncation, vocabulary."""

import collections
import operator

import keras
import numpy as np
import tensorflow as tf

TRUNCATIONS = ("head", "tail", "head_tail")


class Vectorizer(keras.layers.Layer):
    """Maps raw texts to padded token ids, within the model.

    Id 0 pads at the end, up to the longest text of the batch (at least one column).

    A kind of tokens says `reserved`, the tokens that a learnt vocabulary begins with,
    `split`, `learn`, `token_ids` and, for what a given vocabulary must hold,
    `check_reserved`.
    """

    reserved = ()
    least_size = 3  # of a vocabulary
    unknown_id = -1  # what the table answers for a string that it does not hold

    def __init__(
        self,
        vocab_size=20_000,
        max_len=512,
        truncation="head",
        vocabulary=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._vocab_limit = integer("vocab_size", vocab_size, at_least=self.least_size)
        self.max_len = integer("max_len", max_len, at_least=1)
        if truncation not in TRUNCATIONS:
            raise ValueError(
                f"`truncation` must be one of {TRUNCATIONS}. "
                f"Received: truncation={truncation!r}."
            )
        self.truncation = truncation
        self.vocabulary = None
        self.table = None
        self.supports_jit = False
        self.built = True  # no weights
        if vocabulary is not None:
            self._set_vocabulary(vocabulary)

    def split(self, texts):
        """String `tf.RaggedTensor` (batch, tokens) of texts (batch,), to learn from."""
        raise NotImplementedError

    def learn(self, counts):
        """The vocabulary, a list, from a dict of how often each token was seen."""
        raise NotImplementedError

    def token_ids(self, texts):
        """Ids of texts (batch,), int32 `tf.RaggedTensor` of at most `max_len` each."""
        raise NotImplementedError

    def check_reserved(self, vocabulary):
        """Raises ValueError if the tuple lacks a token that the layer needs."""
        raise NotImplementedError

    @property
    def vocab_size(self):
        """The number of ids; before `adapt`, the most there may be."""
        return len(self.vocabulary) if self.vocabulary else self._vocab_limit

    @property
    def tables(self):
        """The look-up tables, which a SavedModel has to hold."""
        return [self.table]

    @property
    def compute_dtype(self):
        """The type of the inputs, which `Sequential` asks its first layer for."""
        return "string"

    variable_dtype = compute_dtype  # a difference would mean mixed precision

    def get_vocabulary(self):
        """Returns the list of tokens by id."""
        self._check_adapted()
        return list(self.vocabulary)

    def adapt(self, texts):
        """Learns the vocabulary from texts; the same one from the same texts.

        Args:
            texts: what `as_texts` takes, or a finite `tf.data.Dataset` of strings,
                batched or not.

        Raises:
            ValueError: if `texts` is not that, or holds no token at all.
        """
        counts = collections.Counter()
        for tokens, numbers in _batches(texts).map(
            lambda batch: tf.unique_with_counts(self.split(batch).values)[::2],
            num_parallel_calls=tf.data.AUTOTUNE,
        ):
            counts.update(
                dict(zip(tokens.numpy(), numbers.numpy().tolist(), strict=True))
            )
        if not counts:
            raise ValueError(
                "`texts` must hold at least one token to learn from. "
                "Received: only empty texts, or none. Pass the training texts."
            )
        self._set_vocabulary(
            self.learn({token.decode("utf-8"): n for token, n in counts.items()})
        )

    def __call__(self, texts, **kwargs):
        """Ids of `texts`: whatever `as_texts` takes, or a `keras.Input`."""
        if isinstance(texts, keras.KerasTensor):
            return super().__call__(texts, **kwargs)
        # Past Keras' own `__call__`, which refuses lists, and which knows no string
        # tensor on other backends than TensorFlow.
        return self.call(as_texts(texts))

    def call(self, texts):
        """Maps a string tensor (batch,) to int32 ids (batch, time)."""
        self._check_adapted()
        # Strings live on the CPU; so should the small integers around them.
        with tf.device("CPU:0"):
            ids = self.token_ids(texts)
            width = tf.maximum(ids.bounding_shape(axis=1), 1)
            padded = ids.to_tensor(shape=tf.stack([-1, width]))
        return tf.ensure_shape(padded, (None, None))

    def token_strings(self, texts):
        """The tokens that the ids of texts (batch,) stand for, in the graph.

        Returns:
            String `tf.RaggedTensor`, (batch, tokens). Of an unknown word it is the word
            where the kind of tokens has it as one.
        """
        ids = self.token_ids(texts)
        return ids.with_values(tf.gather(tf.constant(self.vocabulary), ids.values))

    def tokens(self, texts):
        """The same of whatever `as_texts` takes, a list with a list for each text."""
        kept = self.token_strings(as_texts(texts)).to_list()
        return [[token.decode("utf-8") for token in tokens] for tokens in kept]

    def kept(self, max_len):
        """How many tokens are kept of a longer text's head, and of its tail."""
        tail = {"head": 0, "tail": max_len, "head_tail": max_len // 2}[self.truncation]
        return max_len - tail, tail

    def compute_output_spec(self, texts):
        """Shape and type of the ids, for models built on a `keras.Input`."""
        if texts.dtype != "string":
            raise ValueError(
                f"{type(self).__name__} takes raw texts. "
                f"Received: an input of dtype {texts.dtype}. "
                'Use keras.Input(shape=(), dtype="string").'
            )
        _check_shape(texts.shape)
        return keras.KerasTensor((texts.shape[0], None), dtype="int32")

    def get_config(self):
        """The constructor's arguments, the vocabulary among them."""
        return {
            **super().get_config(),
            "vocab_size": self._vocab_limit,
            "max_len": self.max_len,
            "truncation": self.truncation,
            "vocabulary": list(self.vocabulary) if self.vocabulary else None,
        }

    def _truncate(self, ids, max_len):
        head, tail = self.kept(max_len)
        rows, lengths = ids.value_rowids(), ids.row_lengths()
        from_start = tf.range(ids.row_splits[-1]) - tf.gather(ids.row_starts(), rows)
        from_end = tf.gather(lengths, rows) - from_start
        keep = (from_start < head) | (from_end <= tail)
        return tf.ragged.boolean_mask(ids, ids.with_values(keep))

    def _set_vocabulary(self, vocabulary):
        vocabulary = tuple(vocabulary)
        if not all(isinstance(token, str) for token in vocabulary):
            raise ValueError("`vocabulary` must hold strings only.")
        self.check_reserved(vocabulary)
        repeated = [t for t, n in collections.Counter(vocabulary).items() if n > 1]
        if repeated:
            raise ValueError(
                f"`vocabulary` must not repeat a token. Received twice: {repeated[:5]}."
            )
        if len(vocabulary) > self._vocab_limit:
            raise ValueError(
                "`vocabulary` must not be longer than vocab_size. Received: "
                f"{len(vocabulary)} tokens, vocab_size={self._vocab_limit}."
            )
        self.vocabulary = vocabulary
        self.table = lookup_table(
            vocabulary, np.arange(len(vocabulary), dtype="int32"), self.unknown_id
        )

    def _check_adapted(self):
        if self.vocabulary is None:
            raise ValueError(
                f"{type(self).__name__} {self.name!r} has no vocabulary yet. "
                "Call .adapt(training_texts) first."
            )


def lookup_table(keys, values, default_value):
    """A static table from strings, which a SavedModel can hold.

    Args:
        keys: sequence of strings, (n,).
        values: what each one stands for, (n,).
        default_value: what any other string stands for.

    Returns:
        `tf.lookup.StaticHashTable`.

    Example:
        >>> lookup_table(["a"], ["b"], "").lookup(tf.constant(["a", "c"])).numpy()
        array([b'b', b''], dtype=object)
    """
    with tf.init_scope():  # a layer may be made while a graph is traced
        return tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values)),
            default_value,
        )


def integer(name, value, at_least):
    """The value as an int, or a ValueError if it is none of at least `at_least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < at_least:
        raise ValueError(
            f"`{name}` must be an integer of at least {at_least}. "
            f"Received: {name}={value!r}."
        )
    return number


def as_texts(texts):
    """Turns what users hold their texts in into one string tensor.

    Args:
        texts: list, tuple, NumPy array (of `str` or `object`), pandas Series or
            string tensor, shaped (n,) or (n, 1).

    Returns:
        String tensor, (n,).

    Raises:
        ValueError: if `texts` is a single string, holds anything but strings (a
            missing value, a number; the message names the row), or has another
            shape.

    Example:
    >>> as_texts(["A fine film.", "A dull one."]).shape
    TensorShape([2])
    """
    if isinstance(texts, (str, bytes)):
        raise ValueError(
            "`texts` must be a list of strings, not one string. "
            f"Received: texts={texts!r:.80}. Pass a list: [text]."
        )
    if tf.is_tensor(texts):
        if isinstance(texts, tf.Tensor) and texts.dtype == tf.string:
            _check_shape(texts.shape)
            return tf.reshape(texts, [-1])
        raise ValueError(
            "`texts` must be a dense tensor of strings. Received: "
            f"a {type(texts).__name__} of dtype {texts.dtype.name}. "
            "Pass raw texts; ids go to the model behind the vectorizer."
        )
    array = np.asarray(texts, dtype=object)
    _check_shape(array.shape)
    return tf.constant(
        [_encoded(text, row) for row, text in enumerate(array.ravel())],
        dtype=tf.string,
    )


def _check_shape(shape):
    shape = tf.TensorShape(shape)
    if not any(shape.is_compatible_with(allowed) for allowed in ([None], [None, 1])):
        raise ValueError(
            "`texts` must have shape (n,) or (n, 1), one string a text. "
            f"Received: shape={shape}. "
            "Pass a list of strings, or one column of your table."
        )


def _encoded(text, row):
    if isinstance(text, str):
        return text.encode("utf-8", errors="replace")  # lone surrogates
    if isinstance(text, bytes):
        return text
    raise ValueError(
        "`texts` must hold strings only. "
        f"Received: {text!r:.80} ({type(text).__name__}) at row {row}. "
        "Drop the row, or turn it into a string, '' for an empty text."
    )


def _batches(texts):
    """Texts as a data set of (batch,) string tensors."""
    if not isinstance(texts, tf.data.Dataset):
        return tf.data.Dataset.from_tensor_slices(as_texts(texts)).batch(1024)
    spec = texts.element_spec
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string:
        raise ValueError(
            "A data set to adapt to must yield texts alone. "
            f"Received: elements of {spec}. "
            "Drop the labels: .map(lambda text, label: text)."
        )
    if texts.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "A data set to adapt to must end. Received: an infinite one. "
            "Call .adapt before .repeat(), or on .take(n)."
        )
    return texts.batch(1024) if spec.shape.rank == 0 else texts.map(as_texts)
