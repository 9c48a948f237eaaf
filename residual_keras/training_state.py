"""So that a run which was stopped goes on at its step: weights, optimizer, place."""

import contextlib
import math
import re
import signal
import threading
import time
import zipfile

import keras
import numpy as np

from .averaging import averaged
from .run_folder import merit, save


class Interrupted(Exception):
    """Training was asked to stop, and its state is on disk."""


class TrainingState(keras.callbacks.Callback):
    """Keeps on disk what a run needs to go on, and the weights of its best epoch.

    Keras' `BackupAndRestore` knows the epoch but not the step, leaves out the states of
    the random generators, and writes its files in place, so that a kill while it writes
    costs the run. Here one file holds all of it, with the step in its name, and one
    rename makes it count. A step's batch is a function of its number; so a resumed run
    ends with the weights of an uninterrupted one.

    Args:
        folder: the `RunFolder`.
        steps_per_epoch: number of steps in an epoch.
        seconds: how often, in seconds, the state is written inside an epoch.
        merit: what the best epoch has most of, a function of its row in history.csv.
    """

    def __init__(self, folder, steps_per_epoch, seconds=30.0, merit=merit):
        super().__init__()
        self.folder = folder
        self.steps_per_epoch = steps_per_epoch
        self.seconds = seconds
        self.merit = merit
        self.step = 0
        self.asked_to_stop = False
        self.written_at = time.monotonic()
        self.best = max(map(merit, folder.rows()), default=(-math.inf, -math.inf))

    def restore(self, model):
        """Puts the newest state into a compiled model; returns its step, 0 if none."""
        files = self._files()
        if files:
            self.step, path = files[-1]
            variables = _variables(model)
            try:
                with np.load(path, allow_pickle=False) as stored:
                    values = [stored[name] for name in stored]
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                raise ValueError(
                    f"The run's state {path} is damaged, or does not fit its "
                    f"config.json: {str(error).splitlines()[0]}"
                ) from None
        return self.step

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % self.steps_per_epoch == 0:
            return  # the epoch's end comes next, once its row is in history.csv
        due = time.monotonic() - self.written_at >= self.seconds
        if due or self.asked_to_stop:
            self._write()
        self._stop_if_asked()

    def on_test_batch_end(self, batch, logs=None):
        # The last step's state would lack its epoch's row: the epoch's last batches
        # are run again.
        self._stop_if_asked()

    def on_epoch_end(self, epoch, logs=None):
        if self.merit(logs) > self.best:
            self.best = self.merit(logs)
            with averaged(self.model):
                save(self.folder.best, self.model.save_weights)
        self._write()
        self._stop_if_asked()

    def _stop_if_asked(self):
        if self.asked_to_stop:
            raise Interrupted

    def _write(self):
        older = self._files()
        path = self.folder.state / f"step-{self.step:09d}.npz"
        values = [variable.numpy() for variable in _variables(self.model)]
        save(path, lambda beside: np.savez(beside, *values))
        for _, file in older:
            if file != path:
                file.unlink()
        self.written_at = time.monotonic()

    def _files(self):
        found = [
            (int(match[1]), path)
            for path in self.folder.state.glob("*.npz")
            if (match := re.fullmatch(r"step-(\d+)\.npz", path.name))
        ]
        return sorted(found)

    def status_of(self, fit, *args):
        """Calls `fit(*args)`; "finished", or "interrupted" where a signal ended it."""
        try:
            with self.heed_signals():
                fit(*args)
        except Interrupted:
            return "interrupted"
        return "finished"

    @contextlib.contextmanager
    def heed_signals(self):
        """Ctrl-C or a polite kill ends the run after its step; a second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Python delivers signals to the main thread only
            return

        def ask(number, frame):
            self.asked_to_stop = True
            for each, handler in former.items():
                signal.signal(each, handler)

        signals = (signal.SIGINT, signal.SIGTERM)
        former = {number: signal.signal(number, ask) for number in signals}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def _variables(model):
    """All that changes in training: weights, random generators, the optimizer."""
    model.optimizer.build(model.trainable_variables)
    return [
        *model.trainable_variables,
        *model.non_trainable_variables,
        *model.optimizer.variables,
    ]
