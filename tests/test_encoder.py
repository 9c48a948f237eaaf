"""The block and the stack: dropout, draws, masks, shapes, files, precision."""

import inspect
import itertools
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from residual_keras import (
    LearnedPositions,
    MeanPooling,
    SinusoidalPositions,
    TransformerBlock,
    TransformerEncoder,
)
from residual_keras.residuals import SCHEMES, get

SIZES = {"embed_dim": 6, "num_heads": 3, "ff_dim": 7}
# The last of each kind of state; tests/residuals sweeps them all.
KINDS = {scheme.__module__: name for name, scheme in SCHEMES.items()}
SOME_SCHEMES = pytest.mark.parametrize("scheme", ["post_ln", "pre_ln", *KINDS.values()])


def block_of(**kwargs):
    return TransformerBlock(**{**SIZES, **kwargs})


def encoder_of(num_layers=2, **kwargs):
    return TransformerEncoder(num_layers, **{**SIZES, **kwargs})


BOTH = pytest.mark.parametrize("make", [block_of, encoder_of], ids=["block", "stack"])


def perturb(layer, rng):
    """Moves every weight, so that no bias or gain is at its neutral start."""
    for weight in layer.trainable_weights:
        weight.assign_add(rng.normal(0, 0.1, weight.shape))
    return layer


def built(layer, x, rng):
    """`layer` built for x, every weight moved."""
    layer.build(x.shape)
    return perturb(layer, rng)


