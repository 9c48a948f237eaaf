"""Numbers in schemes: what an option may be, and how exactly coefficients are kept."""

import math

import keras
from keras import ops


def count(name, value):
    """`value` if it is a positive whole number; `name` is the option's."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return checked(fits, name, value, "a positive whole number")


def above_one(name, value):
    """`value` if it is a whole number above 1; `name` is the option's."""
    return checked(count(name, value) > 1, name, value, "above 1")


def number(name, value):
    """`value` if it is a finite number; `name` is the option's."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    return checked(fits and math.isfinite(value), name, value, "a finite number")


def checked(fits, name, value, rule):
    """`value` if it fits, else an error that says what it must be.

    Args:
        fits: whether it does.
        name: the option's.
        value: what was given.
        rule: what stands behind "must be".

    Returns:
        `value`.

    Raises:
        ValueError: if it does not fit.
    """
    if not fits:
        raise ValueError(f"{name} must be {rule}. Received: {name}={value!r}")
    return value


def sublayers_of_all(scheme, depth):
    """The sublayers of a stack of `depth` blocks, some of them those of `scheme`.

    Args:
        scheme: a `Residual`.
        depth: the option of that name; None means that there are no other blocks.

    Returns:
        A whole number.

    Raises:
        ValueError: if `depth` is no number of blocks, or below that of `scheme`.
    """
    if depth is None:
        return scheme.num_sublayers
    fits = count("depth", depth) >= scheme.num_blocks
    rule = f"the number of all blocks, of which {scheme.num_blocks} are here"
    return checked(fits, "depth", depth, rule) * scheme.per_block


def exact(x):
    """The dtype of x, but float32 at least."""
    return keras.backend.result_type(x.dtype, "float32")


def times(scale, x):
    """The product, like x, taken in float32 at least: few digits make a small scale."""
    return ops.cast(ops.cast(scale, exact(x)) * ops.cast(x, exact(x)), x.dtype)


def variance(x):
    """Var(x) over all its numbers, as a float."""
    return float(ops.convert_to_numpy(ops.var(ops.cast(x, exact(x)))))
