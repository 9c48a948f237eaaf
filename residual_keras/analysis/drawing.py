"""Axes to draw on, and how weights become colours."""

import numpy as np


def panels(ax, count, width=3.6, height=2.8, columns=3):
    """The axes to draw on.

    Args:
        ax: None for those of a new figure, or `count` matplotlib axes: one, or an
            array or a list of them.
        count: the number of panels.
        width: of each in inches.
        height: of each in inches.
        columns: how many stand side by side.

    Returns:
        A list of axes.

    Raises:
        ValueError: if another number of axes is given.
    """
    if ax is None:
        import matplotlib.pyplot as plt  # which shows figures in a notebook

        columns = min(columns, count)
        rows = -(-count // columns)
        size = (columns * width, rows * height)
        _, axes = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False
        )
        axes = list(axes.ravel())
        for spare in axes[count:]:
            spare.remove()
        return axes[:count]
    axes = list(np.ravel(ax))
    if len(axes) != count:
        raise ValueError(
            f"The plot has {count} panels, so `ax` is None or as many axes. "
            f"Received: {len(axes)}"
        )
    return axes


def drawn(axes):
    """What a plot returns: its axes, as an array where they are several."""
    return axes[0] if len(axes) == 1 else np.array(axes)


def over_depth(axes, count, label="sublayer"):
    """Says that the horizontal axis is depth, in whole numbers."""
    axes.set_xlabel(label)
    axes.set_xlim(-0.5, count - 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)


def heatmap(axes, values, **kwargs):
    """Draws a matrix: white is 0, and grey is NaN, where there is nothing."""
    largest = np.nanmax(np.abs(values)) or 1.0
    signed = np.nanmin(values) < 0
    image = axes.imshow(
        values,
        cmap="RdBu_r" if signed else "Blues",
        vmin=-largest if signed else 0,
        vmax=largest,
        interpolation="nearest",
        **{"aspect": "auto", **kwargs},
    )
    axes.set_facecolor("0.85")
    axes.figure.colorbar(image, ax=axes)
    return image
