"""The report of a study: one HTML page that needs nothing else."""

import dataclasses
import html
import importlib.metadata
import pathlib
import string

from ..recipe import Recipe
from ..run_folder import write
from .plan import VARIED, blocks
from .plots import figures
from .table import answer, headings, notes, rows, went_wrong

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
h3 { font-size: 1rem; margin: 1rem 0 0.3rem; }
ul { padding-left: 1.2rem; }
.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); }
figure { margin: 0; break-inside: avoid; }
figure h3 { margin-top: 0; }
figcaption { font-size: 0.85rem; color: #444; }
svg { display: block; width: 100%; max-width: 28rem; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid #ccc; font-variant-numeric: tabular-nums; }
th { white-space: nowrap; }
td:first-child, td:last-child { min-width: 6.5rem; overflow-wrap: anywhere; }
@media print {
  body { max-width: none; font-size: 0.8rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  .wide { overflow: visible; }
}
</style>
</head>
<body>
<h1>$title</h1>
<ul>
$answer
</ul>
<h2>Accuracy</h2>
$tables
$notes
<h2>What went wrong</h2>
$wrong
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
    wrong = went_wrong(study)
    return PAGE.substitute(
        title=escape(f"Residual schemes on {pathlib.Path(recipe.data).name}"),
        answer="\n".join(f"<li>{escape(text)}</li>" for text in answer(study)),
        tables="\n".join(
            f"<h3>{blocks(n)}</h3>\n{table(blocks(n), headings(study), rows(study, n))}"
            for n in study.depths
        ),
        notes="\n".join(f"<p>{escape(text)}</p>" for text in notes(study)),
        wrong=table("What went wrong", ["runs", "what happened"], wrong)
        if wrong
        else "<p>Nothing: all runs came to their end.</p>",
        figures=drawn,
        recipe=escape(options(recipe)),
        versions=escape(versions()),
    )


def table(name, head, lines):
    """An HTML table."""
    escape = html.escape
    columns = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>"
        for line in lines
    )
    body = body.replace(" ± ", "\u00a0±\u00a0")  # lines do not break there
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(name)}">\n'
        f"<table>\n<thead><tr>{columns}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table>\n</div>"
    )


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
