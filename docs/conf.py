"""Sphinx: the site of residual_keras, from docs/, notebooks/ and the docstrings.

    pip install '.[docs]' && sphinx-build -W -c docs . site

The source folder is the repository's root, so that the notebooks and CONTRIBUTING.md
are pages as they are.
"""

import importlib.metadata
import re

project = "residual_keras"
release = importlib.metadata.version(project)
copyright = author = "the authors of residual_keras"
root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "studies/*/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]

nb_execution_mode = "off"  # they are shown as they ran; the tests run them
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # JSON with ... for its numbers
default_role = "code"  # docstrings write `code` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Call arguments", "params_style")]

html_theme = "furo"
html_title = f"residual_keras {release}"


def as_rest(app, what, name, obj, options, lines):
    """Makes reST of what docstrings write plainly, or as Markdown does."""
    fenced, found = False, []
    for line in lines:
        if line.strip().startswith("```"):
            fenced = not fenced
            found += [line.replace("```python", ".. code-block:: python")] * fenced
            found.append("")
        elif fenced:
            found.append(f"    {line}")
        elif line.strip().startswith((">>>", "...")):
            found.append(line)
        else:
            line = line.replace("|", r"\|").replace("*", r"\*")
            found.append(re.sub(r"(`[^`]+`)(\w)?", suffixed, line))
    lines[:] = found


def suffixed(code):
    """A word of code; a plural's s is set off, or reST would not see its end."""
    return code[1] + (rf"\ {code[2]}" if code[2] else "")


def setup(app):
    """Called by Sphinx."""
    # Before napoleon, which has 500: it writes markup of its own.
    app.connect("autodoc-process-docstring", as_rest, priority=400)
