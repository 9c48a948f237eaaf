"""The verbs that use a trained model."""

import dataclasses
import json
import os
import sys

from ..answers import WRITERS
from .loading import load, preset, trained


def evaluate(args):
    """Print a trained model's loss and accuracy on labelled texts."""
    folder, model = trained(args.run_dir)
    from .. import data
    from ..data import files
    from ..train import evaluate as measure

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
    from ..data import files

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
    from ..export import FORMATS, export_model

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