def exact(tensor):
    """A tensor of any precision as a float64 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float64"))


# What goes in and what comes out.


def test_block_on_the_published_sizes():
    block = TransformerBlock(embed_dim=128, num_heads=8, ff_dim=512)
    y = block(ops.ones((32, 64, 128)), training=True)
    assert y.shape == (32, 64, 128)


@BOTH
def test_another_width_is_projected_on_the_skip_path_too(make, rng):
    x = rng.normal(size=(2, 5, 11)).astype("float32")
    wide, narrow = built(make(residual="pre_ln"), x, rng), make(residual="pre_ln")
    narrow.build((2, 5, 6))
    kernel, bias = wide.projection.get_weights()
    assert kernel.shape == (11, 6)
    inner = {id(weight) for weight in wide.projection.weights}
    rest = [weight for weight in wide.trainable_weights if id(weight) not in inner]
    for ours, theirs in zip(narrow.trainable_weights, rest, strict=True):
        ours.assign(theirs)
    np.testing.assert_allclose(wide(x), narrow(x @ kernel + bias), atol=1e-5)
    assert narrow.projection is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 4}, "divide embed_dim.* Received: embed_dim=6, num_heads=4"),
        ({"embed_dim": 0}, "positive. Received: embed_dim=0, num_heads=3"),
        ({"num_heads": -3}, "positive. Received: embed_dim=6, num_heads=-3"),
        ({"ff_dim": 0}, "ff_dim must be positive. Received: ff_dim=0"),
        ({"key_dim": 0}, "key_dim must be positive. Received: key_dim=0"),
        ({"rate": -0.1}, "Received: rate=-0.1"),
        ({"rate": 1.1}, "Received: rate=1.1"),
        ({"attention_rate": 2}, "Received: attention_rate=2"),
        ({"ff_rate": -1}, "Received: ff_rate=-1"),
        ({"norm": "rmsnorm"}, "No norm 'rmsnorm'. Did you mean 'rms_norm'"),
        ({"epsilon": 0.0}, "epsilon must be positive. Received: epsilon=0.0"),
        ({"rotary": True, "key_dim": 5}, "must be even. Received: key_dim=5"),
        ({"activation": "rellu"}, "activation.* rellu"),
        ({"kernel_initializer": "glorot"}, "initializer.* glorot"),
        ({"residual": "preln"}, "'preln'. Did you mean 'pre_ln'"),
        ({"residual": "pre_ln(gain=2)"}, "'pre_ln' has no option 'gain'"),
        ({"residual": get("pre_ln", num_sublayers=3)}, "num_sublayers=3"),
    ],
)
@BOTH
def test_bad_arguments_are_refused(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_a_stack_needs_a_block():
    with pytest.raises(ValueError, match="positive. Received: num_layers=0"):
        encoder_of(num_layers=0)


@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 4, 6)])
@BOTH
def test_inputs_of_another_rank_are_refused(make, shape):
    with pytest.raises(ValueError, match=r"\(batch, time, width\).*Received: shape="):
        make()(np.ones(shape, "float32"))


def test_a_block_without_a_scheme_says_whose_it_is():
    with pytest.raises(ValueError, match="driven by its stack"):
        block_of(residual=None)(ops.ones((2, 5, 6)))


@BOTH
def test_shapes_are_known_before_the_call(make):
    assert make().compute_output_shape((None, None, 64)) == (None, None, 6)
    y, scores = make()(keras.Input((None, 64)), return_attention_scores=True)
    assert y.shape == (None, None, 6)
    for one in scores if isinstance(scores, list) else [scores]:
        assert one.shape == (None, 3, None, None)


def sublayer_weights(embed_dim, ff_dim):
    """Four projections with biases, and two dense layers."""
    return 4 * embed_dim * (embed_dim + 1) + 2 * embed_dim * ff_dim + ff_dim + embed_dim


@pytest.mark.parametrize(
    ("scheme", "added"),  # by a sublayer, in terms of the width d
    [
        ("none", lambda d: 0),
        ("post_ln", lambda d: 2 * d),
        ("pre_ln", lambda d: 2 * d),
        ("attention_residual", lambda d: 3 * d * d + 4 * d),
    ],
)
def test_summary_counts_the_weights(scheme, added):
    blocks = 2
    model = keras.Sequential(
        [keras.Input((None, 6)), encoder_of(blocks, residual=scheme)]
    )
    lines = []
    model.summary(print_fn=lines.append)
    end = 12 if SCHEMES[scheme].final_norm else 0
    total = blocks * (sublayer_weights(6, 7) + 2 * added(6)) + end
    assert model.count_params() == total
    text = "\n".join(lines)
    assert f"Total params: {total:,}" in text
    assert "(None, None, 6)" in text
    assert "?" not in text


def test_one_model_takes_every_length(rng):
    model = keras.Sequential([keras.Input((None, 6)), block_of()])
    for time in (5, 1, 3):
        assert model(rng.normal(size=(2, time, 6))).shape == (2, time, 6)


# A block is its scheme's verbs.


@SOME_SCHEMES
def test_a_block_is_a_stack_of_one(scheme, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    block = built(block_of(residual=scheme), x, rng)
    encoder = encoder_of(1, residual=scheme, final_norm=False)
    encoder.build(x.shape)
    encoder.set_weights(block.get_weights())
    np.testing.assert_allclose(encoder(x), block(x), atol=1e-6)


@pytest.mark.parametrize("final_norm", [None, True, False])
@pytest.mark.parametrize("scheme", ["post_ln", "pre_ln"])
def test_the_norm_at_the_end(scheme, final_norm, rng):
    """Blocks by hand carry the same stream; the stack alone normalises what leaves."""
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    blocks = [block_of(residual=scheme) for _ in range(2)]
    encoder = encoder_of(residual=scheme, final_norm=final_norm)
    y = x
    for block in blocks:
        y = built(block, y, rng)(y)
    encoder.build(x.shape)
    for ours, theirs in zip(encoder.blocks, blocks, strict=True):
        ours.attention.set_weights(theirs.attention.get_weights())
        ours.feed_forward.set_weights(theirs.feed_forward.get_weights())
    norms = [norm for block in blocks for norm in block.residual.norms]
    for ours, theirs in zip(encoder.residual.norms, norms, strict=True):
        ours.set_weights(theirs.get_weights())
    if final_norm or (final_norm is None and scheme == "pre_ln"):
        y = layer_norm(np.array(y))
    np.testing.assert_allclose(encoder(x), y, atol=1e-5)


def layer_norm(x, gain=1.0, offset=0.0, epsilon=1e-6):
    x = x - x.mean(-1, keepdims=True)
    return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) + offset


# Dropout.


def test_dropped_updates_leave_the_norms_of_post_ln(rng):
    """Dropout falls before the addition: what stays is LN(LN(x))."""
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    block = built(block_of(rate=1.0), x, rng)
    y = x
    for norm in block.residual.norms:
        y = layer_norm(y, norm.gamma.numpy(), norm.beta.numpy())
    np.testing.assert_allclose(block(x, training=True), y, atol=1e-5)
    assert np.abs(np.array(block(x, training=False)) - y).max() > 1e-2


def test_dropped_updates_leave_the_stream_of_pre_ln(rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    y = block_of(rate=1.0, residual="pre_ln")(x, training=True)
    np.testing.assert_array_equal(y, x)


def test_dropped_updates_leave_the_fused_stream_of_attention_residual(rng):
    """Dropout falls after the projection, whose bias is dropped with it."""
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    block = built(block_of(rate=1.0, residual="attention_residual"), x, rng)
    y = x
    for fuse, norm in zip(block.residual.fusions, block.residual.norms, strict=True):
        kernel, bias = fuse.get_weights()
        y = layer_norm(y @ kernel[:6] + bias, norm.gamma.numpy(), norm.beta.numpy())
    np.testing.assert_allclose(block(x, training=True), y, atol=1e-5)


def test_an_update_is_dropped_once(rng):
    """What a rate of a half keeps is doubled; dropped twice, it would quadruple."""
    x = rng.normal(size=(8, 16, 6)).astype("float32")
    block = block_of(rate=0.5, residual="pre_ln")
    block.build(x.shape)
    for weight in block.feed_forward.trainable_weights:
        weight.assign(ops.zeros_like(weight))
    update = np.array(block(x)) - x
    dropped = np.array(block(x, training=True)) - x
    kept = np.abs(dropped) > 1e-6
    np.testing.assert_allclose(dropped[kept], 2 * update[kept], atol=1e-5)
    assert 0.4 < kept.mean() < 0.6


@SOME_SCHEMES
def test_each_dropout_falls_where_its_rate_says(scheme, monkeypatch):
    """Two updates a block, and the attention weights and hidden values inside."""
    fell = []
    call = keras.layers.Dropout.call

    def spy(self, inputs, training=False):
        fell.append((self.rate, inputs.shape[-1], training))
        return call(self, inputs, training)

    monkeypatch.setattr(keras.layers.Dropout, "call", spy)
    encoder = encoder_of(rate=0.1, attention_rate=0.2, ff_rate=0.3, residual=scheme)
    encoder(ops.ones((2, 5, 6)), training=True)
    block = [(0.2, 5, True), (0.1, 6, True), (0.3, 7, True), (0.1, 6, True)]
    assert fell == 2 * block


# Initial values.


def kernels(encoder):
    """Every matrix that a sublayer draws, query, key and value apart."""
    for block in encoder.blocks:
        yield from np.split(block.attention.qkv.kernel.numpy(), 3, axis=1)
        yield block.attention.output_dense.kernel.numpy()
        yield block.feed_forward.expand.kernel.numpy()
        yield block.feed_forward.project.kernel.numpy()


INITIALIZERS = {
    "glorot_uniform": "glorot_uniform",
    "he_normal": "he_normal",
    "fixed seed": keras.initializers.GlorotUniform(seed=3),
    "orthogonal": keras.initializers.Orthogonal(seed=3),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_every_kernel_is_a_draw_of_its_own(name):
    encoder = encoder_of(ff_dim=6, kernel_initializer=INITIALIZERS[name])
    encoder.build((None, None, 6))
    drawn = list(kernels(encoder))
    assert {kernel.shape for kernel in drawn} == {(6, 6)}
    assert len(drawn) == 12
    for one, other in itertools.combinations(drawn, 2):
        assert np.abs(one - other).max() > 1e-2
    if name == "orthogonal":
        for kernel in drawn:
            np.testing.assert_allclose(kernel.T @ kernel, np.eye(6), atol=1e-5)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal"])
def test_blocks_by_hand_draw_their_own(name):
    one, other = block_of(kernel_initializer=name), block_of(kernel_initializer=name)
    for block in (one, other):
        block.build((None, None, 6))
    difference = one.attention.qkv.kernel - other.attention.qkv.kernel
    assert np.abs(difference).max() > 1e-2


@SOME_SCHEMES
def test_the_same_seed_builds_the_same(scheme):
    runs = []
    for _ in range(2):
        keras.utils.set_random_seed(11)
        encoder = encoder_of(residual=scheme)
        encoder.build((None, None, 5))
        x = ops.reshape(ops.arange(50, dtype="float32"), (2, 5, 5))
        runs.append([*encoder.get_weights(), np.array(encoder(x, training=True))])
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one, other)


# Attention weights.


@BOTH
def test_attention_scores(make, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    layer = make()
    y, scores = layer(x, mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(y, layer(x, mask=mask), atol=1e-6)
    scores = scores if isinstance(scores, list) else [scores]
    assert len(scores) == layer.num_layers
    for one in scores:
        assert one.shape == (2, 3, 5, 5)
        np.testing.assert_allclose(np.sum(one, axis=-1), 1, atol=1e-6)
        assert (np.array(one)[1, :, :, 3:] == 0).all()

    inputs = keras.Input((None, 6)), keras.Input((None,), dtype="bool")
    outputs = layer(inputs[0], mask=inputs[1], return_attention_scores=True)
    y_model, scores_model = keras.Model(inputs, outputs)([x, mask])
    np.testing.assert_allclose(y_model, y, atol=1e-6)
    scores_model = scores_model if isinstance(scores_model, list) else [scores_model]
    for one, other in zip(scores, scores_model, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


# Masks.


def everything(x):
    """An attention mask that hides nothing."""
    place = ops.cumsum(ops.ones_like(x[:, :, 0]), axis=1)
    return ops.expand_dims(place, 1) + ops.expand_dims(place, 2) > 0


def by_hand(scheme):
    """ids -> the output of each layer of a model that is wired by hand."""
    ids = keras.Input((None,), dtype="int32")
    steps = [keras.layers.Embedding(11, 6, mask_zero=True)(ids)]
    for layer in (
        LearnedPositions(9),
        SinusoidalPositions(),
        block_of(residual=scheme),
    ):
        steps.append(layer(steps[-1]))
    # Keras itself hands a mask on only where the input is the lone tensor.
    for _ in range(2):
        x = steps[-1]
        steps.append(block_of(residual=scheme)(x, attention_mask=everything(x)))
    return keras.Model(ids, [*steps, MeanPooling()(steps[-1])])


@SOME_SCHEMES
def test_padding_by_hand_changes_nothing(scheme, rng):
    model = by_hand(scheme)
    for layer in model.layers:
        perturb(layer, rng)
    short = np.array([[3, 4, 5]])
    *_, right = model(short)
    for ids in (
        [[3, 4, 5, 0]],
        [[3, 4, 5] + 6 * [0]],
        [[3, 4, 5, 0, 0], [7, 8, 9, 6, 1]],
    ):
        *steps, pooled = model(np.array(ids))
        # Sums of streams, block after block, grow large.
        np.testing.assert_allclose(pooled[:1], right, rtol=2e-6, atol=1e-5)
        for step in steps:
            np.testing.assert_array_equal(step._keras_mask, np.array(ids) != 0)
    assert np.abs(np.array(model(short[:, ::-1])[-1] - right)).max() > 1e-4


@BOTH
def test_the_mask_goes_on_beside_the_scores(make):
    x = keras.layers.Embedding(11, 6, mask_zero=True)(np.array([[3, 4, 0]]))
    y, _ = make()(x, return_attention_scores=True)
    np.testing.assert_array_equal(y._keras_mask, [[True, True, False]])


@BOTH
def test_a_given_mask_wins_over_the_one_on_the_input(make):
    layer = make()
    x = keras.layers.Embedding(11, 6, mask_zero=True)(np.array([[3, 4, 0]]))
    mask = np.array([[True, False, False]])
    y = layer(x, mask=mask)
    np.testing.assert_allclose(y, layer(ops.convert_to_numpy(x), mask=mask), atol=1e-6)
    np.testing.assert_array_equal(y._keras_mask, mask)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@SOME_SCHEMES
def test_an_empty_text_is_finite_and_leaves_its_neighbours_alone(scheme, dtype, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    mask = np.array([[True] * 4 + [False], [False] * 5])
    encoder = encoder_of(residual=scheme, dtype=dtype, causal=True)
    y = exact(encoder(x, mask=mask))
    assert np.isfinite(y).all()
    np.testing.assert_allclose(y[:1], exact(encoder(x[:1], mask=mask[:1])), atol=2e-2)


# Configs and files.

CHANGED = {
    "embed_dim": 12,
    "num_heads": 2,
    "ff_dim": 5,
    "rate": 1.0,
    "residual": "attention_residual(fusion_init='identity')",
    "norm": "rms_norm",
    "parallel": True,
    "stochastic_depth": 1.0,
    "key_dim": 4,
    "activation": "gelu",
    "attention_rate": 1.0,
    "ff_rate": 1.0,
    "causal": True,
    "rotary": True,
    "qk_norm": True,
    "value_residual": True,
    "recompute": True,
    "score_residual": True,
    "head_scale": True,
    "kernel_initializer": "he_normal",
    "epsilon": 0.1,
    "sublayer_options": [
        {"init_gains": {"query": 2.0}},
        {"init_gains": {"ff_in": 3.0}},
    ],
    "num_layers": 3,
    "final_norm": False,
    # of keras.layers.Layer
    "name": "mine",
    "dtype": "float64",
    "trainable": False,
}
OBJECTS = {
    "activation": keras.layers.LeakyReLU(negative_slope=0.3),
    "kernel_initializer": keras.initializers.HeNormal(seed=3),
    "residual": "an instance",
}


def parameters(make):
    """Constructor arguments of what `make` makes, without the catch-all."""
    found = inspect.signature(type(make()).__init__).parameters.values()
    return {p.name for p in found if p.kind is not p.VAR_KEYWORD} - {"self"}


def test_every_constructor_argument_is_swept():
    """A new argument must be added to CHANGED, and so to the tests below."""
    ours = parameters(block_of) | parameters(encoder_of)
    assert ours == CHANGED.keys() - {"name", "dtype", "trainable"}


SWEEP = [
    (make, {name: value})
    for make in (block_of, encoder_of)
    for values in (CHANGED, OBJECTS)
    for name, value in values.items()
    if name in parameters(make) | {"name", "dtype", "trainable"}
]


@pytest.mark.parametrize(
    ("make", "changed"),
    SWEEP,
    ids=[f"{make.__name__}-{name}" for make, changed in SWEEP for name in changed],
)
def test_config_round_trip(make, changed, rng):
    (name,) = changed
    if changed == {"residual": "an instance"}:
        changed = {"residual": get("attention_residual", num_sublayers=2, rate=1)}
    # A rate of 0 or 1 leaves nothing to chance; rotary needs an even key_dim.
    base = {"rate": 0.0, "key_dim": 2} | (
        {"num_layers": 1} if make is encoder_of else {}
    )
    x = rng.normal(size=(2, 5, 6))
    layer = built(make(**{**base, **changed}), x, rng)
    config = layer.get_config()
    assert config[name] != make(**base).get_config()[name]
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config

    again.build(x.shape)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(
        again(x, training=True), layer(x, training=True), atol=1e-6
    )


@SOME_SCHEMES
def test_weights_are_there_before_the_first_call(scheme, tmp_path, rng):
    x = rng.normal(size=(2, 5, 5)).astype("float32")

    def model():
        inputs = keras.Input((None, 5))
        y = encoder_of(residual=scheme)(block_of(residual=scheme)(inputs))
        return keras.Model(inputs, y)

    encoder = encoder_of(residual=scheme)
    encoder.build((None, None, 5))
    before = [weight.path for weight in encoder.weights]
    encoder(x)
    assert [weight.path for weight in encoder.weights] == before

    saved, fresh = perturb(model(), rng), model()
    saved.save_weights(tmp_path / "model.weights.h5")
    fresh.load_weights(tmp_path / "model.weights.h5")
    for one, other in zip(saved.weights, fresh.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    np.testing.assert_allclose(fresh(x), saved(x), atol=1e-6)


def test_weights_of_another_size_are_refused(tmp_path):
    def model(ff_dim):
        return keras.Sequential([keras.Input((None, 6)), encoder_of(ff_dim=ff_dim)])

    model(7).save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="shape"):
        model(8).load_weights(tmp_path / "model.weights.h5")


LOAD = """
import sys, keras, numpy as np
import residual_keras
model = keras.models.load_model(sys.argv[1])
data = np.load(sys.argv[2])
for name, y in zip(("pooled", "scores"), model(data["ids"])):
    np.testing.assert_allclose(y, data[name], atol=1e-6)
