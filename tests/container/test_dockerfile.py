"""The container's files, as far as they can be judged without building anything."""

import fnmatch
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig

import pytest

from residual_keras import __version__

dockerfile_parse = pytest.importorskip("dockerfile_parse")
ROOT = pathlib.Path(__file__).parents[2]
COPIED = {"setup.cfg", "setup.py", "README.md", "LICENSE"}
COPIED |= {"residual_keras", "notebooks", "docker"}


@pytest.fixture(scope="module")
def steps():
    """The instructions in their order: (name, value)."""
    parser = dockerfile_parse.DockerfileParser(str(ROOT), cache_content=True)
    return [
        (step["instruction"], step["value"])
        for step in parser.structure
        if step["instruction"] != "COMMENT"
    ]


def values(steps, name):
    return [value for instruction, value in steps if instruction == name]


def position(steps, part):
    """Where the one instruction stands that holds a part."""
    [found] = [i for i, (_, value) in enumerate(steps) if part in value]
    return found


def lint(program, *arguments):
    folder = sysconfig.get_path("scripts")  # where the wheel has put the binary
    found = shutil.which(program, path=folder) or shutil.which(program)
    if not found:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_hadolint_finds_nothing():
    lint("hadolint", "Dockerfile")


def test_shellcheck_finds_nothing():
    lint("shellcheck", "docker/entrypoint.sh")


def test_base_and_tensorflow_can_be_chosen(steps):
    assert steps[0] == ("ARG", "BASE_IMAGE=python:3.12-slim-bookworm")
    assert values(steps, "FROM") == ["${BASE_IMAGE}"]
    arguments = dict(shlex.split(v)[0].split("=", 1) for v in values(steps, "ARG"))
    assert set(arguments) == {"BASE_IMAGE", "TF_REQUIREMENT", "USER_ID"}
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert f"\n    {arguments['TF_REQUIREMENT']}\n" in setup, "the package's own range"


def test_what_changes_seldom_comes_first(steps):
    names = "apt-get", "venv", "${TF_REQUIREMENT}", "-r requirements.txt", "--no-deps ."
    order = [
        next(i for i, (_, value) in enumerate(steps) if name in value) for name in names
    ]
    assert order == sorted(order)
    assert order[-2] < steps.index(("COPY", "residual_keras residual_keras"))
    assert position(steps, "ldconfig") == order[2], "registered where it is installed"


def test_the_package_leaves_tensorflow_as_it_is(steps):  # R39
    [install] = [v for v in values(steps, "RUN") if "--no-deps ." in v]
    assert "pip check" in install


def test_nobody_is_root(steps):
    assert values(steps, "USER") == ["${USER_ID}"]
    user = steps.index(("USER", "${USER_ID}"))
    assert not {"RUN", "COPY"} & {name for name, _ in steps[user:]}


def test_nothing_in_a_layer_is_a_secret(steps):
    for name in ("ENV", "ARG", "LABEL"):
        for value in values(steps, name):
            assert not re.search("token|key[s_]|passw|secret", value, re.I), value
    for value in values(steps, "RUN"):
        if "openssh-server" in value:
            assert "rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_*" in value
    assert not values(steps, "ADD")


def test_how_it_starts(steps):
    [packages] = [v.split() for v in values(steps, "RUN") if "apt-get install" in v]
    assert {"curl", "libnss-extrausers", "openssh-server", "tini"} <= set(packages)
    tini, _, shell, script = json.loads(*values(steps, "ENTRYPOINT"))
    assert (tini, shell) == ("tini", "sh")
    [*_, copied] = [v for v in values(steps, "COPY") if v.startswith("docker/")]
    *sources, target = copied.split()
    assert {target + pathlib.Path(source).name for source in sources} == {
        script,
        script.replace("entrypoint.sh", "sshd_config"),
    }
    command = json.loads(*values(steps, "CMD"))
    assert command[:2] == ["jupyter", "lab"]
    assert not any("token" in word for word in command)
    assert "--port=8888" in command
    sshd = (ROOT / "docker" / "sshd_config").read_text(encoding="utf-8")
    assert values(steps, "EXPOSE") == ["8888 2222"] and "\nPort 2222\n" in sshd
    [check] = values(steps, "HEALTHCHECK")
    assert json.loads(check.partition("CMD ")[2])[-1] == "http://127.0.0.1:8888/api"


def test_ssh_takes_keys_and_nothing_else():
    lines = (ROOT / "docker" / "sshd_config").read_text(encoding="utf-8").split("\n")
    for line in (
        "AllowUsers dev",
        "PermitRootLogin no",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
    ):
        assert line in lines
    assert not any(re.match("HostKey|AuthorizedKeys", line) for line in lines)


def test_labels(steps):
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    [value] = values(steps, "LABEL")
    labels = dict(word.split("=", 1) for word in shlex.split(value))
    prefix = "org.opencontainers.image."
    assert labels[prefix + "version"] == __version__
    assert labels[prefix + "title"] == "residual_keras"
    for key, field in (("licenses", "license"), ("description", "description")):
        assert f"\n{field} = {labels[prefix + key]}\n" in setup


def test_docker_sees_what_is_copied_and_nothing_else(steps):
    copied = {
        pathlib.PurePath(source).parts[0]
        for value in values(steps, "COPY")
        for source in value.split()[:-1]
    }
    assert copied == COPIED and all((ROOT / name).exists() for name in copied)
    first, *lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert first == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    left_out = [line for line in lines if line and not line.startswith("!")]
    for path in ("residual_keras/__pycache__", "notebooks/.ipynb_checkpoints"):
        assert any(fnmatch.fnmatch(path, pattern) for pattern in left_out)
