"""The command that makes a preset, with real training."""

import json
import pathlib
import runpy

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    from residual_keras.presets import shelf

    (tmp_path / "presets.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(shelf, "ROOT", tmp_path)
    return shelf


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(ROOT / "studies" / "zoo" / "make.py")


def test_an_unknown_preset_is_told_before_anything_is_done(script, tmp_path, capsys):
    run_dir = tmp_path / "run"
    status = script["main"](["small_pre_lm_imdb", "--run-dir", str(run_dir)])
    assert status == 2 and not run_dir.exists()
    assert "Did you mean 'small_pre_ln_imdb'?" in capsys.readouterr().err


def test_the_table_in_the_readme_is_up_to_date():
    table = runpy.run_path(ROOT / "studies" / "zoo" / "table.py")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table["page"](text) == text, "run python studies/zoo/table.py"


def test_a_table_has_a_row_a_scheme_and_a_column_a_size():
    table = runpy.run_path(ROOT / "studies" / "zoo" / "table.py")["table"]
    entries = {
        "linear": {"scheme": "", "size": None, "metrics": {"accuracy": 0.91}},
        "small_a": {"scheme": "a", "size": "small", "metrics": {"accuracy": 0.92}},
        "tiny_a": {"scheme": "a", "size": "tiny", "metrics": {"accuracy": 0.90}},
        "tiny_b": {"scheme": "b", "size": "tiny", "metrics": {"accuracy": 0.8994}},
    }
    lines = table(entries, {}).split("\n")
    assert lines[0] == "| scheme | tiny | small |"
    assert lines[2:4] == ["| `a` | 0.900 | 0.920 |", "| `b` | 0.899 |  |"]
    assert lines[4].endswith("`linear` | 0.910 |  |") and len(lines) == 5
    with_twins = table(entries, {"tiny": "0.861 ± 0.004"}).split("\n")
    assert with_twins[4].endswith("three seeds | 0.861 ± 0.004 |  |")
    assert with_twins[:4] + with_twins[5:] == lines


@pytest.mark.slow
def test_one_command_makes_a_preset(script, shelf, tmp_path, capsys, monkeypatch):
    import residual_keras as rk
    from residual_keras import data

    small = "reviews(depth=1, train_size=1000, validation_size=200, test_size=300)"
    asked = {"size": "tiny", "residual": "pre_ln", "data": small, "epochs": 2}
    name = "tiny_pre_ln_reviews"
    monkeypatch.setitem(script["PRESETS"], name, asked)
    monkeypatch.setitem(script["DATA"], "reviews", {"licence": "ours"})
    command = [name, "--run-dir", str(tmp_path / "run")]
    assert script["main"](command) == 0
    assert rk.list_presets() == [name]
    told = rk.describe_preset(name)
    assert (told.scheme, told.size) == ("pre_ln", "tiny")
    assert told.command == f"python studies/zoo/make.py {name}"
    assert told.metrics["texts"] == 300

    run = json.loads((tmp_path / "run" / "metrics.json").read_text())
    said = json.loads((tmp_path / name / "preset.json").read_text(encoding="utf-8"))
    assert said["facts"]["float32_accuracy"] == run["test"]["accuracy"]
    assert told.metrics["accuracy"] == pytest.approx(run["test"]["accuracy"], abs=0.01)
    assert told.metrics["loss"] == pytest.approx(run["test"]["loss"], abs=0.01)
    test = data.load(small).test
    found = rk.load_preset(name).predict(test.texts)
    assert (found.argmax(axis=1) == test.labels).mean() == told.metrics["accuracy"]
    assert str(tmp_path) not in (tmp_path / name / "README.md").read_text()
    assert "data_path" not in said["facts"]["recipe"]
    assert said["facts"]["recipe"]["embed_dim"] == script["SIZES"]["tiny"]["embed_dim"]

    capsys.readouterr()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert script["main"](command) == 0, "a second time it is there already"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
    assert name in capsys.readouterr().out

    monkeypatch.setitem(script["DATA"], "reviews", {"licence": "everybody's"})
    assert script["main"](command) == 0, "the card is brought up to date"
    assert rk.describe_preset(name).licence == "everybody's"
    assert "licence: everybody's" in (tmp_path / name / "README.md").read_text()
    weights = tmp_path / name / "weights.npz"
    assert weights.read_bytes() == before[weights]
    np.testing.assert_array_equal(rk.load_preset(name).predict(test.texts), found)

    monkeypatch.setitem(script["PRESETS"], name, {**asked, "epochs": 3})
    capsys.readouterr()
    assert script["main"](command) == 2, "it was made by another recipe"
    assert "another recipe" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_another_recipe_is_not_taken(script, shelf, whole_run, capsys):
    """`shelf` is empty, so the preset is not there."""
    name = "tiny_pre_ln_imdb"
    assert script["main"]([name, "--run-dir", str(whole_run[0])]) == 2
    assert "another recipe" in capsys.readouterr().err
