"""What holds for one scheme alone, among those with norms around the addition."""

import math

import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, residuals
from residual_keras.norms import NORMS


def built(spec, num_sublayers=6, width=7, **options):
    options = {"dtype": "float64", "epsilon": 1e-12, **options}
    scheme = residuals.get(spec, num_sublayers=num_sublayers, **options)
    scheme.build((None, None, width))
    return scheme


def encoder(residual, num_layers=3, **options):
    layer = TransformerEncoder(
        num_layers, 7, 3, 11, rate=0.0, residual=residual, key_dim=5, **options
    )
    layer.build((None, None, 7))
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


def mean_square(x):
    return (numpy(x) ** 2).mean(-1)


# Norms of the update


@pytest.mark.parametrize(
    "spec", ["sandwich_ln", "peri_ln", "res_post_norm(init_gain=1.0)"]
)
def test_every_update_has_one_size_at_first(spec, rng):
    scheme = built(spec)
    x, update = (ops.convert_to_tensor(x) for x in rng.normal(size=(2, 2, 3, 7)))
    for i in range(6):
        for size in (0.1, 1.0, 1e3):
            step = scheme.write(x, size * update, i) - x
            np.testing.assert_allclose(mean_square(step), 1.0, atol=1e-6)


def test_the_stream_of_peri_ln_starts_at_that_size(rng):
    x = 100 * rng.normal(size=(2, 3, 7))
    start = built("peri_ln").start(ops.convert_to_tensor(x))
    np.testing.assert_allclose(mean_square(start), 1.0, atol=1e-6)
    bare = built("peri_ln(embedding_norm=False)").start(ops.convert_to_tensor(x))
    np.testing.assert_array_equal(numpy(bare), x)


def test_with_norms_of_the_update_the_stream_grows_linearly(rng):
    """Independent updates of mean square 1, so i of them after i sublayers."""
    scheme = built("sandwich_ln", num_sublayers=64, width=256)
    state = scheme.start(ops.zeros((2, 8, 256), "float64"))
    for i in range(64):
        update = ops.convert_to_tensor(9.0**i * rng.normal(size=(2, 8, 256)))
        state = scheme.write(state, update, i)
        assert mean_square(state).mean() == pytest.approx(i + 1, rel=0.1)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("gain", [0.0, 0.5])
def test_res_post_norm_starts_with_its_gain(kind, gain, rng):
    plain = built("res_post_norm(init_gain=1.0)", norm=kind)
    scheme = built(f"res_post_norm(init_gain={gain})", norm=kind)
    x, update = (ops.convert_to_tensor(x) for x in rng.normal(size=(2, 2, 3, 7)))
    step, whole = (numpy(s.write(x, update, 0) - x) for s in (scheme, plain))
    np.testing.assert_allclose(step, gain * whole, atol=1e-12)
    assert np.abs(whole).max() > 0.1


@pytest.mark.parametrize("spec", ["res_post_norm", "hybrid_norm", "post_ln"])
def test_the_first_sublayer_sees_the_bare_embedding(spec, rng):
    scheme, x = built(spec), ops.convert_to_tensor(rng.normal(size=(2, 3, 7)))
    np.testing.assert_array_equal(numpy(scheme.read(scheme.start(x), 0)), numpy(x))


# Norms inside the sublayers


@pytest.mark.parametrize(
    ("spec", "num_layers", "gain"),
    [
        ("sub_ln", 12, 1.782710),
        ("sub_ln", 1, math.sqrt(math.log(2))),
        ("sub_ln(depth=12)", 1, 1.782710),
    ],
)
def test_first_kernels_of_sub_ln(spec, num_layers, gain):
    scheme = residuals.get(spec, num_sublayers=2 * num_layers)
    gains = {
        weight: scheme.init_gain(0, weight)
        for weight in ("query", "key", "value", "output", "ff_in", "ff_out")
    }
    assert gains.pop("query") == gains.pop("key") == 1
    assert list(gains.values()) == pytest.approx([gain] * 4, abs=1e-6)


def test_first_kernels_of_sub_ln_where_a_block_is_one_sublayer():
    joined = residuals.get("sub_ln", num_sublayers=12, per_block=1)
    assert joined.init_gain(0, "value") == pytest.approx(1.782710, abs=1e-6)


def test_norms_inside_the_sublayers_of_sub_ln():
    for block in encoder("sub_ln").blocks:
        assert block.attention.inner_norm == block.feed_forward.inner_norm
        assert block.attention.inner_norm == "layer_norm"
    asked = residuals.get("sub_ln", num_sublayers=2, norm="rms_norm")
    assert asked.sublayer_options(0) == {"inner_norm": "rms_norm"}


