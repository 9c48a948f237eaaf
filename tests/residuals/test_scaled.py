"""What must hold for the schemes that scale the stream or its updates."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import (
    TransformerBlock,
    TransformerEncoder,
    build_classifier,
    residuals,
)

SIZES = {"num_heads": 3, "key_dim": 5, "ff_dim": 11, "rate": 0.0, "dtype": "float64"}


def encoder(residual, num_layers=3, **options):
    layer = TransformerEncoder(num_layers, 7, residual=residual, **{**SIZES, **options})
    layer.build((None, None, 7))
    return layer


def shaken(layer, rng):
    for weight in layer.trainable_weights:
        weight.assign(weight + 0.1 * rng.normal(size=weight.shape))
    return layer


def numpy(y):
    return ops.convert_to_numpy(y)


def scheme(spec, n=6, **options):
    made = residuals.get(spec, num_sublayers=n, **options)
    made.build((None, None, 7))
    return made


# Constants of the depth


@pytest.mark.parametrize(
    ("blocks", "alpha", "gain"),
    # Of torchscale's decoder-only branch; its gains are one over what it divides by.
    [(6, 1.861210, 0.379918), (12, 2.213364, 0.319472), (100, 3.760603, 0.188030)],
)
def test_deepnorm_has_torchscales_constants(blocks, alpha, gain):
    for made in (
        residuals.get("deepnorm", num_sublayers=2 * blocks),
        residuals.get(f"deepnorm(depth={blocks})", num_sublayers=2),
        residuals.get("deepnorm", num_sublayers=2 * blocks, per_block=1),
    ):
        assert made.alpha == pytest.approx(alpha, abs=1e-6)
        for weight in ("value", "output", "ff_in", "ff_out"):
            assert made.init_gain(0, weight) == pytest.approx(gain, abs=1e-6)
        assert made.init_gain(0, "query") == made.init_gain(0, "key") == 1


def test_t_fixup_has_its_papers_constants():
    for spec, n in (("t_fixup", 24), ("t_fixup(depth=12)", 2)):
        made = residuals.get(spec, num_sublayers=n)
        for weight in ("value", "output", "ff_in", "ff_out"):
            assert made.init_gain(1, weight) == pytest.approx(0.359981, abs=1e-6)
        assert made.init_gain(0, "query") == made.init_gain(0, "key") == 1
        drawn = numpy(made.embedding_initializer(64)((5000, 64)))
        assert drawn.std() == pytest.approx(0.310202 / 8, rel=0.01)
        assert drawn.mean() == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize("name", ["deepnorm", "t_fixup"])
def test_kernels_start_smaller(name):
    layer = encoder(name, kernel_initializer="ones")
    gain = layer.residual.init_gain(0, "value")
    for block in layer.blocks:
        query, key, value = np.split(numpy(block.attention.qkv.kernel), 3, axis=1)
        assert (query == 1).all() and (key == 1).all()
        others = (
            block.attention.output_dense,
            block.feed_forward.expand,
            block.feed_forward.project,
        )
        for kernel in (value, *(numpy(dense.kernel) for dense in others)):
            np.testing.assert_allclose(kernel, gain, rtol=1e-12)


@pytest.mark.slow
def test_deepnorm_trains_at_200_blocks(rng):
    options = {"embed_dim": 16, "num_heads": 2, "ff_dim": 32, "rate": 0.0}
    model = build_classifier(23, 3, residual="deepnorm", num_layers=200, **options)
    # Eagerly, as the compiler takes longer over this depth than these steps do.
    model.compile(keras.optimizers.AdamW(1e-3), run_eagerly=True)
    ids, labels = rng.integers(2, 23, (64, 7)), rng.integers(0, 3, 64)
    losses = [model.train_on_batch(ids, labels)[0] for _ in range(8)]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.95 * losses[0]
    assert all(np.isfinite(weight.numpy()).all() for weight in model.weights)


def test_deepnorm_with_a_factor_of_one_is_post_ln(rng):
    one, two = shaken(encoder("post_ln"), rng), encoder("deepnorm")
    two.set_weights(one.get_weights())
    x = rng.normal(size=(2, 5, 7))
    assert not np.allclose(numpy(two(x)), numpy(one(x)), atol=1e-3)
    two.residual.alpha = 1.0
    np.testing.assert_array_equal(numpy(two(x)), numpy(one(x)))


@pytest.mark.parametrize(
    "of_block",
    [
        lambda k: "rezero",
        lambda k: "skip_init",
        lambda k: "deepnorm(depth=3)",
        lambda k: "t_fixup(depth=3)",
        lambda k: f"ln_scaling(block={k + 1})",
        lambda k: f"prores(block={k + 1})",
        lambda k: "keel(depth=3)" if k else "pre_ln",
    ],
)
@pytest.mark.parametrize("training", [False, True])
def test_blocks_stacked_by_hand_compute_what_the_stack_does(of_block, training, rng):
    whole = shaken(encoder(of_block(2).partition("(")[0], final_norm=False), rng)
    y = x = rng.normal(size=(2, 5, 7))
    of_whole = {w.path.partition("residual/")[2]: w for w in whole.residual.weights}
    scalars = getattr(whole.residual, "alpha", None)
    norms = {"norms": 0, "outer_norms": 0}
    for k, block in enumerate(whole.blocks):
        mine = TransformerBlock(7, residual=of_block(k), **SIZES)
        mine.build(x.shape)
        assert mine.attention.init_gains == block.attention.init_gains
        for part in ("attention", "feed_forward"):
            getattr(mine, part).set_weights(getattr(block, part).get_weights())
        if isinstance(scalars, keras.Variable):  # a fixed factor has the depth
            count = mine.residual.alpha.shape[0]
            mine.residual.alpha.assign(scalars[k * count : (k + 1) * count])
        for name, done in norms.items():
            for norm in getattr(mine.residual, name, []):
                theirs = getattr(whole.residual, name)[done]
                norm.set_weights(theirs.get_weights())
                done += 1
            norms[name] = done
        if "counter/steps" in of_whole:
            for made in (mine, whole):
                made.residual.counter.steps.assign(1500)
        y = mine(y, training=training)
    expected = numpy(whole(x, training=training))
    np.testing.assert_allclose(numpy(y), expected, rtol=0, atol=1e-10)


def test_one_block_of_ln_scaling_is_pre_ln(rng):
    one, two = shaken(encoder("pre_ln", 1), rng), encoder("ln_scaling", 1)
    two.set_weights(one.get_weights())
    x = rng.normal(size=(2, 5, 7))
    np.testing.assert_array_equal(numpy(one(x)), numpy(two(x)))


def test_keel_with_a_huge_factor_is_the_norm_alone(reference, rng):
    made = scheme("keel(depth=3)", dtype="float64")
    made.alpha = 1e9
    x, y = (ops.convert_to_tensor(rng.normal(size=(2, 3, 7))) for _ in range(2))
    expected = reference.layer_norm(numpy(x), 0)
    np.testing.assert_allclose(numpy(made.write(x, y, 3)), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("rezero(shared=1)", "shared must be True or False. Received: shared=1"),
        ("skip_init(init='0')", "init must be a finite number. Received: init='0'"),
        ("layer_scale(init=None)", "Received: init=None"),
        ("layer_scale(init=1e999)", "Received: init=inf"),
        ("deepnorm(depth=0)", "depth must be a positive whole number. Rec.*depth=0"),
        ("deepnorm(depth=2)", "of which 3 are here. Received: depth=2"),
        ("keel(depth=2.5)", "Received: depth=2.5"),
        ("t_fixup(depth=True)", "Received: depth=True"),
        ("ln_scaling(block=0)", "Received: block=0"),
        ("prores(block=-1)", "Received: block=-1"),
        ("prores(warmup_steps=0)", "Received: warmup_steps=0"),
    ],
)
def test_wrong_options(asked, message):
    with pytest.raises(ValueError, match=message):
        residuals.get(asked, num_sublayers=6)


# Scalars


@pytest.mark.parametrize("per_block", [1, 2])
def test_rezero_shares_a_scalar_in_a_block(per_block):
    shared = scheme("rezero", per_block=per_block)
    own = scheme("rezero(shared=False)", per_block=per_block)
    assert shared.alpha.shape == (6 // per_block,)
    assert own.alpha.shape == (6,)


@pytest.mark.parametrize("name", ["rezero", "skip_init"])
def test_only_the_scalars_learn_at_first(name, rng):
    layer = encoder(name, num_layers=2)
    model = keras.Sequential([layer, keras.layers.Flatten(), keras.layers.Dense(1)])
    x = rng.normal(size=(3, 5, 7))
    model.build(x.shape)
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    before = [w.numpy() for w in layer.trainable_weights]
    model.train_on_batch(x, np.ones((3, 1)))
    moved = {
        w.path
        for w, value in zip(layer.trainable_weights, before, strict=True)
        if (w.numpy() != value).any()
    }
    assert moved == {layer.residual.alpha.path}
    assert (layer.residual.alpha.numpy() != 0).all()


def test_a_small_scale_keeps_its_digits_in_half_precision():
    made = scheme("layer_scale(init=1.7e-6)", dtype="mixed_float16")
    x = ops.full((1, 1, 7), 3000.0, "float16")
    y = numpy(made.write(ops.zeros_like(x), x, 0))
    assert y.dtype == "float16"
    np.testing.assert_allclose(y, 1.7e-6 * 3000, rtol=1e-3)


# admin


def test_calibration_sets_the_shortcuts_from_one_batch(rng):
    layer = shaken(encoder("admin"), rng)
    batch = 3 * rng.normal(size=(11, 5, 7))
    plain = encoder("post_ln")
    norms = [w for w in layer.residual.weights if "norm" in w.path]
    plain.residual.set_weights([w.numpy() for w in norms])
    for mine, theirs in zip(plain.blocks, layer.blocks, strict=True):
        mine.set_weights(theirs.get_weights())

    x, expected, total = batch, [], 1.0
    for block in plain.blocks:
        for f in (block.attention, block.feed_forward):
            expected.append(np.sqrt(total))
            y = numpy(f(x))
            total += y.var()
            x = numpy(plain.residual.norms[len(expected) - 1](x + y))

    for _ in range(2):  # the second time as the first
        layer.residual.calibrate(lambda: layer(batch))
        for omega, value in zip(layer.residual.omegas, expected, strict=True):
            np.testing.assert_allclose(omega.numpy(), value, rtol=1e-10)
    assert expected[0] == 1 and (np.diff(expected) > 0.01).all()

    before = layer.get_weights()
    layer(batch)  # outside calibration nothing is recorded
    for value, weight in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(value, weight)
    assert layer.residual.record is None


@pytest.mark.parametrize("times", [0, 2])
def test_calibration_wants_one_run(times, rng):
    layer = encoder("admin", num_layers=2)
    batch = rng.normal(size=(2, 3, 7))

    def run():
        for _ in range(times):
            layer(batch)

    with pytest.raises(ValueError, match=f"{4 * times} updates from 4 sublayers"):
        layer.residual.calibrate(run)
    assert layer.residual.record is None


def test_calibration_in_half_precision(rng):
    layer = encoder("admin", dtype="mixed_float16")
    layer.residual.calibrate(lambda: layer(100 * rng.normal(size=(2, 3, 7))))
    omegas = [omega.numpy() for omega in layer.residual.omegas]
    assert np.isfinite(omegas).all() and omegas[-1].min() > 1
    assert {omega.dtype for omega in omegas} == {np.dtype("float32")}
