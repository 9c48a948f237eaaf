"""The report of a study: one HTML page that needs nothing else."""

import dataclasses
import html
import importlib.metadata
import string

from ..recipe import Recipe
from ..run_folder import write
from .plots import figures
from .table import HEADINGS, answer, notes, rows

VARIED = ("residual", "num_layers", "seed", "learning_rate")

LONG = ' class="long"'

PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { margin: 0 auto; max-width: 76rem; padding: 0 1rem 2rem; background: #fff;
  color: #111; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
figure { margin: 0; break-inside: avoid; }
figure h3 { font-size: 1rem; margin: 0 0 0.3rem; }
figcaption { font-size: 0.85rem; color: #444; }
svg { display: block; width: 100%; max-width: 28rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
caption { text-align: left; color: #444; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #ccc; }
td { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.long { white-space: normal; min-width: 16rem; overflow-wrap: anywhere; }
@media print {
  body { max-width: none; font-size: 0.8rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  .wide { overflow: visible; }
  td { white-space: normal; }
}
</style>
</head>
<body>
<h1>$title</h1>
<ul>
$answer
</ul>
<h2>Accuracy</h2>
<div class="wide" tabindex="0" role="region" aria-label="Accuracy">
$table
</div>
$notes
$unfinished
<h2>Figures</h2>
<div class="figures">
$figures
</div>
<h2>How it was measured</h2>
<p>One recipe for all; each run in a process of its own. $recipe</p>
<p>$versions</p>
<p>Every run's figures stand in results.csv beside this page.</p>
</body>
</html>
""")

FIGURE = string.Template("""\
<figure>
<h3>$title</h3>
<div role="img" aria-label="$title">
$svg</div>
<figcaption>$caption</figcaption>
</figure>
""")


def write_report(study, recipe, path):
    """Writes a study's report.html.

    Args:
        study: a `Study`.
        recipe: the `Recipe` that its runs have in common.
        path: of the file.
    """
    write(path, page(study, recipe))


def page(study, recipe):
    """The report as a string of HTML."""
    escape = html.escape
    drawn = "\n".join(
        FIGURE.substitute(title=escape(title), svg=svg, caption=escape(caption))
        for title, svg, caption in figures(study)
    )
    return PAGE.substitute(
        title=escape(f"Residual schemes on {recipe.data}"),
        answer="\n".join(f"<li>{escape(text)}</li>" for text in answer(study)),
        table=table(HEADINGS, rows(study)),
        notes="\n".join(f"<p>{escape(text)}</p>" for text in notes(study)),
        unfinished=unfinished(study),
        figures=drawn,
        recipe=escape(options(recipe)),
        versions=escape(versions()),
    )


def table(headings, lines, long=()):
    """An HTML table; the columns numbered in `long` break their lines."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in headings)
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{LONG * (i in long)}>{html.escape(cell)}</td>"
            for i, cell in enumerate(line)
        )
        + "</tr>"
        for line in lines
    )
    return (
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def unfinished(study):
    """What the reader must know of runs that failed, diverged, stalled or wait."""
    found = study.unfinished()
    if not found:
        return "<p>All runs came to their end.</p>"
    lines = [
        [
            row["scheme"],
            str(row["layers"]),
            str(row["seed"]),
            f"{row['learning_rate']:g}",
            row["status"],
            row["message"] or MEANINGS[row["status"]],
        ]
        for row in found
    ]
    headings = ("scheme", "blocks", "seed", "learning rate", "status", "what happened")
    return (
        "<h2>What went wrong</h2>\n"
        '<div class="wide" tabindex="0" role="region" aria-label="What went wrong">\n'
        f"{table(headings, lines, long=[5])}\n</div>"
    )


MEANINGS = {
    "diverged": "A loss was no finite number; the run does not count.",
    "stalled": "Never better than the largest class by more than chance; it counts.",
    "waiting": "Not run to its end yet: give the command again.",
    "failed": "",
}


def options(recipe):
    """What the recipe sets otherwise than by default, in a sentence."""
    set_so = [
        f"{field.name}={getattr(recipe, field.name)!r}"
        for field in dataclasses.fields(Recipe)
        if field.name not in VARIED and getattr(recipe, field.name) != field.default
    ]
    if not set_so:
        return "All options are the default ones."
    return f"All options are the default ones but {', '.join(set_so)}."


def versions():
    """The versions of what computed, in a sentence."""
    names = ("residual_keras", "keras", "tensorflow")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue  # run from its source
    return f"Computed with {', '.join(found)}."