def test_what_normformer_adds_inside_the_sublayers():
    for block in encoder("normformer").blocks:
        assert block.attention.head_scale
        assert block.attention.inner_norm is None
        assert block.feed_forward.inner_norm == "layer_norm"


def test_norms_of_the_heads_of_hybrid_norm():
    for block in encoder("hybrid_norm").blocks:
        assert block.attention.qk_norm
        assert block.attention.value_norm
        assert block.feed_forward.inner_norm is None


# normformer


def test_the_scaled_shortcut_starts_at_one(rng):
    x, update = (ops.convert_to_tensor(x) for x in rng.normal(size=(2, 2, 3, 7)))
    plain, scaled = built("normformer"), built("normformer(scale_shortcut=True)")
    for i in range(6):
        expected = numpy(plain.write(x, update, i))
        np.testing.assert_array_equal(numpy(scaled.write(x, update, i)), expected)
    assert scaled.shortcuts.shape == (3, 7)  # attention has none
    assert [w.path for w in scaled.decayed] == []


def test_normformer_drops_what_is_normed(rng, monkeypatch):
    scheme = built("normformer")
    dropped = []
    monkeypatch.setattr(scheme.dropout, "call", lambda x, **_: dropped.append(x) or x)
    x, update = (ops.convert_to_tensor(x) for x in rng.normal(size=(2, 2, 3, 7)))
    for i in range(2):
        scheme.write(x, scheme.drop(update), i)
    np.testing.assert_allclose(mean_square(dropped[0]), 1.0, atol=1e-6)
    np.testing.assert_array_equal(numpy(dropped[1]), numpy(update))


# mix_ln


@pytest.mark.parametrize(
    ("fraction", "blocks", "expected"),
    [(0.25, 12, 3), (0.25, 3, 0), (0.29, 100, 29), (1 / 3, 3, 1), (0, 5, 0), (1, 5, 5)],
)
def test_share_of_the_blocks_that_are_post_ln(fraction, blocks, expected):
    for per_block in (1, 2):
        scheme = residuals.get(
            f"mix_ln(fraction={fraction})",
            num_sublayers=per_block * blocks,
            per_block=per_block,
        )
        post = [scheme.is_post(i) for i in range(scheme.num_sublayers)]
        assert post == sorted(post, reverse=True)
        assert sum(post) == per_block * expected


def test_mix_ln_of_post_ln_alone(rng):
    x = rng.normal(size=(2, 5, 7))
    one = encoder("post_ln", dtype="float64")
    two = encoder("mix_ln(fraction=1.0)", dtype="float64", final_norm=False)
    two.set_weights(one.get_weights())
    np.testing.assert_allclose(numpy(two(x)), numpy(one(x)), rtol=0, atol=1e-12)


# hybrid_norm


def test_feed_forward_reads_and_extends_the_normed_stream(rng):
    scheme = built("hybrid_norm")
    x, update = (ops.convert_to_tensor(x) for x in rng.normal(size=(2, 2, 3, 7)))
    state = scheme.write(scheme.start(x), update, 0)
    read = numpy(scheme.read(state, 1))
    np.testing.assert_allclose(mean_square(read), 1.0, atol=1e-6)
    after = numpy(scheme.write(state, update, 1))
    np.testing.assert_allclose(after, read + numpy(update), atol=1e-12)


# Asking


@pytest.mark.parametrize("name", ["normformer", "hybrid_norm"])
def test_what_cannot_be_one_sublayer(name):
    with pytest.raises(ValueError, match="per_block=1"):
        residuals.get(name, num_sublayers=2, per_block=1)


@pytest.mark.parametrize(
    "spec",
    [
        "peri_ln(embedding_norm=1)",
        "peri_ln(embedding_norm=None)",
        "sub_ln(depth=0)",
        "sub_ln(depth=1.5)",
        "normformer(scale_shortcut='yes')",
        "res_post_norm(init_gain='zeros')",
        "res_post_norm(init_gain=1e999)",
        "mix_ln(fraction=-0.1)",
        "mix_ln(fraction=1.5)",
        "mix_ln(fraction=None)",
    ],
)
def test_wrong_options(spec):
    option = spec.partition("(")[2].partition("=")[0]
    with pytest.raises(ValueError, match=f"{option} must be .* Received: {option}="):
        residuals.get(spec, num_sublayers=2)
