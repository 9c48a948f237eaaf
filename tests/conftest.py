import os

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
