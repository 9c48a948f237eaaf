import dataclasses
import hashlib
import itertools
import os
import random
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_keras.data import reviews
from residual_keras.data.reviews import (
    REPORTERS,
    Contrast,
    Negation,
    Opinion,
    Report,
    Review,
    evaluate,
    grow,
    load,
    render,
)

GOOD = Opinion("music", "was", "superb", positive=True)
BAD = Opinion("plot", "felt", "dull", positive=False)
SENTIMENT = frozenset(reviews.POSITIVE + reviews.NEGATIVE)

trees = st.builds(
    lambda seed, depth: grow(random.Random(seed), depth),
    st.integers(0, 2**32),
    st.integers(0, 7),
)


def inside(claim):
    """The claim that an operator passes on, or None for an opinion."""
    return getattr(claim, "main", None) or getattr(claim, "claim", None)


def operators(claim):
    count = 0
    while (claim := inside(claim)) is not None:
        count += 1
    return count


def flip(opinion):
    words = reviews.NEGATIVE if opinion.positive else reviews.POSITIVE
    return dataclasses.replace(opinion, word=words[0], positive=not opinion.positive)


def flip_core(claim):
    """The same tree around the opposite opinion."""
    if isinstance(claim, Opinion):
        return flip(claim)
    name = "main" if isinstance(claim, Contrast) else "claim"
    return dataclasses.replace(claim, **{name: flip_core(getattr(claim, name))})


def flip_sides(claim):
    """The same tree with every side of a contrast turned into its opposite."""
    if isinstance(claim, Opinion):
        return claim
    if isinstance(claim, Contrast):
        return dataclasses.replace(
            claim, side=flip_core(claim.side), main=flip_sides(claim.main)
        )
    return dataclasses.replace(claim, claim=flip_sides(claim.claim))


def readings(clause, outermost=True):
    """Every polarity that a clause can be understood to have, from its words alone."""
    aspect, verb = "|".join(reviews.ASPECTS), "|".join(reviews.VERBS)
    bare = SimpleNamespace(aspect=f"(?:{aspect})", verb=f"(?:{verb})", word=r"(\w+)")

    def matches(wordings, **slots):
        for wording in wordings:
            match = re.fullmatch(wording.format(**slots), clause)
            if match:
                yield match

    opinion = f"the {bare.aspect} {bare.verb} {bare.word}"
    found = {match[1] in reviews.POSITIVE for match in matches([opinion])}
    for match in matches(reviews.PREDICATE_NEGATIONS, opinion=bare):
        found.add(match[1] in reviews.NEGATIVE)
    wordings = reviews.NEGATIONS + reviews.OUTER_NEGATIONS * outermost
    for match in matches(wordings, claim="(.+)"):
        found |= {not positive for positive in readings(match[1], False)}
    wordings = reviews.CONTRASTS + reviews.OUTER_CONTRASTS * outermost
    for match in matches(wordings, clause="(?P<side>[^,]+)", main="(?P<main>.+)"):
        if readings(match["side"], False):
            found |= readings(match["main"], False)
    for match in matches(reviews.NOUN_CONTRASTS, side=bare, main="(?P<main>.+)"):
        found |= readings(match["main"], False)
    for who, right in itertools.product(REPORTERS, (True, False)):
        wordings = reviews.REPORTS[right] + reviews.OUTER_REPORTS[right] * outermost
        for match in matches(wordings, who=who, claim="(.+)"):
            found |= {positive == right for positive in readings(match[1], False)}
    return found


@pytest.mark.parametrize("opinion", [GOOD, BAD])
def test_negation_flips(opinion):
    once = Negation("it is not true that {claim}", opinion)
    twice = Negation("nobody could say that {claim}", once)
    assert evaluate(once) is not evaluate(opinion)
    assert evaluate(twice) is evaluate(opinion)


def test_only_the_main_claim_of_a_contrast_counts():
    assert evaluate(Contrast("although {clause}, {main}", side=BAD, main=GOOD)) is True
    assert evaluate(Contrast("although {clause}, {main}", side=GOOD, main=BAD)) is False
    last = Contrast("{main}, even if {clause}", side=GOOD, main=BAD)
    assert render(last) == "the plot felt dull, even if the music was superb"
    assert evaluate(last) is False


