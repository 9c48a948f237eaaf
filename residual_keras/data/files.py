"""Users' own files and class folders as data sets."""

from __future__ import annotations

import difflib
import json
import os
import pathlib
import re
import sys
from typing import NamedTuple

from .records import (
    LABELLED_KINDS,
    data_error,
    file_kind,
    no_rows,
    read_records,
    read_text,
    shorten,
    split_lines,
)
from .splits import Split, TextData, stratified_split


class Row(NamedTuple):
    """One labelled text and the place it was read from, for error messages."""

    text: str
    label: str
    place: str


def load(
    path: str | os.PathLike,
    *,
    test: str | os.PathLike | None = None,
    validation: float | str | os.PathLike = 0.1,
    seed: int = 0,
    text_column: str | int = "text",
    label_column: str | int = "label",
) -> TextData:
    r"""Load a data set from files or class folders.

    The training set's labels, sorted (numbers by value), are the classes; the other
    sets may not hold a label beyond them.

    Args:
        path: The training set: a file as `read_file` takes, or a folder as
            `read_folder` takes.
        test: A test set's file or folder.
        validation: A validation set's file or folder, or the share of the training
            set to cut off for it.
        seed: Decides which rows a share of the training set takes.
        text_column: The column, or key, that holds the text.
        label_column: The column, or key, that holds the label.

    Returns:
        A `TextData` named after the file or folder.

    Raises:
        ValueError: If a file is malformed, only one class is there, or a label is
            not one of the training set's; the message names the file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.tsv"
        >>> rows = [f"{kind}\tfilm {i}" for i in range(5) for kind in ("bad", "good")]
        >>> rows = [f"{row} was {row[:4].strip()}" for row in rows]
        >>> _ = path.write_text("\n".join(rows), encoding="utf-8", newline="\n")
        >>> data = load(path, text_column=1, label_column=0)
        >>> data.label_names, len(data.train), len(data.validation)
        (('bad', 'good'), 8, 2)
    """
    columns = {"text_column": text_column, "label_column": label_column}
    rows = _read(path, columns)
    label_names = tuple(sorted({row.label for row in rows}, key=_label_order))
    if len(label_names) < 2:
        raise data_error(
            "A classifier needs two classes or more",
            f"only the label {label_names[0]!r} in {path}",
            "Add rows of another label, or check label_column",
        )
    train = _to_split(rows, label_names)
    if isinstance(validation, (str, os.PathLike)):
        validation = load_split(validation, label_names, **columns)
    else:
        train, validation = stratified_split(
            train, validation, seed, label_names=label_names
        )
    return TextData(
        name=_name(pathlib.Path(path)),
        label_names=label_names,
        train=train,
        validation=validation,
        test=None if test is None else load_split(test, label_names, **columns),
    )


def load_split(
    path: str | os.PathLike,
    label_names: tuple[str, ...],
    *,
    text_column: str | int = "text",
    label_column: str | int = "label",
) -> Split:
    r"""Load rows for classes that are known already, such as a trained model's.

    Args:
        path: A file as `read_file` takes, or a folder as `read_folder` takes.
        label_names: The labels in the order of their numbers.
        text_column: The column, or key, that holds the text.
        label_column: The column, or key, that holds the label.

    Returns:
        A `Split`.

    Raises:
        ValueError: If the file is malformed or a label unknown; the message names the
            file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.csv"
        >>> _ = path.write_text("text,label\nA fine film.,good\n", encoding="utf-8")
        >>> load_split(path, ("bad", "good")).labels.tolist()
        [1]
    """
    rows = _read(path, {"text_column": text_column, "label_column": label_column})
    return _to_split(rows, label_names)


def read_file(
    path: str | os.PathLike,
    *,
    text_column: str | int = "text",
    label_column: str | int = "label",
) -> list[Row]:
    r"""Read labelled texts from a CSV, TSV or JSON lines file.

    The file is UTF-8, as it is or compressed (.gz, .bz2, .xz). A CSV file may quote
    its cells; a TSV file is split at tabs and newlines and nothing else. Columns
    given by name need a header row; columns given by number, counted from 0, say
    that the file has none. A JSON lines file (.jsonl, .json) holds one object a
    line, the columns being its keys; labels that are numbers or booleans become
    strings. Texts may be empty, labels may not.

    Args:
        path: The file.
        text_column: The column that holds the text: a name, or a number.
        label_column: The column that holds the label: a name, or a number.

    Returns:
        The rows in the file's order.

    Raises:
        ValueError: If the file is missing, empty, of an unknown type, not UTF-8, or
            malformed; the message names the file and the line.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.csv"
        >>> _ = path.write_text("text,label\nA fine film.,good\n", encoding="utf-8")
        >>> row = read_file(path)[0]
        >>> row.text, row.label
        ('A fine film.', 'good')
    """
    path = pathlib.Path(path)
    if text_column == label_column:
        raise data_error(
            "The text and its label stand in two columns",
            f"text_column={text_column!r}, label_column={label_column!r}",
            "Name two different columns",
        )
    columns = {"text_column": text_column, "label_column": label_column}
    return [
        Row(_to_text(text, place), _to_label(label, place), place)
        for place, (text, label) in read_records(path, columns)
    ]


