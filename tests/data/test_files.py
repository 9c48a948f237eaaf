import bz2
import csv
import gzip
import io
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras.data import files

COMPRESSORS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
ROWS = [("It sparkles, mostly.", "good"), ("", "bad"), ("Two\u2028halves\x85", "good")]


def write(folder, name, content):
    """Write text or bytes, compressed as the name says."""
    if isinstance(content, str):
        content = content.encode("utf-8")
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    suffix = path.suffix if path.suffix in COMPRESSORS else ""
    path.write_bytes(COMPRESSORS[suffix](content))
    return path


def csv_of(rows, header=("text", "label")):
    file = io.StringIO(newline="")
    csv.writer(file).writerows([header, *rows])
    return file.getvalue()


def tsv_of(rows):
    return "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])


def jsonl_of(rows):
    return "".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows)


FORMATS = {".csv": csv_of, ".tsv": tsv_of, ".jsonl": jsonl_of, ".json": jsonl_of}


def pairs(rows):
    return [(row.text, row.label) for row in rows]


@pytest.mark.parametrize("compression", COMPRESSORS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_reads_each_format_and_compression(tmp_path, suffix, compression):
    path = write(tmp_path, f"films{suffix}{compression}", FORMATS[suffix](ROWS))
    rows = files.read_file(path)
    assert pairs(rows) == ROWS
    first_line = 1 if "json" in suffix else 2
    assert rows[2].place == f"{path}, line {first_line + 2}"
    assert files.read_texts(path) == [text for text, _ in ROWS]


def texts(forbidden):
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters=forbidden)
    return st.text(alphabet, max_size=30)


@pytest.mark.parametrize(
    "suffix, forbidden", [(".csv", "\0"), (".tsv", "\t\n\r"), (".jsonl", "")]
)
def test_any_text_survives(suffix, forbidden):
    @settings(deadline=None)
    @given(st.lists(st.tuples(texts(forbidden), st.sampled_from("ab")), min_size=1))
    def check(rows):
        with tempfile.TemporaryDirectory() as folder:
            path = write(folder, "any" + suffix, FORMATS[suffix](rows))
            assert pairs(files.read_file(path)) == rows

    check()


def test_csv_cells_may_span_lines_and_be_long(tmp_path):
    limit = csv.field_size_limit()
    rows = [("one\ntwo\r\nthree", "a"), ("x" * 200_000, "b"), ('so "called"', "a")]
    read = files.read_file(write(tmp_path, "long.csv", csv_of(rows)))
    assert pairs(read) == rows
    assert [row.place.split()[-1] for row in read] == ["2", "5", "6"]
    assert csv.field_size_limit() == limit


def test_tsv_knows_no_quotes(tmp_path):
    path = write(tmp_path, "q.tsv", 'text\tlabel\n"open\ta\n"so"\tb\n')
    assert pairs(files.read_file(path)) == [('"open', "a"), ('"so"', "b")]


@pytest.mark.parametrize("suffix", FORMATS)
def test_byte_order_mark_windows_line_ends_and_blank_lines(tmp_path, suffix):
    rows = [("fine", "a"), ("dull", "b")]
    content = FORMATS[suffix](rows).replace("\r", "").replace("\n", "\r\n") + "\r\n"
    path = write(tmp_path, "win" + suffix, "\ufeff" + content)
    assert pairs(files.read_file(path)) == rows


@pytest.mark.parametrize("columns", [(1, 0), ("1", "0")])
@pytest.mark.parametrize("suffix, mark", [(".tsv", "\t"), (".csv", ",")])
def test_columns_by_number_mean_no_header(tmp_path, suffix, mark, columns):
    path = write(tmp_path, "n" + suffix, f"0{mark}dull\n1{mark}fine\n")
    rows = files.read_file(path, text_column=columns[0], label_column=columns[1])
    assert pairs(rows) == [("dull", "0"), ("fine", "1")]
    assert rows[0].place.endswith("line 1")


def test_other_columns_are_passed_over(tmp_path):
    path = write(tmp_path, "w.csv", "id,stars,review\n7,5,fine\n8,1,dull\n")
    rows = files.read_file(path, text_column="review", label_column="stars")
    assert pairs(rows) == [("fine", "5"), ("dull", "1")]


def test_json_labels_become_strings(tmp_path):
    labels = [1, True, 2.5, " padded "]
    path = write(tmp_path, "l.jsonl", jsonl_of([("t", label) for label in labels]))
    assert [row.label for row in files.read_file(path)] == [
        "1",
        "true",
        "2.5",
        "padded",
    ]


