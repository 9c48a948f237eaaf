"""`model.fit` from a run's step on, whatever is trained."""

import time

import keras
import numpy as np

from .averaging import AverageInValidation
from .training_state import Interrupted


def fit(
    model, folder, state, epochs, training, validation, *, callbacks=(), over, verbose
):
    """Trains from the state's step on, to the last epoch.

    Args:
        model: a compiled model.
        folder: its `RunFolder`.
        state: its `TrainingState`, which is put into the model first.
        epochs: how many there are in the whole run.
        training: a function from a step to the batches from there on, without end.
        validation: batches to validate each epoch on.
        callbacks: more of Keras' callbacks.
        over: a function that says, of history.csv's rows, whether the run is over.
        verbose: as in Keras.

    Raises:
        Interrupted: if it was asked to stop, and its state is on disk.
    """
    steps = state.steps_per_epoch
    epoch, done = divmod(state.restore(model), steps)
    folder.keep_rows(epoch)
    history = keras.callbacks.CSVLogger(folder.history, append=True)
    callbacks = [EpochSeconds(), AverageInValidation(), history, state, *callbacks]

    def run(first, last, steps):
        if first >= last or over(folder.rows()):
            return
        try:
            model.fit(
                training(state.step),
                initial_epoch=first,
                epochs=last,
                steps_per_epoch=steps,
                validation_data=validation,
                callbacks=callbacks,
                shuffle=False,  # the batches come shuffled
                verbose=verbose,
            )
        except Interrupted:
            history.on_train_end()  # closes its file, which Keras leaves open here
            raise

    if done:  # a run that was stopped inside an epoch first does the rest of it
        run(epoch, epoch + 1, steps - done)
        state.restore(model)  # Keras' fit ends with the average in the weights' place
        epoch += 1
    run(epoch, epochs, steps)


class EpochSeconds(keras.callbacks.Callback):
    """Adds each epoch's wall and CPU seconds to its logs, validation included.

    The first epoch has what went before it too: texts are read before they teach.
    """

    def __init__(self):
        super().__init__()
        self.started = now()

    def on_epoch_end(self, epoch, logs=None):
        ended = now()
        logs["seconds"], logs["cpu_seconds"] = ended - self.started
        self.started = ended


def now():
    """Wall and CPU seconds of the process, an array."""
    return np.array([time.perf_counter(), time.process_time()])
