"""serving/kserve_server.py as a process on a free port, for as long as it is needed."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "serving/kserve_server.py"
STARTS_WITHIN = 180  # seconds


@contextlib.contextmanager
def kserve_server(folder, *flags, name="classifier"):
    """Serves a model's folder, and stops the server however the block is left.

    Args:
        folder: of the model's versions.
        *flags: of the server, more of them.
        name: of the model.

    Yields:
        The server's port on this machine, once the model is ready.

    Raises:
        RuntimeError: if the server ends, or is not ready in time; with what it said.
    """
    port = free_port()
    options = ["--model_name", name, "--model_dir", folder, "--http_port", port]
    options += ["--enable_grpc", "false", *flags]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, SCRIPT, *map(str, options)],
            stdout=log,
            stderr=log,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        try:
            if not is_ready(f"http://127.0.0.1:{port}/v1/models/{name}", process):
                log.seek(0)
                raise RuntimeError(log.read().decode(errors="replace")[-3000:])
            yield port
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port():
    """A port that nobody listened to a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_ready(address, process):
    """Whether a server answers before it ends and before its time is over."""
    until = time.monotonic() + STARTS_WITHIN
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False
