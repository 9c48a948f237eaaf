"""Writes benchmarks/README.md: every benchmark's question, command and table.

    python benchmarks/make_readme.py

The tables are the CSV files that the benchmarks wrote with `--csv`, a file beside each
script and of its name; a benchmark without one has no table yet. Costs by scheme and
what deep stacks learn stand in docs/schemes.md, which docs/make_schemes.py writes.
"""

import importlib
import pathlib
import sys

from measuring import Results

FOLDER = pathlib.Path(__file__).resolve().parent
BENCHMARKS = ["peers", "operations", "growth", "precision", "lengths", "latency"]
BENCHMARKS += ["serving", "startup", "vectorizers", "gpu", "tutorial"]
HEAD = """# Benchmarks

One command a question. Each prints a table, and writes it to a CSV file with `--csv`,
from which `python benchmarks/make_readme.py` makes this page. Times are CPU seconds of
all threads unless a column says wall; what is compared takes turns in one run. Schemes
are compared in [docs/schemes.md](../docs/schemes.md), by benchmarks/schemes.py and
benchmarks/depth.py."""


def main():
    (FOLDER / "README.md").write_text(page(), encoding="utf-8")


def page():
    """The page, in Markdown."""
    return "\n\n".join([HEAD, *map(section, BENCHMARKS)]) + "\n"


def section(name):
    """What a benchmark asks and how, from its docstring, and its table."""
    module = importlib.import_module(name)
    title, *paragraphs = module.__doc__.strip().split("\n\n")
    parts = [f"## {title.removesuffix('.')}", *map(block, paragraphs)]
    path = FOLDER / f"{name}.csv"
    if path.exists():
        results = Results(module.COLUMNS, module.KEY, path)
        rows = map(results.line, results.rows.values())
        parts.append("\n".join([results.head(), *rows]))
    return "\n\n".join(parts)


def block(paragraph):
    """A paragraph; where it is indented, one of commands."""
    if not paragraph.startswith("    "):
        return paragraph
    commands = "\n".join(line.strip() for line in paragraph.split("\n"))
    return f"```bash\n{commands}\n```"


if __name__ == "__main__":
    sys.exit(main())
