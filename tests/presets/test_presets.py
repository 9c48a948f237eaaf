"""A model put on the shelf and taken down again, whole, damaged, or with a new head."""

import json
import pickle
import re

import numpy as np
import pytest

from residual_keras import (
    describe_preset,
    list_presets,
    load_preset,
    save_to_preset,
)
from residual_keras.presets import files
from residual_keras.presets.card import card
from residual_keras.presets.measure import measure

TEXTS = ["a warm film", "", "dull, dull!", "nobody knows these words", "好看"]
FACTS = {
    "data": "letters",
    "licence": "mine",
    "size": "tiny",
    "command": "make it",
    "recipe": {"epochs": 3, "vocab_size": 20_000},
    "float32_accuracy": 0.75,
    "limits": ["It is small."],
    "mood": {"of the day": "fair"},
}


@pytest.fixture
def folder(model, tmp_path):
    return save_to_preset(model, tmp_path / "mine", FACTS)


def rewrite(folder, change):
    """Lets `change` have its way with what preset.json says, and seals it again."""
    path = folder / files.PRESET
    said = json.loads(path.read_text(encoding="utf-8"))
    change(said)
    if isinstance(said["sha256"], dict):
        said["sha256"][files.PRESET] = files.seal(said)
    path.write_bytes(files.written(said))


# --- there and back


def test_a_preset_is_the_same_by_name_in_a_new_process(shelf, model, new_process):
    folder = save_to_preset(model, shelf.ROOT / "tiny_mine", FACTS)
    shelf.enter("tiny_mine")
    here = load_preset("tiny_mine")
    code = (
        "import json, pathlib, sys\n"
        "from residual_keras.presets import shelf\n"
        "shelf.ROOT = pathlib.Path(sys.argv[1])\n"
        "import residual_keras as rk\n"
        "[name] = rk.list_presets('*mine')\n"
        "said = str(rk.describe_preset(name))\n"
        "early = {'tensorflow', 'keras', 'numpy'} & set(sys.modules)\n"
        "found = rk.load_preset(name).predict(json.loads(sys.argv[2])).tolist()\n"
        "print(json.dumps([name, said, sorted(early), found]))"
    )
    name, said, early, found = new_process(code, shelf.ROOT, json.dumps(TEXTS))
    assert name == "tiny_mine" and said == str(describe_preset(folder))
    assert early == [], "listing and describing answer at once"
    np.testing.assert_allclose(found, here.predict(TEXTS), atol=1e-6)
    # Half precision rounds, and does no more.
    np.testing.assert_allclose(found, model.predict(TEXTS), atol=2e-3)
    assert not np.array_equal(found, model.predict(TEXTS))


def test_each_weight_is_the_rounded_one(model, folder):
    loaded = load_preset(folder)
    assert loaded.label_names == model.label_names
    assert loaded.vectorizer.get_vocabulary() == model.vectorizer.get_vocabulary()
    pairs = zip(loaded.classifier.weights, model.classifier.weights, strict=True)
    for found, right in pairs:
        assert found.path == right.path and found.dtype == "float32"
        rounded = np.asarray(right).astype("float16").astype("float32")
        np.testing.assert_array_equal(found, rounded, err_msg=found.path)


def test_saved_again_it_is_the_same_file(folder, tmp_path):
    again = save_to_preset(load_preset(folder), tmp_path / "again")
    assert (again / "weights.npz").read_bytes() == (folder / "weights.npz").read_bytes()


def test_a_count_is_kept_exactly(make, tmp_path):
    model = make(residual="prores")
    [steps] = model.classifier.non_trainable_weights
    steps.assign(1_000_003)
    loaded = load_preset(save_to_preset(model, tmp_path / "p")).classifier
    for found, right in zip(loaded.weights, model.classifier.weights, strict=True):
        assert np.array_equal(found, right) == found.path.endswith("/steps"), found.path


