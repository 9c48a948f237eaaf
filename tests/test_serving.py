"""docs/serving.md: its commands and code run, and what they give stands on the page.

The servers are real, processes or threads, and are asked over this machine's loopback.
`pip install '.[test,serving]' && pytest -m serving` runs what needs them.
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import types
import urllib.error
import urllib.request

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.serving

ROOT = pathlib.Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^ *```(\w+)\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
TEXTS = [
    "The plot was superb.",
    "",
    "the cast felt dull " * 400,
    "好看 😀 <br /> don't \u0000 \" \\",
    *(f"the music seemed number {number}" for number in range(40)),
]


def shown(first, language):
    """The blocks that begin so, each with the block of a language that follows it."""
    following = [*BLOCKS[1:], ("", "")]
    return [
        pytest.param(code, answer if kind == language else None, id=code[-60:].strip())
        for (_, code), (kind, answer) in zip(BLOCKS, following, strict=True)
        if code.startswith(first)
    ]


def assert_is(found, expected, elided=r"-?[\d.]+(e-?\d+)?\s*"):
    """Asserts that an answer is that of the page, on which `...` stands for numbers."""
    pattern = re.escape(expected.strip()).replace(r"\.\.\.", elided)
    assert re.fullmatch(pattern, found.strip()), f"{found}\n{expected}"


def module(name):
    """A module of this repository, by its path."""
    return types.SimpleNamespace(**runpy.run_path(ROOT / name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page's first commands were typed."""
    folder = tmp_path_factory.mktemp("page")
    commands = BLOCKS[0][1].splitlines()
    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "residual-keras"
        command = [sys.executable, "-m", "residual_keras", *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    from residual_keras import load_model

    return load_model(folder / "runs" / "served" / "model.keras")


def need(*libraries):
    """Skips a test where a library is missing, without the seconds of an import."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install '.[serving]'")


@pytest.fixture(scope="module")
def kserve():
    need("kserve")


@pytest.fixture(scope="module")
def tensorflow_serving():
    need("grpc", "tensorflow_serving")


@pytest.fixture(scope="module", params=["alone", "batched"])
def server(kserve, folder, request):
    """The port of serving/kserve_server.py."""
    flags = ["--batch"] if request.param == "batched" else []
    serve = module("benchmarks/server_process.py").kserve_server
    with serve(folder / "served", *flags) as port:
        yield port


@pytest.fixture(scope="module")
def grpc_server(tensorflow_serving, folder):
    """The port of a PredictionService."""
    serve = module("tests/predict_service.py").predict_server
    with serve("classifier", folder / "served" / "1") as port:
        yield port


def ask(port, path, body=None, kind="application/json"):
    """Status and body of an answer."""
    data = (
        body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    )
    address = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(address, data, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(("command", "answer"), shown("curl", "json"))
def test_a_curl_line_gets_the_page_s_answer(server, command, answer):
    if not shutil.which("curl"):
        pytest.skip("there is no curl")
    words = shlex.split(command.replace("localhost:8080", f"127.0.0.1:{server}"))
    done = subprocess.run([*words, "-sS"], capture_output=True, text=True, check=True)
    if answer is None:
        assert 'request_predict_seconds_count{model_name="classifier"}' in done.stdout
    else:
        assert_is(done.stdout, answer)


WRONG = re.findall(
    r"^\| (.+?) \| (/v.+?) \| `(.+?)` \| (\d+) \| `(.+?)` \|$", PAGE, re.MULTILINE
)


@pytest.mark.parametrize(("wrong", "path", "body", "status", "answer"), WRONG)
def test_a_wrong_request_gets_the_page_s_answer(
    server, wrong, path, body, status, answer
):
    kind = "application/x-www-form-urlencoded" if "curl -d" in wrong else None
    data = body.encode().decode("unicode_escape").encode("latin-1")
    found = ask(server, path, data, kind or "application/json")
    assert found[0] == int(status)
    assert_is(found[1], answer, elided=".*")


def test_the_health_check_is_one_that_bash_can_make(server):
    """TensorFlow Serving says AVAILABLE where KServe says true."""
    [check] = [code.strip() for _, code in BLOCKS if code.strip().startswith("exec 3")]
    check = check.replace("8501", str(server)).replace("AVAILABLE", "true")
    for name, status in {"classifier": 0, "other": 1}.items():
        code = check.replace("models/classifier", f"models/{name}")
        assert subprocess.run(["bash", "-c", code]).returncode == status


def test_every_form_gets_what_the_model_gives(server, model):
    expected = model.predict(TEXTS)
    labels = [label for label, _ in model.classify(TEXTS)]

    def check(found, label):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert label == labels

    predict = "/v1/models/classifier:predict"
    for rows in (TEXTS, [{"text": text} for text in TEXTS]):
        status, answer = ask(server, predict, {"instances": rows})
        assert status == 200
        rows = json.loads(answer)["predictions"]
        check([r["probabilities"] for r in rows], [r["label"] for r in rows])
    for column in (TEXTS, {"text": TEXTS}):
        status, answer = ask(server, predict, {"inputs": column})
        assert status == 200
        columns = json.loads(answer)["outputs"]
        check(columns["probabilities"], columns["label"])
    one = {"name": "text", "datatype": "BYTES"}
    for shape in ([len(TEXTS)], [len(TEXTS), 1]):
        tensor = {**one, "shape": shape, "data": TEXTS}
        status, answer = ask(
            server, "/v2/models/classifier/infer", {"inputs": [tensor]}
        )
        assert status == 200
        tensors = {each["name"]: each for each in json.loads(answer)["outputs"]}
        found = tensors["probabilities"]
        check(np.reshape(found["data"], found["shape"]), tensors["label"]["data"])


def test_many_clients_at_once_get_each_their_own(server, model):
    from concurrent.futures import ThreadPoolExecutor

    predict = "/v1/models/classifier:predict"
    with ThreadPoolExecutor(16) as clients:
        answers = clients.map(
            lambda text: ask(server, predict, {"instances": [text]}), TEXTS
        )
        rows = [json.loads(answer)["predictions"] for _, answer in answers]
    found = [row["probabilities"] for [row] in rows]
    np.testing.assert_allclose(found, model.predict(TEXTS), atol=1e-5)


@pytest.mark.parametrize(("code", "answer"), shown("import tensorflow", "text"))
def test_the_python_prints_the_page_s_answer(folder, monkeypatch, code, answer):
    monkeypatch.chdir(folder)
    assert_is(printed(code), answer)


@pytest.mark.parametrize(("code", "answer"), shown("import grpc", "text"))
def test_grpc_prints_the_page_s_answer(grpc_server, code, answer):
    assert_is(printed(code.replace(":8500", f":{grpc_server}")), answer)


def printed(code):
    """What Python of the page prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "serving.md", "exec"), {})  # noqa: S102
    return said.getvalue()