@pytest.mark.parametrize("opinion", [GOOD, BAD])
def test_only_those_who_are_wrong_flip(opinion):
    for who in REPORTERS:
        right = Report("{who.name} {who.be} right that {claim}", who, opinion, True)
        wrong = Report("{who.name} {who.be} wrong that {claim}", who, opinion, False)
        assert evaluate(right) is evaluate(opinion)
        assert evaluate(wrong) is not evaluate(opinion)


def test_sentences_about_other_things_do_not_count():
    tree = Review(
        ("the sequel was superb",), BAD, ("two thieves hide in a superb hut",)
    )
    assert evaluate(tree) is False
    assert render(tree) == (
        "The sequel was superb. The plot felt dull. Two thieves hide in a superb hut."
    )


def test_operators_compose():
    critics = REPORTERS[0]
    claim = Contrast(
        "although {clause}, {main}",
        side=GOOD,
        main=Negation("the {opinion.aspect} was not {opinion.word}", BAD),
    )
    claim = Report(
        "{who.name} {who.say} that {claim}, but {who.pronoun} {who.be} wrong",
        critics,
        claim,
        right=False,
    )
    assert render(Review((), claim, ())) == (
        "The critics claim that although the music was superb, the plot was not dull, "
        "but they are wrong."
    )
    assert evaluate(claim) is False


@given(trees)
def test_the_words_alone_tell_the_label(tree):
    assert readings(render(tree.claim)) == {evaluate(tree)}


@given(trees)
def test_the_label_turns_with_the_one_opinion_that_counts(tree):
    other = dataclasses.replace(tree, claim=flip_core(tree.claim))
    assert evaluate(other) is not evaluate(tree)
    changed = [a != b for a, b in zip(words(tree), words(other), strict=True)]
    assert sum(changed) == 1


@given(trees)
def test_the_label_does_not_turn_with_the_sides(tree):
    other = dataclasses.replace(tree, claim=flip_sides(tree.claim), before=(), after=())
    assert evaluate(other) is evaluate(tree)


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_depth_is_the_number_of_operators(seed, depth):
    assert operators(grow(random.Random(seed), depth).claim) == depth


def test_every_operator_is_drawn_at_every_level():
    rng = random.Random(0)
    seen = [set(), set(), set()]
    for _ in range(500):
        claim = grow(rng, 3).claim
        for kinds in seen:
            kinds.add(type(claim))
            claim = inside(claim)
    assert seen == [{Negation, Contrast, Report}] * 3


def words(tree):
    return re.findall(r"[\w']+", render(tree).lower())


def fingerprint():
    digest = hashlib.sha256()
    rng = random.Random(0)
    for index in range(100):
        text, label = reviews.review(rng, index % 5)
        digest.update(f"{label} {text}\n".encode())
    return digest.hexdigest()


PINNED = "4136b5ab35b447f0c133831bc31a06cb95cd215d781359fbd6675c0f3f310a7c"


def test_the_first_hundred_texts_are_pinned():
    assert fingerprint() == PINNED


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_nothing_hangs_on_the_hash_seed(hash_seed):
    script = (
        "import hashlib; from residual_keras.data.reviews import load\n"
        "data = load(train_size=50, validation_size=5, test_size=5)\n"
        "texts = repr((data.train.texts, data.train.labels.tolist()))\n"
        "print(hashlib.sha256(texts.encode()).hexdigest())"
    )
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    data = load(train_size=50, validation_size=5, test_size=5)
    texts = repr((data.train.texts, data.train.labels.tolist()))
    assert result.stdout.strip() == hashlib.sha256(texts.encode()).hexdigest()


