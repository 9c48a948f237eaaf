"""The card of a preset, README.md: what preset.json says, for people to read."""

from ..export.card import cell, flat, table

NOT_SAID = "Not said."
# The facts that have a place of their own; all others stand in the last table.
PLACED = (
    *("about", "data", "licence", "source", "size", "command", "recipe", "hardware"),
    *("seconds", "metrics", "float32_accuracy", "behaviour", "limits", "papers"),
    "golden",  # for a test
)


def card(said):
    """The text of a README.md.

    Args:
        said: what preset.json says, the model's config left out.
    """
    name, made, facts = said["name"], said["made"], said["facts"]
    labels = ", ".join(f"`{cell(label)}`" for label in made["labels"])
    rest = {key: value for key, value in facts.items() if key not in PLACED}
    sections = {
        "How to use it": HOW.format(name=name) + (HEAD if "residual" in made else ""),
        "Data": told(facts, "data", "licence", "source"),
        "How it was made": "\n\n".join(how_made(made, facts)),
        "What it reaches": "\n\n".join(reached(made, facts)),
        "How it behaves": behaved(facts),
        "Limits": bullets([*limits(made), *facts.get("limits", ())]),
        "Papers": bullets([*made["papers"], *facts.get("papers", ())]) or NOT_SAID,
        "What else is known": rest and table(("", ""), flat(rest)),
    }
    parts = [f"# {name}"]
    if "about" in facts:
        parts.append(facts["about"])
    parts.append(f"A text classifier. Its labels, in the order of numbers: {labels}.")
    parts += [f"## {title}\n\n{text}" for title, text in sections.items() if text]
    return "\n\n".join(parts) + "\n"


HOW = """\
```python
from residual_keras import load_preset

model = load_preset("{name}")  # the name, or the path of this folder
model.classify(["A text."])  # [(label, probability)]
```

```bash
residual-keras predict --preset {name} "A text."
```"""
HEAD = """

`load_preset(..., num_classes=n)` keeps all but the head, for other labels."""


def told(facts, *names):
    """A line for each of some facts, those that nobody gave too."""
    return bullets(f"{name}: {facts.get(name) or NOT_SAID}" for name in names)


def bullets(texts):
    """A list in Markdown."""
    return "\n".join(f"- {text}" for text in texts)


def how_made(made, facts):
    """The command, what it ran on, and each option that is not the usual one."""
    yield f"```bash\n{facts['command']}\n```" if "command" in facts else NOT_SAID
    rows = {
        key: value for key, value in made.items() if key not in ("labels", "papers")
    }
    for key in ("size", "hardware", "seconds"):
        if facts.get(key) is not None:
            rows[key] = facts[key]
    asked = dict(flat(facts.get("recipe", {})))  # such as the most words there may be
    yield table(("", ""), {**rows, **asked, **rows}.items())


def reached(made, facts):
    """Figures, which labels are mistaken for which, and whether it is rightly sure."""
    metrics = facts.get("metrics") or {}
    figures = {
        k: v for k, v in metrics.items() if k not in ("confusion", "calibration")
    }
    yield table(("", ""), flat(figures)) if figures else NOT_SAID
    if "float32_accuracy" in facts and "accuracy" in metrics:
        before, now = facts["float32_accuracy"], metrics["accuracy"]
        yield (
            "These are figures of the weights as they are stored. In float32 they had "
            f"an accuracy of {before:.5f}: half precision changes it by "
            f"{now - before:+.5f}."
        )
    if "confusion" in metrics:
        yield "How many texts of a label (a row) got which answer (a column):"
        head = ("", *made["labels"])
        rows = zip(made["labels"], metrics["confusion"], strict=True)
        yield table(head, [[label, *counts] for label, counts in rows])
    if "calibration" in metrics:
        yield "How often it is right where it is so sure:"
        head = ("probability", "texts", "mean probability", "accuracy")
        yield table(head, map(calibration_row, metrics["calibration"]))


def calibration_row(one):
    """A bin as a row of a table."""
    edges = f"{one['above']:.3f} to {one['up_to']:.3f}"
    return edges, one["texts"], f"{one['probability']:.3f}", f"{one['accuracy']:.3f}"


def behaved(facts):
    """What `check_behaviour` found, or nothing."""
    found = facts.get("behaviour")
    if not found:
        return ""
    cases, passed = (sum(r[key] for r in found.values()) for key in ("cases", "passed"))
    rows = [
        (name, row["kind"], f"{row['passed']} of {row['cases']}")
        for name, row in found.items()
    ]
    return (
        f"It passes {passed} of {cases} small tests, on sentences that are no part of "
        f"any data set (residual_keras/presets/behaviour.py):\n\n"
        f"{table(('test', 'kind', 'passed'), rows)}"
    )


def limits(made):
    """What holds for every preset."""
    yield (
        f"It reads {made['max_len']} tokens of a text at most ({made['truncation']}), "
        f"from a vocabulary of {made['vocab_size']}; all others are unknown to it."
    )
    yield (
        "It spreads its probability over its labels whatever the text: one of another "
        "kind or language gets an answer too, which says little."
    )
