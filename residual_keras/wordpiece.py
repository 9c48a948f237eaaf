"""Raw text -> ids of BERT's sub-words, inside the graph.

Everything here is a core TensorFlow op, so that a model exported with its
`WordPieceVectorizer` takes plain strings and runs wherever TensorFlow does.
"""

import collections
import functools
import importlib.util
import itertools
import pathlib
import unicodedata

import keras
import tensorflow as tf

from .vectorizer import Vectorizer, integer, lookup_table

PADDING, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST = 100  # the most characters of a word that is cut into pieces
INSIDE = "##"  # marks a piece that goes on a word

# RE2 is fast where few bytes match, and slow on `\p{Z}`, in which the space is.
_DROPPED = r"[^\P{C}\t\n\r]|\x{fffd}"
_SPACES = r"[\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
_MARKS = r"!-/:-@\[-`{-~\p{P}"
_IDEOGRAPHS = (
    r"\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}"
    r"\x{2a700}-\x{2b73f}\x{2b740}-\x{2b81f}\x{2b820}-\x{2ceaf}\x{2f800}-\x{2fa1f}"
)
_ACCENTED_MARKS = "≠≮≯\u1fef"  # they are ASCII marks once their accents are gone

_SAME = " "  # in the table of plain characters; no word holds a space


