"""The embedded data set: film reviews from a grammar, labelled by evaluating it.

A review is one claim about the film between sentences that do not count. The claim is
a tree: operators (negation, contrast, reported speech) nested `depth` deep around one
opinion. `render` turns a tree into words and `evaluate` into a polarity. Whatever the
operators are, the opinion inside is positive as often as negative, so neither the
wording nor the length says anything about the label: a model has to compose.
"""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np

from .splits import Split, TextData
from .wordings import (
    ASPECTS,
    CIRCUMSTANCES,
    CONTRASTS,
    NEGATIONS,
    NEGATIVE,
    NOUN_CONTRASTS,
    OTHER_WORDINGS,
    OTHERS,
    OUTER_CONTRASTS,
    OUTER_NEGATIONS,
    OUTER_REPORTS,
    PLOT_FACTS,
    POSITIVE,
    PREDICATE_NEGATIONS,
    REPORTERS,
    REPORTS,
    VERBS,
    Reporter,
)

LABEL_NAMES = ("negative", "positive")
MAX_DEPTH = 50  # operators around one opinion; a text grows by some 5 words for each
PATIENCE = 1000  # draws without a new text before the grammar counts as exhausted

# How often an operator is drawn. Flips are rare enough for single words to carry a
# weak signal, which is what a small model starts to learn from: at depth 2 logistic
# regression on tf-idf reaches some 0.73, and two Transformer blocks 0.97.
NEGATED_OPINION = 0.2  # "the plot was not dull"
NEGATED_CLAIM = 0.05  # "nobody could say that although ..."
REPORTED = 0.3  # what is neither negated nor reported is contrasted
WRONG_REPORTER = 0.12
NOUN_SIDE = 0.75  # "despite the dull plot, ..."


@dataclasses.dataclass(frozen=True)
class Opinion:
    """A leaf: what one aspect of the film was like."""

    aspect: str
    verb: str
    word: str
    positive: bool


@dataclasses.dataclass(frozen=True)
class Negation:
    """Says that a claim does not hold."""

    wording: str
    claim: Claim


@dataclasses.dataclass(frozen=True)
class Contrast:
    """Grants one claim and makes another: only the main one counts."""

    wording: str
    side: Claim
    main: Claim


@dataclasses.dataclass(frozen=True)
class Report:
    """Somebody else's claim, and whether that somebody is right."""

    wording: str
    who: Reporter
    claim: Claim
    right: bool


Claim = Opinion | Negation | Contrast | Report


@dataclasses.dataclass(frozen=True)
class Review:
    """A claim between sentences that do not count."""

    before: tuple[str, ...]
    claim: Claim
    after: tuple[str, ...]


def evaluate(tree: Claim | Review) -> bool:
    """Tell whether a tree is positive.

    Args:
        tree: A claim or a whole review.

    Returns:
        True if it speaks for the film, False if against it.

    Raises:
        ValueError: If it is no tree.

    Example:
        >>> opinion = Opinion("plot", "was", "dull", positive=False)
        >>> evaluate(Negation("I would not say that {claim}", opinion))
        True
    """
    match tree:
        case Opinion():
            return tree.positive
        case Negation():
            return not evaluate(tree.claim)
        case Report():
            return evaluate(tree.claim) == tree.right
        case Contrast(main=claim) | Review(claim=claim):
            return evaluate(claim)
    raise _not_a_tree(tree)


def render(tree: Claim | Review) -> str:
    """Put a tree into words.

    Args:
        tree: A claim, which becomes a clause, or a whole review, which becomes
            sentences.

    Returns:
        The text.

    Raises:
        ValueError: If it is no tree.

    Example:
        >>> opinion = Opinion("plot", "was", "dull", positive=False)
        >>> render(Review((), Negation("I would not say that {claim}", opinion), ()))
        'I would not say that the plot was dull.'
    """
    match tree:
        case Opinion():
            return f"the {tree.aspect} {tree.verb} {tree.word}"
        case Negation():
            return tree.wording.format(claim=render(tree.claim), opinion=tree.claim)
        case Contrast():
            return tree.wording.format(
                clause=render(tree.side), side=tree.side, main=render(tree.main)
            )
        case Report():
            return tree.wording.format(who=tree.who, claim=render(tree.claim))
        case Review():
            clauses = (*tree.before, render(tree.claim), *tree.after)
            return " ".join(f"{c[0].upper()}{c[1:]}." for c in clauses)
    raise _not_a_tree(tree)


def grow(rng: random.Random, depth: int) -> Review:
    """Draw a review at random.

    Args:
        rng: The source of randomness. Only its `random()` is called, the one method
            whose numbers Python promises to keep from version to version.
        depth: The number of operators around the opinion that counts.

    Returns:
        The tree.

    Raises:
        ValueError: If depth is not an integer from 0 to 50.

    Example:
        >>> evaluate(grow(random.Random(0), depth=3)) in (True, False)
        True
    """
    _check_integer("depth", depth, 0, MAX_DEPTH)
    # Each review judges the aspects in an order of its own, and hardly one twice.
    aspects = itertools.cycle(sorted(ASPECTS, key=lambda _: rng.random()))
    claim = _opinion(rng, aspects)
    for level in range(depth):
        claim = _wrap(rng, claim, aspects, outermost=level == depth - 1)
    aside = (_aside(rng),)
    before, after = _pick(rng, [((), ()), ((), ()), (aside, ()), ((), aside)])
    return Review(before, claim, after)


