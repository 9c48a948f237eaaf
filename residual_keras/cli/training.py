"""The verbs that train."""

import dataclasses
import json
import pathlib
import sys

from ..pretraining.recipe import PretrainingRecipe
from ..recipe import Recipe
from ..run_folder import next_folder
from ..sizes import SIZES
from ..spec import look_up
from .loading import quiet_start

INTERRUPTED = 130  # the exit status of what Ctrl-C has ended


def train(args):
    """Train a classifier; by default a small one on embedded reviews, in minutes."""
    given = asked(args, Recipe)
    with quiet_start():
        from ..pretraining.pretrained import take_over
        from ..train import train as run
    recipe = None if args.resume else Recipe(**given)
    if recipe and recipe.init:
        recipe = take_over(recipe, given)
    folder = args.run_dir or next_folder(recipe)
    options = {"resume": args.resume, "tensorboard": args.tensorboard}
    metrics = run(recipe, folder, verbose=verbosity(args), **options)
    return told(
        metrics,
        f"train --resume --run-dir {folder}",
        f'Ask it with `residual-keras predict --run-dir {folder} "a text"`; '
        f"serve {folder}/export.",
    )


def pretrain(args):
    """Pretrain an encoder on texts without labels, for `train --init` to start with."""
    given = asked(args, PretrainingRecipe)
    recipe = None if args.resume else PretrainingRecipe(**given)
    folder = args.run_dir or next_folder(recipe, "pretrained")
    with quiet_start():
        from ..pretraining.run import pretrain as run
    metrics = run(recipe, folder, resume=args.resume, verbose=verbosity(args))
    return told(
        metrics,
        f"pretrain --resume --run-dir {folder}",
        f"Start with it by `residual-keras train --init {folder}`.",
    )


def verbosity(args):
    """Keras' number: 1 for a progress bar; 2 for a line an epoch, as --quiet asks.

    A bar in a file or a pipe would be thousands of lines.
    """
    return 1 if sys.stdout.isatty() and not args.quiet else 2


def asked(args, kind):
    """The options of a kind of recipe that were asked for, as a dict.

    Raises:
        ValueError: if there are any beside --resume, or no run to go on with.
    """
    names = {field.name for field in dataclasses.fields(kind)}
    given = {name: value for name, value in vars(args).items() if name in names}
    size = {"size": args.size} if "size" in args else {}
    if not args.resume:
        return {**(look_up(SIZES, args.size, "size") if size else {}), **given}
    if not args.run_dir:
        raise ValueError("--resume goes on with a run: name it with --run-dir.")
    if given or size:
        raise ValueError(
            "--resume goes on with the run's own config.json: leave out "
            + ", ".join(f"--{name.replace('_', '-')}" for name in {**size, **given})
        )
    return {}


def told(metrics, resume, next_step):
    """Prints how a run ended and what can be done then; returns the exit status."""
    print(json.dumps(metrics, indent=2))
    if metrics["status"] == "interrupted":
        print(
            f"Interrupted at step {metrics['steps']}. Go on with "
            f"`residual-keras {resume}`.",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(next_step, file=sys.stderr)
    return 0


def compare(args):
    """Train schemes at several depths and seeds, and report which does best."""
    from ..compare import compare as run

    given = {n: v for n, v in vars(args).items() if n not in ("verb", "folder")}
    try:
        run(args.folder, **given)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on.", file=sys.stderr)
        raise
    folder = pathlib.Path(args.folder)
    print((folder / "results.md").read_text(encoding="utf-8"), end="")
    print(f"See {folder / 'report.html'}.", file=sys.stderr)
