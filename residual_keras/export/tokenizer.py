"""What makes token ids of a text, as a file that any program can follow.

A format without strings takes ids. Its `tokenizer.json` holds the vocabulary and the
rules of `text.tokenize`, their patterns spelled for Python's `re`. That knows no names
of classes of characters, so these are written out, as TensorFlow's RE2 has them. Forty
capital letters that are younger than its tables stay capitals in TensorFlow alone.
"""

import functools
import itertools
import json
import re

import tensorflow as tf

from ..embedding import PADDING_ID, UNKNOWN_ID
from ..text import AFTER_LOWER, BEFORE_LOWER, TextVectorizer

# Shown in the model card; run by the tests.
READER = """\
import json
import pathlib
import re

settings = json.loads(pathlib.Path("tokenizer.json").read_text(encoding="utf-8"))
numbers = {token: number for number, token in enumerate(settings["vocabulary"])}


def token_ids(text):
    for pattern, replacement in settings["before_lower"]:
        text = re.sub(pattern, replacement, text)
    text = text.lower()
    for pattern, replacement in settings["after_lower"]:
        text = re.sub(pattern, replacement, text)
    tokens, head, tail = text.split(), settings["head"], settings["tail"]
    if len(tokens) > head + tail:
        tokens = tokens[:head] + tokens[len(tokens) - tail :]
    return [numbers.get(token, settings["unknown_id"]) for token in tokens]
"""


def write_tokenizer(model, path):
    """Writes `tokenizer.json` into a folder.

    Args:
        model: a `TextClassifier`.
        path: of the folder.

    Raises:
        ValueError: if the model's tokens are no words.
    """
    vectorizer = model.vectorizer
    if not isinstance(vectorizer, TextVectorizer):
        raise ValueError(
            "Beside a format without strings lies tokenizer.json, which has the rules "
            f"of a TextVectorizer. Received: a {type(vectorizer).__name__}. Export a "
            "saved_model, which takes texts."
        )
    head, tail = vectorizer.kept(vectorizer.max_len)
    settings = {
        "label_names": model.label_names,
        "padding_id": PADDING_ID,
        "unknown_id": UNKNOWN_ID,
        "head": head,
        "tail": tail,
        "before_lower": rules_for_python(BEFORE_LOWER),
        "after_lower": rules_for_python(AFTER_LOWER),
        "vocabulary": vectorizer.get_vocabulary(),
    }
    text = json.dumps(settings, ensure_ascii=False, indent=1)
    (path / "tokenizer.json").write_text(text + "\n", encoding="utf-8")


def rules_for_python(rules):
    """Pairs of pattern and replacement, spelled for Python's `re`."""
    return [(for_python(p), r.replace(r"\0", r"\g<0>")) for p, r in rules]


def for_python(pattern):
    r"""A pattern of RE2 as Python's `re` takes it.

    Example:
        >>> for_python(r"\x{200b}[\p{Thai}!]")
        '\u200b[\u0e01-\u0e3a\u0e40-\u0e5b!]'
    """
    inside = False  # of square brackets
    spelled = []
    for part in re.findall(r"\\p\{\w+\}|\\x\{\w+\}|\\.|.", pattern):
        if part in "[]":
            inside = part == "["
        elif part.startswith(r"\x"):
            part = re.escape(chr(int(part[3:-1], 16)))
        elif part == r"\s" or part.startswith(r"\p"):
            part = members(part) if inside else f"[{members(part)}]"
        spelled.append(part)
    return "".join(spelled)


@functools.cache
def members(kind):
    r"""The characters of a class of RE2, such as `\p{L}`, as ranges for `[]`."""
    found = tf.strings.regex_replace(every_character(), f"[^{kind}]+", "")
    codes = map(ord, found.numpy().decode("utf-8"))
    ranges = []
    # Neighbours have the same distance to their place in the row.
    for _, run in itertools.groupby(enumerate(codes), lambda p: p[1] - p[0]):
        first, *rest = (re.escape(chr(code)) for _, code in run)
        ranges.append(f"{first}-{rest[-1]}" if rest else first)
    return "".join(ranges)


@functools.cache
def every_character():
    """All of Unicode in one string, UTF-8; surrogates are no characters."""
    codes = itertools.chain(range(0xD800), range(0xE000, 0x110000))
    return "".join(map(chr, codes)).encode("utf-8")
