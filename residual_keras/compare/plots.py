"""The figures of a report, as SVG to stand inside a page."""

import io
import math
import re

from .plan import blocks

# Okabe & Ito's colours, told apart by the colour-blind, without their yellow, which is
# faint on white. Four lines and eleven markers tell 44 schemes apart without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
BELOW = "A line that leaves the figure below goes to runs that all stalled."
WIDTH = 3.6  # inches: a phone's width, so that letters are of one size everywhere


def looks(study):
    """How each scheme is drawn: a dict from spec to the options of `Axes.plot`."""
    return {
        scheme: {
            "color": COLOURS[i % len(COLOURS)],
            "linestyle": LINES[i % len(LINES)],
            "marker": MARKERS[i % len(MARKERS)],
            "label": scheme,
        }
        for i, scheme in enumerate(study.schemes)
    }


def figures(study):
    """All figures of a study.

    Args:
        study: a `Study`.

    Returns:
        A list of `(title, SVG, what it shows)`, strings; those that there is nothing
        to draw for are left out.
    """
    found = [
        (
            f"{study.split.capitalize()} accuracy against depth",
            draw(study, accuracy_against_depth),
            "Mean over the seeds; the bars are their standard deviation. " + BELOW,
        ),
        (
            "Cost against accuracy",
            draw(study, cost_against_accuracy),
            "CPU seconds of training, with the building of its graph in the first "
            "epoch, mean over the seeds; a point a depth, the "
            "shallowest first on each line. " + BELOW,
        ),
    ]
    for layers in study.depths:
        for column, name in (("loss", "Training"), ("val_loss", "Validation")):
            found.append(
                (
                    f"{name} loss, {blocks(layers)}",
                    draw(study, losses, layers, column),
                    "By epoch, mean over the seeds that were still training.",
                )
            )
    deepest = study.depths[-1]
    for when, words in (("initial", "before training"), ("final", "after training")):
        found.append(
            (
                f"Gradient by block, {words}",
                draw(study, gradients, deepest, when),
                f"Norm of the loss' gradient by each block's weights, of {deepest}, "
                "mean over the seeds. Zeros, where a scheme starts with its sublayers "
                "shut out, cannot be drawn.",
            )
        )
    return [figure for figure in found if figure[1]]


def draw(study, plot, *arguments):
    """The SVG of what `plot(axes, study, scheme, look, *arguments)` draws.

    Returns:
        A string, empty where nothing was drawn.
    """
    import matplotlib
    from matplotlib.figure import Figure  # draws without a screen, unlike pyplot

    settings = {
        "svg.fonttype": "none",  # letters stay letters: searched, read aloud, small
        "svg.hashsalt": plot.__name__,
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.markersize": 4.5,
        "lines.linewidth": 1.4,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        axes = figure.subplots()
        axes.grid(alpha=0.3)
        for scheme, look in looks(study).items():
            plot(axes, study, scheme, look, *arguments)
        if not axes.has_data():
            return ""
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, labels)) < 17 else 1  # no name is cut off
        rows = -(-len(labels) // columns)
        figure.set_figheight(2.6 + 0.19 * rows)
        figure.legend(
            handles,
            labels,
            loc="outside lower left",
            ncols=columns,
            frameon=False,
            handlelength=3.2,
        )
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return inline(svg.getvalue(), "-".join(map(str, (plot.__name__, *arguments))))


def inline(svg, name):
    """An SVG file's element, its ids made its own among those of other figures."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)


def accuracy_against_depth(axes, study, scheme, look):
    """Mean and spread of the accuracy at each depth, the depths evenly apart."""
    depths = study.depths
    aside = (study.schemes.index(scheme) - (len(study.schemes) - 1) / 2) * 0.03
    cells = [(i, study.chosen[scheme, layers]) for i, layers in enumerate(depths)]
    cells = [(i, cell) for i, cell in cells if cell.usable]
    if cells:
        axes.errorbar(
            [i + aside for i, _ in cells],
            [cell.mean(study.measure) for _, cell in cells],
            [bar(cell, study.measure) for _, cell in cells],
            capsize=2,
            elinewidth=0.8,
            **look,
        )
    axes.set(xlabel="blocks", xlim=(-0.5, len(depths) - 0.5))
    axes.set_xticks(range(len(depths)), map(str, depths))
    show_accuracy(axes, study)


def cost_against_accuracy(axes, study, scheme, look):
    """A point a depth, from cheap to dear."""
    cells = [study.chosen[scheme, layers] for layers in study.depths]
    cells = [cell for cell in cells if cell.usable]
    if cells:
        axes.plot(
            [cell.mean("cpu_seconds") for cell in cells],
            [cell.mean(study.measure) for cell in cells],
            **look,
        )
    axes.set(xlabel="CPU seconds")
    show_accuracy(axes, study)


def show_accuracy(axes, study):
    """Sets the range of the upright axis, which runs at chance would stretch.

    Those are shown where they double the range of the others at most.
    """
    usable = [cell for cell in study.chosen.values() if cell.usable]
    learnt = [cell for cell in usable if any(r.learnt for r in cell.results)]
    low, high = extent(learnt or usable, study.measure)
    lowest, _ = extent(usable, study.measure)
    low = max(lowest, low - (high - low))
    room = 0.05 * (high - low) + 0.002
    axes.set(ylabel="accuracy", ylim=(low - room, high + room))


def extent(cells, column):
    """The least and the greatest of what is drawn of these cells, bars included."""
    low = [cell.mean(column) - bar(cell, column) for cell in cells]
    high = [cell.mean(column) + bar(cell, column) for cell in cells]
    return min(low, default=0.0), max(high, default=1.0)


def bar(cell, column):
    """The spread over the seeds, 0 where one seed has none."""
    spread = cell.spread(column)
    return 0.0 if math.isnan(spread) else spread


def losses(axes, study, scheme, look, layers, column):
    """The loss over the epochs."""
    epochs = {}
    for result in study.chosen[scheme, layers].results:
        for row in result.history:
            if math.isfinite(row[column]):
                epochs.setdefault(int(row["epoch"]) + 1, []).append(row[column])
    if epochs:
        means = [sum(values) / len(values) for values in epochs.values()]
        axes.plot(list(epochs), means, **look)
    axes.set(xlabel="epoch", ylabel="loss")
    axes.xaxis.get_major_locator().set_params(integer=True)


def gradients(axes, study, scheme, look, layers, when):
    """The gradient's norm by block, the first one's left."""
    found = [r.gradients.get(when) for r in study.chosen[scheme, layers].results]
    found = [norms for norms in found if norms and all(n > 0 for n in norms)]
    if found:
        means = [sum(norms) / len(norms) for norms in zip(*found, strict=True)]
        axes.semilogy(
            range(1, layers + 1), means, markevery=max(1, layers // 12), **look
        )
    axes.set(xlabel="block", ylabel="norm")
    axes.xaxis.get_major_locator().set_params(integer=True)
