"""The house: imports go one way, no room is too large, the wheel holds all of it."""

import ast
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "residual_keras"
FILES = sorted(PACKAGE.rglob("*.py"))
SHELF = [  # what else comes with it: trained models
    path
    for path in sorted((PACKAGE / "presets").rglob("*"))
    if path.is_file() and path.suffix not in (".py", ".pyc")
]

# From the ground up: a module imports none that stands after it.
ORDER = [
    "quiet",
    "spec",
    "paths",
    "initializers",
    "dense",
    "gradients",
    "norms",
    "recompute",
    "positions",
    "dot_product",
    "attention",
    "feed_forward",
    "residuals",
    "catalogue",
    "stack",
    "optimization",
    "layer_rates",
    "embedding",
    "fragments",
    "pooling",
    "block",
    "encoder",
    "classifier",
    "factors",
    "logistic",
    "word_runs",
    "latent",
    "ngrams",
    "vectorizer",
    "text",
    "wordpiece",
    "tokenizers",
    "text_classifier",
    "convert",
    "sizes",
    "options",
    "recipe",
    "run_folder",
    "averaging",
    "training_state",
    "fitting",
    "curves",
    "data",
    "word_vectors",
    "saved",
    "pretraining",
    "building",
    "export",
    "presets",
    "negation",
    "teaching",
    "train",
    "analysis",
    "compare",
    "answers",
    "doctor",
    "cli",
    "__main__",
    "__init__",
]


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The rooms that a file of the package imports, wherever in the file."""
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            if node.module:
                yield node.module.split(".")[0]
            else:
                yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    here = ORDER.index(room(path))
    for other in imported(path):
        if other in ORDER:
            assert ORDER.index(other) < here or other == room(path), other


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_is_too_long_to_read_in_one_go(path):
    assert path.read_text(encoding="utf-8").count("\n") <= 400


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_tensorflow_by_name_only_where_text_or_files_are(path):
    allowed = {"vectorizer", "text", "wordpiece", "text_classifier"}
    allowed |= {"data", "export", "cli", "analysis", "doctor"}
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    assert "tensorflow" not in names or room(path) in allowed


def test_no_scheme_s_name_is_branched_on_outside_residuals():
    from residual_keras import residuals

    for path in FILES:
        if room(path) == "residuals":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                words = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant)}
                assert not words & set(residuals.SCHEMES), (path.name, node.lineno)


def test_the_wheel_holds_every_module_and_working_presets(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", tmp_path]
    source = tmp_path / "source"  # building leaves files in the tree
    source.mkdir()
    for name in ("setup.cfg", "setup.py", "README.md", "LICENSE"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    files = {path.relative_to(ROOT): path.read_bytes() for path in [*FILES, *SHELF]}
    preset = pathlib.Path("residual_keras", "presets", "made_up")
    files |= {
        preset / name: b"" for name in ("preset.json", "weights.npz", "README.md")
    }
    for path, data in files.items():
        copy = source / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
    subprocess.run([*command, source], check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {n for n in archive.namelist() if ".dist-info/" not in n}
        archive.extractall(tmp_path / "installed")
    assert held == {path.as_posix() for path in files}
    done = subprocess.run(
        [sys.executable, "-m", "residual_keras", "predict"]
        + ["--preset", "tiny_rezero_imdb", "A wonderful film, truly moving."],
        cwd=tmp_path / "installed",  # so it is this one that runs
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert re.search(r"\bpos\b", done.stdout), "a preset works from the wheel alone"


def test_the_core_needs_neither_datasets_nor_plots():
    code = (
        "import sys\n"
        "for name in ('tensorflow_datasets', 'matplotlib', 'tensorflow_text'):\n"
        "    sys.modules[name] = None\n"
        "import residual_keras as rk\n"
        "print(*[getattr(rk, name).__name__ for name in rk.__all__[1:]])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "TransformerBlock" in done.stdout  # R37


def test_public_names_are_there_and_documented():
    import residual_keras

    for name in residual_keras.__all__:
        assert name == "__version__" or getattr(residual_keras, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Transformer'"):
        _ = residual_keras.Transformer


def test_the_api_page_has_every_public_name():
    import residual_keras
    from residual_keras import analysis

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)$", page, re.M))
    assert set(residual_keras.__all__) - {"__version__"} <= shown
    assert ".. automodule:: residual_keras.analysis" in page and analysis.__all__
