"""An image built by buildah, which needs no Docker engine, and what runs in it.

From the environment, for what a machine needs to reach its package registries:

CONTAINER_BASE_ARGS    options of mmdebstrap, which makes the image to build upon
CONTAINER_BUILD_ARGS   options of `buildah bud`, such as `-v` mounts of certificates
CONTAINER_STORAGE      a folder that keeps the images (default: a temporary one)
CONTAINER_IMAGE        an image in that folder to test instead of building one
STORAGE_DRIVER         buildah's own: vfs, at thrice the disk, where overlay fails
"""

import contextlib
import functools
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BASE = "localhost/debian-python"


class Store:
    """A folder of images, and of containers made of them.

    Args:
        storage: path of the folder.
    """

    def __init__(self, storage):
        self.storage = storage
        self.buildah = ["buildah", f"--root={storage}/root", f"--runroot={storage}/run"]

    def call(self, *arguments):
        """Runs buildah; returns what it printed."""
        done = subprocess.run(
            [*self.buildah, *arguments], stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.strip()

    def has(self, name):
        return bool(self.call("images", "-q", "--filter", f"reference={name}"))

    def make_base(self):
        """Makes the image that stands in for the Dockerfile's own base."""
        tar = self.storage / "base.tar"
        options = [
            "--variant=minbase",
            "--include=python3,python3-venv,ca-certificates",
        ]
        options += shlex.split(os.environ.get("CONTAINER_BASE_ARGS", ""))
        subprocess.run(["mmdebstrap", *options, "bookworm", tar], check=True)
        scratch = self.call("from", "scratch")
        self.call("add", scratch, tar, "/")
        self.call("commit", "--rm", scratch, BASE)
        tar.unlink()

    def build(self, name):
        """Builds the Dockerfile, for the CPU."""
        options = ["--isolation=chroot", "--network=host", "--format=docker"]
        options += ["--build-arg", f"BASE_IMAGE={BASE}"]
        options += ["--build-arg", "TF_REQUIREMENT=tensorflow>=2.20,<2.22"]
        options += shlex.split(os.environ.get("CONTAINER_BUILD_ARGS", ""))
        self.call("bud", *options, "-t", name, str(ROOT))


class Container:
    """A container of an image, whose user may be another than the image's.

    Args:
        store: the `Store` that has the image.
        image: its name.
        user: an id, of user and group; None is the image's user.
    """

    def __init__(self, store, image, user=None):
        self.store, self.user = store, user
        self.name = store.call("from", image)
        self.root = pathlib.Path(store.call("mount", self.name))
        found = json.loads(store.call("inspect", self.name))
        self.config = found["Docker"]["config"]

    def command(self, *command, volume=None, **env):
        """The command line that does what `docker run` would."""
        line = [*self.store.buildah, "run", "--isolation=chroot", "--network=host"]
        line += [f"--env={name}={value}" for name, value in env.items()]
        if self.user is not None:
            line.append(f"--user={self.user}:{self.user}")
        if volume:
            line.append(f"--volume={volume}:/home/dev/work")
        line += [self.name, "--", *self.config["Entrypoint"]]
        return [*line, *(command or self.config["Cmd"])]

    def run(self, *command, **options):
        """What a command in the container ended with, as `subprocess.run` tells it.

        By way of files: on a busy machine buildah may end before it has handed on all.
        """
        files = [self.root / "tmp" / name for name in ("stdout", "stderr")]
        for file in files:
            file.unlink(missing_ok=True)
        line = self.command(*command, **options)
        start = line.index("--") + 1
        line[start:start] = ["sh", "-c", '"$@" > /tmp/stdout 2> /tmp/stderr', "sh"]
        done = subprocess.run(line, capture_output=True, text=True)
        texts = [file.read_text() if file.exists() else "" for file in files]
        return subprocess.CompletedProcess(line, done.returncode, *texts)

    @contextlib.contextmanager
    def running(self, log, *command, **options):
        """Keeps a command of the container running; what it writes goes to a file."""
        with open(log, "w") as file:
            process = subprocess.Popen(
                self.command(*command, **options),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                yield process
            finally:
                stop(process)


def stop(process):
    """Ends a command of a container as `docker stop` does, by telling tini.

    Repeatedly: JupyterLab overhears a signal that comes while it writes to its log.
    """
    started = list(descendants(process.pid))
    for _ in range(10):
        for child in descendants(process.pid):
            if pathlib.Path(f"/proc/{child}/comm").read_text() == "tini\n":
                os.kill(child, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
            break
    else:
        pytest.fail("a container did not stop")
    for child in started:  # as the kernel does where tini is the first process
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def descendants(process):
    """The ids of a process' children, and of theirs."""
    for path in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        for child in path.read_text().split():
            yield int(child)
            yield from descendants(int(child))


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Starts a `Container` of the image for a user."""
    for program in ("buildah", "mmdebstrap", "ssh"):
        if not shutil.which(program):
            pytest.fail(f"{program} is not installed: see CONTRIBUTING.md")
    kept = os.environ.get("CONTAINER_STORAGE")
    storage = pathlib.Path(kept or tmp_path_factory.mktemp("storage"))
    storage.mkdir(parents=True, exist_ok=True)
    store, image = Store(storage), os.environ.get("CONTAINER_IMAGE")
    try:
        if not image:
            image = "localhost/residual_keras"
            if not store.has(BASE):
                store.make_base()
            store.build(image)
        yield functools.partial(Container, store, image)
    finally:
        store.call("rm", "--all")
        if not kept:
            store.call("rmi", "--all", "--force")


@pytest.fixture(scope="session")
def dev(start):
    """A container of the image's own user."""
    return start()


@pytest.fixture(scope="session")
def foreign(start):
    """A container of a user whose id the image does not know."""
    return start(54321)


@pytest.fixture(scope="session")
def wait_for():
    """Calls a function until it returns something true, and returns that."""

    def wait(function, seconds=60):
        ends = time.monotonic() + seconds
        while not (found := function()):
            assert time.monotonic() < ends, f"{function} stayed false"
            time.sleep(0.2)
        return found

    return wait


@pytest.fixture(scope="session")
def status():
    """The HTTP status of JupyterLab's answer at a path, or None where none comes."""

    def ask(path, token=None):
        request = urllib.request.Request(f"http://127.0.0.1:8888{path}")
        if token:
            request.add_header("Authorization", f"token {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    return ask
