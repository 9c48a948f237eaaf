"""The exported SavedModel, asked in a process without Keras and this package."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from residual_keras import export_saved_model, load_model
from residual_keras.export import claim_version, versions

TEXTS = [
    "The plot was superb!",
    "",
    "the cast felt dull " * 200,
    "好看 😀 <br /> don't",
    *(f"the music seemed number {i}" for i in range(996)),
]

CLIENT = """
import sys
sys.modules["keras"] = None  # importing it raises, as if it were not installed
import numpy as np, json
import tensorflow as tf
folder, texts, out = sys.argv[1:]
texts = json.load(open(texts, encoding="utf-8"))
model = tf.saved_model.load(folder)
text, ids = model.signatures["serving_default"], model.signatures["token_ids"]
many = text(text=tf.constant(texts))
one = [text(text=tf.constant([t]))["probabilities"][0] for t in texts[:4]]
none = text(text=tf.constant([], tf.string))
some = ids(token_ids=tf.constant([[5, 6, 7, 0, 0], [3, 0, 0, 0, 0]]))
try:
    ids(token_ids=tf.ones((1, 999), tf.int32))
    refusal = ""
except tf.errors.InvalidArgumentError as error:
    refusal = str(error)
np.savez(out, many=many["probabilities"], label=many["label"].numpy().astype("U"),
         one=one, none=none["probabilities"], no_label=none["label"].shape,
         some=some["probabilities"], refusal=refusal,
         inputs=[str(f.structured_input_signature[1]) for f in (text, ids)],
         dtypes=[str(s) for s in text.structured_outputs.values()])
assert "residual_keras" not in sys.modules and sys.modules["keras"] is None
"""


@pytest.fixture(scope="module")
def model(whole_run):
    return load_model(whole_run[0] / "model.keras")


@pytest.fixture(scope="module")
def answers(whole_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    (folder / "client.py").write_text(CLIENT, encoding="utf-8")
    (folder / "texts.json").write_text(json.dumps(TEXTS), encoding="utf-8")
    command = ["client.py", whole_run[0] / "export" / "1", "texts.json", "out.npz"]
    subprocess.run([sys.executable, *command], cwd=folder, check=True)
    return np.load(folder / "out.npz")


def test_a_clean_process_gets_what_the_model_gives(model, answers):
    expected = model.predict(TEXTS)
    np.testing.assert_allclose(answers["many"], expected, atol=1e-5)
    np.testing.assert_allclose(answers["one"], expected[:4], atol=1e-5)
    assert answers["none"].shape == (0, 2) and answers["no_label"] == (0,)
    names = np.array(model.label_names)
    assert (answers["label"] == names[expected.argmax(1)]).all()
    ids = np.array([[5, 6, 7, 0, 0], [3, 0, 0, 0, 0]], "int32")
    np.testing.assert_allclose(answers["some"], model.probabilities(ids), atol=1e-5)


def test_the_signatures_have_the_names_and_types_that_are_promised(answers):
    text, ids = answers["inputs"]
    assert "'text'" in text and "tf.string" in text and "shape=(None,)" in text
    assert "'token_ids'" in ids and "tf.int32" in ids and "shape=(None, None)" in ids
    assert any("(None, 2)" in d and "float32" in d for d in answers["dtypes"])


def test_too_many_ids_are_refused_by_both_lengths(answers):
    assert "512" in str(answers["refusal"]) and "999" in str(answers["refusal"])


def test_weights_are_stored_once(model, whole_run):
    folder = whole_run[0] / "export" / "1" / "variables"
    stored = sum(path.stat().st_size for path in folder.glob("variables.data*"))
    assert stored < 1.2 * 4 * model.classifier.count_params()


def test_each_export_is_a_version_of_its_own(model, tmp_path):
    (tmp_path / "m" / "7").mkdir(parents=True)
    (tmp_path / "m" / "notes").mkdir()
    path = export_saved_model(model, f"{tmp_path}/m/")
    assert path == tmp_path / "m" / "8"
    assert sorted(p.name for p in path.parent.iterdir()) == ["7", "8", "notes"]
    assert versions(path.parent) == [7, 8]


def test_a_folder_that_someone_else_fills_meanwhile_is_left_alone(tmp_path):
    beside = tmp_path / ".writing"
    beside.mkdir()
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "theirs").touch()
    real = pathlib.Path.rename

    def rename(self, target):  # 2 appears between the look and the rename
        if pathlib.Path(target).name == "2" and not pathlib.Path(target).exists():
            pathlib.Path(target).mkdir()
            (pathlib.Path(target) / "theirs").touch()
        return real(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pathlib.Path, "rename", rename)
        assert claim_version(beside, tmp_path).name == "3"
    assert (tmp_path / "2" / "theirs").exists()


def test_a_file_in_the_way_is_named(model, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="Received: base='.*file'"):
        export_saved_model(model, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b""


def test_a_failed_export_leaves_no_version(model, tmp_path, monkeypatch):
    def fail(module, path, signatures):
        pathlib.Path(path).mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(ValueError, match="No space left"):
        export_saved_model(model, tmp_path)
    assert versions(tmp_path) == []
