"""The behavioural suite, put to answers that are known."""

import numpy as np
import pytest

from residual_keras.presets import behaviour
from residual_keras.presets.behaviour import BEHAVIOUR, check_behaviour


class Answers:
    """Stands for a model: a function of a text gives the positive probability."""

    def __init__(self, positive, label_names=("neg", "pos")):
        self.positive = positive
        self.label_names = list(label_names)
        self.asked = 0

    def predict(self, texts):
        self.asked += 1
        found = np.array([self.positive(text) for text in texts])
        place = self.label_names.index("pos")
        columns = [1 - found, found] if place == 1 else [found, 1 - found]
        return np.stack(columns, axis=1)


def passed(positive, **options):
    found = check_behaviour(Answers(positive, **options), "pos")
    return {name: row["passed"] / row["cases"] for name, row in found.items()}


@pytest.mark.parametrize("labels", [("neg", "pos"), ("pos", "neg")])
def test_one_who_knows_the_words_passes_what_hangs_on_them(labels):
    def words(text):
        text = text.lower()
        score = sum(text.count(word) for word in behaviour.PRAISE)
        score -= sum(text.count(word) for word in behaviour.BLAME)
        return 0.5 + 0.5 * np.tanh(score)

    found = passed(words, label_names=labels)
    assert found["plain words"] == 1
    assert found["no text"] == found["another language"] == found["emoji alone"] == 1
    assert found["upper case"] == found["praise added"] == found["blame added"] == 1
    assert found["negation"] < 0.7 and found["words of the other side"] < 0.7


def test_one_who_is_never_sure_passes_only_what_asks_for_no_answer():
    found = passed(lambda text: 0.5)
    assert found["no text"] == found["upper case"] == found["praise added"] == 1
    assert found["plain words"] == found["whole reviews"] == 0.5


def test_one_who_is_always_sure_fails_what_says_nothing():
    found = passed(lambda text: 0.99)
    assert found["no text"] == found["another language"] == 0
    assert found["whole reviews"] == 0.5


def test_a_change_the_wrong_way_is_seen():
    longest = {}

    def shorter_is_better(text):
        longest[text] = len(text)
        return 1 / (1 + len(text) / 100)

    found = passed(shorter_is_better)
    assert found["praise added"] < 0.1 and found["blame added"] == 1


def test_all_is_asked_at_once_and_every_case_is_a_different_one():
    answers = Answers(lambda text: 0.5)
    check_behaviour(answers, "pos")
    assert answers.asked == 1
    for name, test in BEHAVIOUR.items():
        assert len(set(test.cases)) == len(test.cases), name
    for one, other in BEHAVIOUR["typing errors"].cases:
        assert one != other and sorted(one) == sorted(other)


@pytest.mark.parametrize("labels", [("a", "b"), ("neg", "pos", "so-so")])
def test_other_labels_are_refused(labels):
    answers = Answers(lambda text: 0.5)
    answers.label_names = list(labels)
    with pytest.raises(ValueError, match="two labels, 'pos' one of them"):
        check_behaviour(answers, "pos")