assert model.get_layer("by_hand").get_config()["activation"] == "gelu"
"""


def test_a_saved_model_loads_in_a_new_process(tmp_path, rng):
    """Blocks stacked by hand, under schemes of their own, and a stack."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 5, mask_zero=True)(ids)
    x = block_of(activation="gelu", name="by_hand", rotary=True)(
        SinusoidalPositions()(x)
    )
    scheme = get("attention_residual", num_sublayers=2, fusion_init="identity")
    x = block_of(residual=scheme, kernel_initializer=INITIALIZERS["fixed seed"])(x)
    x, scores = encoder_of()(x, return_attention_scores=True)
    model = perturb(keras.Model(ids, [MeanPooling()(x), scores[1]]), rng)
    model.save(tmp_path / "model.keras")
    data = {"ids": np.array([[3, 4, 5, 0], [6, 7, 8, 9]])}
    data["pooled"], data["scores"] = map(np.array, model(data["ids"]))
    np.savez(tmp_path / "data.npz", **data)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, tmp_path / "model.keras", tmp_path / "data.npz"],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# Precision and training.


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6])
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@SOME_SCHEMES
def test_half_precision_is_finite(scheme, dtype, epsilon, rng):
    """Rows of zeros, constant rows, rows of 1e4; and the gradient at ordinary ones."""
    block = block_of(residual=scheme, epsilon=epsilon, dtype=dtype)
    x = rng.uniform(-1, 1, size=(2, 5, 6)).astype("float32")
    y = block(np.concatenate([0 * x, 0 * x + 3, 1e4 * x]))
    assert np.isfinite(exact(y)).all()
    with tf.GradientTape() as tape:
        y = block(x, mask=np.array([[True] * 5, [True] + [False] * 4]))
        loss = ops.mean(ops.cast(y, "float32") ** 2)
    for gradient in tape.gradient(loss, block.trainable_weights):
        assert np.isfinite(exact(gradient)).all()


