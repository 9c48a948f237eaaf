"""The files of a preset, and whether they are what was saved."""

import hashlib
import json
import pathlib

FORMAT = 1
PRESET = "preset.json"
WEIGHTS = "weights.npz"
CARD = "README.md"
KINDS = {"name": str, "made": dict, "facts": dict, "sha256": dict, "model": dict}
MADE = {"labels": list, "papers": list, "parameters": int}
FACTS = {"recipe": dict, "metrics": dict, "behaviour": dict, "golden": dict}
FACTS |= {"limits": list, "papers": list}  # each of them may be missing
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
            _check_kinds(said, KINDS)
            sealed = said["sha256"][PRESET] == seal(said)
            _check_kinds(said["made"], MADE)
            check_facts(said["facts"])
    except (ValueError, KeyError, TypeError):  # not UTF-8 is a ValueError too
        raise ValueError(f"{path} is no preset, or damaged. {AGAIN}") from None
    if number != FORMAT:
        raise ValueError(
            f"{path} is of format {number!r}, and this version reads {FORMAT}. Install "
            "the residual_keras that wrote it, or a newer one."
        )
    if not sealed:
        raise ValueError(_differs(path))
    return said


def written(said):
    """The bytes of a preset.json that says this."""
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    return text.encode("utf-8")


def seal(said):
    """The SHA-256 of all that a preset.json says but the hashes themselves."""
    rest = {key: value for key, value in said.items() if key != "sha256"}
    return digest(json.dumps(rest, sort_keys=True).encode("utf-8"))


def checked(folder, said):
    """The bytes of a preset's weights.npz, as they were when it was saved.

    Its card is for people, who may add to it.

    Args:
        folder: the path of the preset.
        said: what its preset.json says.

    Raises:
        ValueError: if the file is missing or differs.
    """
    path = folder / WEIGHTS
    found = _bytes(path)
    _check(path, found, said["sha256"].get(WEIGHTS))
    return found


def size(folder):
    """The bytes of the three files together; a ValueError where one is missing."""
    paths = [folder / name for name in (PRESET, WEIGHTS, CARD)]
    return sum(_asked(path, pathlib.Path.stat).st_size for path in paths)


def _bytes(path):
    return _asked(path, pathlib.Path.read_bytes)


def _asked(path, question):
    """What a file answers, or a ValueError where it cannot."""
    try:
        return question(path)
    except OSError as error:
        raise ValueError(
            f"A preset needs {path}. Received: {error.strerror}. {AGAIN}"
        ) from None


def check_facts(facts):
    """Raises TypeError if a fact that the card has a place for is of another kind."""
    _check_kinds(facts, {name: FACTS[name] for name in FACTS if name in facts})


def _check_kinds(found, kinds):
    for name, kind in kinds.items():
        if not isinstance(found[name], kind):
            raise TypeError(f"{name} must be a {kind.__name__}")


def _check(path, data, expected):
    if digest(data) != expected:
        raise ValueError(_differs(path))


def _differs(path):
    return f"{path} is not the file that was saved: its SHA-256 differs. {AGAIN}"