def test_the_import_is_light():
    script = (
        "import sys, residual_keras.data.reviews\n"
        "print([m for m in ('tensorflow', 'keras') if m in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_another_seed_gives_other_texts():
    sizes = {"train_size": 50, "validation_size": 5, "test_size": 5}
    one, two = load(seed=1, **sizes), load(seed=2, **sizes)
    assert len(set(one.train.texts) & set(two.train.texts)) < 5


@pytest.mark.parametrize("depth", [0, 2])
def test_splits_are_balanced_and_share_no_text(depth):
    data = load(depth=depth)
    splits = [data.train, data.validation, data.test]
    assert data.name == "reviews"
    assert data.label_names == ("negative", "positive")
    assert [len(split) for split in splits] == [8000, 1000, 1000]
    assert [int(split.labels.sum()) for split in splits] == [4000, 500, 500]
    texts = [text for split in splits for text in split.texts]
    assert len(set(texts)) == len(texts)


def test_odd_sizes_differ_by_one_text():
    data = load(train_size=31, validation_size=7, test_size=1)
    assert [int(s.labels.sum()) for s in (data.train, data.validation)] == [15, 3]
    assert data.test.labels.tolist() == [0]


def test_the_other_splits_do_not_hang_on_the_training_size():
    few = load(train_size=10, validation_size=20, test_size=20)
    many = load(train_size=99, validation_size=20, test_size=20)
    assert few.test.texts == many.test.texts
    assert few.validation.texts == many.validation.texts


def test_texts_are_short():
    lengths = [len(text.split()) for text in load().train.texts]
    assert min(lengths) >= 8
    assert max(lengths) <= 50


def naive_bayes(train, test, vocabulary):
    """The accuracy on `test` of what the words of the vocabulary say one by one."""
    columns = {word: i for i, word in enumerate(sorted(vocabulary))}

    def presence(split):
        rows = np.zeros((len(split), len(columns)))
        for row, text in zip(rows, split.texts, strict=True):
            for word in re.findall(r"[\w']+", text.lower()):
                if word in columns:
                    row[columns[word]] = 1
        return rows

    x, y = presence(train), train.labels
    chance = [(x[y == c].sum(0) + 1) / ((y == c).sum() + 2) for c in (0, 1)]
    weight = np.log(chance[1] / chance[0])
    off = np.log((1 - chance[1]) / (1 - chance[0]))
    x = presence(test)
    return np.mean((x @ weight + (1 - x) @ off > 0) == test.labels)


def test_the_wording_says_nothing_about_the_label():
    data = load(train_size=8000, validation_size=10, test_size=4000)
    every = {
        w for text in data.train.texts for w in re.findall(r"[\w']+", text.lower())
    }
    assert naive_bayes(data.train, data.test, every - SENTIMENT) == pytest.approx(
        0.5, abs=0.03
    )
    # The same check does find what the opinions' words say.
    assert naive_bayes(data.train, data.test, SENTIMENT) > 0.6


def test_the_length_says_nothing_about_the_label():
    train = load().train
    lengths = [len(text.split()) for text in train.texts]
    assert abs(np.corrcoef(lengths, train.labels)[0, 1]) < 0.03


def test_a_bag_of_words_does_well_at_first_and_falls_with_depth():
    accuracy = []
    for depth in (0, 2, 6):
        data = load(depth=depth, validation_size=10)
        accuracy.append(naive_bayes(data.train, data.test, SENTIMENT))
    assert accuracy[0] > 0.9
    assert accuracy[0] > accuracy[1] + 0.15 > accuracy[2] + 0.2
    assert accuracy[2] < 0.6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", -1),
        ("depth", 51),
        ("depth", 2.0),
        ("depth", True),
        ("depth", "2"),
        ("train_size", 0),
        ("validation_size", -5),
        ("test_size", None),
        ("seed", -1),
    ],
)
def test_arguments_are_checked(name, value):
    with pytest.raises(ValueError, match=f"Received: {name}={value!r}"):
        load(**{name: value})


def test_depth_is_checked_where_a_tree_is_grown():
    with pytest.raises(ValueError, match="Received: depth=-1"):
        reviews.review(random.Random(0), -1)


@pytest.mark.parametrize("function", [evaluate, render])
def test_what_is_no_tree_is_refused(function):
    with pytest.raises(ValueError, match="Received: tree='dull'"):
        function("dull")


def test_a_grammar_that_is_too_small_is_reported(monkeypatch):
    monkeypatch.setattr(reviews, "ASPECTS", ("plot",))
    monkeypatch.setattr(reviews, "_aside", lambda rng: "two hours is long")
    with pytest.raises(ValueError, match=r"Received: depth=0 and, so far, \d+ texts"):
        load(depth=0)
    assert len(load(depth=2, train_size=500).train) == 500
