"""Trained models by the names that the command line takes."""

import contextlib
import os

from ..quiet import stderr_kept
from ..run_folder import RunFolder, newest_folder


def trained(run_dir):
    """The `RunFolder` of a trained run, and its model."""
    folder = RunFolder(run_dir or newest_folder())
    if not folder.model.exists():
        raise ValueError(
            f"{folder.path} holds no trained model. Give a folder that "
            "`residual-keras train` made."
        )
    return folder, load(folder.model)


def load(path):
    """The model in a file."""
    with quiet_start():
        from ..saved import load_model
    return load_model(path)


def preset(name):
    """The model of a preset."""
    from ..presets.shelf import find

    find(name)  # a wrong name is told at once
    with quiet_start():
        from ..presets.loading import load_preset
    return load_preset(name)


@contextlib.contextmanager
def quiet_start():
    """Keeps back what TensorFlow logs as it loads, unless loading fails.

    Those lines come before any of its settings is read, and one line of error should
    not drown in them.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with stderr_kept(show_if_failed=True):
        yield
        import tensorflow

        tensorflow.config.list_physical_devices()  # looks for a GPU, and says so
