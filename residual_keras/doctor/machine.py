"""The cores and the memory that this process may use."""

import os
import pathlib

from .finding import Finding

LEAST_MEMORY = 2e9  # bytes; TensorFlow alone takes a quarter


def check_cores(root="/"):
    """How many of the machine's cores this process may use.

    Args:
        root: the folder that /sys is in.
    """
    there = os.cpu_count()
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    usable = len(affinity(0)) if affinity else there
    limits = pathlib.Path(root, "sys/fs/cgroup")
    older = (
        *numbers(limits / "cpu/cpu.cfs_quota_us"),
        *numbers(limits / "cpu/cpu.cfs_period_us"),
    )
    for both in (numbers(limits / "cpu.max"), older):
        if len(both) == 2 and both[0] > 0:
            usable = min(usable, both[0] / both[1])
    return Finding("cores", f"{usable:.3g} of {there}")


def check_memory(root="/"):
    """How much memory this process may still take.

    Args:
        root: the folder that /proc and /sys are in.
    """
    limits = pathlib.Path(root, "sys/fs/cgroup")
    try:
        text = pathlib.Path(root, "proc/meminfo").read_text()
    except OSError:  # not Linux
        return Finding("memory", "unknown on this system")
    free = int(text.split("MemAvailable:")[1].split()[0]) * 1024
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        both = *numbers(limits / limit), *numbers(limits / used)
        if len(both) == 2:
            free = min(free, both[0] - both[1])
    found = f"{free / 1e9:.1f} GB free"
    if free < LEAST_MEMORY:
        return Finding("memory", found, "end other programs, or raise the limit")
    return Finding("memory", found)


def numbers(path):
    """The whole numbers in a file; none where it has others, or is not there."""
    try:
        return tuple(int(word) for word in path.read_text().split())
    except (OSError, ValueError):  # a cgroup without a limit says "max"
        return ()
