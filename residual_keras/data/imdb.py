"""IMDB reviews: tensorflow-datasets, the downloaded archive, or the extracted tree."""

from __future__ import annotations

import contextlib
import gzip
import os
import pathlib
import re
import socket
import tarfile
import threading
import urllib.parse
import urllib.request
import zlib

from .splits import Split, TextData, stratified_split

_LABELS = ("neg", "pos")
ARCHIVE = "aclImdb_v1.tar.gz"
# The folders of a split, by label.
_FOLDERS = {
    "train": ("train/neg", "train/pos"),
    "test": ("test/neg", "test/pos"),
    "unsupervised": ("train/unsup",),
}
_PROBE_SECONDS = 4.0


def load(
    path: str | pathlib.Path | None = None,
    *,
    download: bool = False,
    validation: float = 0.1,
    seed: int = 0,
) -> TextData:
    """Load the Large Movie Review Dataset (Maas et al., ACL 2011).

    What tensorflow-datasets has prepared is read at once. The archive
    `aclImdb_v1.tar.gz` and the tree it extracts to are read as they are. The
    validation rows are carved from the 25,000 training reviews; the test reviews
    are left untouched.

    Args:
        path: A data folder of tensorflow-datasets, the archive or the folder that
            holds it, or the folder `aclImdb` or its parent. `None` is the default
            data folder of tensorflow-datasets, which `TFDS_DATA_DIR` sets.
        download: Whether tensorflow-datasets may download the reviews (84 MB) into
            the data folder when they are not there.
        validation: The validation rows' share of the training reviews.
        seed: Decides which reviews are drawn for validation.

    Returns:
        A `TextData` with the labels `("neg", "pos")`.

    Raises:
        ValueError: If there are no reviews at `path`, the archive is damaged, a
            folder of the tree is missing, or the download's host is out of reach.

    Example:
        >>> data = load(download=True)  # doctest: +SKIP
        >>> len(data.train) + len(data.validation), len(data.test)  # doctest: +SKIP
        (25000, 25000)
    """
    train, test = _load_splits(path, download, ("train", "test"))
    train, held_out = stratified_split(train, validation, seed)
    return TextData("imdb", _LABELS, train, held_out, test)


def load_unlabelled(
    path: str | pathlib.Path | None = None,
    *,
    download: bool = False,
    validation: float = 0.1,
    seed: int = 0,
) -> list[str]:
    """Load the reviews to pretrain on: those for training, and 50,000 without a label.

    A review that `load` has for validation or for testing is left out, wherever it
    stands: some stand among the others too.

    Args:
        path: As in `load`.
        download: As in `load`.
        validation: As in `load`.
        seed: As in `load`.

    Returns:
        The reviews.

    Raises:
        ValueError: As `load` does.

    Example:
        >>> len(load_unlabelled(download=True))  # doctest: +SKIP
        72083
    """
    train, test, rest = _load_splits(path, download, tuple(_FOLDERS))
    train, held_out = stratified_split(train, validation, seed)
    barred = {*held_out.texts, *test.texts}
    return [text for text in [*train.texts, *rest.texts] if text not in barred]


def _load_splits(path, download, parts):
    """Find which of the forms `path` has and read some of its splits."""
    if path is None:
        return _load_tfds(None, download, parts)
    path = os.path.expanduser(path)
    review = _pattern(parts)
    for archive in (pathlib.Path(path), pathlib.Path(path, ARCHIVE)):
        if archive.is_file():
            return _splits(_read_archive(archive, review), archive, parts)
    for root in (pathlib.Path(path), pathlib.Path(path, "aclImdb")):
        is_tree = (root / "train").is_dir() or (root / "test").is_dir()
        if is_tree or (root.name == "aclImdb" and root.is_dir()):
            return _splits(_read_tree(root, review), root, parts)
    return _load_tfds(path, download, parts)


def _pattern(parts):
    """What the names of the splits' reviews match: the folder and a number."""
    folders = "|".join(folder for part in parts for folder in _FOLDERS[part])
    return re.compile(rf"(?:^|/)({folders})/(\d+)_\d+\.txt$")


