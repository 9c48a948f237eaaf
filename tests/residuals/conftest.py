"""The sweeps: a test that takes `name` or `spec` runs for every registered scheme."""

import pytest

from residual_keras.residuals import SCHEMES

# What tests register themselves is not swept.
OURS = {n: c for n, c in SCHEMES.items() if c.__module__.startswith("residual_keras.")}
NAMES = sorted(OURS)
OPTIONS = [  # beside the defaults
    "attention_residual(fusion_init='identity')",
    "attn_res(block_size=1)",
    "attn_res(block_size=2)",
    "attn_res(block_size=3)",
    "deepnorm(depth=7)",
    "dense_former(dilation=2)",
    "dense_former(dilation=3, period=2)",
    "dense_former(period=3)",
    "gated_residual(streams=3, rank=2)",
    "hyper_connections(dynamic=False)",
    "keel(depth=7)",
    "ln_scaling(block=3)",
    "mhc(init='identity')",
    "mhc(streams=3, iterations=2)",
    "mix_ln(fraction=0.5)",
    "ngpt_lerp(alpha=0.2)",
    "normformer(scale_shortcut=True)",
    "peri_ln(embedding_norm=False)",
    "res_post_norm(init_gain=1.0)",
    "resi_dual(scale=0.5)",
    "rezero(shared=False)",
    "siamese_norm(block=3)",
]
KINDS = {OURS[name].__module__: name for name in NAMES}  # of state: a file for each
SLOW = pytest.mark.slow
# All of them where slow tests are in, else one of each kind.
SAMPLED = [
    name if name in KINDS.values() else pytest.param(name, marks=SLOW) for name in NAMES
]


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    """Each registered scheme, with its default options."""
    return request.param


@pytest.fixture(scope="module", params=NAMES + OPTIONS)
def spec(request):
    """Each registered scheme, and each option that changes what it does."""
    return request.param


@pytest.fixture(
    scope="module",
    params=NAMES + [pytest.param(spec, marks=SLOW) for spec in OPTIONS],
)
def most_specs(request):
    """As `spec`, where the options are left to the slow tests."""
    return request.param


@pytest.fixture(params=SAMPLED)
def trained(request):
    """Each registered scheme, to be trained; one of each kind if slow tests are out."""
    return request.param


@pytest.fixture(
    params=[
        name if name in ("post_ln", "pre_ln") else pytest.param(name, marks=SLOW)
        for name in NAMES
    ]
)
def learner(request):
    """Each registered scheme, to be trained long; two if slow tests are out."""
    return request.param


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def one_of_each_kind(request):
    """A scheme for each kind of state, where all would take too long."""
    return request.param


@pytest.fixture(scope="session")
def specs():
    """All that `spec` runs through, for a test that does it at once."""
    return NAMES + OPTIONS
