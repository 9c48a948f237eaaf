"""GPUs, and why TensorFlow sees none."""

import functools
import os
import pathlib
import re

from ..quiet import stderr_kept
from .finding import Finding

# What TensorFlow 2.20 and 2.21 load to use a GPU.
CUDA_LIBRARIES = (
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcudnn.so.9",
    "libcufft.so.11",
    "libcupti.so.12",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libnccl.so.2",
    "libnvJitLink.so.12",
    "libnvrtc.so.12",
)


def check_gpus(tf):
    """Yields the GPUs that TensorFlow sees, or why it sees none.

    Args:
        tf: the module tensorflow.
    """
    with stderr_kept(show_if_failed=False):  # what it logs is said below
        devices = tf.config.list_physical_devices("GPU")
    for device in devices:
        details = tf.config.experimental.get_device_details(device)
        capability = ".".join(map(str, details.get("compute_capability", "?")))
        name = details.get("device_name", device.name)
        yield Finding("GPU", f"{name}, compute capability {capability}")

    loads = functools.partial(can_load, tf)
    built = tf.test.is_built_with_cuda()
    if not devices:
        yield why_no_gpu(built, loads)
    packages = pathlib.Path(tf.__file__).parent.parent / "nvidia"
    if built and (devices or packages.is_dir() or has_driver()):
        yield check_cuda_libraries(loads, packages, wrong=has_driver())


def can_load(tf, library):
    """Whether TensorFlow, with its own search path, can load a library."""
    try:
        tf.load_op_library(library)
    except tf.errors.OpError:
        return False
    return True


def why_no_gpu(built, loads, root="/"):
    """The `Finding` on why there is no GPU, the first reason of those that hold.

    Args:
        built: whether TensorFlow was built for CUDA.
        loads: tells of a library's name whether it can be loaded.
        root: the folder that /proc and /dev are in.
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if not built:
        return Finding(
            "GPU",
            "none: this TensorFlow is built for the CPU alone",
            "on Linux, pip install 'tensorflow[and-cuda]'",
        )
    if not has_driver(root):
        return Finding(
            "GPU",
            "none: no NVIDIA driver is loaded",
            "where there is an NVIDIA GPU, install its driver; nvidia-smi shows it",
        )
    if hidden is not None and (not hidden.strip() or hidden.startswith("-")):
        return Finding(
            "GPU",
            f"none: CUDA_VISIBLE_DEVICES={hidden!r} hides them",
            "unset CUDA_VISIBLE_DEVICES",
        )
    device_files = [pathlib.Path(root, "dev", name) for name in ("nvidiactl", "dxg")]
    if not loads("libcuda.so.1") or not any(path.exists() for path in device_files):
        return Finding(
            "GPU",
            "none: the driver is loaded, and its library or device files are missing",
            "in a container, start it with --gpus all, and have the NVIDIA Container "
            "Toolkit on the host",
            wrong=True,
        )
    return Finding(
        "GPU",
        f"none, though the driver is there ({driver_version(root)}), and "
        f"CUDA_VISIBLE_DEVICES={hidden!r}",
        "see the next line, or what nvidia-smi says, and TensorFlow's own log: python "
        '-c "import tensorflow as tf; tf.config.list_physical_devices()"',
        wrong=True,
    )


def has_driver(root="/"):
    """Whether Linux, or Windows under it, has loaded an NVIDIA driver."""
    return any(
        pathlib.Path(root, path).exists()
        for path in ("proc/driver/nvidia/version", "dev/dxg")
    )


def driver_version(root="/"):
    """The version that the NVIDIA driver tells."""
    try:
        text = pathlib.Path(root, "proc/driver/nvidia/version").read_text()
    except OSError:
        return "version unknown"
    return re.search(r"\d+(\.\d+)+|$", text).group() or "version unknown"


def check_cuda_libraries(loads, packages, wrong):
    """The `Finding` on the CUDA libraries that cannot be loaded.

    Args:
        loads: tells of a library's name whether it can be loaded.
        packages: the folder that pip puts NVIDIA's packages in.
        wrong: whether they are needed, as there is a driver.
    """
    missing = [name for name in CUDA_LIBRARIES if not loads(name)]
    if not missing:
        return Finding("CUDA libraries", f"all {len(CUDA_LIBRARIES)} can be loaded")
    if all(any(packages.glob(f"*/lib/{name}")) for name in missing):
        advice = (
            "they are installed where the loader does not look: list the folders "
            f"{packages}/*/lib in a file of /etc/ld.so.conf.d and run ldconfig, or in "
            "LD_LIBRARY_PATH before Python starts"
        )
    else:
        advice = "pip install 'tensorflow[and-cuda]'"
    return Finding(
        "CUDA libraries", f"cannot be loaded: {', '.join(missing)}", advice, wrong
    )
