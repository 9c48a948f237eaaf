"""A study in words: the answer in short, and a table a depth."""

import math

from .plan import blocks


def answer(study):
    """Which scheme did best at each depth, in sentences.

    The best is chosen by the mean validation accuracy. It is held against the others by
    the figures of the table; of it and those that it is not told apart from, the
    cheapest is named among those all of whose runs learnt.

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
        text = (
            f"{blocks(layers)}: {best} validated best; its {study.split} accuracy is "
            f"{figure(cells[best], study)}"
        )
        alike = [
            scheme
            for scheme, cell in cells.items()
            if scheme != best
            and cell.usable
            and study.difference(scheme, layers, best).verdict != "worse"
        ]
        costs = {
            scheme: cells[scheme].mean("cpu_seconds")
            for scheme in (best, *alike)
            if all(result.learnt for result in cells[scheme].results)
        }
        if alike:
            text += f"; not told apart from it: {', '.join(alike)}"
        if alike and costs:
            cheapest = min(costs, key=costs.get)
            text += (
                ". The cheapest of these to train, of those that always learnt, is "
                f"{cheapest}, {costs[cheapest]:.0f} CPU s"
            )
        said.append(f"{text}.")
    return said


def figure(cell, study):
    """The accuracy of a cell: mean, spread over the seeds and how many they are."""
    mean, spread = cell.mean(study.measure), cell.spread(study.measure)
    if math.isnan(mean):
        return "none"
    return f"{mean:.3f}" + ("" if math.isnan(spread) else f" ± {spread:.3f}")


def headings(study):
    """What stands above the columns of `rows`, a list."""
    rate = ["learning rate"] * several_rates(study)
    against = f"against {study.baseline}"
    return ["scheme", *rate, "accuracy", against, "CPU s", "weights", "runs"]


def several_rates(study):
    """Whether the runs differ by their learning rates."""
    return len(study.values("learning_rate")) > 1


def rows(study, layers):
    """The table of one depth, a list of lists of strings.

    A scheme is held against the baseline with the best learning rate of either; at its
    other rates there is nothing in that column.
    """
    order = study.schemes
    keys = [key for key in study.cells if key[1] == layers]
    keys.sort(key=lambda key: (order.index(key[0]), key[2]))
    return [cells_of(study, key) for key in keys]


def cells_of(study, key):
    """A row of the table."""
    scheme, layers, rate = key
    cell = study.cells[key]
    against = "the baseline" if scheme == study.baseline else ""
    if not against and cell is study.chosen[scheme, layers]:
        against = in_words(study.difference(scheme, layers))
    cpu = cell.mean("cpu_seconds")
    parameters = [r.row["parameters"] for r in cell.results if r.row["parameters"]]
    return [
        scheme,
        *[f"{rate:g}"] * several_rates(study),
        figure(cell, study),
        against,
        "" if math.isnan(cpu) else f"{cpu:.0f}",
        f"{parameters[0]:,}" if parameters else "",
        counts(cell),
    ]


def in_words(difference):
    """A difference's size, how far off it may be, and what it comes to."""
    if not difference.pairs:
        return difference.verdict
    size = f"{difference.mean:+.3f}"
    if math.isfinite(difference.half):
        size += f" ± {difference.half:.3f}"
    return f"{size}, {difference.verdict}"


def counts(cell):
    """How many runs ended in which way, such as "2 finished, 1 diverged"."""
    found = {}
    for result in cell.results:
        status = result.row["status"]
        found[status] = found.get(status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in found.items())


def notes(study):
    """What the reader must know to read the table right, a list of sentences."""
    said = [
        f"Accuracy is that of the {study.split} split: mean and standard deviation "
        "over the seeds of the runs that came to their end.",
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
            f"{texts:,} texts tell an accuracy to within {1 / math.sqrt(texts):.3f}; "
            "this comes on top of the spread over the seeds."
        )
    return said


def went_wrong(study):
    """The runs that ended otherwise than they should, or have not ended.

    Returns:
        A list of `[which runs, what happened]`, those alike taken together.
    """
    found = {}
    for row in (result.row for result in study.results):
        if row["status"] != "finished":
            which = f"{row['scheme']}, {blocks(row['layers'])}"
            if several_rates(study):
                which += f", learning rate {row['learning_rate']:g}"
            what = f"{row['status']}: {row['message'] or MEANINGS[row['status']]}"
            found.setdefault((which, what), []).append(str(row["seed"]))
    return [
        [f"{which}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}", what]
        for (which, what), seeds in found.items()
    ]


MEANINGS = {
    "diverged": "a loss was no finite number; it does not count",
    "stalled": "never better than the largest class by more than chance; it counts",
    "waiting": "not run to its end yet; give the command again",
}


def markdown(study):
    """The answer, a table a depth, what went wrong, and notes, as Markdown."""
    parts = ["\n".join(f"- {sentence}" for sentence in answer(study))]
    for layers in study.depths:
        lines = [headings(study), ["---"] * len(headings(study))]
        lines += [[f"`{scheme}`", *rest] for scheme, *rest in rows(study, layers)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"## {blocks(layers)}\n\n{table}")
    parts.append("\n".join(notes(study)))
    wrong = [
        f"- {which}: {' '.join(what.split())}" for which, what in went_wrong(study)
    ]
    if wrong:
        parts.append("\n".join(["## What went wrong", "", *wrong]))
    return "\n\n".join(parts) + "\n"