def test_half_precision_stays_close(rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    full, half = built(encoder_of(), x, rng), encoder_of(dtype="mixed_float16")
    half.build(x.shape)
    half.set_weights(full.get_weights())
    assert half(x).dtype == "float16"
    np.testing.assert_allclose(exact(half(x)), exact(full(x)), atol=2e-2)


def test_a_deep_stream_in_half_precision_is_finite(rng):
    encoder = encoder_of(24, residual="pre_ln", dtype="mixed_float16", epsilon=1e-12)
    x = 1e3 * rng.normal(size=(2, 5, 6)).astype("float32")
    y, scores = encoder(x, return_attention_scores=True)
    assert np.isfinite(exact(y)).all()
    assert all(np.isfinite(exact(one)).all() for one in scores)


def toy(rng):
    """Padded texts whose class is which of two words they hold."""
    ids = rng.integers(4, 11, size=(64, 7))
    labels = rng.integers(0, 2, size=64)
    ids[:, 0] = 2 + labels
    lengths = rng.integers(1, 8, size=64)
    lengths[0] = 1
    return np.where(np.arange(7) < lengths[:, None], ids, 0), labels


def classifier(layers):
    ids = keras.Input((7,), dtype="int32")
    x = SinusoidalPositions()(keras.layers.Embedding(11, 6, mask_zero=True)(ids))
    for layer in layers:
        x = layer(x)
    return keras.Model(ids, keras.layers.Dense(2, dtype="float32")(MeanPooling()(x)))


def compiled(model, **kwargs):
    model.compile(
        keras.optimizers.Adam(1e-2),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **kwargs,
    )
    return model


def test_half_precision_learns(rng):
    """Long pads, a row of one token, causal and padding masks that overlap."""
    ids, labels = toy(rng)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        blocks = [block_of(residual=s) for s in ("post_ln", "attention_residual")]
        stack = encoder_of(1, causal=True, residual="pre_ln")
        model = compiled(classifier([*blocks, stack]))
        history = model.fit(ids, labels, batch_size=32, epochs=25, verbose=0).history
    finally:
        keras.mixed_precision.set_global_policy(before)
    assert np.isfinite(history["loss"]).all()
    assert history["accuracy"][-1] > 0.95
    assert all(np.isfinite(weight.numpy()).all() for weight in model.weights)


def test_compiled_by_xla_or_not_the_losses_are_equal(rng):
    ids, labels = toy(rng)
    losses = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(5)
        encoder = encoder_of(1, rate=0.0, key_dim=4, causal=True, rotary=True)
        model = compiled(classifier([encoder]), jit_compile=jit_compile)
        history = model.fit(
            ids, labels, batch_size=32, epochs=2, verbose=0, shuffle=False
        )
        losses.append(history.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-4)
