"""The files of a preset, and whether they are what was saved."""

import hashlib
import json

FORMAT = 1
PRESET = "preset.json"
WEIGHTS = "weights.npz"
CARD = "README.md"
AGAIN = "Copy the preset again, or install residual_keras again if it came with it."


def digest(data):
    """The SHA-256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read(folder, expected=None):
    """What a preset.json says, a dict.

    Args:
        folder: the path of the preset.
        expected: the SHA-256 that the file must have, where one is known.

    Raises:
        ValueError: if there is none, it is damaged, or of a later format.
    """
    path = folder / PRESET
    data = _bytes(path)
    if expected is not None:
        _check(path, data, expected)
    try:
        said = json.loads(data)
        number = said["format"]
        if number == FORMAT:
            parts = [said[name] for name in ("made", "facts", "sha256", "model")]
            parts.append(said["facts"].get("metrics", {}))
            lists = said["made"]["labels"], said["made"]["papers"]
            whole = isinstance(said["name"], str)
            whole &= isinstance(said["made"]["parameters"], int)
            whole &= all(isinstance(one, list) for one in lists)
            if not whole or not all(isinstance(part, dict) for part in parts):
                raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError):  # or not UTF-8
        raise ValueError(f"{path} is no preset, or damaged. {AGAIN}") from None
    if number != FORMAT:
        raise ValueError(
            f"{path} is of format {number!r}, and this version reads {FORMAT}. Install "
            "the residual_keras that wrote it, or a newer one."
        )
    return said


def checked(folder, said):
    """The bytes of a preset's other files, by name, as they were when it was saved.

    Args:
        folder: the path of the preset.
        said: what its preset.json says.

    Raises:
        ValueError: if one is missing or differs.
    """
    found = {}
    for name in (WEIGHTS, CARD):
        found[name] = _bytes(folder / name)
        _check(folder / name, found[name], said["sha256"].get(name))
    return found


def size(folder):
    """The bytes of the three files together; a ValueError where one is missing."""
    return sum(len(_bytes(folder / name)) for name in (PRESET, WEIGHTS, CARD))


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"A preset needs {path}. Received: {error.strerror}. {AGAIN}"
        ) from None


def _check(path, data, expected):
    if digest(data) != expected:
        raise ValueError(
            f"{path} is not the file that was saved: its SHA-256 differs. {AGAIN}"
        )
