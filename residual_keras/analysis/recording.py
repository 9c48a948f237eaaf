"""One eager call of a model, and what its stacks did in it."""

import contextlib
import dataclasses
import functools

import numpy as np
from keras import ops

from ..optimization import layers_of
from ..residuals.numbers import exact
from ..stack import Stack


@dataclasses.dataclass
class Pass:
    """What one stack did in one call.

    Attributes:
        stack: a `TransformerEncoder`, or a `TransformerBlock` by itself.
        mask: (batch, time), True at real tokens.
        x: what the scheme started from, (batch, time, embed_dim).
        writes: for each sublayer the state before it, and its update.
        shown: what the scheme showed: by name, and then by sublayer, the weights and
            what their axes run over.
        result: what the stack returned.
        scores: each block's attention weights, (batch, num_heads, time, time).
    """

    stack: Stack
    mask: np.ndarray
    x: object = None
    writes: list = dataclasses.field(default_factory=list)
    shown: dict = dataclasses.field(default_factory=dict)
    result: object = None
    scores: list = dataclasses.field(default_factory=list)

    @functools.cached_property
    def exits(self):
        """The stream before the first sublayer, and after each, as tensors.

        What the stack would return if it ended there, but for its last norm.
        """
        exit = self.stack.residual.exit
        after = [exit(*write, i) for i, write in enumerate(self.writes)]
        return [self.x, *after]

    @property
    def block_exits(self):
        """The stream before the first block, and after each."""
        return self.exits[:: self.stack.residual.per_block]


def record(network, inputs):
    """Calls a model once, eagerly and as in inference, and watches its stacks.

    Args:
        network: a model or a stack.
        inputs: its input, as a tensor.

    Returns:
        A list of `Pass`, in the order of the calls, and what the model returned.

    Raises:
        ValueError: if no stack was called, or a text has no real token at all.
    """
    passes = []
    with contextlib.ExitStack() as hooks:
        for stack in stacks(network):
            hooks.enter_context(watched(stack, passes))
        output = network(inputs)
    if not any(one.mask.any() for one in passes):
        raise ValueError(
            "An analysis needs one real token at least. Received: padding alone"
        )
    return passes, output


def stacks(network):
    """The stacks in a model, in the order of its layers.

    Args:
        network: a model that holds a `TransformerEncoder`, or `TransformerBlock`s that
            were stacked by hand, or one of these layers by itself.

    Returns:
        A list of layers.

    Raises:
        ValueError: if there is none.
    """
    layers = [network] if isinstance(network, Stack) else layers_of(network)
    # One and the same layer may stand in a model twice.
    found = {id(layer): layer for layer in layers if isinstance(layer, Stack)}
    if not found:
        raise ValueError(
            "An analysis looks into a TransformerEncoder or into TransformerBlocks. "
            f"Received: a model whose layers are {[one.name for one in layers]}"
        )
    return list(found.values())


@contextlib.contextmanager
def watched(stack, passes):
    """Inside, every call of the stack appends a `Pass`."""
    residual, call = stack.residual, stack.call
    start, write = residual.start, residual.write

    def call_watched(x, mask=None, return_attention_scores=False, **kwargs):
        real = getattr(x, "_keras_mask", None) if mask is None else mask
        shape = ops.shape(x)[:2]
        passes.append(Pass(stack, np.ones(shape, bool) if real is None else real))
        passes[-1].mask = ops.convert_to_numpy(passes[-1].mask).astype(bool)
        y, scores = call(x, mask=mask, return_attention_scores=True, **kwargs)
        passes[-1].scores = scores if isinstance(scores, list) else [scores]
        passes[-1].result = (y, scores) if return_attention_scores else y
        return passes[-1].result

    def start_watched(x):
        passes[-1].x = x
        return start(x)

    def write_watched(state, update, i):
        passes[-1].writes.append((state, update))
        return write(state, update, i)

    def watch(i, name, weights, over):
        passes[-1].shown.setdefault(name, {})[i] = weights, over

    verbs = {"start": start_watched, "write": write_watched, "watch": watch}
    with replaced(stack, call=call_watched), replaced(residual, **verbs):
        yield


@contextlib.contextmanager
def replaced(layer, **attributes):
    """Inside, a layer has other attributes; afterwards no trace of them is left.

    Keras, which would track what is assigned, is passed by.
    """
    before = {k: vars(layer)[k] for k in attributes if k in vars(layer)}
    vars(layer).update(attributes)
    try:
        yield
    finally:
        for name in attributes:
            del vars(layer)[name]
        vars(layer).update(before)


def numpy(x):
    """A tensor as a NumPy array, in single precision at least."""
    return ops.convert_to_numpy(ops.cast(x, exact(x)))
