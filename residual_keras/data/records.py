"""Rows of CSV, TSV and JSON lines files, each with its place for error messages."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import pathlib
import reprlib
import zlib
from collections.abc import Sequence

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DELIMITERS = {".csv": "a comma", ".tsv": "a tab"}
LABELLED_KINDS = (*_DELIMITERS, ".jsonl", ".json")

# A file without a header offers whole texts as its columns' names: show their heads.
_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxlist = 40, 12
shorten = _SHORT.repr


def data_error(rule: str, received: str, remedy: str) -> ValueError:
    """Word an error as all of this package are: rule, what was received, remedy."""
    return ValueError(f"{rule}. Received: {received}. {remedy}.")


def no_rows(path: pathlib.Path) -> ValueError:
    """Word the error about a file that is empty, or a header alone."""
    return data_error("A file holds one text or more", f"{path}, empty", "Add rows")


def file_kind(path: pathlib.Path, known: Sequence[str]) -> str:
    """Return a file's suffix without that of its compression, one of `known`."""
    if not path.exists():
        raise data_error("The file or folder must exist", str(path), "Check the path")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _OPENERS:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in known:
        raise data_error(
            f"Files of these types can be read here: {', '.join(known)}, each also "
            f"compressed as {', '.join(_OPENERS)}",
            str(path),
            "Save the file as one of them",
        )
    return kind


def read_text(path: pathlib.Path) -> str:
    """Read a UTF-8 file, compressed or not, without its byte order mark."""
    try:
        with _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise data_error(
            "The file can be read and is whole",
            f"{path}: {error}",
            "Check its permissions, or fetch it again",
        ) from error
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise data_error(
            "Files are UTF-8",
            f"{path}, line {line}, byte {column}: 0x{content[error.start]:02x}",
            "Save the file anew as UTF-8",
        ) from None


def split_lines(content: str) -> list[str]:
    """Split at newlines alone: texts hold other line breaks that are not row ends."""
    lines = content.split("\n")
    if not lines[-1]:
        lines.pop()
    end = "\r" if lines and lines[0].endswith("\r") else ""  # written on Windows
    return [line.removesuffix(end) for line in lines]


def read_records(path: pathlib.Path, columns: dict) -> list[tuple[str, list]]:
    """Read some columns of a file.

    Args:
        path: The file.
        columns: The caller's arguments, by name, that name the columns.

    Returns:
        Per row the pair of its place and its values in `columns`.
    """
    kind = file_kind(path, LABELLED_KINDS)
    content = read_text(path)
    if kind in _DELIMITERS:
        records = list(_table_records(path, kind, content, columns))
    else:
        records = list(_json_records(path, content, columns))
    if not records:
        raise no_rows(path)
    return [(f"{path}, line {line}", values) for line, values in records]


def _json_records(path, content, columns):
    for line, row in enumerate(split_lines(content), 1):
        if not row.strip():
            continue
        try:
            record = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise data_error(
                "Each line holds one JSON object",
                f"{path}, line {line}: {error}",
                "Write the file as JSON lines",
            ) from None
        if not isinstance(record, dict):
            raise data_error(
                "Each line holds one JSON object",
                f"{path}, line {line}: a {type(record).__name__}",
                "Write the file as JSON lines, one {...} a line",
            )
        for argument, key in columns.items():
            if str(key) not in record:
                raise data_error(
                    f"Each object needs the key {key!r}",
                    f"{path}, line {line}: keys {shorten(list(record))}",
                    f"Add it, or name another key by {argument}",
                )
        yield line, [record[str(key)] for key in columns.values()]


def _table_records(path, kind, content, columns):
    rows = _csv_rows(path, content) if kind == ".csv" else _tsv_rows(content)
    if not rows:
        return
    first = rows[0][1]
    numbered = {argument: _is_number(column) for argument, column in columns.items()}
    if len(set(numbered.values())) == 2:
        raise data_error(
            "Columns are given all by name or all by number",
            ", ".join(f"{name}={column!r}" for name, column in columns.items()),
            "Numbers, counted from 0, are for a file without a header",
        )
    if all(numbered.values()):
        indices = [int(column) for column in columns.values()]
        unknown = [index for index in indices if not 0 <= index < len(first)]
    else:
        rows = rows[1:]
        unknown = [name for name in columns.values() if first.count(name) != 1]
        indices = [first.index(name) for name in columns.values() if not unknown]
    if unknown:
        raise data_error(
            f"The file needs the column {unknown[0]!r}, once",
            f"{path} with {len(first)} column(s) split at {_DELIMITERS[kind]}, "
            f"the first row being {shorten(first)}",
            f"Name the columns by {' and '.join(columns)}; where the file has no "
            "header row, give their numbers, counted from 0",
        )
    for line, cells in rows:
        if len(cells) < len(first) and not any(cells):
            continue  # a blank line
        if len(cells) != len(first):
            raise data_error(
                f"Each row has as many columns as the first, {len(first)}",
                f"{path}, line {line}: {len(cells)} split at {_DELIMITERS[kind]}",
                "Quote the text in a CSV file; take the tabs and newlines out of the "
                "text in a TSV file",
            )
        yield line, [cells[index] for index in indices]


def _csv_rows(path, content):
    rows, line = [], 1
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    limit = csv.field_size_limit(len(content) + 1)  # the usual limit is 128 KiB
    try:
        for cells in reader:
            if cells:
                rows.append((line, cells))
            line = reader.line_num + 1  # a quoted cell may span lines
    except csv.Error as error:
        raise data_error(
            'A CSV file quotes a cell with " and a quote inside it with two',
            f"{path}, the row from line {line} on: {error}",
            "Close the quotes, or save the file as TSV",
        ) from None
    finally:
        csv.field_size_limit(limit)
    return rows


def _tsv_rows(content):
    return [(line, row.split("\t")) for line, row in enumerate(split_lines(content), 1)]


def _is_number(column) -> bool:
    return isinstance(column, int) or str(column).isdecimal()