@pytest.fixture
def predict(grpc_server):
    """Asks the PredictionService by its stub."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    with grpc.insecure_channel(f"127.0.0.1:{grpc_server}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        def ask(values, input="text", **spec):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = spec.pop("name", "classifier")
            request.model_spec.signature_name = spec.pop("signature", "")
            request.inputs[input].CopyFrom(tf.make_tensor_proto(values))
            found = stub.Predict(request, timeout=60).outputs
            return {name: tf.make_ndarray(found[name]) for name in found}

        ask.stub = stub
        yield ask


def test_predict_gives_what_the_model_gives(predict, model):
    answer = predict(TEXTS)
    np.testing.assert_allclose(answer["probabilities"], model.predict(TEXTS), atol=1e-5)
    expected = [label for label, _ in model.classify(TEXTS)]
    assert [label.decode() for label in answer["label"]] == expected
    ids = np.array([[5, 6, 7, 0, 0], [3, 0, 0, 0, 0]], "int32")
    answer = predict(ids, input="token_ids", signature="token_ids")
    np.testing.assert_allclose(
        answer["probabilities"], model.probabilities(ids), atol=1e-5
    )
    tokens = predict([b"caf\xe9 superb"], signature="explain")["tokens"]
    assert [token.decode() for token in tokens[0]] == ["caf", "\ufffd", "superb"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"values": ["a"], "name": "other"}, "NOT_FOUND"),
        ({"values": ["a"], "signature": "other"}, "NOT_FOUND"),
        ({"values": ["a"], "input": "texts"}, "INVALID_ARGUMENT"),
        ({"values": [1]}, "INVALID_ARGUMENT"),
        ({"values": [["a"]]}, "INVALID_ARGUMENT"),
        (
            {
                "values": np.ones((1, 513), "int32"),
                "input": "token_ids",
                "signature": "token_ids",
            },
            "INVALID_ARGUMENT",
        ),
    ],
)
def test_predict_refuses_what_the_graph_refuses(predict, request_, code):
    import grpc

    with pytest.raises(grpc.RpcError) as refused:
        predict(**request_)
    assert refused.value.code().name == code


def test_each_request_of_the_warm_up_is_answered(predict, folder):
    """What TensorFlow Serving asks of a version before it serves it, by its protos."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    file = folder / "served/1/assets.extra/tf_serving_warmup_requests"
    asked = set()
    for data in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(data.numpy())
        request = log.predict_log.request
        request.model_spec.name = "classifier"  # the server's, whatever it is
        assert predict.stub.Predict(request, timeout=60).outputs
        asked.add(request.model_spec.signature_name)
    assert asked == {"serving_default", "token_ids", "embed", "explain"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "inputs", "b64"]), inner, max_size=2)
    ),
    max_leaves=6,
)
PAYLOADS = JSON | st.dictionaries(st.sampled_from(["instances", "inputs"]), JSON)


@pytest.fixture(scope="module")
def kserve_module(kserve):
    return module("serving/kserve_server.py")


@given(PAYLOADS | st.binary(max_size=9))
@settings(max_examples=300, deadline=None)
def test_any_payload_is_texts_or_is_refused(kserve_module, payload):
    try:
        text = kserve_module.texts_of(payload)
    except kserve_module.InvalidInput as refusal:
        assert str(refusal).startswith("Ask with a list of texts")
    else:
        found = payload["instances" if "instances" in payload else "inputs"]
        assert text.shape.rank == 1
        if isinstance(found, list):
            assert len(text) == len(found)


def test_a_folder_without_versions_is_refused(kserve_module, tmp_path):
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match="Received: '.*', which holds none"):
        kserve_module.Classifier("classifier", str(tmp_path))
