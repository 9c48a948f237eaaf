"""Processes for the tasks of a study: started, shared out over the cores, stopped."""

import collections
import json
import os
import subprocess
import sys
import time


def cores():
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(task, log, threads, lock=None):
    """Starts a process for a task of `worker`.

    It has no part in the terminal's Ctrl-C: closing its standard input stops it, which
    happens by itself when this process ends, however it ends.

    Args:
        task: a dict, see `worker.main`.
        log: the path of the file for what it says.
        threads: how many it may compute with.
        lock: a file descriptor for it to hold, or None.

    Returns:
        A `subprocess.Popen`.
    """
    environment = {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # a GPU is shared with others of these
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    with open(log, "ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker", json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=() if lock is None else (lock,),
        )


def in_turn(tasks, jobs, begin):
    """Runs tasks, `jobs` at once; on the way out, stops those that are not done.

    Args:
        tasks: things to do, each hashable.
        jobs: how many at once.
        begin: a function from a task to a `subprocess.Popen`.

    Yields:
        `(task, exit status)`, as they end.
    """
    waiting, running = collections.deque(tasks), {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                task = waiting.popleft()
                running[task] = begin(task)
            ended = [t for t, process in running.items() if process.poll() is not None]
            for task in ended:
                process = running.pop(task)
                process.stdin.close()
                yield task, process.returncode
            if not ended:
                time.sleep(0.1)
    finally:
        stop(running.values())


def stop(processes):
    """Lets processes end after their step; at once, if Ctrl-C is pressed again."""
    processes = list(processes)
    try:
        for process in processes:
            process.stdin.close()
        for process in processes:
            process.wait()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
        raise