def test_a_frozen_weight_is_halved_too(make, tmp_path):
    model = make()
    trained = save_to_preset(model, tmp_path / "trained")
    model.classifier.trainable = False
    frozen = save_to_preset(model, tmp_path / "frozen")
    files = [folder / "weights.npz" for folder in (trained, frozen)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_model_trained_in_half_precision_computes_in_float32(make, tmp_path):
    model = make(dtype="mixed_bfloat16")
    model.classifier.compile("adam")
    loaded = load_preset(save_to_preset(model, tmp_path / "p")).classifier
    assert {layer.compute_dtype for layer in loaded.layers[1:]} == {"float32"}
    assert model.classifier.compiled and not loaded.compiled
    np.testing.assert_allclose(
        loaded(np.array([[2, 3, 0]])), model.classifier(np.array([[2, 3, 0]])), atol=0.1
    )


def test_without_weights_only_the_vocabulary_comes(folder, model):
    (folder / "weights.npz").unlink()
    fresh = load_preset(folder, load_weights=False)
    assert fresh.vectorizer.get_vocabulary() == model.vectorizer.get_vocabulary()
    kernels = [m.classifier.get_layer("logits").kernel for m in (fresh, model)]
    assert np.abs(np.subtract(*map(np.asarray, kernels))).min() > 1e-6


# --- heads and labels


@pytest.mark.parametrize(
    ("num_classes", "given", "labels"),
    [(3, None, ["0", "1", "2"]), (1, None, ["0", "1"]), (3, "xyz", ["x", "y", "z"])],
)
def test_a_new_head_on_all_the_rest(folder, num_classes, given, labels):
    whole, model = (
        load_preset(folder),
        load_preset(folder, num_classes=num_classes, label_names=given),
    )
    assert model.label_names == labels
    assert model.classifier.output_shape == (None, num_classes)
    for found, right in zip(
        model.classifier.weights[:-2], whole.classifier.weights[:-2], strict=True
    ):
        np.testing.assert_array_equal(found, right, err_msg=found.path)


def test_a_new_head_is_trained_and_saved(folder, tmp_path):
    model = load_preset(folder, num_classes=3)
    ids = model.vectorizer(TEXTS)
    model.classifier.compile("adam")
    before = model.classifier.get_weights()
    model.classifier.train_on_batch(ids, np.array([0, 1, 2, 0, 1]))
    after = model.classifier.get_weights()
    assert not any(map(np.array_equal, before[-2:], after[-2:]))
    again = load_preset(save_to_preset(model, tmp_path / "tuned"))
    assert again.label_names == ["0", "1", "2"]
    np.testing.assert_allclose(
        again.classifier(ids), model.classifier(ids), atol=2e-2, rtol=1e-3
    )


def test_the_same_number_of_classes_keeps_the_head(folder):
    right = load_preset(folder).predict(TEXTS)
    named = load_preset(folder, num_classes=2, label_names=["bad", "good"])
    assert named.label_names == ["bad", "good"]
    np.testing.assert_array_equal(named.predict(TEXTS), right)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_classes": 0}, "num_classes must be positive"),
        ({"num_classes": 2.5}, "num_classes must be a whole number"),
        ({"num_classes": True}, "num_classes must be a whole number"),
        ({"num_classes": 3, "label_names": "ab"}, "A head of 3 logits has 3 labels"),
        ({"label_names": "abc"}, "A head of 2 logits has 2 labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(folder, options, said):
    with pytest.raises(ValueError, match=said):
        load_preset(folder, **options)


@pytest.mark.parametrize(
    "preset", [7, None, ["tiny_pre_ln_imdb"], "", "~no_such_user/x"]
)
def test_what_is_no_name_is_refused(preset, model):
    for call in (load_preset, describe_preset, lambda at: save_to_preset(model, at)):
        with pytest.raises(ValueError, match="is told by its path. Received"):
            call(preset)


def test_a_pattern_is_a_string():
    with pytest.raises(ValueError, match="A pattern is a string"):
        list_presets(None)


@pytest.mark.parametrize("preset", ["tiny_pre_ln_imbd", "x" * 300])
def test_a_name_of_nothing_is_refused(preset):
    for call in (load_preset, describe_preset):
        with pytest.raises(ValueError, match=f"No preset '{preset}'"):
            call(preset)


# --- damage


def flip(folder):
    data = bytearray((folder / "weights.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "weights.npz").write_bytes(data)


def put_weights(folder, data):
    """Other weights, and their hash, as one who swaps both would."""
    (folder / "weights.npz").write_bytes(data)
    rewrite(folder, lambda s: s["sha256"].update({"weights.npz": files.digest(data)}))


def pickled(folder):
    with open(folder / "bad.npy", "wb") as file:
        np.save(file, np.array([{}], object), allow_pickle=True)
    with np.load(folder / "weights.npz") as stored:
        arrays = dict(stored)
    arrays[next(iter(arrays))] = np.array([{}], object)
    np.savez(folder / "bad.npz", **arrays)
    put_weights(folder, (folder / "bad.npz").read_bytes())


def one_less(folder):
    with np.load(folder / "weights.npz") as stored:
        arrays = dict(stored)
    arrays.popitem()
    np.savez(folder / "bad.npz", **arrays)
    put_weights(folder, (folder / "bad.npz").read_bytes())


def turned(folder):
    with np.load(folder / "weights.npz") as stored:
        arrays = dict(stored)
    last = [name for name in arrays if name.endswith("logits/kernel")][0]
    arrays[last] = arrays[last].T
    np.savez(folder / "bad.npz", **arrays)
    put_weights(folder, (folder / "bad.npz").read_bytes())


def of_another_class(folder):
    rewrite(folder, lambda s: s.update(model=s["model"]["config"]["vectorizer"]))


def unknown_scheme(folder):
    def change(said):
        text = json.dumps(said).replace('"residual": "pre_ln"', '"residual": "of_mine"')
        said.update(json.loads(text))

    rewrite(folder, change)


def other_labels(folder):
    text = (folder / "preset.json").read_text(encoding="utf-8")
    assert text.count('"dull"') > 1
    text = text.replace('"dull"', '"dumb"')
    (folder / "preset.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "file", "said"),
    [
        (flip, "weights.npz", "SHA-256 differs"),
        (lambda f: (f / "weights.npz").unlink(), "weights.npz", "No such file"),
        (other_labels, "preset.json", "SHA-256 differs"),
        (lambda f: (f / "preset.json").unlink(), "preset.json", "No such file"),
        (lambda f: (f / "preset.json").write_text("{"), "preset.json", "damaged"),
        (lambda f: (f / "preset.json").write_text("[]"), "preset.json", "damaged"),
        (
            lambda f: (f / "preset.json").write_bytes(b"\xff\xfe"),
            "preset.json",
            "damaged",
        ),
        (lambda f: rewrite(f, lambda s: s.pop("model")), "preset.json", "damaged"),
        (lambda f: rewrite(f, lambda s: s.update(sha256=1)), "preset.json", "damaged"),
        (lambda f: rewrite(f, lambda s: s.update(format=2)), "preset.json", "newer"),
        (lambda f: put_weights(f, b"PK"), "weights.npz", "no .npz"),
        (pickled, "weights.npz", "no .npz"),
        (one_less, "weights.npz", "weights of"),
        (turned, "weights.npz", "logits/kernel has the shape"),
        (of_another_class, "preset.json", "no TextClassifier"),
        (unknown_scheme, "preset.json", "of_mine"),
    ],
)
def test_a_damaged_preset_is_refused_by_the_file_s_name(folder, damage, file, said):
    damage(folder)
    with pytest.raises(ValueError, match=".*") as error:
        load_preset(folder)
    message = str(error.value)
    assert str(folder / file) in message and said in message
    assert re.search("again|Install|import", message), "what to do"
    assert len(message) < 600


def test_the_card_is_its_owner_s_to_write_on(folder):
    right = load_preset(folder).predict(TEXTS)
    (folder / "README.md").write_text("My own words.", encoding="utf-8")
    np.testing.assert_array_equal(load_preset(folder).predict(TEXTS), right)


@pytest.mark.parametrize("name", ["preset.json", "README.md", "weights.npz"])
def test_a_preset_that_lacks_a_file_is_not_described(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"A preset needs .*{name}"):
        describe_preset(folder)


@pytest.mark.parametrize(("part", "name"), [("made", "labels"), ("made", "parameters")])
def test_a_preset_that_lacks_a_fact_is_not_described(folder, part, name):
    rewrite(folder, lambda said: said[part].pop(name))
    with pytest.raises(ValueError, match="is no preset, or damaged"):
        describe_preset(folder)


@pytest.mark.parametrize("facts", [{"metrics": None}, 1])
def test_facts_of_another_kind_are_not_described(folder, facts):
    rewrite(folder, lambda said: said.update(facts=facts))
    with pytest.raises(ValueError, match="is no preset, or damaged"):
        describe_preset(folder)


def test_a_preset_json_of_the_shelf_is_checked_too(shelf, model):
    save_to_preset(model, shelf.ROOT / "a")
    shelf.enter("a")
    rewrite(shelf.ROOT / "a", lambda said: said["facts"].update(data="other"))
    with pytest.raises(ValueError, match=r"preset\.json is not the file that was"):
        describe_preset("a")
    shelf.enter("a")
    assert describe_preset("a").data == "other"


def test_no_code_runs_from_a_preset(folder, tmp_path):
    mark = tmp_path / "ran"
    call = {"module": "os", "class_name": "mkdir", "config": {"path": str(mark)}}
    rewrite(folder, lambda s: s["model"]["config"].update(vectorizer=call))
    with pytest.raises(ValueError, match="cannot be built"):
        load_preset(folder)
    assert not mark.exists()


# --- what cannot be saved


@pytest.mark.parametrize(
    "facts",
    [
        {"loss": float("nan")},
        {"data": pickle},
        ["data"],
        {"metrics": 0.9},
        {"limits": "small"},
    ],
)
def test_facts_must_be_plain(model, tmp_path, facts):
    with pytest.raises(ValueError, match="Facts are a dict"):
        save_to_preset(model, tmp_path / "p", facts)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "facts",
    [
        {"about": 5},
        {"behaviour": {"negation": 1}},
        {"behaviour": {"negation": {"cases": 3}}},
        {"metrics": {"calibration": [{}]}},
        {"metrics": {"confusion": [[1]]}},
        {"metrics": {"accuracy": "high"}, "float32_accuracy": 0.9},
    ],
)
def test_facts_must_fit_their_place_on_the_card(model, tmp_path, facts):
    with pytest.raises(ValueError, match="Facts that a card has a place for"):
        save_to_preset(model, tmp_path / "p", facts)
    assert not any(tmp_path.iterdir())


def test_what_cannot_be_a_preset_is_refused(make, model, folder, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="is there already"):
        save_to_preset(model, folder)
    with pytest.raises(ValueError, match="Received: Classifier"):
        save_to_preset(model.classifier, tmp_path / "p")
    with pytest.raises(ValueError, match="Cannot write the preset"):
        save_to_preset(model, folder / "README.md" / "p")
    broken = make()
    kernel = broken.classifier.get_layer("logits").kernel
    kernel.assign(kernel * np.nan)
    with pytest.raises(ValueError, match="finite.*logits/kernel"):
        save_to_preset(broken, tmp_path / "p")
    assert sorted(tmp_path.rglob("*")) == before


# --- the card


def test_the_card_tells_what_is_known(shelf, model, split):
    metrics = measure(model, split)
    behaviour = {
        "negation": {"kind": "minimum functionality", "cases": 12, "passed": 7},
        "upper case": {"kind": "invariance", "cases": 8, "passed": 8},
    }
    facts = {**FACTS, "metrics": metrics, "behaviour": behaviour}
    folder = save_to_preset(model, shelf.ROOT / "mine", facts)
    shelf.enter("mine")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# mine\n")
    rows = metrics["confusion"]
    for part in (
        "- data: letters\n- licence: mine\n- source: Not said.\n",
        "```bash\nmake it\n```",
        "| epochs | 3 |",
        f"| vocab_size | {model.vectorizer.vocab_size} |",
        f"| accuracy | {metrics['accuracy']:.4g} |",
        f"| dull | {rows[0][0]} | {rows[0][1]} |\n| fine | {rows[1][0]} |",
        f"half precision changes it by {metrics['accuracy'] - 0.75:+.5f}",
        "- It is small.\n",
        "arXiv:2002.04745",
        "| mood of the day | fair |",
    ):
        assert part in text, part
    assert text.count("\n| 0.") == len(metrics["calibration"])
    assert "It passes 15 of 20 small tests" in text
    assert "| negation | minimum functionality | 7 of 12 |" in text
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    told = {}
    exec(code, told)  # noqa: S102 - what the card tells readers to run
    right = load_preset(folder).predict(["A text."])
    np.testing.assert_array_equal(told["model"].predict(["A text."]), right)


def test_labels_leave_the_card_in_order(make, tmp_path):
    folder = save_to_preset(make(labels=["a|b", "c\nd"]), tmp_path / "p")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert r"of numbers: `a\|b`, `c d`." in text


def test_a_card_says_what_it_does_not_know(model, tmp_path):
    folder = save_to_preset(model, tmp_path / "p")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "- licence: Not said.\n" in text
    assert "## What it reaches\n\nNot said.\n" in text


@pytest.mark.parametrize("moved", [False, True], ids=["shipped", "moved"])
def test_the_shelf_is_in_order(request, model, moved):
    """Each folder is listed, whole, and its card is what preset.json makes of it."""
    from residual_keras.presets import shelf

    if moved:
        shelf = request.getfixturevalue("shelf")
        save_to_preset(model, shelf.ROOT / "mine", FACTS)
        shelf.enter("mine")
    folders = {path.parent.name for path in shelf.ROOT.glob("*/preset.json")}
    assert folders == set(list_presets()) == set(shelf.entries())
    for name in folders:
        folder, said = shelf.find(name)
        assert files.checked(folder, said)
        assert (folder / files.CARD).read_bytes() == card(said).encode("utf-8")
        assert shelf.entries()[name]["bytes"] == files.size(folder)
