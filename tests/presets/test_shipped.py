"""The presets that come with the package: what they say, and what is said of them."""

import csv
import json
import pathlib

import numpy as np
import pytest

from residual_keras.presets import files, shelf

NAMES = shelf.list_presets()
LEAST = {  # the share of the cases that a preset must pass to be sensible
    "plain words": 0.85,
    "one word": 0.75,
    "whole reviews": 1.0,
    "ten thousand words": 1.0,
    "no text": 1.0,
    "emoji alone": 1.0,
    "another language": 0.5,
    "upper case": 1.0,
    "typing errors": 1.0,
    "marks and spaces": 1.0,
    "names and years": 1.0,
    "blame added": 0.75,
    "stronger words": 0.75,
}  # negation, and praise after blame, are told on the cards: too weak to ask for


def said(name):
    """What the preset.json of a preset on the shelf says."""
    return shelf.find(name)[1]


@pytest.fixture(scope="module")
def model():
    """Loads each preset once."""
    from residual_keras import load_preset

    loaded = {}

    def load(name):
        if name not in loaded:
            loaded[name] = load_preset(name)
        return loaded[name]

    return load


@pytest.mark.parametrize("name", NAMES)
def test_golden_logits(name, model):
    golden = said(name)["facts"]["golden"]
    import tensorflow as tf

    ids = model(name).vectorizer.call(tf.constant(list(golden)))
    found = model(name).classifier(ids, training=False)
    np.testing.assert_allclose(found, list(golden.values()), atol=1e-4)
    assert len({np.argmax(row) for row in list(golden.values())[:2]}) == 2


@pytest.mark.parametrize("name", NAMES)
def test_the_behaviour_is_what_the_card_says(name, model):
    from residual_keras.presets.behaviour import check_behaviour

    found = check_behaviour(model(name), model(name).label_names[-1])
    assert found == said(name)["facts"]["behaviour"]


@pytest.mark.parametrize("name", shelf.list_presets("*imdb"))
def test_it_answers_sensibly(name):
    told = said(name)["facts"]["behaviour"]
    fallen = {
        test: told[test]
        for test, share in LEAST.items()
        if told[test]["passed"] < share * told[test]["cases"]
    }
    assert not fallen


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small_whole_and_has_all_its_facts(name):
    folder, told = shelf.find(name)
    facts = told["facts"]
    assert files.size(folder) < (4e6 if facts["size"] else 10e6)
    files.checked(folder, told)
    for key in ("data", "licence", "command", "hardware", "seconds", "papers"):
        assert facts[key], key
    assert facts["metrics"]["texts"] == 25_000
    assert "data_path" not in facts["recipe"]
    card = (folder / files.CARD).read_text(encoding="utf-8")
    assert f"{facts['metrics']['accuracy']:.4g}" in card


@pytest.mark.parametrize("name", shelf.list_presets("*imdb"))
def test_it_is_right_often_enough_to_ship(name):
    """The tutorials' model by more than its seeds' spread, at the least."""
    entry = shelf.entries()[name]
    accuracy = entry["metrics"]["accuracy"]
    if entry["size"] is None:
        assert accuracy >= 0.92  # the flagship
        return
    table = pathlib.Path(__file__).parents[2] / "benchmarks" / "tutorial.csv"
    with table.open(encoding="utf-8") as file:
        twins = {row["size"]: row for row in csv.DictReader(file)}
    twin = twins[entry["size"]]
    assert accuracy >= 0.89
    assert accuracy > float(twin["accuracy"]) + float(twin["spread"])


def test_all_of_them_together_are_small():
    sizes = [entry["bytes"] for entry in shelf.entries().values()]
    assert sum(sizes) < 40e6


@pytest.mark.skipif(not NAMES, reason="the shelf is empty")
def test_the_entry_is_what_the_preset_says():
    for name, entry in shelf.entries().items():
        folder, told = shelf.find(name)
        assert entry["bytes"] == files.size(folder)
        assert entry["metrics"]["accuracy"] == told["facts"]["metrics"]["accuracy"]
        text = json.dumps(told, ensure_ascii=False)
        assert "/opt" not in text and "/tmp" not in text and "/work" not in text
