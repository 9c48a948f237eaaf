"""`residual-keras doctor` on this machine, and on troubles that this one has not."""

import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from residual_keras import doctor
from residual_keras.doctor import gpus, libraries, machine, places
from residual_keras.doctor.finding import Finding


def test_this_machine_in_a_new_process(tmp_path):
    command = [sys.executable, "-m", "residual_keras", "doctor"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == "", "none of TensorFlow's own log"
    lines = done.stdout.split("\n")
    told = {line[6:].split()[0]: line for line in lines if line[:1].strip()}
    for about in ("python", "tensorflow", "keras", "numpy", "cores", "reviews"):
        assert told[about].startswith("ok "), told[about]
    assert "backend tensorflow" in told["keras"]
    assert {"[gpu]", "GPU", "imdb", "snippets"} <= set(told)
    assert str(tmp_path / "runs") in told["runs"]
    assert done.returncode == ("WRONG" in done.stdout)
    assert not any(tmp_path.iterdir())


def test_the_exit_status_is_1_if_anything_is_wrong(monkeypatch, capsys):
    found = [Finding("a", "is fine"), Finding("b", "could be better", "try c")]
    monkeypatch.setattr(doctor, "examine", lambda network: found)
    assert doctor.report() == 0
    out = capsys.readouterr().out
    assert out.startswith("ok    a ") and "\nnote  b " in out
    assert out.endswith("-> try c\n\nAll that training needs is there.\n")
    found.append(Finding("d", "is not there", "get it", wrong=True))
    assert doctor.report() == 1
    assert "\nWRONG d " in capsys.readouterr().out


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Installs a distribution with a module of that name."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, version, *lines, code=""):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        head = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}")
        (folder / "METADATA").write_text("\n".join((*head, *lines)) + "\n")
        (tmp_path / f"{name}.py").write_text(code)
        importlib.invalidate_caches()
        monkeypatch.delitem(sys.modules, name, raising=False)

    return install


def test_libraries_that_are_missing_old_or_broken(distribution):
    distribution("rkd_fine", "2.0")
    distribution("rkd_old", "1.0")
    distribution("rkd_lame", "1.0", code="import rkd_lost")
    distribution("rkd_broken", "1.0", code="raise TypeError('of\\nlate')")
    distribution(
        "rkd",
        "1.0",
        *("Requires-Dist: rkd_fine>=1", "Requires-Dist: rkd_old<3,>=2"),
        *("Requires-Dist: rkd_gone", "Requires-Dist: rkd_lame"),
        *("Requires-Dist: rkd_broken", 'Requires-Dist: rkd_x; python_version < "3"'),
    )
    found = {finding.about: finding for finding in libraries.check_libraries("rkd")}
    assert found.pop("rkd_fine") == Finding("rkd_fine", "2.0")
    assert all(finding.wrong for finding in found.values())
    told = {name: (finding.found, finding.do) for name, finding in found.items()}
    assert told == {
        "rkd_old": ("1.0, which is not <3,>=2", "pip install 'rkd_old<3,>=2'"),
        "rkd_gone": ("is not installed", "pip install 'rkd_gone'"),
        "rkd_lame": (
            "1.0 cannot be imported: ModuleNotFoundError: No module named 'rkd_lost'",
            "pip install rkd_lost",
        ),
        "rkd_broken": (
            "1.0 cannot be imported: TypeError: of",
            "pip install 'rkd_broken' --force",
        ),
    }


def test_extras_and_the_extras_that_they_ask_for(distribution):
    distribution("rkd_gpu", "1.0", 'Requires-Dist: rkd_cuda; extra == "cuda"')
    distribution(
        "rkd",
        "1.0",
        *("Requires-Dist: rkd_gpu", "Provides-Extra: gpu", "Provides-Extra: some"),
        *('Requires-Dist: rkd_gpu[cuda]>=1; extra == "gpu"',),
        *('Requires-Dist: rkd_gpu; extra == "some"',),
    )
    found = {finding.about: finding for finding in libraries.check_libraries("rkd")}
    assert found["[some]"].found == "is there"
    assert found["[gpu]"].do == "pip install 'rkd_gpu[cuda]>=1'"
    assert not found["[gpu]"].wrong
    distribution("rkd_cuda", "1.0")
    found = {finding.about: finding for finding in libraries.check_libraries("rkd")}
    assert found["[gpu]"].found == "is there"


def test_two_tensorflows_and_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(libraries, "installed", lambda name: "2.21.0")
    [unknown, twins] = libraries.check_libraries("rkd_not_installed")
    assert unknown.wrong and unknown.do == "pip install ."
    assert twins.wrong and "tensorflow-cpu are both" in twins.found


