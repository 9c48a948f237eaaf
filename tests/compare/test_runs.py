"""A study that is stopped, fails in part, and goes on; processes pretended."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from residual_keras.compare import compare, processes, runs
from residual_keras.compare.plan import Run
from residual_keras.compare.worker import judge
from residual_keras.recipe import Recipe

GRID = {"schemes": ["pre_ln", "post_ln"], "layers": [2], "seeds": [0, 1]}


class Pretended:
    """What stands for a process that has ended."""

    def __init__(self, returncode):
        self.returncode = returncode
        self.stdin = open(os.devnull)  # noqa: SIM115

    def poll(self):
        return self.returncode

    wait = poll


@pytest.fixture
def trained(monkeypatch, pretend):
    """The names of the runs that were pretended; `trained.act` may do otherwise."""

    class Names(list):
        act = staticmethod(lambda run: pretend(run))

    names = Names()

    def start(task, log, threads, lock=None):
        if task["verb"] == "look":
            names.looked = task
            answer = {
                "layers": 2,
                "step_seconds": 0.5,
                "setup_seconds": 1.0,
                "steps": 10,
                "texts": 1234,
                "classes": 2,
                "epochs": 3,
            }
            with open(task["answer"], "w") as file:
                json.dump(answer, file)
            return Pretended(0)
        assert lock is not None
        run = Run(Recipe(**task["recipe"]), pathlib.Path(task["path"]))
        assert log == run.log
        names.append((run.recipe.residual, run.recipe.seed))
        return Pretended(names.act(run) or 0)

    monkeypatch.setattr(runs, "start", start)
    return names


def test_a_study_writes_its_results_and_is_not_run_again(tmp_path, trained, capsys):
    rows = compare(tmp_path / "study", **GRID)
    assert trained == [("pre_ln", 0), ("post_ln", 0), ("pre_ln", 1), ("post_ln", 1)]
    assert [row["status"] for row in rows] == ["finished"] * 4
    said = capsys.readouterr().err
    assert "4 runs, 0 of them done before, on 1,234 texts of 2 classes" in said
    assert "A step with 2 blocks took 0.500 s" in said
    assert "This takes 24 s at most" in said
    assert "[2/4] post_ln, 2 blocks, seed 0, rate 0.001: finished, validation" in said
    assert "Best so far: pre_ln, 2 blocks, 0.800. About 0 s left." in said
    with open(tmp_path / "study" / "results.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    names = {path.name for path in (tmp_path / "study").iterdir()}
    assert names == {"compare.lock", "runs", "results.csv", "results.md", "report.html"}

    trained.clear()
    assert compare(tmp_path / "study", **GRID) == rows
    assert trained == [] and "runs" not in capsys.readouterr().err
    more = compare(tmp_path / "study", **{**GRID, "seeds": [0, 1, 2]}, verbose=0)
    assert trained == [("pre_ln", 2), ("post_ln", 2)] and len(more) == 6
    assert capsys.readouterr().err == ""


def test_a_study_that_was_stopped_goes_on(tmp_path, trained, pretend):
    def stop_at_the_third(run):
        if len(trained) == 3:
            raise KeyboardInterrupt
        pretend(run)

    trained.act = stop_at_the_third
    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path / "study", **GRID)
    with open(tmp_path / "study" / "results.csv", newline="") as file:
        statuses = [row["status"] for row in csv.DictReader(file)]
    assert statuses == ["finished", "finished", "waiting", "waiting"]
    assert (tmp_path / "study" / "report.html").exists()
    trained.clear()
    trained.act = pretend
    compare(tmp_path / "study", **GRID)
    assert trained == [("pre_ln", 1), ("post_ln", 1)]


def test_the_study_goes_on_past_what_fails(tmp_path, trained, pretend, capsys):
    def fail(run):
        if run.recipe.seed:
            return pretend(run, 0.6, "diverged" if run.recipe.seed == 1 else "finished")
        if run.recipe.residual == "post_ln":
            return -9
        run.end("failed", message="ValueError: too wide")
        return 1

    trained.act = fail
    rows = compare(tmp_path / "study", **GRID)
    assert [row["status"] for row in rows] == ["failed", "failed", *["diverged"] * 2]
    assert rows[0]["message"] == "ValueError: too wide"
    assert "ended by signal 9; see " in rows[1]["message"]
    assert "rate 0.001: failed (ValueError: too wide)." in capsys.readouterr().err
    page = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert "ended by signal 9" in page
    trained.clear()
    trained.act = pretend
    rows = compare(tmp_path / "study", **GRID)
    assert trained == [("pre_ln", 0), ("post_ln", 0)], "failed runs are tried again"
    assert rows[1]["status"] == "finished" and rows[1]["message"] is None


def test_what_is_looked_at_first(tmp_path, trained):
    grid = {**GRID, "layers": [2, 5], "baseline": "post_ln", "modules": ["mine"]}
    compare(tmp_path / "study", **grid, embed_dim=16, verbose=0)
    seen = {(r["residual"], r["num_layers"]) for r in trained.looked["recipes"]}
    assert seen == {(s, n) for s in GRID["schemes"] for n in (2, 5)}
    measured = trained.looked["measured"]
    assert (measured["residual"], measured["num_layers"]) == ("post_ln", 5)
    assert measured["embed_dim"] == 16 and trained.looked["modules"] == ["mine"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"jobs": 0}, "jobs must be positive"),
        ({"baseline": "preln"}, "Did you mean 'pre_ln'?"),
        ({"embed_dims": 8}, "Did you mean 'embed_dim'?"),
        ({"num_layers": 8}, "list it in layers. Received: num_layers=8"),
        ({"rate": 0.2, "epochs": 0}, "epochs must be positive"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, trained, options, said):
    with pytest.raises(ValueError, match=".*") as error:
        compare(tmp_path / "study", **GRID, **options)
    assert said in str(error.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("accuracies", "losses", "status"),
    [
        ([0.5, 0.8], [0.7, 0.6], "finished"),
        ([0.5, 0.62], [0.7, 0.6], "stalled"),  # 0.6 + 2 * 0.049
        ([0.5, 0.69], [0.7, 0.6], "stalled"),
        ([0.5, 0.71], [0.7, 0.6], "finished"),
        ([0.9, 0.9], [0.7, float("nan")], "diverged"),
        ([0.9, 0.9], [float("inf"), 0.6], "diverged"),
    ],
)
def test_how_a_run_went(accuracies, losses, status):
    rows = [
        {"val_accuracy": a, "val_loss": b, "loss": b}
        for a, b in zip(accuracies, losses, strict=True)
    ]
    assert judge(rows, majority=0.6, texts=100) == status


def test_all_right_is_no_stall_however_few_the_texts():
    row = {"val_accuracy": 1.0, "val_loss": 0.1, "loss": 0.1}
    assert judge([row], majority=0.9, texts=10) == "finished"


SLEEPER = "import os, sys; sys.exit(7 if os.read(0, 1) == b'' else 1)"


def test_processes_take_turns_and_end_with_who_asked():
    """Real ones, that wait for their input to be closed."""
    begun = []

    def begin(task):
        begun.append(task)
        code = f"raise SystemExit({task})" if task < 3 else SLEEPER
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)

    ending = processes.in_turn([0, 1, 2, 3, 4, 5], 2, begin)
    ended = [next(ending) for _ in range(3)]
    assert sorted(ended) == [(0, 0), (1, 1), (2, 2)]
    time.sleep(0.3)
    assert begun == [0, 1, 2, 3], "two at once"
    kept = []
    original = processes.stop
    try:
        processes.stop = lambda running: (kept.extend(running), original(kept))
        ending.close()
    finally:
        processes.stop = original
    assert [process.returncode for process in kept] == [7], "it was let to end"


@pytest.mark.slow
def test_a_real_study_is_killed_and_goes_on(tmp_path, tiny_recipe):
    from residual_keras.train import train

    flags = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in tiny_recipe.items()
        if name != "num_layers"
    ]
    folder = tmp_path / "study"
    axes = ["--schemes", "pre_ln", "none", "--layers", "1", "2", "--seeds", "0", "1"]
    command = [sys.executable, "-m", "residual_keras", "compare", folder, *axes, *flags]

    def outcomes():
        return {
            path: path.stat().st_mtime_ns for path in folder.glob("runs/*/outcome*")
        }

    def begin(until):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 600
        while not until():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return process

    process = begin(lambda: len(outcomes()) == 1)
    process.kill()
    process.communicate()
    ended = outcomes()
    assert len(ended) == 1
    deadline = time.monotonic() + 120
    while True:  # the run that was under way ends by itself
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
        if "is in use" not in done.stderr:
            break
        assert done.returncode == 2 and time.monotonic() < deadline
        time.sleep(1)
    assert done.returncode == 0, done.stderr
    assert "8 runs, 1 of them done before" in done.stderr
    [(path, written)] = ended.items()
    assert outcomes()[path] == written, "a run that has ended is left alone"
    assert "## 2 blocks" in done.stdout and "| `none` | " in done.stdout

    with open(folder / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {row["status"] for row in rows} <= {"finished", "stalled"}
    for row in rows:
        assert float(row["peak_memory_mb"]) > 200
        assert float(row["gradient_ratio_initial"]) > 0
    # The second run was the one that was killed: it ends as one that nobody touched.
    row = rows[1]
    recipe = Recipe(**{**tiny_recipe, "residual": row["scheme"], "num_layers": 1})
    metrics = train(recipe, tmp_path / "alone", verbose=0, export=False)
    assert not (tmp_path / "alone" / "export").exists()
    for split in ("validation", "test"):
        for name in ("accuracy", "loss"):
            assert float(row[f"{split}_{name}"]) == metrics[split][name]
    assert int(row["steps"]) == metrics["steps"]


@pytest.mark.slow
def test_ctrl_c_ends_a_study_politely_and_divergence_is_recorded(tmp_path, tiny_recipe):
    folder = tmp_path / "study"
    command = [sys.executable, "-m", "residual_keras", "compare", folder]
    command += ["--schemes", "pre_ln", "--layers", "1", "--seeds", "0"]
    command += ["--learning-rates", "1e30", "0.001", "--clipnorm", "1e30"]
    command += [f"--data={tiny_recipe['data']}", "--embed-dim=8", "--num-heads=2"]
    process = subprocess.Popen(
        [*command, "--epochs=300", "--patience=300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not list(folder.glob("runs/*/state/step-*")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Interrupted. The same command goes on." in said
    assert (folder / "report.html").exists()
    [run] = folder.glob("runs/*/metrics.json")
    assert json.loads(run.read_text())["status"] == "interrupted"

    rows = compare(
        tmp_path / "short",
        ["pre_ln"],
        [1],
        [0],
        learning_rates=[1e30, 0.001],
        clipnorm=1e30,
        verbose=0,
        **{n: v for n, v in tiny_recipe.items() if n != "num_layers"},
    )
    statuses = [row["status"] for row in rows]
    assert statuses[0] == "diverged" and statuses[1] in ("finished", "stalled")
