"""How a sentiment classifier behaves on sentences of our own, kind by kind.

Source: Ribeiro et al. 2020 (CheckList), arXiv:2005.04118, whose three kinds of tests
these are: minimum functionality (a label that must come), invariance (a change that
must not matter) and direction (a change that must move the answer one way).
"""

import dataclasses
import itertools

import numpy as np

SURE = 0.8  # the most that an answer may claim about a text that says nothing
SLACK = 0.01  # what a probability may move the wrong way, which nobody would notice

PRAISE = "wonderful", "excellent", "moving", "hilarious", "superb", "delightful"
BLAME = "awful", "terrible", "boring", "dreadful", "pathetic", "lousy"
THINGS = "movie", "story", "acting"

POSITIVE_REVIEWS = (
    "I went in expecting little and left with a smile. The two leads are excellent "
    "together, the jokes land, and the ending is truly moving. Highly recommended.",
    "A wonderful little film. The script is clever, the photography is beautiful and "
    "every actor gives a great performance. I loved it from start to finish.",
    "This is one of the best thrillers I have seen in years: tense, smart and superbly "
    "acted. I was on the edge of my seat and will watch it again.",
    "My whole family enjoyed this charming story. It is funny, it is touching, and the "
    "music is perfect. Do not miss it.",
)
NEGATIVE_REVIEWS = (
    "I went in expecting a lot and left before the end. The two leads are wooden, the "
    "jokes fall flat, and the ending is a mess. Avoid it.",
    "A dreadful little film. The script is stupid, the photography is ugly and every "
    "actor gives a terrible performance. I hated it from start to finish.",
    "This is one of the worst thrillers I have seen in years: dull, silly and poorly "
    "acted. I was bored out of my mind and want my money back.",
    "My whole family was annoyed by this lame story. It is not funny, it is pointless, "
    "and the music is awful. Do not waste your time.",
)
MIXED_UP = (  # the words of one side, the meaning of the other
    ("I thought it would be boring, but it was a wonderful surprise.", 1),
    ("Despite the bad reviews I loved every minute of it.", 1),
    ("Not a single dull moment: what a great film!", 1),
    ("It could have been great, but it was a boring mess.", 0),
    ("Everybody told me it was excellent. It was awful.", 0),
    ("The trailer was funny. The film is the worst of the year.", 0),
)
NEGATED = (
    ("This movie is not good.", 0),
    ("The acting is not good at all.", 0),
    ("I did not like this film.", 0),
    ("I didn't enjoy it.", 0),
    ("It is neither funny nor moving.", 0),
    ("I would not recommend it to anyone.", 0),
    ("Nothing about this film works.", 0),
    ("This movie is not bad at all.", 1),
    ("It is never boring.", 1),
    ("I can't say anything bad about it.", 1),
    ("You will not be disappointed.", 1),
    ("There is nothing wrong with this film, I loved it.", 1),
)
ONE_WORD = (
    *(("Wonderful!", 1), ("Great.", 1), ("excellent", 1), ("Beautiful", 1)),
    *(("Terrible!", 0), ("Bad.", 0), ("awful", 0), ("Boring", 0)),
)
NEITHER = (
    "I saw it yesterday evening.",
    "The film is two hours long.",
    "It was made in France.",
    "We watched it at home.",
)
FOREIGN = (
    "Wczoraj wieczorem pojechaliśmy pociągiem do babci na wieś.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben ab.",
    "Demain matin nous irons acheter du pain et des pommes.",
    "明日の朝は雨が降るそうです。",
    "Завтра утром мы поедем на вокзал за билетами.",
    "غدا صباحا نذهب إلى السوق",
)


@dataclasses.dataclass(frozen=True)
class Minimum:
    """Texts with the label that must come: 1 for positive, 0 for negative."""

    cases: tuple
    kind = "minimum functionality"

    def passed(self, positive):
        """Which cases hold, from a function of a text to its positive probability."""
        return [(positive(text) > 0.5) == bool(label) for text, label in self.cases]


@dataclasses.dataclass(frozen=True)
class Unsure:
    """Texts that say nothing: no label may have more than `SURE`."""

    cases: tuple
    kind = "minimum functionality"

    def passed(self, positive):
        """Which cases hold."""
        return [1 - SURE <= positive(text) <= SURE for text in self.cases]


@dataclasses.dataclass(frozen=True)
class Invariance:
    """Pairs of texts that must get the same label."""

    cases: tuple
    kind = "invariance"

    def passed(self, positive):
        """Which cases hold."""
        return [(positive(a) > 0.5) == (positive(b) > 0.5) for a, b in self.cases]


