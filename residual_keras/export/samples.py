"""The texts that an export is compared with its model on."""

import numpy as np


def sample_texts(vectorizer, seed=0):
    """Batches of texts: an empty one, short and long ones, padding, unknown words.

    Args:
        vectorizer: a `TextVectorizer`, whose words the texts are made of.
        seed: of the choice.

    Returns:
        A list of lists of strings.

    Example:
        >>> sample_texts(model.vectorizer)[0]
        ['']
    """
    words = vectorizer.get_vocabulary()[2:]
    draw = np.random.default_rng(seed)

    def text(length):
        return " ".join(draw.choice(words, length))

    longest = vectorizer.max_len
    return [
        [""],
        [text(1)],
        [text(2), "", "qqzzy " + text(5), text(3)],
        [text(13) for _ in range(7)],
        ["", text(longest + 3), text(longest // 2)],  # one to truncate
    ]
