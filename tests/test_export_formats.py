"""Each export in its own runtime, by what its model card says; and what is refused."""

import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import (
    TextClassifier,
    TextVectorizer,
    build_classifier,
    build_ngram_classifier,
)
from residual_keras.export import FORMATS, base, export_model
from residual_keras.export.folder import versions
from residual_keras.export.tokenizer import READER, write_tokenizer

IDS_FORMATS = sorted(set(FORMATS) - {"saved_model"})
STORED = {"float16": {"half_precision": True}, "int8": {"quantize": True}}


def make_model(num_classes=3, max_len=11, truncation="head_tail", **options):
    """A classifier whose weights are off their first values."""
    vectorizer = TextVectorizer(100, max_len, truncation)
    vectorizer.adapt(["the plot was superb, and the cast don't feel dull: 好看 😀 !!!"])
    sizes = {"num_layers": 1, "embed_dim": 14, "num_heads": 2, "max_len": max_len}
    classifier = build_classifier(
        vectorizer.vocab_size, num_classes, **{**sizes, **options}
    )
    for seed, weight in enumerate(classifier.trainable_variables):
        weight.assign_add(keras.random.normal(weight.shape, 0, 0.2, seed=seed))
    names = ["bad", "so so", "good"] if num_classes > 1 else ["no", "yes"]
    return TextClassifier(classifier, vectorizer, names)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    return make_model(activation="gelu")  # whose erfc ONNX does not know


def need(name):
    for library in FORMATS[name].libraries:
        pytest.importorskip(library)


def blocks(folder):
    """The Python of a model card."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", IDS_FORMATS)
def test_the_card_s_code_gives_what_the_model_gives(model, tmp_path, monkeypatch, name):
    need(name)
    found = export_model(model, tmp_path / "out", name, facts={"data": "a | b"})
    assert found.path == tmp_path / "out" / "1"
    assert found.cost == pytest.approx(found.difference) and found.difference < 1e-5
    files = {path.name for path in found.path.iterdir()}
    assert files > {"README.md", "tokenizer.json"}
    text = (found.path / "README.md").read_text(encoding="utf-8")
    assert r"| data | a \| b |" in text and "`bad`, `so so`, `good`" in text
    assert "`token_ids` int32 (None, None)" in text
    assert "`probabilities` float32 (None, 3)" in text
    monkeypatch.chdir(found.path)
    scope = {}
    for block in blocks(found.path):
        exec(compile(block, "README.md", "exec"), scope)  # noqa: S102
    expected = model.predict(scope["texts"])
    np.testing.assert_allclose(scope["probabilities"], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["onnx", "litert"])
def test_runs_of_words_keep_their_hashes(model, tmp_path, name):
    need(name)
    vectorizer = model.vectorizer
    classifier = build_ngram_classifier(
        vectorizer.vocab_size, 3, order=3, buckets=2**21
    )
    for seed, weight in enumerate(classifier.weights):
        weight.assign(keras.random.normal(weight.shape, seed=seed))
    votes = TextClassifier(classifier, vectorizer, ["bad", "so so", "good"])
    assert export_model(votes, tmp_path / "out", name).difference < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", FORMATS)
def test_weights_in_fewer_bits_take_less_and_change_little(tmp_path, name, stored):
    need(name)
    argument = next(iter(STORED[stored]))
    model = make_model(embed_dim=64, ff_dim=512)
    whole = export_model(model, tmp_path, name)
    if argument in FORMATS[name].refused:
        with pytest.raises(ValueError, match=f"not exported with {argument}"):
            export_model(model, tmp_path, name, **STORED[stored])
        assert versions(tmp_path) == [1]
        return
    small = export_model(model, tmp_path, name, **STORED[stored])
    assert small.difference < 1e-4 < small.cost < 0.05
    bytes_a_weight = {"float16": 2, "int8": 1}[stored]
    spared = whole.size - small.size
    assert spared > 0.8 * (4 - bytes_a_weight) * model.classifier.count_params()


# Letters that are younger than TensorFlow's tables have no lower case there.
YOUNG = "ⰯꟀꟐꟖꟘ"
TRICKY = [
    "😀🏽 👨\u200d👩\u200d👧 🇩🇪",
    "Don't MISS it!!!<br />好看",
    "ΣΑΣ İstanbul",
    "café e\u0301",
    "the plot " * 9,
    "a\x00b\x85c",
]


CHARACTERS = st.characters(
    max_codepoint=0x1056F, exclude_characters=YOUNG, codec="utf-8"
)
TEXTS = st.text(CHARACTERS, max_size=20) | st.sampled_from(TRICKY)


@given(st.lists(TEXTS, min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_the_reader_makes_the_vectoriser_s_ids(reader, texts):
    vectorizer, token_ids = reader
    expected = vectorizer(texts).numpy()
    for text, row in zip(texts, expected, strict=True):
        ids = token_ids(text)
        assert ids == row[: len(ids)].tolist() and not row[len(ids) :].any(), text


@pytest.fixture(scope="module", params=["head", "tail", "head_tail"])
def reader(request, tmp_path_factory):
    """A vectoriser, and the model card's function that stands in for it."""
    folder = tmp_path_factory.mktemp("reader")
    model = make_model(truncation=request.param)
    write_tokenizer(model, folder)
    scope = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(READER, "README.md", "exec"), scope)  # noqa: S102
    return model.vectorizer, scope["token_ids"]


