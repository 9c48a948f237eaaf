"""The versions of a model under one folder, as servers read them: `<base>/<n>/`."""

import contextlib
import pathlib
import re
import shutil


@contextlib.contextmanager
def beside(base):
    """An empty folder under `base` to write in, gone again unless it was renamed.

    Raises:
        ValueError: if `base` is a file or cannot be written.
    """
    base = pathlib.Path(base)
    folder = base / ".writing"
    try:
        base.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
    except OSError as error:
        raise ValueError(
            "An export goes to a folder that can be written. "
            f"Received: base={str(base)!r} ({error.strerror or error})"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def claim_version(folder, base):
    """Renames `folder` to the number that follows the last version of `base`."""
    base = pathlib.Path(base)
    version = max(versions(base), default=0) + 1
    while True:
        try:
            # A folder that someone else made meanwhile and filled is not replaced.
            return folder.rename(base / str(version))
        except OSError:
            if not (base / str(version)).exists():
                raise
            version += 1


def versions(base):
    """The numbers of the versions under a folder, as TensorFlow Serving reads them."""
    names = (path.name for path in pathlib.Path(base).iterdir())
    return sorted(int(name) for name in names if re.fullmatch(r"\d+", name))


def size(folder):
    """The bytes of all files in a folder."""
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)