def write(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_cores_are_those_that_the_container_may_use(tmp_path):
    everything = machine.check_cores(tmp_path).found
    assert everything.endswith(f" of {os.cpu_count()}")
    limits = tmp_path / "sys" / "fs" / "cgroup"
    write(limits, **{"cpu.max": "max 100000"})
    assert machine.check_cores(tmp_path).found == everything
    write(limits, **{"cpu.max": "50000 100000"})
    assert machine.check_cores(tmp_path).found.startswith("0.5 of ")
    (limits / "cpu.max").unlink()
    write(limits, **{"cpu__cpu.cfs_quota_us": "25000"})
    write(limits, **{"cpu__cpu.cfs_period_us": "100000"})
    assert machine.check_cores(tmp_path).found.startswith("0.25 of ")


def test_memory_is_what_the_container_leaves(tmp_path):
    assert machine.check_memory(tmp_path).found == "unknown on this system"
    write(tmp_path, proc__meminfo="MemTotal: 9000000 kB\nMemAvailable:  8000000 kB\n")
    assert machine.check_memory(tmp_path) == Finding("memory", "8.2 GB free")
    limits = tmp_path / "sys" / "fs" / "cgroup"
    write(limits, **{"memory.max": "max", "memory.current": "5"})
    assert machine.check_memory(tmp_path).found == "8.2 GB free"
    write(limits, **{"memory.max": "3000000000", "memory.current": "1500000000"})
    found = machine.check_memory(tmp_path)
    assert found.found == "1.5 GB free" and found.do and not found.wrong


def test_tensorflow_s_own_search_path():
    import tensorflow as tf

    if not sys.platform.startswith("linux"):
        pytest.skip("names of Linux' libraries")
    assert gpus.can_load(tf, "libm.so.6")
    assert not gpus.can_load(tf, "libnot_there.so.3")


def test_why_there_is_no_gpu(tmp_path, monkeypatch):
    def why(built=True, libraries=("libcuda.so.1",)):
        return gpus.why_no_gpu(built, libraries.__contains__, tmp_path)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "for the CPU alone" in why(built=False).found
    assert "no NVIDIA driver" in why().found and not why().wrong
    version = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Mon\n"
    )
    write(tmp_path, proc__driver__nvidia__version=version)
    for value in ("", " ", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert repr(value) in why().found and not why().wrong
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "device files are missing" in why().found and "--gpus all" in why().do
    write(tmp_path, dev__nvidiactl="")
    assert "device files are missing" in why(libraries=()).found
    found = why()
    assert found.wrong and "(570.86.15)" in found.found and "='7'" in found.found
    (tmp_path / "proc/driver/nvidia/version").unlink()
    write(tmp_path, dev__dxg="")  # Windows' subsystem for Linux has no /proc entry
    assert "(version unknown)" in why().found


def test_cuda_libraries_that_cannot_be_loaded(tmp_path):
    all_but_two = set(gpus.CUDA_LIBRARIES) - {"libcurand.so.10", "libnvrtc.so.12"}
    loads = all_but_two.__contains__
    found = gpus.check_cuda_libraries(loads, tmp_path, wrong=True)
    assert found.wrong and found.do == "pip install 'tensorflow[and-cuda]'"
    assert found.found == "cannot be loaded: libcurand.so.10, libnvrtc.so.12"
    for name in ("curand/lib/libcurand.so.10", "cuda_nvrtc/lib/libnvrtc.so.12"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert "ldconfig" in gpus.check_cuda_libraries(loads, tmp_path, wrong=False).do
    found = gpus.check_cuda_libraries(lambda name: True, tmp_path, wrong=True)
    assert found == Finding("CUDA libraries", "all 12 can be loaded")


def test_folders(tmp_path, monkeypatch):
    assert (
        str(tmp_path / "a" / "b")
        in places.check_folder("x", tmp_path / "a/b", "y").found
    )
    assert not any(tmp_path.iterdir()), "nothing is left behind"
    (tmp_path / "file").touch()
    found = places.check_folder("x", tmp_path / "file" / "b", "move it", needed=True)
    assert found.wrong and "Not a directory" in found.found
    assert found.do.startswith("move it")
    assert not places.check_folder("x", tmp_path / "file" / "b", "move it").wrong
    monkeypatch.setattr(places, "LEAST_FREE", 1e30)
    assert places.check_folder("x", tmp_path, "y", needed=True).wrong

    def nowhere():
        raise FileNotFoundError("No usable temporary directory")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    found = {finding.about: finding for finding in places.check_folders()}
    assert str(tmp_path / "keras") in found["Keras' settings"].found
    assert found["temporary"].wrong and "set TMPDIR" in found["temporary"].do


def test_data_sets_that_are_there(tmp_path, monkeypatch):
    def told():
        return {finding.about: finding for finding in places.check_data(network=False)}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "--download" in told()["imdb"].do and "32 MB" in told()["snippets"].do
    assert not any(finding.wrong for finding in told().values())
    pathlib.Path("aclImdb_v1.tar.gz").touch()
    assert told()["imdb"].found == "--data imdb --data-path aclImdb_v1.tar.gz"
    write(
        tmp_path / "tfds", **{"imdb_reviews__plain_text__1.0.0__dataset_info.json": ""}
    )
    assert told()["imdb"].found == f"prepared in {tmp_path / 'tfds'}"
    if os.name != "nt":
        write(tmp_path / "cache", **{"residual_keras__movie_snippets.txt": ""})
        assert told()["snippets"].found.endswith("movie_snippets.txt")


def test_hosts_that_are_out_of_reach(monkeypatch):
    from residual_keras.data import imdb

    def refuse(url):
        raise ValueError(f"no way\nto {url}")

    monkeypatch.setattr(imdb, "check_network", refuse)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    [host, pip] = places.check_downloads()
    assert "out of reach" in host.found and host.do.startswith("no way to http")
    assert "out of reach" in pip.found and not pip.wrong


@pytest.mark.network
def test_pip_s_registry_answers(monkeypatch):
    from residual_keras.data import imdb

    monkeypatch.setattr(imdb, "check_network", lambda url: None)
    assert [finding.found for finding in places.check_downloads()] == [
        "answers",
        "answers pip",
    ]
