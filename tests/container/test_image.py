"""The image, built and used as a stranger would: `pytest -m container -n 0`."""

import os
import re
import socket
import subprocess

import pytest

from residual_keras import __version__

pytestmark = pytest.mark.container


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The paths of two private keys; only the first is let in."""
    folder = tmp_path_factory.mktemp("keys")
    paths = folder / "known", folder / "unknown"
    for path in paths:
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path]
        subprocess.run(command, check=True)
    return paths


def public(path):
    return path.with_suffix(".pub").read_text()


SSH = ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
SSH += ["-o", "UserKnownHostsFile=/dev/null"]
SSH += ["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"]


def ssh(*command, user="dev", key=None, options=()):
    line = ["ssh", "-p", "2222", *SSH, *options]
    line += ["-i", str(key)] if key else ["-o", "IdentityFile=none"]
    line += [f"{user}@127.0.0.1", *command]
    return subprocess.run(
        line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120
    )


@pytest.fixture(scope="class", params=["dev", "foreign"])
def lab(request, keys, tmp_path_factory, wait_for, status):
    """JupyterLab as the image starts it: its log's path, its token, and its user."""
    log = tmp_path_factory.mktemp("lab") / "log"
    options = {"JUPYTER_TOKEN": "", "SSH_AUTHORIZED_KEYS": public(keys[0])}
    options |= {"CUDA_VISIBLE_DEVICES": '"-1" \\'}
    container = request.getfixturevalue(request.param)
    with container.running(log, **options):
        wait_for(lambda: status("/api"))
        [token] = re.findall(r"token=(\w+)", log.read_text())
        yield log, token, container.user or 1000
    assert not status("/api")


def test_no_key_and_no_token_lies_in_the_image(dev):
    for folder in ("etc", "home", "root", "tmp", "run", "usr/local", "usr/src"):
        for path in (dev.root / folder).rglob("*"):
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
                assert b"PRIVATE KEY" not in content, path
                assert path.name != "authorized_keys", path
    assert not any(re.search("TOKEN|KEY|PASS", line) for line in dev.config["Env"])
    assert not list((dev.root / "var/lib/apt/lists").iterdir())


