"""The model card that lies beside an export: README.md."""

import importlib.metadata

import tensorflow as tf

from .. import __version__

ENCODER = (  # what it was built from, as far as a reader of the card asks for it
    "residual",
    "num_layers",
    "embed_dim",
    "num_heads",
    "ff_dim",
    "norm",
    "activation",
)


def write_card(path, format, functions, model, measured, facts):
    """Writes README.md into a folder.

    Args:
        path: of the folder.
        format: the `Format`.
        functions: dict from a function's name to the function, a concrete one.
        model: the `TextClassifier`.
        measured: dict of what was measured, name to value.
        facts: dict of what else to tell, name to value; values may be dicts.
    """
    kind = f"a {format.name} of residual_keras {__version__}"
    names = ", ".join(f"`{name}`" for name in model.label_names)
    longest = model.vectorizer.max_len
    parts = [
        "# A text classifier",
        f"It says how likely each label is for a text: {kind}, made of a Keras model "
        "and compared with it before it was put here.",
        f"Labels, in the order of the probabilities: {names}. Texts are read up to "
        f"{longest} tokens; ids are 0 for padding, at the end, and 1 for an unknown "
        "word.",
        "## Functions",
        table(("function", "takes", "gives"), rows_of(functions)),
        "## How to call it",
        format.how_to_call,
        "## What was measured",
        table(("", ""), measured.items()),
        "## How it was made",
        table(("", ""), [*made(format, model).items(), *flat(facts)]),
    ]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    (path / "README.md").write_text(text, encoding="utf-8")


def rows_of(functions):
    """A row a function: its name, and name, type and shape of what goes in and out."""
    for name, function in functions.items():
        inputs = tf.nest.flatten(function.structured_input_signature)
        taken = {spec.name: spec for spec in inputs}
        yield [f"`{name}`", *map(described, (taken, function.structured_outputs))]


def described(tensors):
    """Name, type and shape of each tensor."""
    return ", ".join(
        f"`{name}` {tensor.dtype.name} {tuple(tensor.shape)}"
        for name, tensor in sorted(tensors.items())
    )


def made(format, model):
    """By what, and of what."""
    return {
        "residual_keras": __version__,
        "Keras": importlib.metadata.version("keras"),
        "TensorFlow": tf.__version__,
        "format": format.name,
        "weights stored as": format.storage,
        "parameters": model.classifier.count_params(),
        **built_from(model.classifier),
    }


def built_from(classifier):
    """The options of a classifier's encoder, as far as a reader of a card asks."""
    for layer in classifier.layers:
        if layer.name == "encoder":
            config = layer.get_config()
            return {name: config[name] for name in ENCODER if name in config}
    return {}


def flat(facts, before=""):
    """The pairs of a nested dict; what is None is left out."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name} ")
        elif value is not None:
            yield before + name, value


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def cell(value):
    """A value as it stands in a table."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", r"\|").replace("\n", " ")
