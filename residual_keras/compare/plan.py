"""The grid of runs that answers the question, and how long they will take."""

import collections.abc
import contextlib
import dataclasses
import itertools
import json
import pathlib

from ..recipe import Recipe
from ..run_folder import RunFolder, file_name, write

ENDED = ("finished", "stalled", "diverged")  # a failed run is tried again
# What differs from run to run, a field of `Recipe`, and what lists it; the one that
# changes last first.
VARIED = {
    "num_layers": "layers",
    "learning_rate": "learning_rates",
    "seed": "seeds",
    "residual": "schemes",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One training of the study: a recipe, and the folder that is its own.

    The folder holds what `train` writes and outcome.json, which says how it ended.

    Args:
        recipe: a `Recipe`.
        path: of the folder, a `pathlib.Path`.
    """

    recipe: Recipe
    path: pathlib.Path

    def __str__(self):
        recipe = self.recipe
        return (
            f"{recipe.residual}, {blocks(recipe.num_layers)}, seed {recipe.seed}, "
            f"rate {recipe.learning_rate:g}"
        )

    @property
    def log(self):
        """The path of what the run's process says."""
        return self.path.with_name(f"{self.path.name}.log")

    def outcome(self):
        """What outcome.json says, or {} where the run has not ended."""
        path = self.path / "outcome.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def ended(self):
        """Whether the run is over and need not be run again."""
        return self.outcome().get("status") in ENDED

    def end(self, status, **facts):
        """Writes outcome.json."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"status": status, **facts}, indent=2)
        write(self.path / "outcome.json", text + "\n")


def grid(folder, recipe, schemes, layers, seeds, learning_rates=None):
    """The runs of a study: every seed of the shallowest stacks first.

    Args:
        folder: the path of the study's folder, which may hold runs already.
        recipe: the `Recipe` of all that the runs have in common.
        schemes: specs, such as `["pre_ln", "hyper_connections(streams=2)"]`.
        layers: numbers of blocks.
        seeds: numbers.
        learning_rates: at their peak; None: the recipe's.

    Returns:
        A list of `Run`.

    Raises:
        ValueError: if nothing or one thing twice is asked for, or the folder holds a
            run of the same name that was begun with other options.

    Example:
        >>> str(grid("study", Recipe(), ["post_ln"], [2, 4], [0, 1])[-1])
        'post_ln, 4 blocks, seed 1, rate 0.001'
    """
    rates = [recipe.learning_rate] if learning_rates is None else learning_rates
    given = (layers, rates, seeds, schemes)
    axes = [listed(*axis) for axis in zip(VARIED.values(), given, strict=True)]
    runs = []
    for values in itertools.product(*axes):
        this = dataclasses.replace(recipe, **dict(zip(VARIED, values, strict=True)))
        name = (
            f"{file_name(this.residual)}-{this.num_layers}_blocks-seed_{this.seed}-"
            f"rate_{this.learning_rate}"
        )
        runs.append(Run(this, pathlib.Path(folder) / "runs" / name))
    paths = [run.path for run in runs]
    for run in runs:
        if paths.count(run.path) > 1:
            raise ValueError(
                "Two schemes differ by spaces or quotes alone. "
                f"Received: {run.recipe.residual!r}"
            )
        check_same(run)
    return runs


def listed(name, values):
    """The values of an axis as a list, checked."""
    if not isinstance(values, collections.abc.Iterable) or isinstance(values, str):
        raise ValueError(f"{name} must be a list. Received: {name}={values!r}")
    values = list(values)
    if not values or len(set(values)) < len(values):
        raise ValueError(
            f"{name} must name something, and nothing twice. Received: {name}={values}"
        )
    least = {"layers": 1, "seeds": 0}
    for value in values:
        if name in least and not (isinstance(value, int) and value >= least[name]):
            raise ValueError(
                f"{name} must be whole numbers from {least[name]} on. "
                f"Received: {name}={values}"
            )
    return values


def check_same(run):
    """Raises ValueError if the run's folder holds one begun with other options."""
    held = RunFolder(run.path)
    if not held.config.exists():
        return
    theirs = dataclasses.asdict(held.recipe())
    ours = dataclasses.asdict(run.recipe)
    for name, value in ours.items():
        if theirs[name] != value:
            raise ValueError(
                f"{run.path} holds a run with {name}={theirs[name]}. Received: "
                f"{name}={value}. Give the same options, or another folder."
            )


@dataclasses.dataclass(frozen=True)
class Outlook:
    """What was measured before the start, by one run's first steps.

    Args:
        layers: blocks of the model that was measured.
        step_seconds: of one training step.
        setup_seconds: of a run before its first step, with a new process.
        steps: of a run at most, with those of validation by what they cost.
        texts: to train on.
        classes: number of labels.
        epochs: of a run at most.
    """

    layers: int
    step_seconds: float
    setup_seconds: float
    steps: float
    texts: int
    classes: int
    epochs: int

    def seconds(self, run):
        """How long a run takes at most, about.

        All schemes are taken to cost the same. Embedding and head count as one block.
        """
        share = (run.recipe.num_layers + 1) / (self.layers + 1)
        return self.setup_seconds + self.steps * self.step_seconds * share

    def total(self, runs, jobs):
        """How long runs take at most, about, if `jobs` go on at once."""
        each = [self.seconds(run) for run in runs]
        return max(sum(each) / jobs, max(each, default=0.0))


def blocks(layers):
    """A depth in words."""
    return f"{layers} block" + "s" * (layers > 1)


def duration(seconds):
    """A time to read.

    Example:
        >>> duration(40), duration(600), duration(7500)
        ('40 s', '10 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@contextlib.contextmanager
def held(folder):
    """Makes the study's folder and keeps others from running it at the same time.

    Yields:
        The lock's file descriptor, or None. A process that has it holds the folder too.

    Raises:
        ValueError: if it is in use, cannot be made, or holds other things.
    """
    folder = pathlib.Path(folder)
    path = folder / "compare.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() and any(folder.iterdir()):
            raise ValueError(
                f"{folder} is not empty and holds no study. Choose another folder."
            )
        file = open(path, "a")  # noqa: SIM115
    except OSError as error:
        raise ValueError(
            f"Cannot make the study's folder {folder}: {error.strerror}."
        ) from None
    with file:
        yield file.fileno() if lock(file, folder) else None


def lock(file, folder):
    """Locks an open file until all its copies are closed; whether the system can."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"{folder} is in use: by another compare, or by a run of one that was "
            "killed and ends with its next step. Try again in a moment."
        ) from None
    return True
