"""The sweeps: a test that takes `name` or `spec` runs for every registered scheme."""

import pytest

from residual_keras.residuals import SCHEMES

# What tests register themselves is not swept.
OURS = {n: c for n, c in SCHEMES.items() if c.__module__.startswith("residual_keras.")}
NAMES = sorted(OURS)
OPTIONS = ["attention_residual(fusion_init='identity')"]  # beside the defaults
KINDS = {OURS[name].__module__: name for name in NAMES}  # of state: a file for each


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    """Each registered scheme, with its default options."""
    return request.param


@pytest.fixture(scope="module", params=NAMES + OPTIONS)
def spec(request):
    """Each registered scheme, and each option that changes what it does."""
    return request.param


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def one_of_each_kind(request):
    """A scheme for each kind of state, where all would take too long."""
    return request.param


@pytest.fixture(scope="session")
def specs():
    """All that `spec` runs through, for a test that does it at once."""
    return NAMES + OPTIONS
