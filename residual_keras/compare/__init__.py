"""Which residual scheme, and how deep: one recipe over schemes, depths and seeds."""

import contextlib
import dataclasses
import pathlib

from ..recipe import Recipe
from ..run_folder import write
from ..spec import look_up
from .plan import VARIED, grid, held
from .progress import Progress
from .report import write_report
from .results import Study, read, write_csv
from .runs import look_ahead, perform
from .table import markdown

__all__ = ["compare"]


def compare(
    folder,
    schemes=("pre_ln", "post_ln"),
    layers=(2, 6),
    seeds=(0, 1, 2),
    *,
    learning_rates=None,
    baseline=None,
    jobs=1,
    threshold=None,
    modules=(),
    verbose=1,
    **options,
):
    """Trains every scheme at every depth with every seed, and says what came out.

    Every run has a process and a folder of its own, folder/runs/..., as `train` writes
    it, without an export. The same call goes on where another one was stopped, runs
    what has failed once more, and nothing else twice; one that asks for more adds to
    what is there. Into the folder go results.csv, results.md and report.html.

    Args:
        folder: the path of the study's folder.
        schemes: specs, such as `"hyper_connections(streams=2)"`.
        layers: numbers of blocks.
        seeds: of weights, order and dropout; differences are paired by them, so two are
            the least, and three are better.
        learning_rates: to choose from for each scheme and depth; None: the recipe's.
        baseline: the scheme that the others are held against; None: "pre_ln" where it
            is one of them, else the first.
        jobs: how many runs go on at once; the cores are shared out.
        threshold: the validation accuracy whose first step is looked for; None:
            half-way from the share of the largest class to 1.
        modules: names of modules to import first, which register schemes of your own.
        verbose: 1 says on standard error what is planned and done, 0 nothing.
        **options: those of `Recipe` that all runs share.

    Returns:
        The rows of results.csv, a list of dicts; None is what is not known.

    Raises:
        ValueError: if the options, the data or the folder cannot be used.

    Example:
        >>> rows = compare("study", ["pre_ln", "rezero"], [2, 12], data="reviews")
        >>> rows[0]["scheme"], rows[0]["status"]
        ('pre_ln', 'finished')
    """
    known = {field.name: field for field in dataclasses.fields(Recipe)}
    for name, value in options.items():
        look_up(known, name, "option")
        if name in VARIED:
            raise ValueError(
                f"{name} differs from run to run: list it in {VARIED[name]}. "
                f"Received: {name}={value!r}"
            )
    recipe = Recipe(**options)
    if recipe.init:
        raise ValueError(
            "A pretrained encoder has one scheme and one depth, which a comparison "
            f"varies. Received: init={recipe.init!r}. Leave it out."
        )
    runs = grid(folder, recipe, schemes, layers, seeds, learning_rates)
    if baseline is None:
        baseline = recipe.residual if recipe.residual in schemes else schemes[0]
    look_up(dict.fromkeys(schemes), baseline, "scheme of this comparison")
    if jobs < 1:
        raise ValueError(f"jobs must be positive. Received: jobs={jobs}")
    progress = Progress(verbose, runs, jobs)
    if any(not run.ended() for run in runs):
        progress.plan(look_ahead(runs, baseline, jobs, modules))
    folder = pathlib.Path(folder)

    def study():
        return Study([read(run, threshold) for run in runs], baseline)

    with held(folder) as lock:
        try:
            with contextlib.closing(perform(runs, jobs, modules, lock)) as performed:
                for run in performed:
                    found = study()
                    write_csv(found.results, folder / "results.csv")
                    progress.ended(run, found)
        finally:  # stopped or not
            found = study()
            write_csv(found.results, folder / "results.csv")
            write(folder / "results.md", markdown(found))
            write_report(found, recipe, folder / "report.html")
    return [result.row for result in found.results]