@dataclasses.dataclass(frozen=True)
class Direction:
    """A text, a changed one, and the sign of what the change must do to it."""

    cases: tuple
    kind = "direction"

    def passed(self, positive):
        """Which cases hold."""
        return [
            sign * (positive(after) - positive(before)) >= -SLACK
            for before, after, sign in self.cases
        ]


def _said(words, label):
    """Plain sentences of the words, with their label."""
    return [
        (f"The {thing} is {word}.", label)
        for thing, word in itertools.product(THINGS, words)
    ]


def _with_typos(text):
    """Two letters change places in every fifth word that is long enough."""
    words = text.split(" ")
    for place in range(2, len(words), 5):
        word = words[place]
        if len(word) > 4:
            words[place] = word[0] + word[2] + word[1] + word[3:]
    return " ".join(words)


REVIEWS = *POSITIVE_REVIEWS, *NEGATIVE_REVIEWS
BEHAVIOUR = {
    "plain words": Minimum((*_said(PRAISE, 1), *_said(BLAME, 0))),
    "one word": Minimum(ONE_WORD),
    "whole reviews": Minimum(
        (*((t, 1) for t in POSITIVE_REVIEWS), *((t, 0) for t in NEGATIVE_REVIEWS))
    ),
    "negation": Minimum(NEGATED),
    "words of the other side": Minimum(MIXED_UP),
    "ten thousand words": Minimum(
        ((POSITIVE_REVIEWS[1] * 300, 1), (NEGATIVE_REVIEWS[1] * 300, 0))
    ),
    "neither good nor bad": Unsure(NEITHER),
    "no text": Unsure(("", " ", "\n")),
    "emoji alone": Unsure(("🎬", "🍿🍿", "🚗 🌧️ 🏠", "😐")),
    "another language": Unsure(FOREIGN),
    "upper case": Invariance(tuple((text, text.upper()) for text in REVIEWS)),
    "typing errors": Invariance(tuple((text, _with_typos(text)) for text in REVIEWS)),
    "marks and spaces": Invariance(
        tuple((text, f"  {text.replace('. ', '...   ')}!!") for text in REVIEWS)
    ),
    "names and years": Invariance(
        tuple(
            (text, f"{text} I saw it in {place} in {year}.")
            for text, (place, year) in zip(
                REVIEWS,
                itertools.cycle((("Leeds", 1987), ("Ohio", 2003), ("Kyoto", 1994))),
                strict=False,
            )
        )
    ),
    "praise added": Direction(
        tuple((text, f"{text} I loved it, it is excellent.", 1) for text in REVIEWS)
    ),
    "blame added": Direction(
        tuple((text, f"{text} I hated it, it is awful.", -1) for text in REVIEWS)
    ),
    "stronger words": Direction(
        (
            ("A good film.", "A great film, truly excellent.", 1),
            ("I liked it.", "I liked it very much, it is wonderful.", 1),
            ("A bad film.", "A bad film, truly awful.", -1),
            ("I disliked it.", "I disliked it a lot, it is the worst.", -1),
        )
    ),
}


def check_behaviour(model, positive):
    """Puts a sentiment classifier to `BEHAVIOUR`.

    Args:
        model: a `TextClassifier` of two labels.
        positive: the name of the positive label.

    Returns:
        A dict by name of dicts: kind, cases (how many) and passed (how many).

    Raises:
        ValueError: if the model has no such label, or not two.

    Example:
        >>> check_behaviour(model, positive="pos")["negation"]  # doctest: +SKIP
        {'kind': 'minimum functionality', 'cases': 12, 'passed': 8}
    """
    names = list(model.label_names)
    if len(names) != 2 or positive not in names:
        raise ValueError(
            f"Behaviour is checked on two labels, {positive!r} one of them. "
            f"Received: label_names={names}"
        )
    texts = sorted({text for test in BEHAVIOUR.values() for text in _texts(test)})
    found = model.predict(texts)[:, names.index(positive)]
    answers = dict(zip(texts, np.asarray(found, "float64"), strict=True))
    return {
        name: {
            "kind": test.kind,
            "cases": len(test.cases),
            "passed": int(sum(test.passed(answers.__getitem__))),
        }
        for name, test in BEHAVIOUR.items()
    }


def _texts(test):
    """Every text of a test."""
    for case in test.cases:
        parts = case if isinstance(case, tuple) else (case,)
        yield from (part for part in parts if isinstance(part, str))