def _load_tfds(data_dir, download, parts):
    """Read what tensorflow-datasets has prepared, preparing it first if asked to."""
    import tensorflow_datasets as tfds

    builder = tfds.builder("imdb_reviews", data_dir=data_dir)
    # Asked about a folder that is not there, tensorflow-datasets logs a warning.
    if not (builder.data_path.exists() and builder.is_prepared()):
        if not download:
            raise ValueError(
                "No IMDB reviews found: neither imdb_reviews prepared by "
                f"tensorflow-datasets, nor {ARCHIVE}, nor a folder aclImdb. "
                f"Received: path={data_dir!r}, looked for {builder.data_dir}. "
                "Give download=True (--download), or the path of the archive or of "
                'the folder aclImdb, or use the data "reviews", which needs no file.'
            )
        check_network(next(iter(builder.url_infos)))
        builder.download_and_prepare()
    if missing := set(parts) - set(builder.info.splits):
        raise ValueError(
            f"The IMDB reviews have the splits {', '.join(_FOLDERS)}. Received: "
            f"{builder.data_dir}, without {missing.pop()}. Prepare them again."
        )
    # One batch of everything: row by row takes several times as long.
    batches = tfds.load(
        "imdb_reviews",
        data_dir=data_dir,
        split=list(parts),
        as_supervised=True,
        download=False,
        batch_size=-1,
    )
    return [
        # No label is -1 there, and 0 here.
        Split([text.decode("utf-8") for text in texts.tolist()], labels.clip(0))
        for texts, labels in tfds.as_numpy(batches)
    ]


def check_network(url):
    """Fail at once where a download would stall for minutes before it fails."""
    target = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname):
        target = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = target.port or (443 if target.scheme == "https" else 80)
    reached = threading.Event()

    def connect():
        with (
            contextlib.suppress(OSError),
            socket.create_connection((target.hostname, port), _PROBE_SECONDS),
        ):
            reached.set()

    # A thread bounds the look-up of the name too, which no socket timeout does.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    if not reached.is_set():
        raise ValueError(
            "Downloading the IMDB reviews needs a network that reaches "
            f"{target.hostname}:{port}. Received: download=True. Fetch {url} on "
            'another machine and give its path, or use the data "reviews", which '
            "needs no file."
        )


def _read_archive(path, review):
    """Yield the name and the bytes of each file in the archive.

    Our own reader, as tensorflow-datasets' `manual_dir` takes the archive under one
    name only, and first writes all 100,000 reviews to disk a second time.
    """
    try:
        with gzip.open(path) as stream:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    if review.search(member.name) and member.isfile():
                        yield member.name, archive.extractfile(member).read()
            # gzip compares its checksum where the stream ends, after tar's last block.
            while stream.read(1 << 20):
                pass
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ValueError(
            f"The archive of IMDB reviews is {ARCHIVE}, whole. "
            f"Received: {path}, which does not read as one ({error}). Fetch it again, "
            "or give the folder aclImdb that it extracts to."
        ) from error


def _read_tree(root, review):
    """Yield the name and the bytes of each review below the folder aclImdb."""
    for path in root.glob("*/*/*.txt"):
        name = path.relative_to(root).as_posix()
        if review.search(name):
            yield name, path.read_bytes()


def _splits(files, source, parts):
    """Sort the reviews into the splits, in the order of their numbers."""
    rows = {folder: [] for part in parts for folder in _FOLDERS[part]}
    review = _pattern(parts)
    for name, content in files:
        folder, number = review.search(name).groups()
        try:
            text = content.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"IMDB reviews are UTF-8. Received: {name} in {source} ({error}). "
                f"Extract {ARCHIVE} again."
            ) from error
        rows[folder].append((int(number), text))
    for folder, found in rows.items():
        if not found:
            raise ValueError(
                f"IMDB reviews are files {folder}/<id>_<rating>.txt. "
                f"Received: {source}, which has none in {folder}. Give "
                f"{ARCHIVE} or the whole folder aclImdb that it extracts to."
            )
    splits = []
    for part in parts:
        ordered = sorted(
            (number, label, text)
            for label, folder in enumerate(_FOLDERS[part])
            for number, text in rows[folder]
        )
        splits.append(Split([row[2] for row in ordered], [row[1] for row in ordered]))
    return splits
