"""Raw text -> token ids, inside the graph: words, runs of marks, ideographs, emoji.

Everything here is a core TensorFlow op, so that a model exported with its
`TextVectorizer` takes plain strings and runs wherever TensorFlow does.
"""

import collections
import operator

import keras
import numpy as np
import tensorflow as tf

PADDING, UNKNOWN = "", "[UNK]"
TRUNCATIONS = ("head", "tail", "head_tail")

# RE2 spends its time on matches, hardly any on bytes that match nothing: the rules
# below leave plain words and single spaces alone, and use `\0`, never `\1`, since
# captured groups need a second, slower engine.
_LETTERS = r"[\p{L}\p{M}\p{N}]+"
_TAG = r"(?i:</?[a-z][a-z0-9]*(?:\s[^<>]*=[^<>]*)?\s*/?>)"
_NO_SPACES = (  # the scripts that write no spaces between words
    r"[\p{Han}\p{Hiragana}\p{Katakana}\x{30fc}\x{ff70}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
_FLAG = r"[\x{1f1e6}-\x{1f1ff}]{2}"
# The range is for emoji that are younger than RE2's tables.
_PICTURES = r"\p{So}\x{1f300}-\x{1faff}"

# What stands for each pattern in a text, before it is lower-cased and after.
BEFORE_LOWER = (
    # Whatever is no part of a token separates: tags, control characters (a NUL would
    # end the text in `tf.strings.lower`), and the spaces that `tf.strings.split`
    # does not know, such as U+00A0, U+3000, U+0085, U+2028.
    (
        rf"{_TAG}|\x{{200b}}"
        rf"|[^\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}\p{{Cf}}\s{_PICTURES}]+",
        " ",
    ),
    # Turkish; it would be lower-cased to "i" and a combining dot.
    ("İ", "i"),
)
AFTER_LOWER = (
    ("[‘’ʼ´＇]", "'"),
    # Joiners, soft hyphens and marks of direction; variation selectors; skin tones.
    (r"[\p{Cf}\x{fe00}-\x{fe0f}\x{1f3fb}-\x{1f3ff}]+", ""),
    (rf"(?:{_NO_SPACES}|{_FLAG}|[{_PICTURES}])\p{{M}}*", r" \0 "),
    # The first branch keeps "don't" whole: it has to win over its apostrophe.
    (rf"{_LETTERS}(?:'{_LETTERS})+|[\p{{P}}\p{{Sm}}\p{{Sc}}\p{{Sk}}]+", r" \0 "),
)


def tokenize(texts):
    r"""Splits texts into tokens, as `TextVectorizer` does before it looks up ids.

    Lower-cased words, with the apostrophes and combining marks inside them; runs
    of punctuation and symbols; single characters, with their marks, of Han, Kana,
    Thai, Lao, Khmer and Myanmar; emoji without skin tone and selectors. HTML tags
    and every Unicode white space separate. Invalid UTF-8 never raises. Accents
    are kept as written: "é" and "e" + U+0301 are two different words.

    Args:
        texts: string tensor, (batch,).

    Returns:
        String `tf.RaggedTensor`, (batch, tokens of this text).

    Example:
    >>> tokenize(tf.constant(["Don't miss it!!!<br />好看 :)"])).to_list()
    [[b"don't", b'miss', b'it', b'!!!', b'\xe5\xa5\xbd', b'\xe7\x9c\x8b', b':)']]
    """
    for pattern, replacement in BEFORE_LOWER:
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    # ASCII first: with encoding="utf-8" the op follows the locale of the process,
    # and a Turkish one lower-cases "TITLE" to "tıtle".
    texts = tf.strings.lower(tf.strings.lower(texts), encoding="utf-8")
    for pattern, replacement in AFTER_LOWER:
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    return tf.strings.split(texts)


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


@keras.saving.register_keras_serializable("residual_keras")
class TextVectorizer(keras.layers.Layer):
    """Maps raw texts to padded token ids, within the model.

    Id 0 pads at the end, up to the longest text of the batch (at least one column);
    id 1 is every token that is not in the vocabulary; the rest are ordered by
    frequency, ties by the token itself. See `tokenize` for what a token is.

    Adapt the layer before it is used: a function traced earlier keeps the
    vocabulary of its time. String ops cannot be compiled by XLA, so a model with
    this layer inside resolves `jit_compile="auto"` to False.

    Args:
        vocab_size: int, at least 3. The most ids there may be, with padding and
            unknown; once adapted, the attribute tells how many there are.
        max_len: int, at least 1. The most tokens kept of a text.
        truncation: which tokens of a longer text are kept: "head" (the first),
            "tail" (the last) or "head_tail" (half each, the odd one to the head).
        vocabulary: a list as `get_vocabulary()` returns it, instead of `adapt`.
        **kwargs: `name` and whatever else a Keras layer takes.

    Raises:
        ValueError: for a bad argument; when called before `adapt`.

    Example:
    >>> vectorizer = TextVectorizer(vocab_size=1000, max_len=4)
    >>> vectorizer.adapt(["Good, good film!", "Bad film!"])
    >>> vectorizer.get_vocabulary()
    ['', '[UNK]', '!', 'film', 'good', ',', 'bad']
    >>> vectorizer(["A bad, bad film", "film"]).numpy().tolist()
    [[1, 6, 5, 6], [3, 0, 0, 0]]
    """

    def __init__(
        self,
        vocab_size=20_000,
        max_len=512,
        truncation="head",
        vocabulary=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._vocab_limit = _integer("vocab_size", vocab_size, at_least=3)
        self.max_len = _integer("max_len", max_len, at_least=1)
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

    @property
    def vocab_size(self):
        """The number of ids; before `adapt`, the most there may be."""
        return len(self.vocabulary) if self.vocabulary else self._vocab_limit

    @property
    def compute_dtype(self):
        """The type of the inputs, which `Sequential` asks its first layer for."""
        return "string"

    variable_dtype = compute_dtype  # a difference would mean mixed precision

    def get_vocabulary(self):
        """Returns the list of tokens by id; ids 0 and 1 are "" and "[UNK]"."""
        self._check_adapted()
        return list(self.vocabulary)

    def adapt(self, texts):
        """Learns the vocabulary: the most frequent tokens of `texts`.

        Args:
            texts: what `as_texts` takes, or a finite `tf.data.Dataset` of strings,
                batched or not.

        Raises:
            ValueError: if `texts` is not that, or holds no token at all.
        """
        counts = collections.Counter()
        for tokens, numbers in _batches(texts).map(
            lambda batch: tf.unique_with_counts(tokenize(batch).values)[::2],
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
        by_frequency = sorted(counts, key=lambda token: (-counts[token], token))
        learnt = by_frequency[: self._vocab_limit - 2]
        self._set_vocabulary([PADDING, UNKNOWN, *(t.decode("utf-8") for t in learnt)])

    def __call__(self, texts, **kwargs):
        """Ids of `texts`: whatever `as_texts` takes, or a `keras.Input`."""
        if isinstance(texts, keras.KerasTensor):
            return super().__call__(texts, **kwargs)
        # Past Keras' own `__call__`, which refuses lists, and which knows no string
        # tensor on other backends than TensorFlow.
        return self.call(as_texts(texts))

    def call(self, texts):
        """Maps a string tensor (batch,) to int32 ids (batch, time)."""
        return self.look_up(self.tokens(texts))

    def tokens(self, texts):
        """The tokens that are kept of each text.

        Args:
            texts: string tensor, (batch,).

        Returns:
            String `tf.RaggedTensor`, (batch, tokens of this text).
        """
        with tf.device("CPU:0"):  # strings live there
            return self._truncate(tokenize(texts))

    def look_up(self, tokens):
        """The padded ids, int32 (batch, time), of what `tokens` returned."""
        self._check_adapted()
        with tf.device("CPU:0"):  # and so should the small integers around them
            ids = tokens.with_values(self.table.lookup(tokens.values))
            width = tf.maximum(ids.bounding_shape(axis=1), 1)
            padded = ids.to_tensor(shape=tf.stack([-1, width]))
        return tf.ensure_shape(padded, (None, None))

    @property
    def kept(self):
        """How many tokens are kept of a longer text's head, and of its tail."""
        tail = {"head": 0, "tail": self.max_len, "head_tail": self.max_len // 2}
        return self.max_len - tail[self.truncation], tail[self.truncation]

    def compute_output_spec(self, texts):
        """Shape and type of the ids, for models built on a `keras.Input`."""
        if texts.dtype != "string":
            raise ValueError(
                "TextVectorizer takes raw texts. "
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

    def _truncate(self, tokens):
        head, tail = self.kept
        rows, lengths = tokens.value_rowids(), tokens.row_lengths()
        starts = tf.gather(tokens.row_starts(), rows)
        from_start = tf.range(tokens.row_splits[-1]) - starts
        from_end = tf.gather(lengths, rows) - from_start
        keep = (from_start < head) | (from_end <= tail)
        return tf.ragged.boolean_mask(tokens, tokens.with_values(keep))

    def _set_vocabulary(self, vocabulary):
        vocabulary = tuple(vocabulary)
        if vocabulary[:2] != (PADDING, UNKNOWN):
            raise ValueError(
                f"`vocabulary` must begin with {[PADDING, UNKNOWN]}. "
                f"Received: vocabulary={list(vocabulary[:3])}... "
                "Pass what get_vocabulary() returned."
            )
        if not all(isinstance(token, str) for token in vocabulary):
            raise ValueError("`vocabulary` must hold strings only.")
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
        with tf.init_scope():  # a layer may be made while a graph is traced
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    tf.constant(vocabulary), tf.range(len(vocabulary))
                ),
                default_value=1,
            )

    def _check_adapted(self):
        if self.vocabulary is None:
            raise ValueError(
                f"TextVectorizer {self.name!r} has no vocabulary yet. "
                "Call .adapt(training_texts) first."
            )


def _integer(name, value, at_least):
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