@pytest.mark.parametrize(
    "name, content, parts",
    [
        ("a.csv", "", ["a.csv", "empty"]),
        ("a.csv", "text,label\n", ["a.csv", "empty"]),
        ("a.jsonl", "\n\n", ["a.jsonl", "empty"]),
        ("a.csv", "text,label\nx,a,b\n", ["line 2: 3 split at a comma", "Quote"]),
        ("a.tsv", "text\tlabel\nx\ta\nx a\n", ["line 3: 1 split at a tab"]),
        ("a.csv", 'text,label\nx,a\n"x,b\ny,a\n', ["line 3 on", "Close the quotes"]),
        ("a.csv", "review,stars\nx,1\n", ["['review', 'stars']", "text_column"]),
        ("a.csv", "fine,good\ndull,bad\n", ["['fine', 'good']", "label_column"]),
        (
            "a.csv",
            "text;label\nx;a\n",
            ["['text;label']", "1 column(s) split at a comma"],
        ),
        ("a.csv", "text,label,label\nx,a,a\n", ["'label', once"]),
        ("a.csv", "text,label\nx,a\ny, \n", ["line 3: label=' '"]),
        ("a.tsv", "text\tlabel\nx\t\n", ["line 2: label=''"]),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text"\n', ["line 2:", "column"]),
        ("a.json", '[{"text": "x"}]\n', ["line 1: a list", "one {...} a line"]),
        ("a.jsonl", '{"txt": "x", "label": 1}', ["line 1: keys ['txt', 'label']"]),
        ("a.jsonl", '{"text": 3, "label": 1}', ["line 1: 3", "string"]),
        ("a.jsonl", '{"text": null, "label": 1}', ["line 1: None"]),
        ("a.jsonl", '{"text": "\\ud83d", "label": 1}', ["line 1: ", "surrogate"]),
        ("a.jsonl", '{"text": "x", "label": null}', ["line 1: label=None"]),
        ("a.jsonl", "[" * 100_000, ["line 1: "]),
        ("a.csv", b"text,label\nx,a\ncaf\xe9,b\n", ["line 3, byte 4: 0xe9", "UTF-8"]),
        ("a.csv", "text,label\n".encode("utf-16"), ["line 1, byte 1: 0xff", "UTF-8"]),
        ("a.parquet", "x", ["a.parquet", ".csv, .tsv, .jsonl, .json", ".gz"]),
        ("a.gz", "x", ["a.gz", ".csv"]),
    ],
)
def test_malformed_files_are_refused(tmp_path, name, content, parts):
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError) as caught:
        files.read_file(path)
    for part in [f"Received: {path}", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"not " + b])
def test_damaged_archives_are_refused(tmp_path, suffix, damage):
    path = write(tmp_path, f"a.csv{suffix}", csv_of(ROWS))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"is whole. Received: .*a\.csv"):
        files.read_file(path)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"text_column": 0}, "text_column=0, label_column='label'"),
        ({"text_column": 0, "label_column": 2}, "needs the column 2, once"),
        ({"text_column": 0, "label_column": -1}, "needs the column -1, once"),
        ({"text_column": "label"}, "two columns"),
    ],
)
def test_wrong_columns_are_refused(tmp_path, columns, message):
    path = write(tmp_path, "a.csv", csv_of(ROWS))
    with pytest.raises(ValueError, match=message):
        files.read_file(path, **columns)


def test_a_missing_path_is_refused(tmp_path):
    for read in (files.read_file, files.read_folder, files.read_texts, files.load):
        with pytest.raises(ValueError, match=r"must exist. Received: .*gone"):
            read(tmp_path / "gone")


def test_reads_class_folders(tmp_path):
    write(tmp_path, "pos/2.txt", "fine\n")
    write(tmp_path, "pos/10.txt.gz", "\ufeffgood\r\n")
    write(tmp_path, "neg/1.txt", "dull\n\nlong\n")
    write(tmp_path, "neg/.hidden", "x")
    write(tmp_path, "__MACOSX/1.bin", "x")
    write(tmp_path, "README.md", "x")
    rows = files.read_folder(tmp_path)
    assert pairs(rows) == [("dull\n\nlong", "neg"), ("good", "pos"), ("fine", "pos")]
    assert rows[0].place == str(tmp_path / "neg" / "1.txt")


@pytest.mark.parametrize(
    "name, message",
    [
        ("1.txt", "without sub-folders"),
        ("train/neg/1.txt", "train with folders inside"),
        ("neg/1.html", r"can be read here: \.txt.*1\.html"),
        ("neg/.hidden", "neg with no file"),
    ],
)
def test_folders_of_another_shape_are_refused(tmp_path, name, message):
    write(tmp_path, name, "x")
    with pytest.raises(ValueError, match=message):
        files.read_folder(tmp_path)


