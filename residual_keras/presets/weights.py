"""Weights in half precision where it is precise enough, as NumPy's .npz.

It needs no further library, is read without pickle, and has meant the same for years.
"""

import io
import zipfile

import numpy as np

PRECISION = 2.0**-11  # of float16, as a share of the number


def half(values):
    """An array of float32 as float16, or as it is where that would say too little.

    It would where a number is beyond float16's range, or all are so small that its
    steps of 6e-8 round them off: the largest error may be what rounding makes of the
    largest number, no more.

    Args:
        values: float32 array of finite numbers.

    Returns:
        An array of the same shape.

    Example:
        >>> half(np.float32([0.1, 1e-9])).dtype, half(np.float32([1e-9])).dtype
        (dtype('float16'), dtype('float32'))
    """
    with np.errstate(over="ignore"):
        rounded = values.astype("float16")
    error = np.abs(rounded.astype(values.dtype) - values).max(initial=0.0)
    fits = error <= PRECISION * np.abs(values).max(initial=0.0)
    return rounded if fits else values


def packed(variables):
    """The bytes of an .npz: numbers as `half`, whole ones exactly.

    Args:
        variables: a model's `weights`.

    Raises:
        ValueError: if a weight is not finite.
    """
    arrays = {}
    for number, variable in enumerate(variables):
        value = np.asarray(variable)
        if np.issubdtype(value.dtype, np.floating):
            if not np.isfinite(value).all():
                raise ValueError(
                    "Weights must be finite. Received: infinite numbers or none in "
                    f"{variable.path}. Train again, at a lower learning rate."
                )
            value = half(value)
        arrays[f"{number:04d}/{variable.path}"] = value
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpack(data, variables):
    """Puts what `packed` gave into the variables of a model built alike.

    Raises:
        ValueError: if it does not fit them.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            values = [stored[name] for name in stored]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"It is no .npz: {str(error).splitlines()[0]}") from None
    if len(values) != len(variables):
        raise ValueError(f"It holds {len(values)} weights of {len(variables)}.")
    for value, variable in zip(values, variables, strict=True):
        if value.shape != tuple(variable.shape):
            raise ValueError(
                f"{variable.path} has the shape {tuple(variable.shape)} and is "
                f"{value.shape} in it."
            )
        variable.assign(value.astype(variable.dtype))
