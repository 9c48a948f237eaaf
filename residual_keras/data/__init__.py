"""Data sets: one `load` for those known by name and for a user's own files."""

from __future__ import annotations

import importlib
import inspect
import os

from ..spec import check_options, nearest, parse
from .splits import Split, TextData, stratified_split

__all__ = ["Split", "TextData", "load", "load_unlabelled", "stratified_split"]

# Each is the `load` of the module of that name.
_SOURCES = ("imdb", "reviews", "snippets")


def load(
    source: str | os.PathLike,
    *,
    validation: float | str | os.PathLike | None = None,
    seed: int = 0,
    **options,
) -> TextData:
    """Load a data set by its name, or a user's own files by their path.

    Args:
        source: `"reviews"`, `"imdb"` or `"snippets"`, which may carry options as in
            `"reviews(depth=3)"`, or the path of a file or folder (see `files.load`).
            A known name wins over a path; write `"./imdb"` for a folder called so.
        validation: The share of the training rows that is kept for validation or,
            with the user's own files, a file or folder. `None` is the source's own,
            0.1. (The generated `"reviews"` have `validation_size` instead.)
        seed: Decides which rows are drawn.
        **options: Options of that source; those inside `source` come first.

    Returns:
        A `TextData`.

    Raises:
        ValueError: If `source` is neither a known name nor a path that exists, or an
            option is not one of that source's; and whatever the source refuses.

    Example:
        >>> data = load("reviews(depth=1)", seed=3)
        >>> data.name, data.label_names
        ('reviews', ('negative', 'positive'))
    """
    if validation is not None:
        options["validation"] = validation
    return _read("load", source, {"seed": seed, **options})


def load_unlabelled(
    source: str | os.PathLike,
    *,
    validation: float | None = None,
    seed: int = 0,
    **options,
) -> list[str]:
    """Load texts to pretrain on, without labels.

    Of a data set known by name these are its training texts and, with `"imdb"`, the
    50,000 reviews that have no label. What `load` keeps for validation with the same
    `validation` and `seed`, and for testing, is not among them.

    Args:
        source: As in `load`, or the path of a .txt file with a text a line, of a file
            with columns (labels need not be there), or of a folder of .txt files.
        validation: The share of the labelled training rows that `load` validates on;
            of no concern with the user's own files.
        seed: Decides which rows these are.
        **options: Options of that source; those inside `source` come first.

    Returns:
        The texts.

    Raises:
        ValueError: As `load` does.

    Example:
        >>> texts = load_unlabelled("reviews(depth=1, train_size=40)")
        >>> len(texts)
        40
    """
    name, _ = _parse(source)
    if name == "files":
        return _read("read_unlabelled", source, options)
    if validation is not None:
        options["validation"] = validation
    if name == "imdb":
        return _read("load_unlabelled", source, {"seed": seed, **options})
    return _read("load", source, {"seed": seed, **options}).train.texts


def _read(function, source, options):
    """Call a function of the source's module with the options that it knows."""
    name, spec_options = _parse(source)
    options = {**options, **spec_options}
    loader = getattr(importlib.import_module(f".{name}", __package__), function)
    known = set(inspect.signature(loader).parameters)
    if name == "files":
        known.remove("path")
    check_options(options, known, f"data {str(source)!r}")
    if name == "files":
        return loader(os.path.expanduser(source), **options)
    return loader(**options)


def _parse(source):
    """Return the module that reads `source` and the options that it carries."""
    name = str(source).split("(")[0].strip()
    is_path = isinstance(source, (str, os.PathLike)) and source not in _SOURCES
    if is_path and os.path.exists(os.path.expanduser(source)):
        return "files", {}
    if isinstance(source, str) and name in _SOURCES:
        return parse(source)
    raise ValueError(
        "Data is a known name or the path of a file or folder that exists. "
        f"Received: source={source!r}, and no such path exists. "
        f"{nearest(name, _SOURCES)}"
    )
