"""The studies' commands and pages, without training anything."""

import csv
import dataclasses
import importlib.util
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "studies" / "depth"


@pytest.fixture
def study():
    """The module studies/depth/study.py."""
    spec = importlib.util.spec_from_file_location("study", FOLDER / "study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(study):
    for path in study.PAGES:
        page = path.read_text(encoding="utf-8")
        assert study.page(page) == page, "run python studies/depth/study.py --pages"


def test_the_parts_can_be_run(study):
    from residual_keras import Recipe, residuals

    options = {field.name for field in dataclasses.fields(Recipe)}
    for name, part in study.PARTS.items():
        assert part.keys() - {"schemes", "layers", "seeds"} <= options
        assert "pre_ln" in part["schemes"] and study.TEST_TEXTS[name]
        for scheme in part["schemes"]:
            residuals.get(scheme, num_sublayers=2 * max(part["layers"]))


def test_a_table_is_made_of_what_is_there(study, tmp_path, monkeypatch):
    columns = ("scheme", "layers", "seed", "learning_rate", "status", "test_accuracy")
    columns += ("validation_accuracy", "parameters", "cpu_seconds")
    rows = [
        dict(zip(columns, (scheme, 2, seed, 1e-3, "finished", a, a, 7, 1), strict=True))
        for scheme, base in (("pre_ln", 0.9), ("none", 0.5), ("post_ln", 0.9))
        for seed, a in enumerate((base, base + 0.002, base - 0.002))
    ]
    with (tmp_path / "imdb.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setattr(study, "HERE", tmp_path)
    page = study.page("<!-- imdb: study.py -->\nold\n<!-- end of imdb -->\n")
    assert "old" not in page
    assert "| scheme | 2 blocks |" in page
    assert "| `pre_ln` | 0.900 ± 0.002 |" in page
    assert "| `none` | 0.500 ± 0.002 (worse) |" in page
    assert "| `post_ln` | 0.900 ± 0.002 |" in page
    assert study.page(page) == page
