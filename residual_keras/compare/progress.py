"""What is said while a study goes on: what comes, what is done, what is left."""

import sys
import time

from .plan import blocks, duration
from .processes import cores
from .results import accuracy


class Progress:
    """Says on standard error what is planned, what is done and how long it takes.

    Args:
        verbose: whether it says anything.
        runs: all runs of the study.
        jobs: how many go on at once.
    """

    def __init__(self, verbose, runs, jobs):
        self.verbose = verbose
        self.runs = runs
        self.jobs = jobs

    def say(self, text):
        """Prints a line."""
        if self.verbose:
            print(text, file=sys.stderr, flush=True)

    def plan(self, outlook):
        """Says what comes, and about how long it takes."""
        self.outlook = outlook
        self.started = time.monotonic()
        self.waiting = [run for run in self.runs if not run.ended()]
        self.say(
            f"{len(self.runs)} runs, {len(self.runs) - len(self.waiting)} of them done "
            f"before, on {outlook.texts:,} texts of {outlook.classes} classes, for at "
            f"most {outlook.epochs} epochs each. A step with {blocks(outlook.layers)} "
            f"took {outlook.step_seconds:.3f} s."
        )
        total = duration(outlook.total(self.waiting, self.jobs))
        self.say(
            f"This takes {total} at most, about; runs at once: {self.jobs}, cores: "
            f"{cores()}. Stop it with Ctrl-C; the same command goes on."
        )

    def ended(self, run, study):
        """Says how a run ended, the best so far, and how long the others take."""
        results = dict(zip(self.runs, study.results, strict=True))
        row = results[run].row
        left = [r for r in self.waiting if results[r].row["status"] == "waiting"]
        done = [r for r in self.waiting if r not in left]
        text = f"[{len(self.runs) - len(left)}/{len(self.runs)}] {run}: {row['status']}"
        if row["validation_accuracy"] is not None:
            text += f", validation accuracy {row['validation_accuracy']:.3f}"
        if row["message"]:
            text += f" ({row['message']})"
        best = max(study.chosen.values(), key=accuracy)
        if best.usable:
            first = best.usable[0].row
            text += (
                f". Best so far: {first['scheme']}, {blocks(first['layers'])}, "
                f"{accuracy(best):.3f}"
            )
        if left and done:
            spent = time.monotonic() - self.started
            pace = spent / self.outlook.total(done, self.jobs)
            text += (
                f". About {duration(pace * self.outlook.total(left, self.jobs))} left"
            )
        self.say(f"{text}.")
