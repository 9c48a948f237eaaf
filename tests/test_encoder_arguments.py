"""What block and stack can be asked for beside a scheme, each argument by itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from residual_keras import MeanPooling, TransformerBlock, TransformerEncoder, no_decay
from residual_keras.residuals import SCHEMES, Residual, get

SIZES = {"embed_dim": 6, "num_heads": 3, "ff_dim": 7}
ARGUMENTS = {
    "parallel": {"parallel": True},
    "rms_norm": {"norm": "rms_norm"},
    "dyt": {"norm": "dyt"},
    "qk_norm": {"qk_norm": True},
    "value_residual": {"value_residual": True},
    "score_residual": {"score_residual": True},
    "head_scale": {"head_scale": True},
    "stochastic_depth": {"stochastic_depth": 0.5},
    "all": {
        "parallel": True,
        "norm": "rms_norm",
        "qk_norm": True,
        "value_residual": True,
        "score_residual": True,
        "head_scale": True,
        "stochastic_depth": 0.5,
    },
}
EACH = pytest.mark.parametrize("argument", ARGUMENTS)
SLOW = pytest.mark.slow


def block_of(**kwargs):
    return TransformerBlock(**{**SIZES, "rate": 0.0, **kwargs})


def encoder_of(num_layers=3, **kwargs):
    return TransformerEncoder(num_layers, **{**SIZES, "rate": 0.0, **kwargs})


def built(layer, x, rng):
    """`layer` built for x, every weight moved."""
    layer.build(x.shape)
    for weight in layer.trainable_weights:
        weight.assign_add(rng.normal(0, 0.3, weight.shape))
    return layer


def exact(tensor):
    """A tensor of any precision as a float64 array."""
    return ops.convert_to_numpy(ops.cast(tensor, "float64"))


# What each computes.


def normed(x, norm):
    """One of the three norms, by the weights it has."""
    weights = {weight.name: weight.numpy() for weight in norm.weights}
    if "alpha" in weights:
        return weights["gamma"] * np.tanh(weights["alpha"] * x) + weights["beta"]
    if "gamma" in weights:
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.epsilon)
    return x * weights.get("gamma", weights.get("scale")) + weights.get("beta", 0)


def attended(layer, x, allowed, first, previous):
    """Attention in NumPy; also the first block's values and the scores to pass on."""
    kernel, bias = (weight.numpy() for weight in layer.qkv.weights)
    parts = (x @ kernel + bias).reshape(*x.shape[:2], 3, layer.num_heads, -1)
    query, key, value = np.moveaxis(parts, 2, 0).swapaxes(2, 3)
    if layer.qk_norm:
        query, key = normed(query, layer.query_norm), normed(key, layer.key_norm)
    if first is None:
        first = value
    elif layer.value_residual:
        value = layer.own.numpy() * value + layer.first.numpy() * first
    scores = query @ key.swapaxes(2, 3) / np.sqrt(layer.key_dim)
    if layer.score_residual and previous is not None:
        scores = scores + previous
    weights = np.exp(scores) * allowed
    heads = weights / weights.sum(-1, keepdims=True) @ value
    if layer.head_scale:
        heads = layer.scales.numpy()[:, None, None] * heads
    kernel, bias = (weight.numpy() for weight in layer.output_dense.weights)
    heads = heads.swapaxes(1, 2).reshape(*x.shape[:2], -1)
    return heads @ kernel + bias, first, scores


def forward(layer, x):
    """The feed-forward network in NumPy."""
    kernel, bias = (weight.numpy() for weight in layer.expand.weights)
    hidden = np.maximum(x @ kernel + bias, 0)
    kernel, bias = (weight.numpy() for weight in layer.project.weights)
    return hidden @ kernel + bias


def pre_ln(encoder, x, allowed, parallel):
    """The whole stack in NumPy."""
    first = previous = None
    norms = iter(encoder.residual.norms)
    for block in encoder.blocks:
        u = normed(x, next(norms))
        update, first, previous = attended(block.attention, u, allowed, first, previous)
        x = x + update
        u = u if parallel else normed(x, next(norms))
        x = x + forward(block.feed_forward, u)
    return normed(x, encoder.norm)


