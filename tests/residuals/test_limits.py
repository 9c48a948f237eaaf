"""What must hold for a scheme whatever its code: identities, invariants, counts."""

import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerBlock, TransformerEncoder

# Schemes that compute at first what another one computes.
STARTS_AS = [
    ("attention_residual(fusion_init='identity')", "post_ln"),
    ("admin", "post_ln"),
    ("dense_former", "pre_ln"),
    ("dense_former(dilation=3, period=2)", "pre_ln"),
    ("frac_connections", "pre_ln"),
    ("layer_scale(init=1.0)", "pre_ln"),
    ("mix_ln(fraction=0.0)", "pre_ln"),
    ("mudd", "pre_ln"),
    ("peri_ln(embedding_norm=False)", "sandwich_ln"),
    ("prores", "pre_ln"),
    ("skip_init(init=1.0)", "t_fixup"),
]

# Schemes whose every token leaves the stack with a mean square of 1 at first.
UNIT_RMS = [
    "admin",
    "attention_residual",
    "attn_res",
    "b2t",
    "deepnorm",
    "delta",
    "delta_attn_res",
    "dense_former",
    "frac_connections",
    "hybrid_norm",
    "hyper_connections",
    "keel",
    "layer_scale",
    "ln_scaling",
    "mhc",
    "mix_ln",
    "mudd",
    "none",
    "normformer",
    "peri_ln",
    "post_ln",
    "pre_ln",
    "prores",
    "res_post_norm",
    "sandwich_ln",
    "sub_ln",
]

# Schemes whose stack gives back its input at first, but for the norm at the end.
IDENTITY = [
    "gru_gate(bias=1e3)",
    "highway(bias=1e3)",
    "layer_scale(init=0.0)",
    "res_post_norm",
    "output_gate(bias=1e3)",
    "rezero",
    "rezero(shared=False)",
    "sigmoid_tanh_gate(bias=1e3)",
    "skip_init",
]


def encoder(residual, num_layers=3, width=7, **options):
    options = {"num_heads": 3, "key_dim": 5, "ff_dim": 11, "rate": 0.0, **options}
    layer = TransformerEncoder(num_layers, width, residual=residual, **options)
    layer.build((None, None, width))
    return layer


def with_sublayers_of(other, layer):
    """`layer`, its sublayers' weights those of `other`."""
    for mine, theirs in zip(layer.blocks, other.blocks, strict=True):
        mine.set_weights(theirs.get_weights())
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_number_of_weights(name, num_layers, reference):
    assert name in reference.COUNTS, f"Derive the weights of {name!r} by hand in COUNTS"
    d, ff, heads = 7, 11, 3 * 5
    of_scheme, final = reference.COUNTS[name](2 * num_layers, d)
    attention = 3 * (d * heads + heads) + heads * d + d
    feed_forward = d * ff + ff + ff * d + d
    inner = reference.INNER.get(name, lambda *sizes: 0)(3, 5, ff)

    layer = encoder(name, num_layers, d)

    assert layer.residual.count_params() == of_scheme
    total = of_scheme + final + num_layers * (attention + feed_forward + inner)
    assert layer.count_params() == total


@pytest.mark.parametrize(("asked", "other"), STARTS_AS)
def test_starts_as(asked, other, rng):
    x = rng.normal(size=(2, 5, 7))
    one = encoder(other, dtype="float64")
    two = with_sublayers_of(one, encoder(asked, dtype="float64"))
    np.testing.assert_allclose(numpy(one(x)), numpy(two(x)), rtol=0, atol=1e-12)
    assert not np.allclose(numpy(one(x)), x)


@pytest.mark.parametrize("asked", IDENTITY)
def test_the_bare_stream_is_the_input_at_first(asked, rng):
    x = rng.normal(size=(2, 5, 7))
    y = encoder(asked, dtype="float64", final_norm=False)(x)
    np.testing.assert_allclose(numpy(y), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("asked", UNIT_RMS)
def test_every_token_leaves_with_unit_rms(asked, rng):
    y = numpy(
        encoder(asked, dtype="float64", epsilon=1e-12)(rng.normal(size=(2, 5, 7)))
    )
    np.testing.assert_allclose((y**2).mean(-1), 1.0, atol=1e-6)


def test_the_stack_owns_the_last_norm(name, reference, rng):
    """What `finish` returns goes through LN exactly where the scheme says so."""
    x = rng.normal(size=(2, 5, 7))
    bare = encoder(name, final_norm=False, dtype="float64")
    normed = with_sublayers_of(bare, encoder(name, final_norm=True, dtype="float64"))
    default = with_sublayers_of(bare, encoder(name, dtype="float64"))
    for other in (normed, default):
        other.residual.set_weights(bare.residual.get_weights())
    after = reference.layer_norm(numpy(bare(x)), 1e-6)
    np.testing.assert_allclose(numpy(normed(x)), after, rtol=0, atol=1e-10)
    expected = normed if default.residual.final_norm else bare
    np.testing.assert_array_equal(numpy(default(x)), numpy(expected(x)))


def test_one_pre_ln_block_returns_the_bare_stream(reference, rng):
    x = rng.normal(size=(2, 5, 7))
    stack = encoder("pre_ln", num_layers=1, dtype="float64")
    block = TransformerBlock(
        7, 3, 11, rate=0.0, residual="pre_ln", key_dim=5, dtype="float64"
    )
    block.build(x.shape)
    for part in ("attention", "feed_forward"):
        weights = getattr(stack.blocks[0], part).get_weights()
        getattr(block, part).set_weights(weights)

    middle = x + numpy(block.attention(reference.layer_norm(x, 1e-6)))
    end = middle + numpy(block.feed_forward(reference.layer_norm(middle, 1e-6)))

    np.testing.assert_allclose(numpy(block(x)), end, rtol=0, atol=1e-10)
    assert not np.allclose((end**2).mean(-1), 1, atol=0.1)  # so not normalised
    normed = reference.layer_norm(end, 1e-6)
    np.testing.assert_allclose(numpy(stack(x)), normed, rtol=0, atol=1e-10)


def likeness(y):
    """The mean cosine between two tokens of a sequence."""
    y = y / np.linalg.norm(y, axis=-1, keepdims=True)
    time = y.shape[1]
    cosines = y @ y.transpose(0, 2, 1)
    return (cosines.sum((1, 2)) - time).mean() / (time * (time - 1))


def test_without_a_shortcut_tokens_become_alike(rng):
    """Rank collapse of `none`, arXiv:2103.03404; the shortcut of pre_ln prevents it."""
    x = rng.normal(size=(3, 11, 64)).astype("float32")
    sizes = {"width": 64, "num_heads": 2, "key_dim": 32, "ff_dim": 64}
    alike = {
        name: [likeness(numpy(encoder(name, n, **sizes)(x))) for n in (1, 2, 6)]
        for name in ("none", "pre_ln")
    }
    assert abs(likeness(x)) < 0.1
    # By the second block the cosine is 1 to three digits, in every draw of the weights.
    assert alike["none"][0] < 0.9 < 0.99 < alike["none"][1]
    assert alike["none"][2] == pytest.approx(1, abs=1e-5)
    assert max(alike["pre_ln"]) < 0.9
