"""Paths as people give them: `~` is theirs to use, and what is none is told."""

import os
import pathlib


def path_of(given, what):
    """A path with `~` written out.

    Args:
        given: text or an `os.PathLike`.
        what: what it is the path of, such as `"The folder of a preset"`.

    Returns:
        A `pathlib.Path`.

    Raises:
        ValueError: if it is neither, empty, or begins with the `~` of nobody.

    Example:
        >>> path_of("runs/a", "The folder of a run")
        PosixPath('runs/a')
    """
    try:
        if not given or not isinstance(given, (str, os.PathLike)):
            raise RuntimeError("text is needed")
        return pathlib.Path(given).expanduser()
    except RuntimeError as error:
        raise ValueError(
            f"{what} is told by its path. Received: {given!r} ({error})"
        ) from None
