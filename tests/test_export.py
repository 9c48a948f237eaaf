"""The exported SavedModel, asked in a process without Keras and this package."""

import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.protobuf import saved_model_pb2

from residual_keras import (
    TextClassifier,
    TextVectorizer,
    build_classifier,
    export_saved_model,
    load_model,
)
from residual_keras.export.folder import claim_version, versions

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
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(ValueError, match="No space left"):
        export_saved_model(model, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_program_in_c_gets_the_same(model, whole_run, tmp_path):
    """No op is missing where Python has brought none: the graph has no custom op."""
    folder = whole_run[0] / "export" / "1"
    [graph] = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    ).meta_graphs
    signature = graph.signature_def["serving_default"]
    request = {
        "folder": str(folder),
        "texts": TEXTS[:7],
        "input": signature.inputs["text"].name,
        "probabilities": signature.outputs["probabilities"].name,
        "label": signature.outputs["label"].name,
    }
    (tmp_path / "request.json").write_text(json.dumps(request), encoding="utf-8")
    script = pathlib.Path(__file__).parent / "c_api.py"
    [library] = pathlib.Path(tf.__file__).parent.glob("libtensorflow_cc.so*")
    done = subprocess.run(
        [sys.executable, script, library, tmp_path / "request.json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    expected = model.predict(TEXTS[:7])
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    assert answer["label"] == [label for label, _ in model.classify(TEXTS[:7])]


@pytest.fixture(scope="module")
def small():
    """A model of 2 labels and one logit, without positions, and its explaining export.

    Its weights are stored as float16: the gradient has to find its way through that.
    """
    keras.utils.set_random_seed(7)
    vectorizer = TextVectorizer(vocab_size=50, max_len=5)
    vectorizer.adapt(["the plot was superb and the cast felt dull"])
    options = {"num_layers": 1, "embed_dim": 14, "num_heads": 2, "positions": "none"}
    classifier = build_classifier(vectorizer.vocab_size, 1, **options)
    for seed, weight in enumerate(classifier.trainable_variables):
        weight.assign_add(keras.random.normal(weight.shape, 0, 0.3, seed=seed))
        weight.assign(tf.cast(tf.cast(weight.value, tf.float16), tf.float32))
    return TextClassifier(classifier, vectorizer, ["no", "yes"])


@pytest.fixture(scope="module")
def loaded(small, tmp_path_factory):
    base = tmp_path_factory.mktemp("small")
    path = export_saved_model(small, base, half_precision=True, explain=True)
    return tf.saved_model.load(str(path)), path


def test_vectors_are_those_of_the_pooling(small, loaded):
    texts = ["the plot felt dull", "", "cast"]
    answer = loaded[0].signatures["embed"](text=tf.constant(texts))
    classifier = small.classifier
    pooled = keras.Model(classifier.inputs, classifier.get_layer("pooling").output)
    expected = pooled(small.vectorizer(texts))
    np.testing.assert_allclose(answer["embedding"], expected, atol=1e-5)


def test_attributions_are_what_a_longer_embedding_adds(small, loaded):
    """d logit / d log of a token's length, by a difference of two lengths."""
    texts = ["the plot was superb", "dull", "", "and the cast felt dull once more"]
    answer = loaded[0].signatures["explain"](text=tf.constant(texts))
    tokens = answer["tokens"].numpy().astype("U")
    assert tokens[0].tolist() == ["the", "plot", "was", "superb", ""]
    assert tokens[1].tolist() == ["dull", "", "", "", ""]
    assert tokens[3].tolist() == ["and", "the", "cast", "felt", "dull"], "truncated"
    found = answer["attributions"].numpy()
    assert found.shape == tokens.shape and not found[tokens == ""].any()
    table = small.classifier.get_layer("embedding").tokens.embeddings
    before = table.numpy()
    ids = small.vectorizer(texts).numpy()
    sign = np.where(small.classifier(ids).numpy()[:, 0] > 0, 0.5, -0.5)
    for row, column in [(0, 0), (0, 1), (0, 3), (1, 0), (3, 2)]:
        logits = []
        for factor in (1.01, 0.99):
            changed = before.copy()
            changed[ids[row, column]] *= factor
            table.assign(changed)
            logits.append(float(small.classifier(ids[row : row + 1])[0, 0]))
        table.assign(before)
        slope = sign[row] * (logits[0] - logits[1]) / 0.02
        assert found[row, column] == pytest.approx(slope, abs=2e-3, rel=1e-2)
    expected = small.predict(texts)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)


def test_explaining_needs_an_embedding(small, tmp_path):
    ids = keras.Input((None,), dtype="int32")
    counts = keras.layers.CategoryEncoding(small.vectorizer.vocab_size)(ids)
    bag = keras.Model(ids, keras.layers.Dense(1)(counts))
    model = TextClassifier(bag, small.vectorizer, ["no", "yes"])
    with pytest.raises(ValueError, match="a layer of the name embedding"):
        export_saved_model(model, tmp_path, explain=True)
    path = export_saved_model(model, tmp_path)
    text = (path / "README.md").read_text(encoding="utf-8")
    assert "`token_ids`" in text and "`embed`" not in text


def test_half_precision_is_half_the_size(small, loaded):
    [data] = (loaded[1] / "variables").glob("variables.data*")
    weights = small.classifier.count_params()
    assert data.stat().st_size < 2.2 * weights + 4000
    assert "float16" in (loaded[1] / "README.md").read_text(encoding="utf-8")


def test_the_server_is_warmed_up_by_every_signature(loaded):
    served, path = loaded
    asked = set()
    for data in warm_up_requests(path):
        log = message("PredictionLog").FromString(data)
        request = log.predict_log.request
        [(name, tensor)] = request.inputs.items()
        signature = served.signatures[request.model_spec.signature_name]
        value = tf.make_ndarray(TensorProto.FromString(tensor.SerializeToString()))
        signature(**{name: tf.constant(value)})
        asked.add(request.model_spec.signature_name)
    assert asked == set(served.signatures)


def test_tensorflow_serving_reads_the_warm_up(loaded):
    logs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    read = [logs.PredictionLog.FromString(data) for data in warm_up_requests(loaded[1])]
    names = {log.predict_log.request.model_spec.signature_name for log in read}
    assert names == set(loaded[0].signatures)
    assert not any(log.FindInitializationErrors() for log in read)


def warm_up_requests(path):
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    return [data.numpy() for data in tf.data.TFRecordDataset(str(file))]


def message(name):
    """A message of TensorFlow Serving, by the field numbers that its .proto files have.

    tensorflow_serving/apis/prediction_log.proto, predict.proto and model.proto.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="serving.proto", package="serving", syntax="proto3"
    )
    file.dependency.append("tensorflow/core/framework/tensor.proto")
    for owner, fields in {
        "PredictionLog": [("predict_log", 6, ".serving.PredictLog", 1)],
        "PredictLog": [("request", 1, ".serving.PredictRequest", 1)],
        "ModelSpec": [("signature_name", 3, None, 1)],
        "PredictRequest": [
            ("model_spec", 1, ".serving.ModelSpec", 1),
            ("inputs", 2, ".serving.PredictRequest.InputsEntry", 3),
        ],
    }.items():
        made = file.message_type.add(name=owner)
        for field, number, kind, label in fields:
            made.field.add(
                name=field,
                number=number,
                type=11 if kind else 9,
                type_name=kind,
                label=label,
            )
    entry = file.message_type[-1].nested_type.add(name="InputsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(
        name="value", number=2, type=11, type_name=".tensorflow.TensorProto", label=1
    )
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName(file.name)
    except KeyError:
        pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName(f"serving.{name}")
    return message_factory.GetMessageClass(found)
