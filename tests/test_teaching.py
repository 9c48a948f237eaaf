"""Learning from a teacher's answers on texts that have no label."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import data as data_sets
from residual_keras.recipe import Recipe

DATA = "reviews(depth=0, train_size=40, validation_size=20, test_size=300)"
SMALL = {"num_layers": 1, "embed_dim": 6, "num_heads": 2, "ff_dim": 7, "max_len": 13}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A trained run's folder."""
    from residual_keras.train import train

    folder = tmp_path_factory.mktemp("teacher") / "run"
    recipe = Recipe(data=DATA, epochs=1, batch_size=20, **SMALL)
    train(recipe, folder, verbose=0, export=False)
    return folder


@pytest.fixture
def recipe(teacher, tmp_path):
    """A student's recipe: two new texts, one of the data's own, one told twice."""
    known = data_sets.load(DATA).test.texts[0]
    lines = ["The cellist was superb .", "I left early .", known, "I left early ."]
    path = tmp_path / "more.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Recipe(
        data=DATA, teacher=str(teacher), unlabelled=str(path), epochs=2, **SMALL
    )


def test_the_lessons_are_labels_and_answers(recipe, teacher):
    from residual_keras import load_model
    from residual_keras.teaching import lessons

    data = data_sets.load(DATA)
    found = lessons(recipe, data)
    new = found.train.texts[40:]
    assert found.train.texts[:40] == data.train.texts
    assert new == ["The cellist was superb .", "I left early ."]
    assert found.train.labels.shape == (42, 2)
    assert np.array_equal(found.train.labels[:40].argmax(axis=1), data.train.labels)
    assert np.array_equal(found.train.labels[:40].max(axis=1), np.ones(40))
    answers = load_model(teacher / "model.keras").predict(new)
    assert np.array_equal(found.train.labels[40:], answers)
    assert found.test is data.test


def test_a_batch_has_the_answers_as_they_are(recipe):
    """As probabilities: rounded, most would say nothing."""
    from residual_keras.building import build
    from residual_keras.data import batches
    from residual_keras.teaching import lessons

    found = lessons(recipe, data_sets.load(DATA))
    rows, vectorizer = found.train, build(recipe, found).vectorizer
    ids, labels = next(iter(batches.training_batches(rows, vectorizer, 42, seed=1)))
    told = {tuple(row): label for row, label in zip(ids.numpy(), labels, strict=True)}
    for text, label in zip(rows.texts, rows.labels, strict=True):
        row = np.zeros(ids.shape[1], int)
        alone = vectorizer([text]).numpy()[0]
        row[: len(alone)] = alone
        np.testing.assert_array_equal(told[tuple(row)], label)
    assert 0 < rows.labels[-1].max() < 1


def test_labels_in_another_order_are_put_in_ours(recipe):
    from residual_keras.teaching import ask

    names = data_sets.load(DATA).label_names
    texts = ["Dull .", "I left early ."]
    there = ask(recipe.teacher, texts, names)
    back = ask(recipe.teacher, texts, names[::-1])
    assert np.array_equal(there, back[:, ::-1]) and not np.array_equal(there, back)
    both = ask(f"{recipe.teacher}, {recipe.teacher}", texts, names)
    np.testing.assert_allclose(both, there, rtol=1e-6)
    with pytest.raises(ValueError, match="A teacher has the labels of the data"):
        ask(recipe.teacher, texts, ("bad", "good"))


def test_a_student_trains_and_is_measured_on_labels(recipe, tmp_path):
    from residual_keras import load_model
    from residual_keras.train import train

    metrics = train(recipe, tmp_path / "run", verbose=0, export=False)
    assert metrics["status"] == "finished" and metrics["steps"] == 2
    test = data_sets.load(DATA).test
    found = load_model(tmp_path / "run" / "model.keras").predict(test.texts)
    assert metrics["test"]["accuracy"] == pytest.approx(
        (found.argmax(axis=1) == test.labels).mean()
    )


@pytest.mark.slow
def test_a_student_learns_what_its_teacher_says(recipe, tmp_path, monkeypatch):
    """Forty labels teach little; a teacher who knows it all makes up for them."""
    from residual_keras import teaching
    from residual_keras.train import train

    more = data_sets.load("reviews(depth=0, train_size=600)", seed=5).train
    truth = dict(zip(more.texts, np.eye(2)[more.labels], strict=True))
    path = tmp_path / "many.txt"
    path.write_text("\n".join(more.texts) + "\n", encoding="utf-8")
    monkeypatch.setattr(
        teaching, "ask", lambda _, texts, names: np.float32([truth[t] for t in texts])
    )
    options = {"epochs": 5, "learning_rate": 0.01, "rate": 0.0, "max_len": 40}
    taught = dataclasses.replace(recipe, unlabelled=str(path), **options)
    alone = dataclasses.replace(taught, teacher=None, unlabelled=None)
    reached = {
        name: train(made, tmp_path / name, verbose=0, export=False)["test"]["accuracy"]
        for name, made in {"taught": taught, "alone": alone}.items()
    }
    assert reached["taught"] > 0.8 > reached["alone"] + 0.1, reached