@pytest.mark.parametrize("num_layers", [1, 2, 5])
@EACH
def test_against_numpy(argument, num_layers, rng):
    x = rng.normal(size=(2, 5, 6))
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    encoder = encoder_of(
        num_layers, causal=True, dtype="float64", epsilon=1e-3, **ARGUMENTS[argument]
    )
    allowed = np.tri(5) * mask[:, None, None, :]
    built(encoder, x, rng)
    right = pre_ln(encoder, x, allowed, ARGUMENTS[argument].get("parallel"))
    np.testing.assert_allclose(encoder(x, mask=mask), right, atol=1e-10)


def test_parallel_and_dropped_updates_give_the_golden_numbers():
    """Both under pre_ln, on one token; stored from code that knows nothing of this."""
    c, b = [0.5, -0.25, 0.75, -0.5], [0.1, 0.2, -0.1, 0.3]
    x = np.array([[[1, -2, 3, 0.5]]])

    def sublayer(i):
        def f(u, *args, **kwargs):
            y = c[i] * ops.tanh(ops.roll(u, 1, axis=-1)) + b[i] * np.arange(1, 5) / 4
            return (y, None, None) if i % 2 == 0 else y

        return f

    def driven(keep, **kwargs):
        encoder = TransformerEncoder(
            2, 4, 1, 4, 0.0, epsilon=1e-12, dtype="float64", **kwargs
        )
        encoder.build(x.shape)
        kept = iter(keep)
        for index, block in enumerate(encoder.blocks):
            block.attention = sublayer(2 * index)
            block.feed_forward = sublayer(2 * index + 1)
            if keep:
                rate = block.skip.rate
                block.skip = lambda y, training, p=rate: y * next(kept) / (1 - p)
        return np.ravel(encoder(x, training=True))

    right = [0.108448, -1.580955, 1.186077, 0.286430]
    np.testing.assert_allclose(driven([], parallel=True), right, atol=1e-6)
    right = [-0.004600, -1.388806, 1.438460, -0.045053]
    found = driven([1, 1, 0, 1], stochastic_depth=0.1)
    np.testing.assert_allclose(found, right, atol=1e-6)