def review(rng: random.Random, depth: int) -> tuple[str, int]:
    """Draw a review at random and label it.

    Args:
        rng: The source of randomness, as in `grow`.
        depth: The number of operators around the opinion that counts.

    Returns:
        The text, and 1 if it is positive or 0 if it is negative.

    Raises:
        ValueError: If depth is not an integer from 0 to 50.

    Example:
        >>> text, label = review(random.Random(0), depth=2)
    """
    tree = grow(rng, depth)
    return render(tree), int(evaluate(tree))


def load(
    *,
    depth: int = 2,
    train_size: int = 8000,
    validation_size: int = 1000,
    test_size: int = 1000,
    seed: int = 0,
) -> TextData:
    """Generate the data set: balanced, without a text twice, the same everywhere.

    Args:
        depth: The number of operators around the opinion that counts. At 0 a bag of
            words does well; with each operator more it falls towards chance.
        train_size: The number of texts to train on. The other two splits do not depend
            on it, so that figures for different amounts of training compare.
        validation_size: The number of texts to choose models by.
        test_size: The number of texts to report on.
        seed: Another seed gives another data set.

    Returns:
        The three splits, each half positive (of an odd size, one text less).

    Raises:
        ValueError: If an argument is not an integer in its range, or if the grammar
            has too few texts of this depth for the sizes.

    Example:
        >>> data = load(depth=1, train_size=100, validation_size=10, test_size=10)
        >>> len(data.train), data.label_names
        (100, ('negative', 'positive'))
    """
    _check_integer("depth", depth, 0, MAX_DEPTH)
    _check_integer("train_size", train_size, 1)
    _check_integer("validation_size", validation_size, 1)
    _check_integer("test_size", test_size, 1)
    _check_integer("seed", seed, 0)
    rng = random.Random(int(seed))
    seen = set()
    test = _draw(rng, depth, test_size, seen)
    validation = _draw(rng, depth, validation_size, seen)
    train = _draw(rng, depth, train_size, seen)
    return TextData("reviews", LABEL_NAMES, train, validation, test)


def _draw(rng, depth, size, seen):
    """Draw a balanced split of texts that are not among `seen`, and add them."""
    texts, labels = [], []
    room = [size - size // 2, size // 2]  # negative, positive
    misses = 0
    while any(room):
        text, label = review(rng, depth)
        if text in seen or not room[label]:
            misses += 1
            if misses > PATIENCE:
                raise ValueError(
                    "The sizes must fit into the grammar, which has few new texts "
                    f"left at this depth. Received: depth={depth} and, so far, "
                    f"{len(seen)} texts. Ask for fewer texts or a greater depth."
                )
            continue
        misses = 0
        seen.add(text)
        texts.append(text)
        labels.append(label)
        room[label] -= 1
    return Split(texts, np.array(labels, dtype="int32"))


def _pick(rng, options):
    return options[int(rng.random() * len(options))]


def _opinion(rng, aspects):
    positive = rng.random() < 0.5
    return Opinion(
        aspect=next(aspects),
        verb=_pick(rng, VERBS),
        word=_pick(rng, POSITIVE if positive else NEGATIVE),
        positive=positive,
    )


def _wrap(rng, claim, aspects, outermost):
    """Put one more operator around a claim."""
    bare = isinstance(claim, Opinion)
    draw = rng.random()
    if draw < REPORTED:
        return _report(rng, claim, outermost)
    if draw < REPORTED + (NEGATED_OPINION if bare else NEGATED_CLAIM):
        if bare and rng.random() < 0.8:
            return _negated_opinion(rng, claim)
        return Negation(_pick(rng, NEGATIONS + OUTER_NEGATIONS * outermost), claim)
    return _contrast(rng, claim, _opinion(rng, aspects), outermost)


def _negated_opinion(rng, opinion):
    return Negation(_pick(rng, PREDICATE_NEGATIONS), opinion)


def _report(rng, claim, outermost):
    right = rng.random() >= WRONG_REPORTER
    wordings = REPORTS[right] + OUTER_REPORTS[right] * outermost
    return Report(_pick(rng, wordings), _pick(rng, REPORTERS), claim, right)


def _contrast(rng, main, side, outermost):
    if rng.random() < NOUN_SIDE:
        return Contrast(_pick(rng, NOUN_CONTRASTS), side, main)
    if rng.random() < NEGATED_OPINION:
        side = _negated_opinion(rng, side)
    wordings = CONTRASTS + OUTER_CONTRASTS * outermost
    return Contrast(_pick(rng, wordings), side, main)


def _aside(rng):
    wordings = _pick(rng, (OTHER_WORDINGS, PLOT_FACTS, CIRCUMSTANCES))
    return _pick(rng, wordings).format(
        other=_pick(rng, OTHERS),
        verb=_pick(rng, VERBS),
        word=_pick(rng, POSITIVE + NEGATIVE),
    )


def _check_integer(name, value, low, high=10**9):
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:
        raise ValueError(
            f"`{name}` must be an integer from {low} to {high}. "
            f"Received: {name}={value!r}. Pass for example {name}={max(low, 2)}."
        )


def _not_a_tree(tree):
    return ValueError(
        "A tree must be an Opinion, Negation, Contrast, Report or Review. "
        f"Received: tree={tree!r}. `grow` draws one."
    )
