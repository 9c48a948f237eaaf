"""The command line: a verb each for what one does with a model.

TensorFlow is imported inside the verbs, so that `--help` answers at once.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import typing

from . import __version__
from .answers import WRITERS
from .compare.plan import VARIED
from .quiet import stderr_kept
from .recipe import Recipe
from .run_folder import RunFolder, newest_folder, next_folder
from .sizes import SIZES
from .spec import look_up

INTERRUPTED = 130  # the exit status of what Ctrl-C has ended


def main(arguments=None):
    """Runs the command line; returns its exit status.

    0: done. 2: the input cannot be used, said in one line. 130: interrupted.
    """
    args = parser().parse_args(arguments)
    try:
        return args.verb(args) or 0
    except ValueError as error:
        print(f"residual-keras: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


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
    sub.add_argument("--run-dir", help="the run's folder (default: a new one in runs/)")
    sub.add_argument(
        "--resume", action="store_true", help="go on with the run that --run-dir holds"
    )
    sub.add_argument("--quiet", action="store_true", help="a line an epoch")
    sub.add_argument("--tensorboard", action="store_true", help="write its logs too")
    sub.add_argument(
        "--size",
        default=argparse.SUPPRESS,
        help=f"{', '.join(SIZES)}: blocks, widths and length, where no flag says else",
    )
    add_recipe_options(sub)

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
    add_recipe_options(sub, but=VARIED)

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


def add_columns(sub, label=True):
    """Adds the options that name a file's columns, by name or number from 0."""
    sub.add_argument("--text-column", default="text", help="the texts' column")
    if label:
        sub.add_argument("--label-column", default="label", help="the labels' column")


def add_recipe_options(sub, but=()):
    """Adds a flag for each field of a `Recipe`; only those given set anything."""
    hints = typing.get_type_hints(Recipe)
    for field in dataclasses.fields(Recipe):
        if field.name in but:
            continue
        flag = f"--{field.name.replace('_', '-')}"
        text = field.metadata["help"]
        kind, *_ = typing.get_args(hints[field.name]) or (hints[field.name],)
        if kind is bool:
            options = {"action": "store_true"}
        else:
            if field.default is not None:
                text += f" (default: {field.default})"
            options = {"type": kind, "metavar": kind.__name__.upper()}
        sub.add_argument(
            flag, dest=field.name, default=argparse.SUPPRESS, help=text, **options
        )


def recipe_options(args):
    """The options of a `Recipe` that were given, as a dict."""
    names = {field.name for field in dataclasses.fields(Recipe)}
    return {name: value for name, value in vars(args).items() if name in names}


def train(args):
    """Train a classifier; by default a small one on embedded reviews, in minutes."""
    given = recipe_options(args)
    size = {"size": args.size} if "size" in args else {}
    if args.resume:
        if not args.run_dir:
            raise ValueError("--resume goes on with a run: name it with --run-dir.")
        if given or size:
            raise ValueError(
                "--resume goes on with the run's own config.json: leave out "
                + ", ".join(f"--{name.replace('_', '-')}" for name in {**size, **given})
            )
        recipe, folder = None, args.run_dir
    else:
        sized = look_up(SIZES, args.size, "size") if size else {}
        recipe = Recipe(**{**sized, **given})
        folder = args.run_dir or next_folder(recipe)
    with quiet_start():
        from .train import train as run
    metrics = run(
        recipe,
        folder,
        resume=args.resume,
        verbose=2 if args.quiet else 1,
        tensorboard=args.tensorboard,
    )
    print(json.dumps(metrics, indent=2))
    if metrics["status"] == "interrupted":
        print(
            f"Interrupted at step {metrics['steps']}. Go on with "
            f"`residual-keras train --resume --run-dir {folder}`.",
            file=sys.stderr,
        )
        return INTERRUPTED
    print(
        f'Ask it with `residual-keras predict --run-dir {folder} "a text"`; '
        f"serve {folder}/export.",
        file=sys.stderr,
    )
    return 0


