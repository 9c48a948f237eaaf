"""Writes docs/schemes.md, every scheme as its docstring has it, and what it costs.

    python docs/make_schemes.py

The README's table of schemes is written too. The costs are the rows of
benchmarks/schemes.csv, which `benchmarks/schemes.py --csv` writes, and what deep stacks
learn those of benchmarks/depth.csv, from `benchmarks/depth.py --csv`; a scheme without
a row is "not measured".
"""

import csv
import itertools
import pathlib
import re

from residual_keras import catalogue
from residual_keras.spec import parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "benchmarks" / "schemes.csv"
DEPTHS = ROOT / "benchmarks" / "depth.csv"
PAGE = ROOT / "docs" / "schemes.md"
README = ROOT / "README.md"

HEAD = """# Residual schemes

What `residual=` takes, `"name"` or `"name(option=value)"`, and `residual-keras schemes`
lists. f is a sublayer, attention or feed-forward, with a dropout of its own; x is the
stream, (batch, time, embed_dim); LN is the norm that `norm=` asks for. This page is
written by `python docs/make_schemes.py` from the schemes' docstrings and from
benchmarks/schemes.csv: change those."""
COLUMNS = (
    "| scheme | state | equation | weights | CPU time | memory | learns |\n"
    + 7 * "|---"
    + "|"
)


def page(found, figures, depths):
    """The page.

    Args:
        found: a list of `catalogue.Scheme`, those of one kind side by side.
        figures: the rows of benchmarks/schemes.csv, dicts.
        depths: those of benchmarks/depth.csv.

    Returns:
        Markdown.
    """
    table = itertools.chain(*(rows(scheme, figures, depths) for scheme in found))
    parts = [HEAD + setting(figures) + reach(depths), "\n".join([COLUMNS, *table])]
    for kind, group in itertools.groupby(found, lambda scheme: scheme.kind):
        parts.append(f"## State: {kind}")
        parts += map(section, group)
    return "\n\n".join(parts) + "\n"


def setting(figures):
    """How the figures were had, in a sentence or two."""
    if not figures:
        return ""
    first = figures[0]
    versions = "; ".join(sorted({row["versions"] for row in figures}))
    return (
        "\n\nThe costs are a training step's against `pre_ln`, as measured by "
        f"benchmarks/schemes.py with {first['layers']} blocks on {first['batch']} x "
        f"{first['length']} tokens, embed_dim={first['embed_dim']}, num_heads="
        f"{first['num_heads']}, ff_dim={first['ff_dim']} ({versions}): weights more or "
        f"less than its {int(first['pre_ln_weights']):,}; CPU seconds of the whole "
        "process, the median ratio of steps taken in turns and its quartiles; the most "
        "memory that the whole process held. The row of `pre_ln` shows the noise."
    )


def reach(depths):
    """How the accuracies were had, in a sentence."""
    if not depths:
        return ""
    layers = " and ".join(sorted({row["layers"] for row in depths}, key=int))
    return (
        f"\n\n`learns` is the test accuracy of a narrow stack by its number of blocks, "
        f"{layers}, with one recipe for all, where 0.5 is chance; "
        "benchmarks/depth.py trains them."
    )


def readme(text, found):
    """The README with its table of schemes as they are now: a row a kind of state.

    Args:
        text: the README.
        found: a list of `catalogue.Scheme`, those of one kind side by side.

    Returns:
        Markdown.
    """
    head = line("what is carried past the sublayers", "`residual=`")
    table = [head, "|---|---|"]
    for kind, group in itertools.groupby(found, lambda scheme: scheme.kind):
        names = (f'`"{scheme.name}"`' for scheme in group)
        table.append(line(kind, " ".join(names)))
    begin, _, rest = text.partition(head)
    _, _, rest = rest.partition("\n\n")
    return begin + "\n".join(table) + "\n\n" + rest


def rows(scheme, figures, depths):
    """The table's row of a scheme, and one for each of its options measured."""
    measured = {row["scheme"]: row for row in figures}
    learned = {}
    for row in depths:
        found = f"{row['layers']}: {row['accuracy']}"
        learned.setdefault(row["scheme"], []).append(found)
    for spec in dict.fromkeys([scheme.name, *measured, *learned]):
        if parse(spec)[0] != scheme.name:
            continue
        named = code(spec), "", ""
        if spec == scheme.name:
            equation = code(scheme.equation).replace("|", "\\|")
            named = f"[`{spec}`](#{spec})", scheme.state, equation
        reached = ", ".join(learned.get(spec, ["not measured"]))
        yield line(*named, *costs(measured.get(spec)), reached)


def line(*cells):
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def costs(row):
    """Weights, time and memory against pre_ln."""
    if row is None:
        return 3 * ["not measured"]
    return (
        f"{int(row['weights']) - int(row['pre_ln_weights']):+,}",
        "{cpu_ratio} ({cpu_low} to {cpu_high})".format(**row),
        row["memory_ratio"],
    )


def section(scheme):
    """All that is known of a scheme."""
    parts = [f"### {scheme.name}", code(scheme.equation), prose(scheme.about)]
    for label, field in catalogue.LABELS.items():
        if text := getattr(scheme, field):
            parts.append(f"**{label}:** {prose(text)}")
    if scheme.options:
        parts.append("**Options:**")
        parts.append(
            "\n".join(
                f"- {code(f'{name}={default}')}: {prose(scheme.meanings.get(name, ''))}"
                for name, default in scheme.defaults.items()
            )
        )
    return "\n\n".join(filter(None, parts))


def code(text):
    """`text` as Markdown's code, in which no other code can stand."""
    return text and "`" + text.replace("`", "") + "`"


def prose(text):
    """`text` as Markdown shows it: signs as they are, papers as links, code as code."""
    paragraphs = text.split("\n\n")
    for n, paragraph in enumerate(paragraphs):
        if not paragraph.startswith("    "):  # an indented one is code already
            # A span in backticks is matched first, and so left as it is.
            paragraph = re.sub(r"(`[^`]*`)|([*<~])", escaped, paragraph)
            paragraphs[n] = re.sub(
                r"arXiv:(\d{4}\.\d{4,5})",
                r"[\g<0>](https://arxiv.org/abs/\1)",
                paragraph,
            )
    return "\n\n".join(paragraphs)


def escaped(match):
    """A sign that Markdown would read as its own, with a backslash."""
    return match[1] or f"\\{match[2]}"


def read(path):
    """The rows of a CSV file; none where nothing was measured yet."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    found = catalogue.schemes()
    text = readme(README.read_text(encoding="utf-8"), found)
    README.write_text(text, encoding="utf-8", newline="\n")
    text = page(found, read(FIGURES), read(DEPTHS))
    PAGE.write_text(text, encoding="utf-8", newline="\n")
