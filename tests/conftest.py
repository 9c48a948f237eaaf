import functools
import json
import os
import pathlib
import runpy
import subprocess
import sys
import types

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same numbers, whichever ran before it."""
    import keras

    keras.utils.set_random_seed(7)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def registry():
    """The table of schemes, as it was once the test is over."""
    from residual_keras.residuals import SCHEMES

    before = dict(SCHEMES)
    yield SCHEMES
    SCHEMES.clear()
    SCHEMES.update(before)


@pytest.fixture(scope="session")
def assert_same_gradients():
    """Asserts that two functions of tensors have the same first and second derivatives.

    Eagerly, in a graph and under XLA. A gradient written by hand that hides a value
    from the tape is right to the first order and wrong to the second.
    """
    import tensorflow as tf

    def derivatives(function, weights, *args):
        with tf.GradientTape() as outer:
            outer.watch(args)
            with tf.GradientTape() as inner:
                inner.watch(args)
                y = function(*args)
                total = tf.reduce_sum(tf.sin(y) * weights)
            first = inner.gradient(total, args)
            total = sum(tf.reduce_sum(one**3) for one in first)
        return [y, *first, *outer.gradient(total, args)]

    def check(ours, right, *args, atol):
        weights = np.random.default_rng(8).normal(size=right(*args).shape)
        weights = tf.constant(weights, args[0].dtype)
        expected = derivatives(right, weights, *args)
        eagerly = functools.partial(derivatives, ours)
        ways = {
            "eager": eagerly,
            "graph": tf.function(eagerly),
            "xla": tf.function(eagerly, jit_compile=True),
        }
        for name, run in ways.items():
            found = run(weights, *args)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=atol, err_msg=name)

    return check


@pytest.fixture(scope="session")
def reference():
    """The module tests/reference.py."""
    path = pathlib.Path(__file__).parent / "reference.py"
    return types.SimpleNamespace(**runpy.run_path(path))


@pytest.fixture(scope="session")
def new_process():
    """Runs code that ends by printing JSON in a new process; returns what it said."""

    def run(code, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def tiny_recipe():
    """The options of a run of seconds, with every kind of dropout in it."""
    return {
        "data": "reviews(depth=1, train_size=200, validation_size=48, test_size=40)",
        "num_layers": 1,
        "embed_dim": 8,
        "num_heads": 2,
        "batch_size": 16,  # 13 steps an epoch, the last one short
        "epochs": 3,
        "word_rate": 0.2,
        "attention_rate": 0.1,
        "patience": 9,
    }


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory, tiny_recipe):
    """The folder and the metrics of a run that nobody stopped; to read only."""
    from residual_keras import Recipe
    from residual_keras.train import train

    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, train(Recipe(**tiny_recipe), folder, verbose=0)
