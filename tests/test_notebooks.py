"""The notebooks run from end to end, at a size that says nothing of what they show."""

import json
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
SMALL = {
    "train_size": "200",
    "rows": "200",
    "epochs": "1",
    "num_layers": "2",
    "schemes": "['pre_ln', 'attn_res']",
}


@pytest.fixture(params=NOTEBOOKS)
def notebook(request):
    """A notebook's name and cells."""
    text = (FOLDER / request.param).read_text(encoding="utf-8")
    return request.param, json.loads(text)["cells"]


def sources(cells, kind):
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def test_they_are_shown_as_they_ran(notebook):
    """With outputs, from the first cell to the last, and nothing but what they show."""
    _, cells = notebook
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    counts = [cell["execution_count"] for cell in code]
    assert counts == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    for output in outputs:
        assert output["output_type"] != "error" and output.get("name") != "stderr"
    assert not re.search(r"/(home|root|tmp|work)/", json.dumps(cells))


def test_they_import_and_do_not_define(notebook):
    name, cells = notebook
    defined = re.search(
        r"^\s*(def|class) ", "\n".join(sources(cells, "code")), re.MULTILINE
    )
    assert bool(defined) == (name == "03_add_a_scheme.ipynb"), "a scheme alone"


@pytest.mark.notebooks
def test_they_run(notebook, tmp_path):
    nbclient, nbformat = map(pytest.importorskip, ("nbclient", "nbformat"))
    name, _ = notebook
    found = nbformat.read(FOLDER / name, as_version=4)
    [sizes] = [c for c in found.cells if "parameters" in c.metadata.get("tags", ())]
    sizes.source += "".join(f"\n{name} = {value}" for name, value in SMALL.items())
    nbclient.NotebookClient(
        found,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    assert not any(tmp_path.iterdir()), "a notebook leaves nothing where it is opened"
