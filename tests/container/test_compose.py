"""compose.yaml: three services, open to this machine alone."""

import http.server
import pathlib
import re
import subprocess
import threading

import pytest

yaml = pytest.importorskip("yaml")
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def services():
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["services"]


def test_one_service_has_a_gpu(services):
    assert set(services) == {"lab", "lab-cpu", "serve"}
    resources = services["lab"]["deploy"]["resources"]
    [device] = resources["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"] and device["driver"] == "nvidia"
    assert "deploy" not in services["lab-cpu"]


def test_the_labs_differ_in_tensorflow_alone(services):
    cpu, gpu = services["lab-cpu"], services["lab"]
    for key in ("user", "environment", "ports", "volumes"):
        assert cpu[key] == gpu[key]
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    [(name, wanted)] = cpu["build"]["args"].items()
    assert f"\nARG {name}=" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"install_requires =\n    {wanted}\n" in setup, "else pip adds a second one"


def test_ports_are_open_to_this_machine_alone(services):
    inside = {}
    for name, service in services.items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        inside[name] = {port.rsplit(":", 1)[1] for port in service["ports"]}
    assert inside["lab"] == {"8888", "2222"} and inside["serve"] == {"8501", "8500"}


def test_no_secret_stands_in_it(services):
    for service in services.values():
        for name, value in service["environment"].items():
            if re.search("TOKEN|KEY", name):
                assert value == f"${{{name}:-}}"


def test_the_server_reads_what_is_mounted(services):
    serve = services["serve"]
    targets = [mount.split(":")[-2] for mount in serve["volumes"]]
    assert f"/models/{serve['environment']['MODEL_NAME']}" in targets
    assert all(mount.endswith(":ro") for mount in serve["volumes"])
    for option in serve["command"]:
        if "=/" in option:
            assert option.partition("=")[2] in targets


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [
        (b'{"model_version_status": [{"version": "1", "state": "AVAILABLE"}]}', True),
        (b'{"model_version_status": [{"version": "1", "state": "LOADING"}]}', False),
        (b'{"error": "Could not find any versions of model classifier"}', False),
        (None, False),
    ],
)
def test_the_server_s_health_check(services, answer, healthy):
    kind, *command = services["serve"]["healthcheck"]["test"]
    assert kind == "CMD"
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        command[-1] = command[-1].replace("8501", str(server.server_port))
        if answer is not None:
            threading.Thread(target=server.handle_request, daemon=True).start()
        else:
            server.server_close()
        done = subprocess.run(command, capture_output=True, timeout=20)
    assert (done.returncode == 0) == healthy
    assert asked == ([] if answer is None else ["/v1/models/classifier"])