def read_folder(path: str | os.PathLike) -> list[Row]:
    """Read labelled texts from a folder that holds one sub-folder a class.

    A sub-folder's name is the label, and each .txt file in it (UTF-8, as it is or
    compressed) is one text. Files beside the sub-folders, and hidden ones, are
    passed over.

    Args:
        path: The folder.

    Returns:
        The rows, sorted by label and file name.

    Raises:
        ValueError: If there are no class folders, or one of them is empty or holds
            anything but .txt files.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp())
        >>> (path / "good").mkdir()
        >>> _ = (path / "good" / "1.txt").write_text("A fine film.", encoding="utf-8")
        >>> row = read_folder(path)[0]
        >>> row.text, row.label
        ('A fine film.', 'good')
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        raise data_error("The folder must exist", str(path), "Check the path")
    rows = []
    for folder in filter(pathlib.Path.is_dir, _visible(path)):
        files = _visible(folder)
        if not files or any(file.is_dir() for file in files):
            raise data_error(
                "Each sub-folder is a class and holds .txt files",
                f"{folder} with {'folders inside' if files else 'no file'}",
                "Give the folder whose sub-folders are the classes",
            )
        for file in files:
            rows.append(Row(_whole_text(file), folder.name, str(file)))
    if not rows:
        raise data_error(
            "A folder of texts holds one sub-folder a class",
            f"{path} without sub-folders",
            "Make a folder per class with .txt files in it, or give a file",
        )
    return rows


def read_texts(
    path: str | os.PathLike, *, text_column: str | int = "text"
) -> list[str]:
    r"""Read bare texts, to predict their labels.

    Args:
        path: A .txt file with one text a line (an empty line is an empty text), or a
            file as `read_file` takes; labels need not be there.
        text_column: The column that holds the text, where the file has columns.

    Returns:
        The texts in the file's order.

    Raises:
        ValueError: If the file is missing, of an unknown type, not UTF-8, malformed,
            or empty.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.txt"
        >>> _ = path.write_text("A fine film.\nA dull film.\n", encoding="utf-8")
        >>> read_texts(path)
        ['A fine film.', 'A dull film.']
    """
    path = pathlib.Path(path)
    if file_kind(path, (".txt", *LABELLED_KINDS)) == ".txt":
        texts = split_lines(read_text(path))
        if not texts:
            raise no_rows(path)
        return texts
    records = read_records(path, {"text_column": text_column})
    return [_to_text(text, place) for place, (text,) in records]


def read_unlabelled(
    path: str | os.PathLike, *, text_column: str | int = "text"
) -> list[str]:
    """Read the texts to pretrain on.

    Args:
        path: A file as `read_texts` takes, or a folder of .txt files, each of which is
            one text; in sub-folders too, whatever they are called.
        text_column: The column that holds the text, where a file has columns.

    Returns:
        The texts in the order of the file, or of the files' names.

    Raises:
        ValueError: As `read_texts` does, and if a folder holds no file or any other.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        return read_texts(path, text_column=text_column)
    files = [file for file in _visible(path, "**/*") if not file.is_dir()]
    if not files:
        raise no_rows(path)
    return [_whole_text(file) for file in files]


def stdin_lines() -> list[str]:
    """Read the texts on standard input, one a line.

    Raises:
        ValueError: If they are not UTF-8.
    """
    text = sys.stdin.buffer.read()
    try:
        lines = text.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Standard input must be UTF-8. Received: byte {text[error.start]:#x} at "
            f"{error.start}."
        ) from None
    return lines[:-1] if lines[-1] == "" else lines


def _read(path, columns: dict) -> list[Row]:
    if pathlib.Path(path).is_dir():
        return read_folder(path)
    return read_file(path, **columns)


def _name(path: pathlib.Path) -> str:
    name = path.resolve().name
    if path.is_dir():
        return name
    return re.sub(r"\.[^.]+(\.(gz|bz2|xz))?$", "", name, flags=re.IGNORECASE)


def _visible(folder: pathlib.Path, pattern: str = "*") -> list[pathlib.Path]:
    """List a folder in a fixed order, without what systems and tools leave there."""
    return sorted(
        path
        for path in folder.glob(pattern)
        if not any(
            part.startswith((".", "__")) for part in path.relative_to(folder).parts
        )
    )


def _whole_text(path: pathlib.Path) -> str:
    """Read a .txt file that is one text."""
    file_kind(path, (".txt",))
    # Editors end a file with a newline that is no part of the text.
    return read_text(path).removesuffix("\n").removesuffix("\r")


def _to_text(value, place: str) -> str:
    try:
        value.encode("utf-8")
    except (AttributeError, UnicodeEncodeError):
        raise data_error(
            "A text is a string of Unicode characters",
            f"{place}: {shorten(value)}",
            "Write the text as a string, without half a surrogate pair",
        ) from None
    return value


def _to_label(value, place: str) -> str:
    label = json.dumps(value) if isinstance(value, (bool, int, float)) else value
    label = label.strip() if isinstance(label, str) else ""
    if not label:
        raise data_error(
            "Each row needs a label, a string or a number",
            f"{place}: label={shorten(value)}",
            "Give the row a label, or take the row out",
        )
    return label


def _label_order(label: str) -> tuple:
    number = re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", label)
    return (0, float(label), label) if number else (1, 0.0, label)


def _to_split(rows: list[Row], label_names: tuple[str, ...]) -> Split:
    numbers = {name: number for number, name in enumerate(label_names)}
    for row in rows:
        if row.label not in numbers:
            nearest = difflib.get_close_matches(row.label, label_names, 1, cutoff=0.0)
            raise data_error(
                "Each label is one of the training set's, which are "
                f"{shorten(list(label_names))}",
                f"{row.place}: label={row.label!r}",
                f"The nearest known label is {nearest[0]!r}",
            )
    return Split([row.text for row in rows], [numbers[row.label] for row in rows])
