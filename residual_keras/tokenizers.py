"""The kinds of tokens by name, and the layer that makes a recipe's."""

from .spec import look_up
from .text import TextVectorizer
from .wordpiece import WordPieceVectorizer

TOKENIZERS = {"words": TextVectorizer, "wordpiece": WordPieceVectorizer}


def make_vectorizer(options, **kwargs):
    """The vectorizer that a recipe asks for, its words not yet learned.

    Args:
        options: an `Options`, of which it takes tokenizer, vocab_size and max_len.
        **kwargs: of the vectorizer: truncation, or a vocabulary that is known already.

    Returns:
        A `TextVectorizer` or a `WordPieceVectorizer`.

    Raises:
        ValueError: if there is no such tokenizer, or a size is out of range.

    Example:
        >>> make_vectorizer(Recipe(vocab_size=100)).vocab_size
        100
    """
    kind = look_up(TOKENIZERS, options.tokenizer, "tokenizer")
    return kind(options.vocab_size, options.max_len, **kwargs)