def test_reads_bare_texts(tmp_path):
    path = write(tmp_path, "t.txt.xz", "one\n\ntwo\u2028halves\nthree")
    assert files.read_texts(path) == ["one", "", "two\u2028halves", "three"]
    path = write(tmp_path, "t.tsv", "text\none\n\nthree\n")
    assert files.read_texts(path) == ["one", "", "three"]
    path = write(tmp_path, "n.tsv", "a\tone\n")
    assert files.read_texts(path, text_column=1) == ["one"]
    with pytest.raises(ValueError, match=r"empty\.txt, empty"):
        files.read_texts(write(tmp_path, "empty.txt", ""))


def many(labels, count=10):
    return [(f"{label} number {i}", label) for i in range(count) for label in labels]


def test_load_cuts_a_share_off_for_validation(tmp_path):
    path = write(tmp_path, "my.films.csv.gz", csv_of(many(["10", "9", "b", "-1"])))
    test = write(tmp_path, "test.jsonl", jsonl_of([("new", 9)]))
    data = files.load(path, test=test, validation=0.2)
    assert data.name == "my.films"
    assert data.label_names == ("-1", "9", "10", "b")
    assert np.bincount(data.train.labels).tolist() == [8] * 4
    assert np.bincount(data.validation.labels).tolist() == [2] * 4
    for text, label in zip(data.train.texts, data.train.labels, strict=True):
        assert text.split()[0] == data.label_names[label]
    assert (data.test.texts, data.test.labels.tolist()) == (["new"], [1])
    assert files.load(path, validation=0.2).test is None
    other = files.load(path, validation=0.2, seed=1)
    assert other.validation.texts != data.validation.texts


def test_load_takes_folders_and_a_validation_set(tmp_path):
    for text, label in many(["bad", "good"], 3):
        write(tmp_path, f"train/{label}/{text}.txt", text)
    validation = write(tmp_path, "v.tsv", "good\tfine\n")
    data = files.load(
        tmp_path / "train", validation=str(validation), text_column=1, label_column=0
    )
    assert (data.name, len(data.train)) == ("train", 6)
    assert data.validation.labels.tolist() == [1]


def test_load_names_an_unknown_label_and_the_nearest(tmp_path):
    path = write(tmp_path, "train.csv", csv_of(many(["positive", "negative"])))
    other = write(tmp_path, "v.csv", csv_of([("x", "positive"), ("y", "Negative")]))
    for role in ("validation", "test"):
        with pytest.raises(ValueError) as caught:
            files.load(path, **{role: other})
        message = str(caught.value)
        assert f"{other}, line 3: label='Negative'" in message
        assert "nearest known label is 'negative'" in message


def test_load_refuses_one_class_and_classes_too_small_to_split(tmp_path):
    path = write(tmp_path, "one.csv", csv_of(many(["good"])))
    with pytest.raises(ValueError, match=r"only the label 'good' in .*one\.csv"):
        files.load(path)
    path = write(tmp_path, "small.csv", csv_of([*many(["good"]), ("x", "rare")]))
    with pytest.raises(ValueError, match=r"class 1 \('rare'\) with 1"):
        files.load(path)


def test_texts_to_pretrain_on_need_no_label(tmp_path):
    for name, content in {
        "b.txt": "It sparkles.\n",
        "good/a.txt": "Two\u2028halves",
        "good/c.txt": "",
        ".hidden.txt": "no",
        "good/.hidden/d.txt": "no",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path, name, content)
    found = files.read_unlabelled(tmp_path)
    assert found == ["It sparkles.", "Two\u2028halves", ""]
    write(tmp_path, "lines.txt", "one\n\ntwo\u2028still two\n")
    assert files.read_unlabelled(tmp_path / "lines.txt") == [
        "one",
        "",
        "two\u2028still two",
    ]
    write(tmp_path, "rows.csv", "body,stars\nfine,\ndull,2\n")
    found = files.read_unlabelled(tmp_path / "rows.csv", text_column="body")
    assert found == ["fine", "dull"]
    with pytest.raises(ValueError, match=r"rows.csv"):
        files.read_unlabelled(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty"):
        files.read_unlabelled(tmp_path / "empty")


def test_importing_files_leaves_tensorflow_out():
    code = (
        "import residual_keras.data.files, sys; sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif("RESIDUAL_KERAS_DATA" not in os.environ, reason="no data folder")
def test_reads_real_reviews():
    folder = pathlib.Path(os.environ["RESIDUAL_KERAS_DATA"], "imdb_small")
    data = files.load(
        folder / "train.tsv.gz",
        test=folder / "test.tsv.gz",
        text_column=1,
        label_column=0,
    )
    assert data.label_names == ("0", "1")
    assert len(data.train) + len(data.validation) == 2000
    assert len(data.test) == 1000
    assert not set(data.train.texts) & set(data.validation.texts)
