"""Warm-up schedules, and which weights decay leaves alone."""

import keras
from keras import ops

from .spec import look_up


def no_decay(model):
    """The trainable weights that weight decay must leave alone.

    Those are all vectors and scalars (biases, gains and offsets of norms), positions,
    the class token, and whatever a residual scheme adds apart from its dense matrices:
    decay would pull a gate or a query to a value that means something. The list is read
    off the layers, so it is the same after a model was saved and loaded.

    Args:
        model: any `keras.Model`, of ours or wired by hand from our layers.

    Returns:
        A list of variables.

    Example:
        >>> model = build_classifier(vocab_size=100, num_classes=2)
        >>> [v.path for v in no_decay(model)][0]
        'embedding/positions/table'
    """
    spared = {
        id(weight)
        for layer in layers_of(model)
        for weight in getattr(layer, "spared", [])
    }
    return [
        weight
        for weight in model.trainable_weights
        if len(weight.shape) < 2 or id(weight) in spared
    ]


def layers_of(model):
    """The layers of a model, and those of the models among them, as a list."""
    found = []
    for layer in model.layers:
        found.append(layer)
        if isinstance(layer, keras.Model):
            found += layers_of(layer)
    return found


def spare(optimizer, model):
    """Tells an optimizer that decays weights to leave `no_decay(model)` alone.

    Args:
        optimizer: a Keras optimizer, not yet built; one without weight decay is left
            as it is.
        model: the built model that it will train.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss scaler
    if getattr(optimizer, "weight_decay", None) and not optimizer.built:
        optimizer.exclude_from_weight_decay(var_list=no_decay(model))


@keras.saving.register_keras_serializable("residual_keras")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """peak * min(step / warmup_steps, sqrt(warmup_steps / step)).

    Rises in a straight line, then falls with the root of the step, without an end:
    a run can be prolonged. Source: Vaswani et al. 2017, arXiv:1706.03762, section 5.3.

    Args:
        peak: the largest learning rate.
        warmup_steps: the step where it is reached.

    Raises:
        ValueError: if `warmup_steps` is not positive.

    Example:
        >>> float(InverseSquareRoot(1.0, warmup_steps=4)(16))
        0.5
    """

    def __init__(self, peak, warmup_steps):
        super().__init__()
        if warmup_steps < 1:
            raise ValueError(
                f"warmup_steps must be positive. Received: warmup_steps={warmup_steps}"
            )
        self.peak = peak
        self.warmup_steps = warmup_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rise = step / self.warmup_steps
        fall = ops.sqrt(self.warmup_steps / ops.maximum(step, 1.0))
        return self.peak * ops.minimum(rise, fall)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


def _cosine(peak, warmup_steps, total_steps):
    """Rises to the peak, then falls along half a cosine to zero at the last step."""
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        max(1, total_steps - warmup_steps),
        warmup_target=peak,
        warmup_steps=warmup_steps,
    )


SCHEDULES = {
    "constant": lambda peak, warmup_steps, total_steps: peak,
    "cosine": _cosine,
    "inverse_sqrt": lambda peak, warmup_steps, total_steps: InverseSquareRoot(
        peak, max(1, warmup_steps)
    ),
}


def schedule(name, peak, *, warmup_steps, total_steps):
    """The learning rate over a run.

    Args:
        name: "cosine" or "inverse_sqrt", both with a linear warm-up, or "constant",
            without one.
        peak: the largest learning rate.
        warmup_steps: the step where it is reached.
        total_steps: number of steps in the run.

    Returns:
        A Keras schedule, or the number.

    Raises:
        ValueError: if the name is unknown.

    Example:
        >>> float(schedule("cosine", 1.0, warmup_steps=2, total_steps=6)(6))
        0.0
    """
    return look_up(SCHEDULES, name, "schedule")(peak, warmup_steps, total_steps)


def recipe_schedule(options, total_steps):
    """The learning rate over a run of so many steps, as its `Options` say."""
    return schedule(
        options.schedule,
        options.learning_rate,
        warmup_steps=round(options.warmup * total_steps),
        total_steps=total_steps,
    )


@keras.saving.register_keras_serializable("residual_keras")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of logits against integer labels that are believed to 1 - s.

        target = (1 - s) one_hot(label) + s / classes

    Keras smooths only labels that are one-hot already. Source: Szegedy et al. 2016,
    arXiv:1512.00567, section 7.

    Args:
        smoothing: s, in [0, 1).
        **kwargs: of `keras.losses.Loss`.

    Raises:
        ValueError: if `smoothing` is out of range, or a model has a single logit.

    Example:
        >>> loss = SmoothedCrossentropy(0.0)
        >>> round(float(loss(keras.ops.array([1]), keras.ops.array([[0.0, 0.0]]))), 3)
        0.693
    """

    def __init__(self, smoothing, name="smoothed_crossentropy", **kwargs):
        super().__init__(name=name, **kwargs)
        if not 0 <= smoothing < 1:
            raise ValueError(
                f"smoothing must be in [0, 1). Received: smoothing={smoothing}"
            )
        self.smoothing = smoothing

    def call(self, y_true, y_pred):
        if y_pred.shape[-1] == 1:
            raise ValueError(
                "Smoothing needs one logit for each class, two or more. "
                f"Received: y_pred.shape={tuple(y_pred.shape)}. Use "
                "BinaryCrossentropy(from_logits=True, label_smoothing=s)."
            )
        labels = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        one_hot = ops.one_hot(labels, y_pred.shape[-1], dtype=y_pred.dtype)
        return keras.losses.categorical_crossentropy(
            one_hot, y_pred, from_logits=True, label_smoothing=self.smoothing
        )

    def get_config(self):
        return {**super().get_config(), "smoothing": self.smoothing}