def test_what_was_trained_in_half_precision_computes_in_float32(tmp_path):
    model = make_model(dtype="mixed_bfloat16")
    found = export_model(model, tmp_path)
    assert found.difference < 1e-5 < found.cost < 0.05
    assert model.classifier.get_layer("encoder").compute_dtype == "bfloat16"


@pytest.mark.parametrize("shift", [2e-4, np.nan])
def test_what_differs_is_deleted(model, tmp_path, monkeypatch, shift):
    load = FORMATS["saved_model"].load

    def shifted(self, path):
        run = load(self, path)
        return lambda texts, ids: [one + shift for one in run(texts, ids)]

    monkeypatch.setattr(FORMATS["saved_model"], "load", shifted)
    with pytest.raises(ValueError, match=r"differ by up to (0\.0002|nan)"):
        export_model(model, tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_a_converter_refuses_is_said_in_short(model, tmp_path, monkeypatch):
    def fail(self, module, path):
        raise RuntimeError("no such operator " * 99)

    monkeypatch.setattr(FORMATS["saved_model"], "write", fail)
    with pytest.raises(
        ValueError, match="cannot carry this model: RuntimeError: no such"
    ):
        export_model(model, tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", IDS_FORMATS)
def test_a_missing_library_is_named(model, tmp_path, monkeypatch, name):
    monkeypatch.setattr(base.importlib.util, "find_spec", lambda library: None)
    said = rf"needs {FORMATS[name].libraries[0]}.*'residual_keras\[{name}\]'"
    with pytest.raises(ValueError, match=said):
        export_model(model, tmp_path / "out", name)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "onxx"}, "Did you mean 'onnx'?"),
        ({"format": "onnx", "explain": True}, "not exported with explain"),
        ({"half_precision": True, "quantize": True}, "stored in one way"),
    ],
)
def test_what_cannot_be_asked(model, tmp_path, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        export_model(model, tmp_path / "out", **options)
    assert not any(tmp_path.iterdir())


def test_a_classifier_alone_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match="Received: a Classifier"):
        export_model(model.classifier, tmp_path / "out")


def test_weights_beyond_half_precision_are_refused(tmp_path):
    model = make_model()
    model.classifier.get_layer("logits").bias.assign([1.0, 7e4, 0.0])
    with pytest.raises(ValueError, match="ends at 65504.*70000"):
        export_model(model, tmp_path, half_precision=True)
    assert not any(tmp_path.iterdir())


def test_the_table_of_exports_covers_every_scheme_and_format():
    import csv

    from residual_keras import residuals

    path = pathlib.Path(__file__).parent.parent / "benchmarks" / "exports.csv"
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    of = {(row["scheme"], row["format"]) for row in rows if row["weights"] == "float32"}
    ours = [n for n, c in residuals.SCHEMES.items() if "residual_keras" in c.__module__]
    assert of >= {(scheme, name) for scheme in ours for name in FORMATS}
    for row in rows:
        if re.match(r"[\d.]+e", row["difference"]):
            assert float(row["difference"]) < 1e-4, row


@pytest.mark.slow
def test_the_benchmark_as_typed(tmp_path):
    script = pathlib.Path(__file__).parent.parent / "benchmarks" / "exports.py"
    flags = ["--schemes", "pre_ln", "--formats", "saved_model"]
    done = subprocess.run(
        [sys.executable, script, *flags, "--csv", tmp_path / "exports.csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "| `pre_ln` | saved_model | float32 | " in done.stdout
    assert done.stderr == "", "nothing tears the table"


@pytest.mark.slow
def test_stored_in_fewer_bits_as_typed(whole_run):
    script = pathlib.Path(__file__).parent.parent / "benchmarks" / "stored.py"
    done = subprocess.run(
        [sys.executable, script, whole_run[0], "--formats", "saved_model"],
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, *rows = done.stdout.splitlines()
    accuracy = f"{whole_run[1]['test']['accuracy']:.4f}"
    assert rows[0].startswith(f"| saved_model | float32 | {accuracy} | ")
    assert [row.split(" | ")[1] for row in rows] == ["float32", "float16", "int8"]


@pytest.mark.slow
def test_half_of_what_keras_stores(tmp_path):
    model = make_model(embed_dim=256)
    ours = export_model(model, tmp_path / "ours").path
    model.classifier.export(tmp_path / "keras", verbose=False)

    def stored(folder):
        files = (folder / "variables").glob("variables.data*")
        return sum(path.stat().st_size for path in files)

    sizes = stored(ours), stored(tmp_path / "keras")
    print(f"\nbytes of weights: ours {sizes[0]}, Keras' own export {sizes[1]}")
    assert sizes[0] < 0.55 * sizes[1]
