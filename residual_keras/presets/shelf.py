"""The presets of the package by name: presets.json, read without TensorFlow."""

import fnmatch
import json
import pathlib

from ..paths import path_of
from ..run_folder import write
from ..spec import nearest
from . import files

ROOT = pathlib.Path(__file__).parent
COLUMNS = ("name", "scheme", "size", "MB", "accuracy")


def list_presets(pattern="*"):
    """The names of the presets that come with the package.

    Args:
        pattern: what the names must match, `*` and `?` standing for anything.

    Returns:
        A sorted list of names, empty if none matches.

    Raises:
        ValueError: if the pattern is no string.

    Example:
        >>> list_presets("no_such_*")
        []
    """
    if not isinstance(pattern, str):
        raise ValueError(
            f"A pattern is a string, such as '*imdb*'. Received: {pattern!r}"
        )
    return sorted(name for name in entries() if fnmatch.fnmatchcase(name, pattern))


def entries():
    """What presets.json says of each preset, a dict of dicts by name."""
    path = ROOT / "presets.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ValueError(f"{path} is missing or damaged. {files.AGAIN}") from None


def table(names):
    """A line a preset: name, scheme, size, megabytes and accuracy on the test texts."""
    known, lines = entries(), [COLUMNS]
    for name in names:
        entry = known[name]
        accuracy = entry["metrics"].get("accuracy")
        lines.append(
            (
                name,
                entry["scheme"],
                entry["size"] or "",
                f"{entry['bytes'] / 1e6:.1f}",
                "" if accuracy is None else f"{accuracy:.3f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def find(preset):
    """The folder of a preset, and what preset.json says there.

    Args:
        preset: a name, or the path of a folder; a known name wins, so write "./name"
            for a folder that is called like one.

    Returns:
        `(folder, said)`, a path and a dict.

    Raises:
        ValueError: if there is none, or its preset.json is not what was saved.
    """
    path = path_of(preset, "A preset that is not called by its name")
    known = entries()
    if preset in known:
        folder = ROOT / preset
        return folder, files.read(folder, known[preset]["sha256"])
    try:
        there = path.is_dir()
    except OSError:  # the name is too long
        there = False
    if not there:
        raise ValueError(unknown(preset))
    return path, files.read(path)


def unknown(name):
    """Says that there is no such preset, and what could have been meant."""
    known = entries()
    hint = nearest(name, known) if known else "This version comes with none."
    return f"No preset {str(name)!r}, and no folder that is one. {hint}"


def enter(name):
    """Adds the folder `ROOT / name` to presets.json, or brings its entry up to date.

    Raises:
        ValueError: if the folder holds no preset, or a damaged one.
    """
    folder = ROOT / name
    said = files.read(folder)
    files.checked(folder, said)
    facts = said["facts"]
    entry = {
        "scheme": said["made"].get("residual", ""),
        "size": facts.get("size"),
        "bytes": files.size(folder),
        "metrics": {
            key: value
            for key, value in facts.get("metrics", {}).items()
            if isinstance(value, (int, float))
        },
        "sha256": files.digest((folder / files.PRESET).read_bytes()),
    }
    listed = dict(sorted({**entries(), name: entry}.items()))
    write(ROOT / "presets.json", json.dumps(listed, indent=2) + "\n")