def test_what_cannot_be_is_refused(recipe, tmp_path):
    from residual_keras.teaching import lessons

    data = data_sets.load(DATA)
    known = tmp_path / "known.txt"
    known.write_text("\n".join(data.test.texts) + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="which has none"):
        lessons(dataclasses.replace(recipe, unlabelled=str(known)), data)
    with pytest.raises(ValueError, match="No preset"):
        lessons(dataclasses.replace(recipe, teacher="nobody"), data)


def test_negations_get_the_other_answer(recipe, teacher, monkeypatch):
    from residual_keras import load_model, teaching

    monkeypatch.setattr(teaching, "in_runs", lambda rows, seed: rows)
    data = data_sets.load(DATA)
    asked = dataclasses.replace(recipe, negations=2)
    found = teaching.lessons(asked, data).train
    more, sentence, negated = found.texts[40:42], *found.texts[42:]
    assert more == ["The cellist was superb .", "I left early ."]
    assert sentence == more[0] != negated and "cellist" in negated
    answer = load_model(teacher / "model.keras").predict([sentence])[0]
    np.testing.assert_array_equal(found.labels[42:], [answer, answer[::-1]])
    assert answer[0] != answer[1]


def test_passages_with_a_not_get_the_teacher_s_answer(recipe, teacher):
    from residual_keras import load_model
    from residual_keras.teaching import lessons_in_negation

    texts = ["It was long . Do not go !", "Nobody laughed ."]
    asked = dataclasses.replace(recipe, negations=1)
    runs, passages = lessons_in_negation(asked, texts, data_sets.load(DATA).label_names)
    both = " ".join(runs.texts)
    assert both.count("long") == 2 and "Do not" not in both and "laughed" not in both
    assert len(passages) == 2 and passages.texts[1] == "Nobody laughed ."
    assert passages.texts[0] in ("Do not go !", texts[0])
    answers = load_model(teacher / "model.keras").predict(passages.texts)
    np.testing.assert_array_equal(passages.labels, answers)


@given(count=st.integers(1, 23), seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_a_run_has_the_answers_of_its_texts(count, seed):
    from residual_keras.teaching import Lessons, in_runs

    one = np.random.default_rng(count).uniform(0.05, 0.95, count)
    rows = Lessons(
        [f"text{i}" for i in range(count)], np.float32(np.stack([one, 1 - one], 1))
    )
    runs = in_runs(rows, seed)
    assert in_runs(rows, seed).texts == runs.texts
    members = [[int(t[4:]) for t in text.split(" ")] for text in runs.texts]
    assert sorted(i for run in members for i in run) == list(range(count))
    assert all(len(run) <= 3 for run in members)
    for run, label in zip(members, runs.labels, strict=True):
        odds = np.prod(one[run] / (1 - one[run]))
        expected = odds / (1 + odds), 1 / (1 + odds)
        np.testing.assert_allclose(label, expected, rtol=1e-4)


def test_runs_are_of_one_two_and_three_texts_in_any_order():
    from residual_keras.teaching import Lessons, in_runs

    rows = Lessons([str(i) for i in range(600)], np.full((600, 2), 0.5, "float32"))
    runs = [text.split(" ") for text in in_runs(rows, seed=1).texts]
    counts = np.bincount([len(run) for run in runs], minlength=4)
    assert counts[0] == 0 and counts[1:].min() > 70
    assert [one for run in runs for one in run] != rows.texts


def test_negations_that_cannot_be_are_refused(recipe, tmp_path):
    from residual_keras.teaching import lessons, lessons_in_negation

    with pytest.raises(ValueError, match="there must be two"):
        list(lessons_in_negation(recipe, ["It is dull."], ("bad", "even", "good")))
    path = tmp_path / "none.txt"
    path.write_text("Avoid .\n", encoding="utf-8")
    asked = dataclasses.replace(recipe, unlabelled=str(path), negations=1)
    with pytest.raises(ValueError, match="which have none"):
        lessons(asked, data_sets.load(DATA))
    for options in {"negations": -1}, {"negations": 1, "teacher": None}:
        with pytest.raises(ValueError, match="negations must not be negative"):
            dataclasses.replace(recipe, **options)