@keras.saving.register_keras_serializable("residual_keras")
class WordPieceVectorizer(Vectorizer):
    """Maps raw texts to padded ids of sub-words, within the model, as BERT does.

    Words are cut at white space, before and after every punctuation mark and
    ideograph; then, from its start on, each into the longest pieces that the
    vocabulary holds, all but the first of them written with "##". A word of which a
    part is not in the vocabulary, or of more than 100 characters, is "[UNK]" as a
    whole. Control and format characters vanish.

    The ids are those of the package `tokenizers`, except around what came into Unicode
    after its version 8, which that package still goes by, and around U+2B820 to
    U+2B91F, which it does not read as ideographs. keras_hub's differ: it folds ß to ss
    and ½ to 1/2, and cuts words at control characters. "[SEP]" and its like in a text
    are read as text.

    Id 0 pads at the end, up to the longest text of the batch (at least one column).
    Adapt the layer before it is used: a function traced earlier keeps the vocabulary
    of its time.

    Args:
        vocab_size: int, at least 6. The most ids there may be; once adapted, the
            attribute tells how many there are.
        max_len: int, at least 1. The most tokens kept of a text, with "[CLS]" and
            "[SEP]".
        truncation: which tokens of a longer text are kept: "head" (the first),
            "tail" (the last) or "head_tail" (half each, the odd one to the head).
        vocabulary: a list as `get_vocabulary()` returns it, instead of `adapt`. It
            begins with "[PAD]" and holds "[UNK]".
        lowercase: bool. Read upper case as lower, and letters without their accents.
        add_special_tokens: bool. Put "[CLS]" before each text and "[SEP]" after it.
        **kwargs: `name` and whatever else a Keras layer takes.

    Raises:
        ValueError: for a bad argument; when called before `adapt`; when adapted where
            the package `tokenizers` is not installed.

    Source: Devlin et al. 2018, arXiv:1810.04805; the pieces Wu et al. 2016,
    arXiv:1609.08144.

    Example:
    >>> vocabulary = ["[PAD]", "[UNK]", "un", "##like", "##ly", "!"]
    >>> vectorizer = WordPieceVectorizer(vocabulary=vocabulary)
    >>> vectorizer(["Unlikely!", "Unlike what?"]).numpy().tolist()
    [[2, 3, 4, 5], [2, 3, 1, 1]]
    """

    reserved = PADDING, UNKNOWN, START, END
    least_size = 6

    def __init__(
        self,
        vocab_size=20_000,
        max_len=512,
        truncation="head",
        vocabulary=None,
        lowercase=True,
        add_special_tokens=False,
        **kwargs,
    ):
        self.lowercase = _truth("lowercase", lowercase)
        self.add_special_tokens = _truth("add_special_tokens", add_special_tokens)
        super().__init__(vocab_size, max_len, truncation, vocabulary, **kwargs)
        if add_special_tokens:
            integer("max_len", max_len, at_least=3)
        plain = plain_characters()
        self.plain = lookup_table(list(plain), list(plain.values()), _SAME)

    @classmethod
    def from_file(cls, path, **kwargs):
        """A layer with the vocabulary of a BERT checkpoint.

        Its "[UNK]" is seldom id 1, which `WordDropout` puts in the place of a word.

        Args:
            path: of a vocab.txt, a token a line.
            **kwargs: arguments of the class, but vocabulary and vocab_size.

        Returns:
            The layer.

        Raises:
            ValueError: if the file cannot be read, or is no such vocabulary.
        """
        try:
            text = pathlib.Path(path).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                "A vocabulary is a text file in UTF-8, a token a line. "
                f"Received: path={str(path)!r} ({error})"
            ) from None
        lines = text.removesuffix("\n").split("\n")
        vocabulary = [line.removesuffix("\r") for line in lines]
        return cls(vocab_size=len(vocabulary), vocabulary=vocabulary, **kwargs)

    @property
    def tables(self):
        return [self.table, self.plain]

    def adapt(self, texts):
        if importlib.util.find_spec("tokenizers") is None:
            raise ValueError(
                "Learning sub-words needs the package tokenizers. Install it: "
                "pip install 'residual_keras[subwords]'. Or give a `vocabulary`."
            )
        super().adapt(texts)

    def get_config(self):
        return {
            **super().get_config(),
            "lowercase": self.lowercase,
            "add_special_tokens": self.add_special_tokens,
        }

    def check_reserved(self, vocabulary):
        needed = self.reserved if self.add_special_tokens else self.reserved[:2]
        begins, held = vocabulary[:1] == (PADDING,), set(needed) <= set(vocabulary)
        if not begins or not held or "" in vocabulary:
            raise ValueError(
                f"`vocabulary` must begin with {PADDING!r}, hold {list(needed)} and no "
                f"empty token. Received: vocabulary={list(vocabulary[:3])}... "
                "Pass what get_vocabulary() returned, or BERT's."
            )

    def _set_vocabulary(self, vocabulary):
        super()._set_vocabulary(vocabulary)
        self.longest_piece = max(
            len(token.encode("utf-8")) for token in self.vocabulary
        )

    def learn(self, counts):
        return learn_pieces(counts, self._vocab_limit, self.reserved)

    def split(self, texts):
        words = self._words(texts)
        different, places = tf.unique(words.values)
        plain = words.with_values(tf.gather(self._plain(different), places))
        return tf.ragged.boolean_mask(plain, plain != "")

    def token_ids(self, texts):
        words = self._words(texts)
        different, places = tf.unique(words.values)  # each word is cut but once
        pieces = tf.gather(self._pieces(self._plain(different)), places)
        ids = words.with_values(pieces).merge_dims(1, 2)
        if not self.add_special_tokens:
            return self._truncate(ids, self.max_len)
        start, end = (
            tf.fill([ids.nrows(), 1], self.vocabulary.index(token))
            for token in (START, END)
        )
        return tf.concat([start, self._truncate(ids, self.max_len - 2), end], axis=1)

    def _words(self, texts):
        """Words of texts (batch,), ragged (batch, words), with accents and all."""
        texts = tf.strings.regex_replace(texts, _DROPPED, "")
        marks = _MARKS + _IDEOGRAPHS
        if self.lowercase:
            texts = tf.strings.lower(texts)  # ASCII alone
            marks += _ACCENTED_MARKS
        texts = tf.strings.regex_replace(texts, _SPACES, " ")
        texts = tf.strings.regex_replace(texts, f"[{marks}]", r" \0 ")
        return tf.strings.split(texts)

    def _plain(self, words):
        """The words (n,) in valid UTF-8, as they stand in the vocabulary; or ""."""
        other = tf.where(~tf.strings.regex_full_match(words, "[[:ascii:]]*"))
        characters = tf.strings.unicode_split(
            tf.gather_nd(words, other), "UTF-8", errors="ignore"
        )
        if self.lowercase:
            plain = self.plain.lookup(characters.values)
            plain = tf.where(plain == _SAME, characters.values, plain)
            characters = characters.with_values(plain)
        joined = tf.strings.reduce_join(characters, axis=1)
        return tf.tensor_scatter_nd_update(words, other, joined)

    def _pieces(self, words):
        """Ids of the pieces of plain words (n,), int32 ragged (n, pieces)."""
        too_long = tf.strings.length(words, "UTF8_CHAR") > LONGEST
        rows = tf.where(~too_long & (words != ""))[:, 0]
        found_rows = tf.where(too_long)[:, 0]
        found = tf.fill(tf.shape(found_rows), self.unknown_id)

        def cut(rows, rests, shortest, found_rows, found):
            """Takes the next piece off what is left of the words in `rows`."""
            ids = self.table.lookup(rests)  # all that is left: most often one piece
            place = tf.where(ids < 0)
            rows_cut, rests_cut = tf.gather_nd(rows, place), tf.gather_nd(rests, place)
            size = self._longest_start(rests_cut, shortest)
            start = tf.strings.substr(rests_cut, tf.zeros_like(size), size)
            ids = tf.tensor_scatter_nd_update(ids, place, self.table.lookup(start))
            more = size > 0  # else no piece fits
            rest = tf.strings.substr(
                rests_cut[more], size[more], tf.strings.length(rests_cut[more])
            )
            return (
                rows_cut[more],
                tf.strings.join([INSIDE, rest]),
                len(INSIDE) + 1,
                tf.concat([found_rows, rows], 0),
                tf.concat([found, ids], 0),
            )

        any_size = tf.TensorShape([None])
        *_, found_rows, found = tf.while_loop(
            lambda rows, *_: tf.size(rows) > 0,
            cut,
            (rows, tf.gather(words, rows), 1, found_rows, found),
            (any_size, any_size, tf.TensorShape([]), any_size, any_size),
        )
        # Of a word that could not be cut to its end nothing but "[UNK]" is left.
        failed = tf.math.unsorted_segment_min(found, found_rows, tf.size(words)) < 0
        kept = tf.gather(failed, found_rows) == (found < 0)
        found = tf.where(found < 0, self.vocabulary.index(UNKNOWN), found)[kept]
        order = tf.argsort(found_rows[kept], stable=True)
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(found, order),
            tf.gather(found_rows[kept], order),
            nrows=tf.size(words, tf.int64),
        )

    def _longest_start(self, words, shortest):
        """The bytes of each word's longest start that is a piece and not all; or 0."""
        # Bytes will do: a start that ends within a character is no piece.
        stop = tf.minimum(tf.strings.length(words), self.longest_piece + 1)
        sizes = tf.ragged.range(shortest, tf.maximum(stop, shortest))
        rows = sizes.value_rowids()
        starts = tf.strings.substr(
            tf.gather(words, rows), tf.zeros_like(sizes.values), sizes.values
        )
        known = self.table.lookup(starts) >= 0
        best = tf.math.unsorted_segment_max(
            tf.where(known, sizes.values, 0), rows, tf.size(words)
        )
        return tf.maximum(best, 0)


