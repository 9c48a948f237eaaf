"""How large the gradients of each block's weights are, at first and in training."""

import dataclasses

import keras
import numpy as np
from keras import ops

from ..optimization import layers_of
from ..stack import Stack
from .differentiation import gradients
from .drawing import panels
from .opening import opened
from .recording import numpy, stacks


@dataclasses.dataclass(frozen=True)
class GradientProfile:
    """Norms of gradients, by groups of weights.

    Attributes:
        groups: the names of the groups: each block of the stack "encoder" is
            "encoder/block_0" and so on, what its scheme adds is "encoder/residual", and
            any other layer has its own name.
        steps: (measurements,), the training steps after which it was measured.
        norms: (measurements, groups), the root of the sum of all squares in a group.
    """

    groups: list
    steps: np.ndarray
    norms: np.ndarray

    def plot(self, ax=None):
        """Draws the norms along the model, a line for each measurement, six at most.

        Args:
            ax: a matplotlib axes; None for that of a new figure.

        Returns:
            The axes.
        """
        width = max(5.0, 0.4 * len(self.groups))
        (axes,) = panels(ax, 1, width=width, height=3.6)
        shown = np.unique(np.linspace(0, len(self.steps) - 1, 6).round().astype(int))
        for place, k in enumerate(shown):
            colour = str(0.8 * (1 - (place + 1) / len(shown)))  # the later the darker
            label = f"step {self.steps[k]}"
            axes.plot(self.norms[k], "o-", color=colour, label=label)
        axes.set_xticks(range(len(self.groups)), self.groups, rotation=45, ha="right")
        axes.set(title="norm of the gradient", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        return axes


def gradient_norms(model, x, y, loss=None):
    """The norms of the loss's gradients on one batch, without dropout.

    Of a model that was never trained, they tell which blocks will learn first.

    Args:
        model: as in `stream_profile`; a classifier.
        x: a batch of what the model takes.
        y: its labels, integers (batch,).
        loss: of labels and what the model returns; None for that which the model was
            compiled with, or the cross-entropy of a `Classifier`.

    Returns:
        A `GradientProfile` of one measurement.

    Raises:
        ValueError: if no loss is known, and as `stream_profile`.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> ids, labels = keras.ops.ones((4, 7), "int32"), [0, 1, 0, 1]
        >>> gradient_norms(model, ids, labels).groups[1:3]
        ['encoder/block_0', 'encoder/block_1']
    """
    model = opened(model, x)
    network, loss = model.network, the_loss(model.network, loss)
    groups = weight_groups(network)
    norms = measure(network, model.inputs, ops.convert_to_tensor(y), loss, groups)
    optimizer = getattr(network, "optimizer", None)
    step = 0 if optimizer is None else int(numpy(optimizer.iterations))
    return GradientProfile(list(groups), np.array([step]), norms[None])


class GradientNorms(keras.callbacks.Callback):
    """Measures `gradient_norms` every so many steps of `fit`, on one batch.

    One batch, and no dropout, so that what changes from step to step is the model. The
    batch is run eagerly, beside what `fit` compiles: where it is as large as those that
    are trained on, it takes the CPU time of two to five steps, which is 1 to 2.5 % of
    training with `every=200`.

    An epoch's mean goes into its logs, as "gradients/encoder/block_0" and so on, and so
    into `History`; into `CSVLogger` and `TensorBoard` if they come after it in the
    list of callbacks.

    Args:
        x: a batch of what the trained model takes, such as ids (batch, time).
        y: its labels, integers (batch,).
        every: steps between two measurements; there is one in each epoch at least.

    Attributes:
        profile: a `GradientProfile` of all measurements, the first before training.

    Raises:
        ValueError: if `every` is not a positive whole number; and when training begins,
            as `gradient_norms`.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> model.compile("adam")
        >>> ids, labels = keras.ops.ones((4, 7), "int32"), keras.ops.array([0, 1, 0, 1])
        >>> gradients = GradientNorms(ids, labels)
        >>> history = model.fit(ids, labels, callbacks=[gradients], verbose=0)
        >>> gradients.profile.steps
        array([0, 1])
    """

    def __init__(self, x, y, every=200):
        super().__init__()
        if not isinstance(every, int) or every < 1:
            raise ValueError(
                f"every must be a positive whole number. Received: every={every!r}"
            )
        self.x, self.y, self.every = x, y, every
        self.found = []

    @property
    def profile(self):
        """All measurements so far."""
        first, *_ = self.found
        steps, norms = (
            np.concatenate([getattr(one, name) for one in self.found])
            for name in ("steps", "norms")
        )
        return GradientProfile(first.groups, steps, norms)

    def on_train_begin(self, logs=None):
        self.measure()
        self.calls, self.in_epoch = 0, []

    def on_train_batch_end(self, batch, logs=None):
        self.calls += 1
        if self.calls % self.every == 0:
            self.in_epoch.append(self.measure())

    def on_epoch_end(self, epoch, logs=None):
        norms = np.mean(self.in_epoch or [self.measure()], axis=0)
        groups = self.found[0].groups
        for group, norm in zip(groups, norms, strict=True):
            logs[f"gradients/{group}"] = float(norm)
        self.in_epoch = []

    def measure(self):
        """Measures once; returns the norms, (groups,)."""
        self.found.append(gradient_norms(self.model, self.x, self.y))
        return self.found[-1].norms[0]


def the_loss(network, loss):
    """A function of labels and output."""
    if loss is not None:
        return keras.losses.get(loss)
    if getattr(network, "compiled", False):
        return lambda y, output: network.compute_loss(y=y, y_pred=output)
    if hasattr(network, "default_loss"):
        return network.default_loss()
    raise ValueError(
        "A model that was not compiled has no loss. Received: loss=None. Compile it, "
        "or pass one, such as keras.losses.SparseCategoricalCrossentropy(True)."
    )


def weight_groups(network):
    """The trainable weights of a model, a dict from the name of a group to a list."""
    stacks(network)  # refuses a model that has none
    groups = {}
    for layer in [network] if isinstance(network, Stack) else layers_of(network):
        blocks = getattr(layer, "blocks", []) if isinstance(layer, Stack) else []
        for block in blocks:
            groups[f"{layer.name}/{block.name}"] = block.trainable_weights
        if blocks:
            groups[f"{layer.name}/residual"] = layer.residual.trainable_weights
        grouped = {id(weight) for weights in groups.values() for weight in weights}
        own = [] if isinstance(layer, keras.Model) else layer.trainable_weights
        rest = [weight for weight in own if id(weight) not in grouped]
        groups[f"{layer.name}/rest" if blocks else layer.name] = rest
    return {name: weights for name, weights in groups.items() if weights}


def measure(network, inputs, y, loss, groups):
    """The norm of the gradient of each group, (groups,)."""
    weights = [weight for group in groups.values() for weight in group]
    slopes = gradients(lambda: loss(y, network(inputs)), weights)
    squares = [0.0 if g is None else numpy(ops.sum(ops.square(g))) for g in slopes]
    ends = np.cumsum([len(group) for group in groups.values()])
    return np.sqrt([np.sum(part) for part in np.split(squares, ends[:-1])])
