"""Raw text -> token ids, inside the graph: words, runs of marks, ideographs, emoji.

Everything here is a core TensorFlow op, so that a model exported with its
`TextVectorizer` takes plain strings and runs wherever TensorFlow does.
"""

import keras
import tensorflow as tf

from .vectorizer import Vectorizer

PADDING, UNKNOWN = "", "[UNK]"

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


@keras.saving.register_keras_serializable("residual_keras")
class TextVectorizer(Vectorizer):
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

    reserved = PADDING, UNKNOWN
    unknown_id = 1

    def split(self, texts):
        return tokenize(texts)

    def learn(self, counts):
        by_frequency = sorted(counts, key=lambda token: (-counts[token], token))
        return [*self.reserved, *by_frequency[: self._vocab_limit - 2]]

    def token_ids(self, texts):
        tokens = self.split(texts)
        ids = tokens.with_values(self.table.lookup(tokens.values))
        return self._truncate(ids, self.max_len)

    def token_strings(self, texts):
        return self._truncate(self.split(texts), self.max_len)

    def check_reserved(self, vocabulary):
        if vocabulary[:2] != self.reserved:
            raise ValueError(
                f"`vocabulary` must begin with {list(self.reserved)}. "
                f"Received: vocabulary={list(vocabulary[:3])}... "
                "Pass what get_vocabulary() returned."
            )
