"""What a study asks of its processes: to look ahead, and to do its runs."""

import contextlib
import dataclasses
import json
import pathlib
import tempfile
import time

from .plan import Outlook
from .processes import cores, in_turn, start


def look_ahead(runs, baseline, jobs, modules):
    """Checks all recipes and measures the baseline's deepest; returns an `Outlook`."""
    different = {(r.recipe.residual, r.recipe.num_layers): r.recipe for r in runs}
    deepest = max(
        (r for r in different.values() if r.residual == baseline),
        key=lambda recipe: recipe.num_layers,
    )
    with tempfile.TemporaryDirectory() as place:
        answer, log = pathlib.Path(place, "answer.json"), pathlib.Path(place, "log")
        task = {
            "verb": "look",
            "recipes": [dataclasses.asdict(recipe) for recipe in different.values()],
            "measured": dataclasses.asdict(deepest),
            "answer": str(answer),
            "modules": list(modules),
            "started": time.time(),
        }
        threads = max(1, cores() // jobs)
        for _ in in_turn(["look"], 1, lambda _: start(task, log, threads)):
            pass
        if not answer.exists():
            said = log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"The first steps could not be measured.\n{said}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in found:
        raise ValueError(found["error"])
    return Outlook(**found)


def perform(runs, jobs, modules, lock):
    """Does the runs that have not ended; yields each when it has."""
    threads = max(1, cores() // jobs)

    def begin(run):
        run.path.parent.mkdir(exist_ok=True)
        task = {
            "verb": "run",
            "recipe": dataclasses.asdict(run.recipe),
            "path": str(run.path),
            "modules": list(modules),
        }
        return start(task, run.log, threads, lock)

    waiting = [run for run in runs if not run.ended()]
    for run in waiting:
        (run.path / "outcome.json").unlink(missing_ok=True)  # it says that it failed
    with contextlib.closing(in_turn(waiting, jobs, begin)) as ending:
        for run, status in ending:
            if status and not run.outcome():
                ended = f"by signal {-status}" if status < 0 else f"with {status}"
                run.end("failed", message=f"The process ended {ended}; see {run.log}.")
            yield run
