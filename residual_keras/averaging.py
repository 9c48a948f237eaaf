"""The moving average of the weights, which Keras' optimizers can keep, put to use."""

import contextlib

import keras


@contextlib.contextmanager
def averaged(model):
    """Within, a model's weights are their moving average, where its optimizer has one.

    After it they are what they were, to the last bit: `keras.callbacks.SwapEMAWeights`
    swaps by adding and subtracting, which rounds, and training would go on from there.

    Args:
        model: a compiled model; without `use_ema` in its optimizer nothing happens.

    Source: Polyak and Juditsky 1992 (SIAM J. Control Optim. 30).

    Example:
        >>> with averaged(model):
        ...     model.save_weights("best.weights.h5")
    """
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not optimizer.use_ema:
        yield
        return
    variables = model.trainable_variables
    kept = [keras.ops.convert_to_numpy(variable) for variable in variables]
    optimizer.finalize_variable_values(variables)
    try:
        yield
    finally:
        for variable, value in zip(variables, kept, strict=True):
            variable.assign(value)


class AverageInValidation(keras.callbacks.Callback):
    """Validates the moving average of the weights, where the optimizer keeps one."""

    def __init__(self):
        super().__init__()
        self.swapped = contextlib.ExitStack()

    def on_test_begin(self, logs=None):
        self.swapped.enter_context(averaged(self.model))

    def on_test_end(self, logs=None):
        self.swapped.close()
