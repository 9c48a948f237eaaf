"""Writes the README's table of presets anew, and what half precision costs them.

python studies/zoo/table.py
"""

import csv
import math
import pathlib
import re

from residual_keras.presets import shelf
from residual_keras.run_folder import write
from residual_keras.sizes import SIZES

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "README.md"
TWINS = ROOT / "benchmarks" / "tutorial.csv"
START, END = "<!-- presets: studies/zoo/table.py -->", "<!-- end of presets -->"
TWIN = "the Keras tutorials' model, as large, three seeds"
NO_SCHEME = "none, a linear model of runs of words"


def main():
    """The command."""
    write(README, page(README.read_text(encoding="utf-8")))


def page(text):
    """README.md with the table of what is on the shelf."""
    entries = shelf.entries()
    found = table(entries, read_twins()) + "\n\n" + cost_of_half_precision(entries)
    middle = f"{START}\n{found}\n{END}"
    return re.sub(f"{START}.*?{END}", lambda _: middle, text, flags=re.DOTALL)


def read_twins():
    """What the tutorials' model reaches by size, from benchmarks/tutorial.py."""
    if not TWINS.exists():
        return {}
    with TWINS.open(encoding="utf-8", newline="") as file:
        return {
            row["size"]: f"{float(row['accuracy']):.3f} ± {float(row['spread']):.3f}"
            for row in csv.DictReader(file)
        }


def table(entries, twins):
    """Accuracy on the test texts by scheme and size, in Markdown."""
    there = {entry["size"] for entry in entries.values()}
    sizes = [size for size in SIZES if size in there]
    found = {}
    for name, entry in entries.items():
        figure = f"{entry['metrics']['accuracy']:.3f}"
        found.setdefault(entry["scheme"], {})[entry["size"]] = figure, name
    lines = [["scheme", *sizes], ["---"] * (1 + len(sizes))]
    for scheme, row in sorted(found.items()):
        if scheme:
            cells = [row.get(size, ("", ""))[0] for size in sizes]
            lines.append([f"`{scheme}`", *cells])
    if twins:
        lines.append([TWIN, *(twins.get(size, "") for size in sizes)])
    for figure, name in found.get("", {}).values():
        lines.append([f"{NO_SCHEME}: `{name}`", figure, *[""] * (len(sizes) - 1)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cost_of_half_precision(entries):
    """The largest change of an accuracy, as a sentence."""
    facts = [shelf.find(name)[1]["facts"] for name in entries]
    changes = [f["metrics"]["accuracy"] - f["float32_accuracy"] for f in facts]
    bound = math.ceil(1e4 * max(map(abs, changes))) / 1e4  # rounded, it could be less
    return (
        "These are figures of the weights as stored, in half precision, which changed "
        f"no accuracy\nby more than {bound:.4f}."
    )


if __name__ == "__main__":
    main()
