"""The benchmarks, at sizes that say nothing of what anything costs."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

PATH = pathlib.Path(__file__).parent.parent / "benchmarks" / "schemes.py"


@pytest.fixture
def bench(monkeypatch):
    """The module benchmarks/schemes.py."""
    monkeypatch.syspath_prepend(PATH.parent)  # as when it is run: measuring.py
    spec = importlib.util.spec_from_file_location("bench_schemes", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_of_a_step(bench):
    from residual_keras import TransformerEncoder

    sizes = {"layers": 1, **bench.SMALL}
    found = bench.step_times("post_ln", sizes, steps=2)
    encoder = TransformerEncoder(1, 16, 2, 32, residual="post_ln")
    encoder.build((None, None, 16))
    assert found["weights"] == encoder.count_params()
    assert found["pre_ln_weights"] == encoder.count_params() + 2 * 16
    low, middle, high = (float(found[f"cpu_{w}"]) for w in ("low", "ratio", "high"))
    assert 0 < low <= middle <= high


def test_the_variants_are_specs_that_exist(bench):
    from residual_keras import residuals

    for spec in bench.VARIANTS:
        residuals.get(spec, num_sublayers=24)


def test_rows_measured_anew_replace_their_old_ones(
    bench, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "schemes.csv"
    ratio = iter(("1.1", "1.2", "1.3"))

    def pretended(function, *args):
        if function is bench.peak_memory:
            return 700 if args[0] == "pre_ln" else 770
        keys = ("cpu_low", "cpu_high", "versions")
        return {"cpu_ratio": next(ratio), "weights": 5, **dict.fromkeys(keys, "1")}

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["schemes.py", "--csv", str(path), *arguments])
        bench.main()

    monkeypatch.setattr(bench, "alone", pretended)
    run("--schemes", "post_ln", "mix_ln(fraction=0.5)")
    run("--schemes", "post_ln")
    rows = bench.Results(bench.COLUMNS, bench.KEY, path).rows
    assert {spec: row["cpu_ratio"] for (spec,), row in rows.items()} == {
        "post_ln": "1.3",
        "mix_ln(fraction=0.5)": "1.2",
    }
    assert rows["post_ln",]["memory_ratio"] == "1.100"
    assert [p.name for p in tmp_path.iterdir()] == ["schemes.csv"]
    assert capsys.readouterr().out.count("| `post_ln` | 1.") == 2
    with pytest.raises(SystemExit):
        run("--small", "--schemes", "post_ln")
    assert "other sizes" in capsys.readouterr().err
    assert bench.Results(bench.COLUMNS, bench.KEY, path).rows == rows


def test_the_page_of_tables_is_up_to_date(bench, monkeypatch):
    import make_readme

    page = (PATH.parent / "README.md").read_text(encoding="utf-8")
    assert page == make_readme.page(), "run python benchmarks/make_readme.py"


TINY = {
    "schemes.py": "--small --layers 1 --steps 2 --schemes pre_ln none",
    "growth.py": "--layers 1 --batch 1 --steps 2 --schemes deepnorm --recompute",
    "operations.py": "--layers 1 --steps 1",
    "precision.py": "--small --layers 1 --steps 2",
    "latency.py": "--layers 1 --lengths 5 --times 5",
    "startup.py": "--times 2",
    "gpu.py": "--small --layers 1 --steps 2 --epochs 2",
    "serving.py": "--clients 2 --seconds 0.1",
}


@pytest.mark.slow
@pytest.mark.parametrize("script", TINY)
def test_the_commands_as_typed(script, tmp_path):
    if script == "serving.py" and importlib.util.find_spec("kserve") is None:
        pytest.skip("kserve is not installed")
    table = tmp_path / "table.csv"
    command = [sys.executable, PATH.parent / script, *TINY[script].split()]
    done = subprocess.run(
        [*command, "--csv", table], capture_output=True, text=True, check=True
    )
    rows = table.read_text(encoding="utf-8").split("\n")[1:-1]
    printed = re.findall(r"^\| (?!---)", done.stdout, re.MULTILINE)
    assert rows and len(printed) == 1 + len(rows), "a head, and each row"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_steps_on_another_backend(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    command = [sys.executable, PATH.parent / "gpu.py", *TINY["gpu.py"].split()]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.startswith(f"{backend} on ")
    assert "| mixed_bfloat16 | " in done.stdout


def test_the_tutorial_s_classifier_is_whole(monkeypatch):
    """All its weights are trained, and it knows where a word stands."""
    monkeypatch.syspath_prepend(PATH.parent)
    import numpy as np
    from tutorial import MAX_LEN, tutorial_classifier

    size = {"num_layers": 2, "embed_dim": 6, "num_heads": 2, "ff_dim": 7}
    model = tutorial_classifier(size)
    embeddings, head = (20_000 + MAX_LEN) * 6, (6 + 1) * 20 + 21 * 2
    attention = 3 * (6 * 12 + 12) + 12 * 6 + 6  # two heads as wide as the stream
    block = attention + (6 + 1) * 7 + (7 + 1) * 6 + 4 * 6
    assert model.count_params() == embeddings + 2 * block + head
    assert sum(np.prod(w.shape) for w in model.trainable_weights) == (
        model.count_params()
    )
    ids = np.arange(2, MAX_LEN + 2)[None]
    assert np.abs(model(ids) - model(np.roll(ids, 1))).max() > 1e-6