# Attention and feed-forward as one.


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_parallel_is_one_sublayer_a_block_or_refused(scheme, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    if not SCHEMES[scheme].joins_sublayers:
        with pytest.raises(ValueError, match="read the same input"):
            encoder_of(residual=scheme, parallel=True)
        return
    encoder = built(encoder_of(residual=scheme, parallel=True), x, rng)
    residual = encoder.residual
    assert (residual.num_sublayers, residual.num_blocks) == (3, 3)
    state = residual.start(x)
    for i, block in enumerate(encoder.blocks):
        u = residual.read(state, i)
        state = residual.write(state, block.attention(u) + block.feed_forward(u), i)
    y = residual.finish(state)
    y = y if encoder.norm is None else encoder.norm(y)
    np.testing.assert_allclose(encoder(x), y, atol=1e-5)


@pytest.mark.parametrize("parallel", [False, True])
def test_an_instance_must_be_made_for_as_many_sublayers_a_block(parallel):
    scheme = get("pre_ln", num_sublayers=2, per_block=2 if parallel else 1)
    with pytest.raises(ValueError, match="per_block"):
        encoder_of(2 if parallel else 1, residual=scheme, parallel=parallel)


# Norms.


@pytest.mark.parametrize("scheme", ["pre_ln", "post_ln", "attention_residual"])
@pytest.mark.parametrize(
    ("norm", "weights"),
    [
        ("layer_norm", {"gamma", "beta"}),
        ("rms_norm", {"scale"}),
        ("dyt", {"alpha", "gamma", "beta"}),
    ],
)
def test_every_norm_on_the_stream_is_of_that_kind(norm, weights, scheme):
    encoder = encoder_of(residual=scheme, norm=norm, final_norm=True)
    encoder.build((None, None, 6))
    norms = {id(w): w for n in encoder.residual.norms for w in n.weights}
    assert {w.name for w in norms.values()} == weights
    assert {w.name for w in encoder.norm.weights} == weights
    rest = [w.name for w in encoder.weights if id(w) not in norms]
    assert set(rest) - {"kernel", "bias"} == weights


# What is carried from block to block.


def test_the_first_block_mixes_no_values():
    """What weighs them would be dead, in a block by itself and in a stack."""
    encoder = encoder_of(value_residual=True)
    encoder.build((None, None, 6))
    mixes = [hasattr(block.attention, "own") for block in encoder.blocks]
    assert mixes == [False, True, True]
    own = [block.attention.own for block in encoder.blocks[1:]]
    first = [block.attention.first for block in encoder.blocks[1:]]
    np.testing.assert_array_equal([*own, *first], 0.5)
    assert {id(w) for w in own + first} <= {
        id(w) for w in no_decay(keras.Sequential([encoder]))
    }


@pytest.mark.parametrize("argument", ["value_residual", "score_residual"])
def test_a_block_by_itself_has_nothing_before_it(argument, rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    plain = built(block_of(), x, rng)
    block = block_of(**{argument: True})
    block.build(x.shape)
    block.set_weights(plain.get_weights())
    np.testing.assert_array_equal(block(x), plain(x))


def test_what_scheme_and_user_both_ask_for(rng):
    """No clash, and what one of them asks for is there."""

    class Asks(Residual):
        def sublayer_options(self, i):
            return {} if i % 2 else {"qk_norm": True, "epsilon": 0.1}

    for user in ({}, {"qk_norm": True}, {"head_scale": True}):
        block = block_of(residual=Asks(2), **user)
        assert block.attention.qk_norm
        assert block.attention.epsilon == 0.1
        assert block.attention.head_scale == user.get("head_scale", False)
        assert block.get_config()["qk_norm"] == user.get("qk_norm", False)


# Stochastic depth.


def test_updates_are_left_out_sample_by_sample(rng):
    """In block k of N with probability p k / N; what is kept is scaled up."""
    x = np.repeat(rng.normal(size=(1, 5, 6)).astype("float32"), 4000, axis=0)
    encoder = built(encoder_of(4, stochastic_depth=0.6), x, rng)
    assert [block.skip.rate for block in encoder.blocks] == pytest.approx(
        [0.15, 0.3, 0.45, 0.6]
    )
    block = encoder.blocks[3]
    u = rng.normal(size=(4000, 5, 6)).astype("float32")
    kept = np.array(block.join(0.0, u, Residual(2), 0, training=True))
    whole = (kept != 0).all((1, 2))
    assert (whole | (kept == 0).all((1, 2))).all()
    assert whole.mean() == pytest.approx(0.4, abs=0.03)
    np.testing.assert_allclose(kept[whole], u[whole] / 0.4, rtol=1e-5)
    again = np.array(block.join(0.0, u, Residual(2), 1, training=True))
    assert (again != kept).any()  # each sublayer draws its own

    np.testing.assert_array_equal(block.join(0.0, u, Residual(2), 0, training=False), u)
    mean = np.array(encoder(x, training=True)).mean(0)
    assert np.abs(mean - np.array(encoder(x))[0]).max() > 1e-3  # training it was
    assert np.unique(np.array(encoder(x, training=True))[:, 0, 0]).size > 10


def test_left_out_updates_leave_the_stream_of_pre_ln(rng):
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    block = block_of(residual="pre_ln", stochastic_depth=1.0)
    np.testing.assert_array_equal(block(x, training=True), x)


@pytest.mark.parametrize("make", [block_of, encoder_of])
@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_share_beyond_one_is_refused(make, rate):
    with pytest.raises(ValueError, match=f"Received: stochastic_depth={rate}"):
        make(stochastic_depth=rate)


# Each in a whole model.


def model_of(argument, **kwargs):
    """ids -> two logits."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 6, mask_zero=True)(ids)
    x = encoder_of(name="encoder", **ARGUMENTS[argument], **kwargs)(x)
    return keras.Model(ids, keras.layers.Dense(2, dtype="float32")(MeanPooling()(x)))


@EACH
def test_padding_changes_nothing_and_the_future_is_hidden(argument, rng):
    model = model_of(argument, causal=True)
    built(model, np.zeros((2, 5)), rng)
    right = model(np.array([[3, 4, 5]]))
    for ids in ([[3, 4, 5, 0, 0, 0]], [[3, 4, 5, 0], [9, 0, 0, 0]]):
        np.testing.assert_allclose(model(np.array(ids))[:1], right, atol=1e-5)
    assert np.isfinite(model(np.zeros((2, 4), "int32"))).all()

    x = rng.normal(size=(2, 5, 6)).astype("float32")
    changed = x.copy()
    changed[:, -1] = rng.normal(size=(2, 6))
    encoder = model.get_layer("encoder")
    y, y_changed = np.array(encoder(x)), np.array(encoder(changed))
    np.testing.assert_allclose(y_changed[:, :-1], y[:, :-1], atol=1e-6)
    assert np.abs(y_changed[:, -1] - y[:, -1]).max() > 1e-2


@EACH
def test_half_precision_is_finite_and_close(argument, rng):
    x = rng.uniform(-1, 1, size=(2, 5, 6)).astype("float32")
    full = built(encoder_of(**ARGUMENTS[argument]), x, rng)
    mask = np.array([[True] * 5, [False] * 5])
    for dtype, atol in (("mixed_float16", 3e-2), ("mixed_bfloat16", 0.3)):
        half = encoder_of(dtype=dtype, causal=True, **ARGUMENTS[argument])
        half.build(x.shape)
        half.set_weights(full.get_weights())
        y = half(
            np.concatenate([0 * x, 0 * x + 3, 1e4 * x]), mask=np.tile(mask, (3, 1))
        )
        assert np.isfinite(exact(y)).all()
        with tf.GradientTape() as tape:
            loss = ops.mean(ops.cast(half(x, mask=mask, training=True), "float32") ** 2)
        for gradient in tape.gradient(loss, half.trainable_weights):
            assert gradient is None or np.isfinite(exact(gradient)).all()
        half.causal = False
        np.testing.assert_allclose(exact(half(x)), exact(full(x)), atol=atol)


# Compiling takes long; all of them at once will do, but for the slow suite.
@pytest.mark.parametrize(
    "argument",
    [name if name == "all" else pytest.param(name, marks=SLOW) for name in ARGUMENTS],
)
def test_compiled_by_xla_or_not(argument, rng):
    """The same training, but for what is drawn; every weight gets a gradient."""
    ids = rng.integers(1, 11, size=(16, 5))
    labels = rng.integers(0, 2, size=16)
    losses = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(5)
        model = model_of(argument)
        if "stochastic_depth" in ARGUMENTS[argument]:
            for block in model.get_layer("encoder").blocks:
                block.skip.rate = 0.0
        before = [weight.numpy() for weight in model.trainable_weights]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=jit_compile)
        found = model.fit(ids, labels, batch_size=8, epochs=2, verbose=0, shuffle=False)
        losses.append(found.history["loss"])
        for weight, old in zip(model.trainable_weights, before, strict=True):
            assert (weight.numpy() != old).any(), weight.path
    np.testing.assert_allclose(*losses, rtol=1e-3)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_what_is_drawn_is_drawn_anew_in_a_graph(jit_compile, rng):
    encoder = encoder_of(2, stochastic_depth=1.0)
    x = rng.normal(size=(64, 5, 6)).astype("float32")
    call = tf.function(
        lambda x: encoder(x, training=True), jit_compile=jit_compile, autograph=False
    )
    encoder.build(x.shape)
    assert (np.array(call(x)) != np.array(call(x))).any()


LOAD = """
import json, sys, keras, numpy as np
import residual_keras
model = keras.models.load_model(sys.argv[1])
data = np.load(sys.argv[2])
found = [np.abs(np.array(model(data["ids"])) - data["y"]).max()]
found.append(len(residual_keras.no_decay(model)))
print(json.dumps([float(one) for one in found]))
"""


def test_a_saved_model_with_all_of_them_loads_in_a_new_process(
    tmp_path, rng, new_process
):
    model = built(model_of("all"), np.zeros((2, 5)), rng)
    ids = rng.integers(0, 11, size=(3, 5))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "data.npz", ids=ids, y=np.array(model(ids)))
    apart, spared = new_process(LOAD, tmp_path / "model.keras", tmp_path / "data.npz")
    assert apart == 0
    assert spared == len(no_decay(model))


# What a scheme reads off one batch.


def test_calibration_sends_a_batch_through_once_without_dropout(rng):
    class Reads(Residual):
        def calibrate(self, run):
            self.seen = run()

    x = rng.normal(size=(2, 5, 6)).astype("float32")
    mask = np.array([[True] * 5, [True] * 3 + [False] * 2])
    block = block_of(residual=Reads(2), rate=0.5)
    block.calibrate(x, mask=mask)
    np.testing.assert_array_equal(block.residual.seen, block(x, mask=mask))
    encoder = encoder_of(residual="pre_ln")
    encoder.calibrate(x)  # nothing to set, so nothing is run
    assert not encoder.built
