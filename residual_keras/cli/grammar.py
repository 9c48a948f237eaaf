"""The grammar of the command line: its verbs and their options."""

import argparse
import dataclasses
import typing

from .. import __version__
from ..answers import WRITERS
from ..compare.plan import VARIED
from ..pretraining.recipe import PretrainingRecipe
from ..recipe import Recipe
from ..sizes import SIZES
from .telling import doctor, presets, schemes
from .training import compare, pretrain, train
from .using import evaluate, export, predict


def parser():
    """The grammar of the command line."""
    top = argparse.ArgumentParser(
        prog="residual-keras",
        description="Train, evaluate and serve Transformer text classifiers, one "
        "residual scheme or another.",
    )
    top.add_argument("--version", action="version", version=__version__)
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")

    def verb(function, **kwargs):
        summary = function.__doc__.split("\n")[0]
        sub = verbs.add_parser(
            function.__name__,
            help=summary,
            description=summary,
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            **kwargs,
        )
        sub.set_defaults(verb=function)
        return sub

    sub = verb(train)
    add_run_options(sub, "runs")
    sub.add_argument("--tensorboard", action="store_true", help="write its logs too")
    add_recipe_options(sub, Recipe)

    sub = verb(pretrain)
    add_run_options(sub, "pretrained")
    add_recipe_options(sub, PretrainingRecipe)

    sub = verb(compare)
    sub.add_argument("folder", metavar="FOLDER", help="of the study, new or begun")
    for flag, kind, many, text in (
        ("--schemes", str, "+", 'such as "mhc(streams=2)" (pre_ln post_ln)'),
        ("--layers", int, "+", "numbers of blocks (2 6)"),
        ("--seeds", int, "+", "from two on, noise can be told (0 1 2)"),
        ("--learning-rates", float, "+", "to choose from (0.001)"),
        ("--baseline", str, None, "the scheme to hold the others against (pre_ln)"),
        ("--jobs", int, None, "runs at once (1)"),
        ("--threshold", float, None, "validation accuracy to count the steps to"),
        ("--modules", str, "+", "to import first: they register your own schemes"),
    ):
        name = kind.__name__.upper()
        sub.add_argument(
            flag,
            nargs=many,
            type=kind,
            metavar=name,
            default=argparse.SUPPRESS,
            help=text,
        )
    add_recipe_options(sub, Recipe, but=(*VARIED, "init"))

    sub = verb(evaluate)
    add_run_dir(sub)
    sub.add_argument(
        "--split",
        choices=("validation", "test"),
        default="test",
        help="of the run's data",
    )
    sub.add_argument("--file", help="instead, a file or folder of labelled texts")
    add_columns(sub)

    sub = verb(predict)
    sub.add_argument("texts", nargs="*", metavar="TEXT", help="default: standard input")
    add_run_dir(sub)
    sub.add_argument("--preset", help="instead, a preset's name or its folder")
    sub.add_argument("--file", help=".txt (a text a line), .csv, .tsv or .jsonl")
    add_columns(sub, label=False)
    sub.add_argument("--format", choices=WRITERS, default="text", help="of the answers")

    sub = verb(export)
    sub.add_argument("model", metavar="RUN_OR_MODEL", help="a run, or a .keras file")
    sub.add_argument("folder", metavar="FOLDER", help="of the model's versions")
    sub.add_argument(
        "--format", default="saved_model", help="or onnx, openvino, litert"
    )
    sub.add_argument(
        "--half-precision", action="store_true", help="store weights as float16"
    )
    sub.add_argument("--int8", action="store_true", help="store matrices as int8")
    sub.add_argument(
        "--explain", action="store_true", help="tell what each token adds, too"
    )

    sub = verb(presets)
    sub.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="*imdb")

    sub = verb(schemes)
    sub.add_argument("name", nargs="?", metavar="NAME", help="tell all of this one")
    sub.add_argument(
        "--format", choices=("text", "json"), default="text", help="of the answer"
    )

    sub = verb(doctor)
    sub.add_argument("--network", action="store_true", help="try the downloads, too")
    return top


def add_run_dir(sub):
    """Adds the option that names a trained run."""
    sub.add_argument("--run-dir", help="a trained run (default: the newest in runs/)")


def add_run_options(sub, base):
    """Adds the options that say where a run is, and how much of the model they say."""
    sub.add_argument(
        "--run-dir", help=f"the run's folder (default: a new one in {base}/)"
    )
    sub.add_argument(
        "--resume", action="store_true", help="go on with the run that --run-dir holds"
    )
    sub.add_argument(
        "--quiet", action="store_true", help="a line an epoch, as files always get"
    )
    sub.add_argument(
        "--size",
        default=argparse.SUPPRESS,
        help=f"{', '.join(SIZES)}: blocks, widths and length, where no flag says else",
    )


def add_columns(sub, label=True):
    """Adds the options that name a file's columns, by name or number from 0."""
    sub.add_argument("--text-column", default="text", help="the texts' column")
    if label:
        sub.add_argument("--label-column", default="label", help="the labels' column")


def add_recipe_options(sub, kind, but=()):
    """Adds a flag for each field of a kind of recipe; only those given set anything."""
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if field.name in but:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        text = field.metadata["help"]
        value, *_ = typing.get_args(hints[field.name]) or (hints[field.name],)
        if value is bool:
            options = {"action": "store_true"}
        else:
            if field.default is not None:
                text += f" (default: {field.default})"
            options = {"type": value, "metavar": value.__name__.upper()}
        sub.add_argument(
            flag, dest=field.name, default=argparse.SUPPRESS, help=text, **options
        )