def test_packages_are_root_s_and_agree(dev):
    assert dev.config["User"] == "1000"
    done = dev.run("sh", "-c", "pip check && ! test -w /opt/venv/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    code = "import matplotlib, numpy, pandas, residual_keras as r; print(r.__file__)"
    assert "/opt/venv/" in dev.run("python", "-c", code).stdout


class TestLab:
    """While JupyterLab runs."""

    def test_a_token_opens_the_lab(self, lab, status):
        log, token, _ = lab
        assert len(token) >= 32
        assert status("/api/contents") == 403
        assert status("/api/contents", "wrong" + token) == 403
        assert status("/api/contents/notebooks/01_tour.ipynb", token) == 200
        assert log.read_text().count(token) == 1

    def test_the_health_check_follows_the_lab(self, dev, lab):
        kind, *command = dev.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        assert dev.run(*command).returncode == 0
        command[-1] = command[-1].replace("8888", "8889")
        assert dev.run(*command).returncode != 0

    def test_ssh_lets_the_key_in_and_finds_the_package(self, lab, keys):
        code = "import os, residual_keras as r; print(r.__version__, dict(os.environ))"
        done = ssh("python", "-c", f"'{code}'", key=keys[0])
        assert done.stdout.startswith(f"{__version__} "), done.stderr
        assert """'CUDA_VISIBLE_DEVICES': '"-1" \\\\'""" in done.stdout
        for command in ("which python", "bash -lc 'which python'"):
            assert ssh(command, key=keys[0]).stdout == "/opt/venv/bin/python\n"
        assert "TOKEN" not in ssh("env", key=keys[0]).stdout
        done = ssh("whoami; id -u; tty", key=keys[0], options=["-tt"])
        user, id_, tty = done.stdout.split()
        assert (user, id_) == ("dev", str(lab[2])) and tty.startswith("/dev/pts/")

    def test_files_come_out_by_scp(self, lab, keys, tmp_path):
        line = ["scp", "-P", "2222", *SSH, "-i", keys[0]]
        subprocess.run([*line, "dev@127.0.0.1:notebooks/*", tmp_path], check=True)
        assert (tmp_path / "01_tour.ipynb").stat().st_size > 1000

    def test_ssh_refuses_all_others(self, lab, keys):
        password = ["-o", "PreferredAuthentications=password,keyboard-interactive"]
        for options in (
            {},
            {"key": keys[1]},
            {"key": keys[0], "user": "root"},
            {"key": keys[0], "user": "daemon"},
            {"options": password},
        ):
            done = ssh("true", **options)
            assert done.returncode == 255, options
            assert done.stderr.endswith("Permission denied (publickey).\n"), done.stderr


@pytest.mark.parametrize("name", ["JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE"])
def test_a_token_that_is_given_is_taken_and_not_shown(
    dev, tmp_path, wait_for, status, name
):
    (dev.root / "tmp" / "token").write_text("mine-and-secret\n")
    given = "/tmp/token" if name.endswith("FILE") else "mine-and-secret"
    with dev.running(tmp_path / "log", **{name: given}):
        wait_for(lambda: status("/api"))
        assert status("/api/contents", "mine-and-secret") == 200
        assert status("/api/contents") == 403
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", 2222)), "no key, no SSH"
    assert "mine-and-secret" not in (tmp_path / "log").read_text()


def test_what_is_no_public_key_is_refused(dev, start, keys):
    for given in ("ssh-ed25519 nonsense", keys[0].read_text()):
        done = dev.run("echo", "started", SSH_AUTHORIZED_KEYS=given)
        assert (done.returncode, done.stdout) == (2, "")
        assert "holds public keys" in done.stderr
    done = start(0).run("echo", "started", SSH_AUTHORIZED_KEYS=public(keys[0]))
    assert (done.returncode, done.stdout) == (2, "") and "not root" in done.stderr


def test_a_caller_s_own_id_trains_and_exports_into_its_folder(foreign, tmp_path):
    tmp_path.chmod(0o755)
    folder = tmp_path / "mine"
    folder.mkdir()
    done = foreign.run("true", volume=folder)
    assert "belongs to 0:0, and 54321:54321 cannot write to it" in done.stderr

    os.chown(folder, foreign.user, foreign.user)
    done = foreign.run("residual-keras", "doctor", volume=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    train = ["residual-keras", "train", "--epochs=1", "--quiet"]
    data = "--data=reviews(train_size=2000)"
    done = foreign.run(*train, data, volume=folder)
    assert done.returncode == 0, done.stderr
    export = ["residual-keras", "export", "runs/reviews_train_size=2000-pre_ln-1"]
    done = foreign.run(*export, "served", volume=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "served/1/saved_model.pb").is_file()
    owners = {(p.stat().st_uid, p.stat().st_gid) for p in folder.rglob("*")}
    assert owners == {(foreign.user, foreign.user)}


def test_the_first_notebook_runs(foreign):
    path = "/home/dev/notebooks/01_tour.ipynb"
    done = foreign.run("jupyter", "execute", "--inplace", path)
    assert done.returncode == 0, done.stderr
    told = (foreign.root / path.lstrip("/")).read_text(encoding="utf-8")
    assert "image/png" in told


def test_the_cuda_libraries_load_without_a_gpu(dev):
    if not list(dev.root.glob("opt/venv/lib/python3*/site-packages/nvidia")):
        pytest.skip("built for the CPU")
    done = dev.run("env", "-u", "LD_LIBRARY_PATH", "residual-keras", "doctor")
    assert "all 12 can be loaded" in done.stdout, done.stdout
