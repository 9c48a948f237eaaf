"""Loss and accuracy over the epochs, drawn."""


def draw(rows, path):
    """Draws a run's history.

    Args:
        rows: a list of dicts, an epoch each, with epoch, loss, val_loss and, where
            there is one, accuracy and val_accuracy.
        path: of the PNG.
    """
    from matplotlib.figure import Figure  # draws without a screen, unlike pyplot

    names = [name for name in ("loss", "accuracy") if name in rows[0]]
    figure = Figure(figsize=(4 * len(names), 3.2), layout="constrained")
    drawings = figure.subplots(1, len(names), squeeze=False)[0]
    epochs = [row["epoch"] + 1 for row in rows]
    for axes, name in zip(drawings, names, strict=True):
        for column, label, style in (
            (name, "training", "o--"),
            (f"val_{name}", "validation", "o-"),
        ):
            axes.plot(epochs, [row[column] for row in rows], style, label=label)
        axes.set(xlabel="epoch", title=name)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=120, format="png")