def learn_pieces(counts, size, reserved):
    """A WordPiece vocabulary, the same one from the same words.

    Args:
        counts: dict from plain words to how often each was seen.
        size: the most tokens of the vocabulary.
        reserved: the tokens that it begins with.

    Returns:
        A list: reserved, characters, characters inside words, longer pieces.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    seen = collections.Counter()
    for word, number in counts.items():
        for character in word:
            seen[character] += number
    by_frequency = sorted(seen, key=lambda character: (-seen[character], character))
    characters = set(by_frequency[: (size - len(reserved)) // 2])
    words = sorted(w for w in counts if len(w) <= LONGEST and characters.issuperset(w))
    inside = {INSIDE + character for word in words for character in word[1:]}
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        # Characters as well: left to itself the trainer numbers them in the order of
        # a hash table, another one in each process, and breaks ties by these numbers.
        special_tokens=[*reserved, *sorted(characters), *sorted(inside)],
        show_progress=False,
    )
    learner = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator((f"{w} " * counts[w] for w in words), trainer)
    ids = learner.get_vocab()
    return sorted(ids, key=ids.get)


@functools.cache
def plain_characters():
    """What each letter that has a case or an accent is without, and each accent: "".

    Returns:
        A dict from characters beyond ASCII to strings.

    Example:
    >>> plain_characters()["É"]
    'e'
    """
    plain = {}
    # Character by character: where two signs that are no accents stand in another order
    # than Unicode's, which ten signs of music and Korean tone can, they stay in it.
    for code in itertools.chain(range(0x80, 0x40000), range(0xE0000, 0xE0200)):
        parts = unicodedata.normalize("NFD", chr(code))
        kept = "".join(c for c in parts if unicodedata.category(c) != "Mn")
        if kept.lower() != chr(code):
            plain[chr(code)] = kept.lower()
    return plain


def _truth(name, value):
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}.")
    return value
