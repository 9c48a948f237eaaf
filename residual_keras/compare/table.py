"""A study in words: the answer in short, and a table a depth."""

import math

HEADINGS = (
    "scheme",
    "blocks",
    "learning rate",
    "accuracy",
    "difference",
    "against the baseline",
    "CPU s",
    "weights",
    "runs",
)


def answer(study):
    """Which scheme did best at each depth, in sentences.

    The best is chosen by the mean validation accuracy. It is held against the others by
    the figures of the table; of those that it is not told apart from, the cheapest is
    named.

    Args:
        study: a `Study`.

    Returns:
        A list of sentences.
    """
    said = []
    for layers in study.depths:
        best = study.best(layers)
        if best is None:
            said.append(f"{blocks(layers)}: no run came to its end.")
            continue
        cells = {s: study.chosen[s, layers] for s in study.schemes}
        text = f"{blocks(layers)}: {best} did best, {figure(cells[best], study)}"
        alike = [
            scheme
            for scheme, cell in cells.items()
            if scheme != best
            and cell.usable
            and study.difference(scheme, layers, best).verdict != "worse"
        ]
        if alike:
            costs = {s: cells[s].mean("cpu_seconds") for s in (best, *alike)}
            cheapest = min(costs, key=costs.get)
            text += (
                f"; not told apart from it: {', '.join(alike)}. The cheapest of these "
                f"to train is {cheapest}, {costs[cheapest]:.0f} CPU s"
            )
        said.append(f"{text}.")
    return said


def blocks(layers):
    """A depth in words."""
    return f"{layers} block" + "s" * (layers > 1)


def figure(cell, study):
    """The accuracy of a cell: mean, spread over the seeds and how many they are."""
    mean, spread = cell.mean(study.measure), cell.spread(study.measure)
    if math.isnan(mean):
        return "none"
    return f"{mean:.3f}" + ("" if math.isnan(spread) else f" ± {spread:.3f}")


def rows(study):
    """The table's rows, a list of lists of strings under `HEADINGS`.

    A scheme is held against the baseline with the best learning rate of either; at its
    other rates there is nothing in those columns.
    """
    order = {scheme: i for i, scheme in enumerate(study.schemes)}
    keys = sorted(study.cells, key=lambda key: (key[1], order[key[0]], key[2]))
    return [cells_of(study, key) for key in keys]


def cells_of(study, key):
    """A row of the table."""
    scheme, layers, rate = key
    cell = study.cells[key]
    if scheme == study.baseline:
        against = "", "the baseline"
    elif cell is study.chosen[scheme, layers]:
        against = in_words(study.difference(scheme, layers))
    else:
        against = "", ""
    cpu = cell.mean("cpu_seconds")
    parameters = [r.row["parameters"] for r in cell.results if r.row["parameters"]]
    return [
        scheme,
        str(layers),
        f"{rate:g}",
        figure(cell, study),
        *against,
        "" if math.isnan(cpu) else f"{cpu:.0f}",
        f"{parameters[0]:,}" if parameters else "",
        counts(cell),
    ]


def in_words(difference):
    """A difference as two texts, its size and its meaning."""
    if not difference.pairs:
        return "", difference.verdict
    size = f"{difference.mean:+.3f}"
    if math.isfinite(difference.half):
        size += f" ± {difference.half:.3f}"
    return size, difference.verdict


def counts(cell):
    """How many runs ended in which way, such as "2 finished, 1 diverged"."""
    found = {}
    for result in cell.results:
        status = result.row["status"]
        found[status] = found.get(status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in found.items())


def notes(study):
    """What the reader must know to read the table right, a list of sentences."""
    split = study.measure.split("_")[0]
    said = [
        f"Accuracy is that of the {split} split: mean and standard deviation over the "
        "seeds of the runs that came to their end.",
        f"The difference is paired, same seed and same depth, against {study.baseline}"
        ", with its 95 % confidence interval; inside it lies the noise.",
    ]
    compared = (len(study.schemes) - 1) * len(study.depths)
    if compared > 1:
        said.append(
            f"Of {compared} comparisons, one in twenty stands out by chance alone."
        )
    sizes = [r.resolution for r in study.results if r.usable]
    if sizes:
        texts = round(1 / max(sizes))
        said.append(
            f"{texts:,} texts tell an accuracy to within {1 / math.sqrt(texts):.3f}, "
            "which is beside the differences between seeds."
        )
    return said


def markdown(study):
    """The answer, the table and its notes as Markdown."""
    lines = [[*HEADINGS], ["---"] * len(HEADINGS)]
    lines += [[f"`{scheme}`", *rest] for scheme, *rest in rows(study)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    said = "\n".join(f"- {sentence}" for sentence in answer(study))
    return f"{said}\n\n{table}\n\n" + "\n".join(notes(study)) + "\n"
