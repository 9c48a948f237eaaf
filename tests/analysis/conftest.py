"""Small models of every kind of state, and a batch with padding in it."""

import functools
import pathlib
import runpy

import keras
import numpy as np
import pytest

SWEEP = runpy.run_path(
    str(pathlib.Path(__file__).parent.parent / "residuals" / "conftest.py")
)


@pytest.fixture(params=SWEEP["SAMPLED"])
def classifier(request):
    """A classifier under each scheme; one of each kind if slow tests are out."""
    return made(request.param)


@functools.cache
def made(residual, **options):
    """A classifier in float64 but for its head, no weight as it started; to read only.

    `analysis` leaves a model as it was, which is what makes this safe.
    """
    from residual_keras import build_classifier

    keras.utils.set_random_seed(5)
    options = {"num_layers": 2, "embed_dim": 8, "num_heads": 2, "ff_dim": 11, **options}
    model = build_classifier(
        23, 3, residual=residual, max_len=9, dtype="float64", **options
    )
    rng = np.random.default_rng(5)
    for weight in model.trainable_weights:
        weight.assign(weight + 0.2 * rng.normal(size=weight.shape))
    return model


@pytest.fixture
def make():
    """`made`."""
    return made


@pytest.fixture
def ids():
    """Five texts of up to seven tokens."""
    ids = np.random.default_rng(3).integers(2, 23, (5, 7)).astype("int32")
    ids[0, 3:] = ids[2, 1:] = 0
    return ids


@pytest.fixture
def labels():
    return np.array([0, 2, 1, 1, 0])


@pytest.fixture(autouse=True)
def no_figures_left():
    """Drawn without a screen, and closed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield
    plt.close("all")
