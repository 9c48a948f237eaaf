"""What a person would ask a new user: versions, devices, folders, data."""

import pathlib
import sys

from .. import __version__
from .finding import Finding
from .gpus import check_gpus
from .libraries import check_libraries
from .machine import check_cores, check_memory
from .places import check_data, check_folders


def report(network=False):
    """Prints all findings; returns 1 if anything is wrong, or else 0."""
    wrong = 0
    for finding in examine(network):
        print(finding, flush=True)  # at once: a library may end this process
        wrong += finding.wrong
    if wrong:
        print(f"\nWhat is WRONG must be put right before training ({wrong}).")
    else:
        print("\nAll that training needs is there.")
    return int(wrong > 0)


def examine(network=False):
    """Yields every `Finding`."""
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    here = pathlib.Path(__file__).parents[1]
    yield Finding("residual_keras", f"{__version__}, {here}")
    yield from check_libraries()
    yield check_cores()
    yield check_memory()
    if "tensorflow" in sys.modules:
        yield from check_gpus(sys.modules["tensorflow"])
    yield from check_folders()
    yield from check_data(network)
