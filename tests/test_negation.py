"""Sentences with a "not" put in."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_keras.negation import LONGEST, NEGATIVE, negated, pairs, passages

SUBJECTS = "The plot", "It", "My old aunt", "Everybody's dog", "he"
REST = "is dull", "was never dull", "works", "could cry at it", "'s a gem", "Liked it"
ENDS = ".", "!", "?", "<br />", "\n"
SENTENCES = st.builds(" ".join, st.tuples(*map(st.sampled_from, (SUBJECTS, REST))))
TEXTS = st.lists(st.builds("{}{} ".format, SENTENCES, st.sampled_from(ENDS)))


def every_way(sentence):
    """All negations that many draws find."""
    return {negated(sentence, random.Random(seed)) for seed in range(200)}


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (
            "The plot is dull and long.",
            {
                "The plot is not dull and long.",
                "The plot isn't dull and long.",
                "The plot is never dull and long.",
                "The plot is not dull and long at all.",
                "The plot is neither dull nor long.",
                "Nothing about The plot is dull and long.",
            },
        ),
        ("It's a gem!", {"It's not a gem!"}),
        ("I'm glad", {"I'm not glad"}),
        ("You will cry.", {"You will not cry."}),
        ("You should see it.", {"You shouldn't see it.", "You should not see it."}),
        ("We REALLY liked it.", {"We REALLY did not like it."}),
        ("She laughed.", {"She did not laugh."}),
        ("The joke works well.", {"The joke does not work well."}),
        ("I truly love it.", {"I truly don't love it.", "I truly would not love it."}),
    ],
)
def test_each_way_to_negate(sentence, expected):
    assert every_way(sentence) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "It is not bad.",
        "It isn't bad.",
        "Is it good?",
        "It is only a film.",  # "not only" praises
        "Avoid.",
        "",
        "The plot is dull " + LONGEST * "and long ",
        "Of all the plots that I know this one is dull.",
    ],
)
def test_what_has_no_plain_negation_is_left_alone(sentence):
    assert every_way(sentence) == {None}


@given(texts=st.lists(TEXTS.map("".join)), count=st.integers(1, 3), seed=st.integers(0))
def test_pairs_are_of_the_texts(texts, count, seed):
    try:
        found = pairs(texts, count, seed)
    except ValueError as error:
        assert "which have none" in str(error)
        sentences = re.split(r"(?<=[.!?]) |<br /> |\n", " ".join(texts))
        assert all(every_way(one.strip()) == {None} for one in sentences)
        return
    assert found == pairs(texts, count, seed)
    assert 0 < len(found) <= count * len(texts)
    for sentence, other in found:
        assert any(sentence in text for text in texts)
        assert sentence and not NEGATIVE.search(sentence) and NEGATIVE.search(other)


def test_sentences_of_a_text_are_drawn():
    text = "It is dull. I saw it twice. It was long! She hated it. He loved it."
    drawn = {tuple(pairs([text], 1, seed)) for seed in range(200)}
    assert {sentence for ((sentence, _),) in drawn} == {
        *("It is dull.", "It was long!", "She hated it.", "He loved it.")
    }
    assert len(pairs([text], 9, seed=0)) == 4


@given(texts=st.lists(TEXTS.map("".join)), count=st.integers(1, 3), seed=st.integers(0))
def test_passages_stand_in_the_texts_and_have_a_not(texts, count, seed):
    found = passages(texts, count, seed)
    assert found == passages(texts, count, seed)
    places = [text for text in texts if NEGATIVE.search(text)]
    assert len(places) <= len(found) <= count * len(texts)
    plain = [" ".join(re.sub("<br />", " ", text).split()) for text in texts]
    for passage in found:
        assert NEGATIVE.search(passage)
        assert any(" ".join(passage.split()) in text for text in plain)


def test_passages_are_one_to_three_sentences_around_a_not():
    text = "It was long. She left. Do not go! He loved it. I saw it twice."
    drawn = {one for seed in range(200) for one in passages([text], 1, seed)}
    assert drawn == {
        "Do not go!",
        "She left. Do not go!",
        "Do not go! He loved it.",
        "It was long. She left. Do not go!",
        "She left. Do not go! He loved it.",
        "Do not go! He loved it. I saw it twice.",
    }
    long = "Do not go " + LONGEST * "there and "
    assert passages([long], 1, seed=1) == []
    assert passages(["It was long."], 1, seed=1) == []
