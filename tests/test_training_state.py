"""A run that is stopped, wherever it is, ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from residual_keras import Recipe, load_model
from residual_keras.run_folder import RunFolder
from residual_keras.train import train

TEXTS = ["the plot was superb", "I do not think that the cast felt dull", ""]


def predictions(folder):
    return load_model(RunFolder(folder).model).predict(TEXTS)


def stop_at(monkeypatch, step):
    """Makes the user press Ctrl-C during a step."""
    from residual_keras.training_state import TrainingState

    on_batch = TrainingState.on_train_batch_end

    def press(self, batch, logs=None):
        if self.step + 1 == step:
            signal.raise_signal(signal.SIGINT)
        on_batch(self, batch, logs)

    monkeypatch.setattr(TrainingState, "on_train_batch_end", press)


# In the last step of an epoch, whose row is not written yet; within the last epoch.
@pytest.mark.parametrize("step", [26, pytest.param(35, marks=pytest.mark.slow)])
def test_ctrl_c_leaves_a_usable_folder_and_resume_ends_like_a_whole_one(
    tmp_path, monkeypatch, whole_run, step, tiny_recipe
):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_at(patch, step)
        metrics = train(Recipe(**tiny_recipe), folder, verbose=0, seconds=0)
    assert metrics["status"] == "interrupted"
    assert "test" not in metrics, "the test split is looked at once, at the end"
    assert predictions(folder).shape == (3, 2)
    assert (folder / "export" / "1" / "saved_model.pb").exists()

    metrics = train(None, folder, resume=True, verbose=0)
    np.testing.assert_array_equal(predictions(folder), predictions(whole_run[0]))
    for name in ("validation", "test", "steps", "epochs", "best_epoch"):
        assert metrics[name] == whole_run[1][name], name
    mine, theirs = RunFolder(folder).rows(), RunFolder(whole_run[0]).rows()
    assert [row["epoch"] for row in mine] == [0, 1, 2]
    for row, other in zip(mine, theirs, strict=True):
        assert row["val_loss"] == other["val_loss"]


def test_a_run_that_was_killed_goes_on(tmp_path, whole_run, tiny_recipe):
    folder = tmp_path / "run"
    code = (
        "import json, sys; from residual_keras import Recipe; "
        "from residual_keras.train import train; "
        "train(Recipe(**json.loads(sys.argv[1])), sys.argv[2], verbose=0, seconds=0)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(tiny_recipe), str(folder)],
        stderr=subprocess.DEVNULL,
    )
    state = folder / "state"
    deadline = time.monotonic() + 120
    while not (state.exists() and any(state.glob("step-*"))):
        assert process.poll() is None, "the run ended before it wrote a state"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    train(None, folder, resume=True, verbose=0)
    np.testing.assert_array_equal(predictions(folder), predictions(whole_run[0]))


def test_a_finished_run_keeps_what_it_promises_and_no_more(whole_run, tiny_recipe):
    folder, metrics = whole_run
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "curves.png",
        "export",
        "history.csv",
        "metrics.json",
        "model.keras",
    ]
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    assert metrics["test"]["texts"] == 40
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    rows = RunFolder(folder).rows()
    best = max(rows, key=lambda row: (row["val_accuracy"], -row["val_loss"]))
    assert metrics["best_epoch"] == 1 + best["epoch"]
    # R35: what is kept is the best epoch's model.
    for name in ("accuracy", "loss"):
        kept = metrics["validation"][name]
        assert kept == pytest.approx(best[f"val_{name}"], abs=1e-6)


def test_the_seed_decides_the_run(tmp_path, whole_run, tiny_recipe):
    train(Recipe(**tiny_recipe), tmp_path / "same", verbose=0, export=False)
    expected = predictions(whole_run[0])
    np.testing.assert_array_equal(predictions(tmp_path / "same"), expected)
    train(Recipe(**tiny_recipe, seed=1), tmp_path / "other", verbose=0, export=False)
    assert not np.allclose(predictions(tmp_path / "other"), expected)


def test_nothing_is_overwritten(tmp_path, whole_run, tiny_recipe):
    before = (whole_run[0] / "model.keras").read_bytes()
    with pytest.raises(ValueError, match="holds a run already"):
        train(Recipe(**tiny_recipe), whole_run[0], verbose=0)
    with pytest.raises(ValueError, match="finished"):
        train(None, whole_run[0], resume=True, verbose=0)
    assert (whole_run[0] / "model.keras").read_bytes() == before
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty"):
        train(Recipe(**tiny_recipe), tmp_path, verbose=0)
    with pytest.raises(ValueError, match="holds no run"):
        train(None, tmp_path / "nowhere", resume=True, verbose=0)


def test_bad_data_is_told_before_a_folder_is_made(tmp_path, tiny_recipe):
    with pytest.raises(ValueError, match="such path"):
        train(Recipe(data="nowhere.csv"), tmp_path / "run", verbose=0)
    with pytest.raises(ValueError, match="pre_ln"):
        train(Recipe(**tiny_recipe, residual="pre_lm"), tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_a_damaged_state_or_config_is_named(tmp_path, whole_run, tiny_recipe):
    folder = RunFolder(tmp_path / "run")
    folder.create(Recipe(**tiny_recipe))
    (folder.state / "step-000000003.npz").write_bytes(b"not weights")
    with pytest.raises(ValueError, match="step-000000003"):
        train(None, folder.path, resume=True, verbose=0)
    folder.config.write_text('{"residul": "pre_ln"}')
    with pytest.raises(ValueError, match="residul.*residual"):
        train(None, folder.path, resume=True, verbose=0)
