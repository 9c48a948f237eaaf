import pathlib
import subprocess
import sys

import pytest

from residual_keras import data
from residual_keras.data import snippets


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"sentence {i},{'good' if i % 2 else 'bad'}" for i in range(40)]
    path.write_text("\n".join(["body,verdict", *lines, ""]), encoding="utf-8")
    return path


def test_options_in_the_spec_and_as_keywords_are_the_same():
    sizes = {"train_size": 40, "validation_size": 10, "test_size": 10}
    spec = "reviews(depth=1, train_size=40, validation_size=10, test_size=10)"
    one = data.load(spec, seed=3)
    two = data.load("reviews", seed=3, depth=1, **sizes)
    assert one.train.texts == two.train.texts
    assert len(one.train) == 40
    other = data.load(spec, seed=4)
    assert other.train.texts != one.train.texts


def test_options_in_the_spec_come_first():
    sizes = "train_size=40, validation_size=10, test_size=10"
    one = data.load(f"reviews({sizes}, seed=5)", seed=3)
    assert one.train.texts == data.load(f"reviews({sizes})", seed=5).train.texts


def test_unlabelled_texts_of_a_known_name_are_its_training_texts(table):
    spec = "reviews(depth=1, train_size=40, validation_size=10, test_size=10)"
    texts = data.load_unlabelled(spec, seed=3)
    assert texts == data.load(spec, seed=3).train.texts
    texts = data.load_unlabelled(table, text_column="body", seed=3)
    assert texts == [f"sentence {i}" for i in range(40)]
    with pytest.raises(ValueError, match="no option 'label_column'"):
        data.load_unlabelled(table, label_column="verdict")
    with pytest.raises(ValueError, match="no option 'path'"):
        data.load_unlabelled(spec, path="x")
    with pytest.raises(ValueError, match="no such path exists"):
        data.load_unlabelled("nowhere.txt")


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_path_of_a_file(table, kind):
    options = {"text_column": "body", "label_column": "verdict"}
    found = data.load(kind(table), validation=0.2, **options)
    assert found.label_names == ("bad", "good")
    assert (len(found.train), len(found.validation)) == (32, 8)


def test_tilde_is_the_home_folder(table, monkeypatch):
    monkeypatch.setenv("HOME", str(table.parent))
    monkeypatch.setenv("USERPROFILE", str(table.parent))
    options = {"text_column": "body", "label_column": "verdict"}
    assert len(data.load("~/rows.csv", **options).train) == 36


def test_a_file_may_be_named_as_a_browser_numbers_it(table, monkeypatch):
    table.rename(table.with_name("reviews(1).csv"))
    monkeypatch.chdir(table.parent)
    options = {"text_column": "body", "label_column": "verdict"}
    assert len(data.load("reviews(1).csv", **options).train) == 36


def test_validation_reaches_the_source(tmp_path):
    lines = [f"{i}\t{(-1) ** i}\tScene {i} works or not" for i in range(200)]
    path = tmp_path / snippets.CACHED_NAME
    path.write_text("\n".join(["id\tsentiment\ttext", *lines, ""]), encoding="utf-8")
    halved = data.load("snippets", validation=0.5, cache_dir=tmp_path)
    assert len(halved.validation) == pytest.approx(len(halved.train), abs=2)


def test_a_known_name_wins_over_a_path(tmp_path, monkeypatch):
    (tmp_path / "imdb").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="No IMDB reviews found"):
        data.load("imdb", path=tmp_path)
    with pytest.raises(ValueError, match="imdb") as error:
        data.load("./imdb")
    assert "IMDB" not in str(error.value)


@pytest.mark.parametrize("source", ["imbd", "imbd(path='x')"])
def test_unknown_name(source):
    with pytest.raises(ValueError, match="no such path exists.*mean 'imdb'.*snippets"):
        data.load(source)


@pytest.mark.parametrize("source", ["", "no/such.csv", "x" * 5000, "a\0b", None, 3])
def test_what_is_neither_a_name_nor_a_path(source):
    with pytest.raises(ValueError, match="Known: imdb, reviews, snippets"):
        data.load(source)


@pytest.mark.parametrize(
    "source", ["reviews(", "reviews(depth)", "reviews(depth=f(1))"]
)
def test_malformed_spec(source):
    with pytest.raises(ValueError, match=r"name\(option=value\)"):
        data.load(source)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("reviews(dept=3)", {}, "no option 'dept'.*mean 'depth'.*dept=3"),
        ("reviews", {"validation": 0.2}, "no option 'validation'.*validation_size"),
        ("snippets", {"path": "x"}, "no option 'path'.*Known: cache_dir, seed"),
        ("imdb", {"downlaod": True}, "mean 'download'.*path, seed, validation"),
    ],
)
def test_unknown_option(source, options, message):
    with pytest.raises(ValueError, match=message):
        data.load(source, **options)


@pytest.mark.parametrize("option", ["path", "column"])
def test_unknown_option_of_a_file(table, option):
    with pytest.raises(ValueError, match=f"rows.csv.*no option '{option}'.*text_col"):
        data.load(table, **{option: "body"})


def test_import_is_light():
    code = (
        "import sys, residual_keras.data;"
        "assert not {'tensorflow', 'keras', 'tensorflow_datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
