"""Gradients of what a function of variables or tensors gives."""

import keras

from ..spec import look_up


def gradients(function, tensors):
    """The gradients of a number with respect to tensors that it is computed from.

    Args:
        function: of no argument; returns a tensor, whose sum is meant.
        tensors: a list of tensors or of variables.

    Returns:
        A list of tensors; None for what the number does not depend on.

    Raises:
        ValueError: on a Keras backend that this package takes no gradients on.

    Example:
        >>> x = keras.Variable(3.0)
        >>> [float(g) for g in gradients(lambda: x * x, [x])]
        [6.0]
    """
    take = look_up(BY_BACKEND, keras.backend.backend(), "gradient on the Keras backend")
    tensors = [getattr(one, "value", one) for one in tensors]
    return take(function, tensors)


def by_tensorflow(function, tensors):
    """By a tape."""
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(tensors)
        found = function()
    slopes = tape.gradient(found, tensors)
    # Rows of an embedding that were looked up, as a whole table.
    return [None if g is None else tf.convert_to_tensor(g) for g in slopes]


def by_torch(function, tensors):
    """By its graph."""
    import torch

    asked = [one.requires_grad for one in tensors]
    for one in tensors:
        one.requires_grad_(True)
    found = torch.autograd.grad(function().sum(), tensors, allow_unused=True)
    for one, before in zip(tensors, asked, strict=True):
        one.requires_grad_(before)
    return list(found)


BY_BACKEND = {"tensorflow": by_tensorflow, "torch": by_torch}