def compare(args):
    """Train schemes at several depths and seeds, and report which does best."""
    from .compare import compare as run

    given = {n: v for n, v in vars(args).items() if n not in ("verb", "folder")}
    try:
        run(args.folder, **given)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on.", file=sys.stderr)
        raise
    folder = pathlib.Path(args.folder)
    print((folder / "results.md").read_text(encoding="utf-8"), end="")
    print(f"See {folder / 'report.html'}.", file=sys.stderr)


def evaluate(args):
    """Print a trained model's loss and accuracy on labelled texts."""
    folder, model = trained(args.run_dir)
    from . import data
    from .data import files
    from .train import evaluate as measure

    columns = {"text_column": args.text_column, "label_column": args.label_column}
    if args.file:
        split = files.load_split(args.file, tuple(model.label_names), **columns)
    else:
        recipe = folder.recipe()
        loaded = data.load(recipe.data, **recipe.data_options())
        split = getattr(loaded, args.split)
        if split is None:
            raise ValueError(
                f"The run's data has no {args.split} split. Give --split or --file."
            )
    print(json.dumps(measure(model, split), indent=2))


def predict(args):
    """Print the likeliest label of each text, and how sure the model is of it."""
    from .data import files

    if args.file and args.texts:
        raise ValueError("Give texts or --file, not both.")
    if args.preset is not None and args.run_dir:
        raise ValueError("Give --run-dir or --preset, not both.")
    if args.file:
        texts = files.read_texts(args.file, text_column=args.text_column)
    else:
        texts = args.texts or files.stdin_lines()
    asked = args.preset is not None
    model = preset(args.preset) if asked else trained(args.run_dir)[1]
    found = model.predict(texts)
    WRITERS[args.format](model.label_names, texts, found.tolist(), sys.stdout)


def export(args):
    """Write a trained model as the next version of a folder to serve from."""
    if os.path.isfile(args.model):
        model, facts = load(args.model), {}
    else:
        run, model = trained(args.model)
        facts = {**dataclasses.asdict(run.recipe()), **run.read_metrics()}
    from .export import FORMATS, export_model

    found = export_model(
        model,
        args.folder,
        args.format,
        half_precision=args.half_precision,
        quantize=args.int8,
        explain=args.explain,
        facts=facts,
    )
    print(found.path)
    print(
        f"Probabilities are those of the model to {found.difference:.1g}, or to "
        f"{found.cost:.1g} as it was trained; {found.size / 1e6:.1f} MB. "
        f"{FORMATS[args.format].next_step(found.path)}",
        file=sys.stderr,
    )


def presets(args):
    """List the trained models that come with the package."""
    from .presets import shelf

    names = shelf.list_presets(args.pattern)
    if names:
        print(shelf.table(names))
    elif shelf.list_presets():
        raise ValueError(shelf.unknown(args.pattern))
    else:
        print("This version comes with no presets.", file=sys.stderr)


def schemes(args):
    """List the residual schemes, or tell all that is known of one."""
    with quiet_start():
        from . import catalogue

    if args.name:
        told = catalogue.describe(args.name.split("(")[0].strip())
    else:
        told = catalogue.schemes()
    if args.format == "json":
        plain = told.to_dict() if args.name else [scheme.to_dict() for scheme in told]
        print(json.dumps(plain, indent=2, ensure_ascii=False, default=repr))
    else:
        print(told if args.name else catalogue.table(told, line_width(sys.stdout)))


def doctor(args):
    """Tell what is there and what is missing: versions, devices, folders, data."""
    from .doctor import report

    return report(network=args.network)


def line_width(file):
    """The characters that a line of a terminal holds; None where nothing is cut."""
    return os.get_terminal_size(file.fileno()).columns if file.isatty() else None


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
        from .saved import load_model
    return load_model(path)


def preset(name):
    """The model of a preset."""
    from .presets.shelf import find

    find(name)  # a wrong name is told at once
    with quiet_start():
        from .presets.loading import load_preset
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
