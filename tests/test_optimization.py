"""Schedules, smoothed labels, and which weights decay leaves alone."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import (
    AttentionPooling,
    ClassToken,
    FirstToken,
    InverseSquareRoot,
    LearnedPositions,
    SmoothedCrossentropy,
    TextClassifier,
    TextVectorizer,
    TransformerBlock,
    TransformerEncoder,
    build_classifier,
    no_decay,
    schedule,
)
from residual_keras.embedding import POSITIONS
from residual_keras.optimization import SCHEDULES, spare
from residual_keras.pooling import POOLINGS
from residual_keras.residuals import SCHEMES

# The last of each kind of state; tests/residuals sweeps them all.
KINDS = {scheme.__module__: name for name, scheme in SCHEMES.items()}


def small(**kwargs):
    sizes = {"num_layers": 1, "embed_dim": 6, "num_heads": 2, "max_len": 5}
    return build_classifier(11, 3, **{**sizes, **kwargs})


# --- schedules


@pytest.mark.parametrize(
    ("step", "share"),
    [(0, 0), (1, 0.25), (4, 1), (8, 0.5), (6, (1 + math.sqrt(0.5)) / 2), (12, 0)],
)
def test_cosine_rises_to_its_peak_and_falls_to_zero(step, share):
    rate = schedule("cosine", 0.3, warmup_steps=4, total_steps=12)
    assert float(rate(step)) == pytest.approx(0.3 * share, abs=1e-7)


def test_cosine_stays_at_zero_after_the_end():
    rate = schedule("cosine", 0.3, warmup_steps=4, total_steps=12)
    assert float(rate(100)) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("total_steps", [1, 12])
def test_cosine_without_warm_up_starts_at_its_peak(total_steps):
    rate = schedule("cosine", 0.3, warmup_steps=0, total_steps=total_steps)
    assert float(rate(0)) == pytest.approx(0.3)
    assert float(rate(total_steps)) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize(
    ("step", "share"), [(0, 0), (1, 0.25), (4, 1), (16, 0.5), (400, 0.1)]
)
def test_inverse_square_root_rises_and_falls_with_the_root(step, share):
    rate = schedule("inverse_sqrt", 0.3, warmup_steps=4, total_steps=9)
    assert float(rate(step)) == pytest.approx(0.3 * share)
    in_graph = tf.function(rate)(tf.constant(step, "int64"))
    assert float(in_graph) == pytest.approx(0.3 * share)


def test_inverse_square_root_without_warm_up():
    rate = schedule("inverse_sqrt", 0.3, warmup_steps=0, total_steps=9)
    assert float(rate(1)) == pytest.approx(0.3)
    with pytest.raises(ValueError, match="warmup_steps=0"):
        InverseSquareRoot(0.3, warmup_steps=0)


def test_constant_is_the_number():
    assert schedule("constant", 0.3, warmup_steps=4, total_steps=9) == 0.3


def test_an_unknown_schedule_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'cosine'.*Known: constant"):
        schedule("cosin", 0.3, warmup_steps=4, total_steps=9)


# --- smoothed labels


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 7),
    st.floats(0, 0.99),
    st.integers(0, 2**31),
    st.sampled_from(["int32", "int64", "uint8", "float32"]),
)
def test_smoothing_equals_keras_on_one_hot_labels(classes, smoothing, seed, dtype):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, 5)
    logits = rng.normal(scale=3, size=(5, classes)).astype("float32")
    weights = rng.uniform(size=5)
    reference = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=smoothing
    )
    loss = SmoothedCrossentropy(smoothing)
    expected = reference(np.eye(classes)[labels], logits, sample_weight=weights)
    for shape in [(5,), (5, 1)]:
        found = loss(labels.astype(dtype).reshape(shape), logits, sample_weight=weights)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_smoothing_by_hand():
    loss = SmoothedCrossentropy(0.3)(np.array([1]), np.array([[0.0, 1.0, 2.0]]))
    log_p = np.arange(3) - math.log(1 + math.e + math.e**2)
    assert float(loss) == pytest.approx(-log_p @ [0.1, 0.8, 0.1], rel=1e-5)


@pytest.mark.parametrize("smoothing", [-0.1, 1, 1.5])
def test_smoothing_must_be_a_share(smoothing):
    with pytest.raises(ValueError, match=f"smoothing={smoothing}"):
        SmoothedCrossentropy(smoothing)


def test_smoothing_refuses_a_single_logit():
    # Its softmax is 1 whatever the logit, so the loss would be 0 for good.
    with pytest.raises(ValueError, match=r"one logit for each class.*y_pred.shape"):
        SmoothedCrossentropy(0.1)(np.array([1, 0]), np.array([[0.3], [0.2]]))


# --- saving


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_and_loss_survive_in_a_compiled_model(name, tmp_path):
    rate = schedule(name, 0.3, warmup_steps=4, total_steps=12)
    model = small()
    model.compile(keras.optimizers.AdamW(rate), SmoothedCrossentropy(0.2))
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")

    assert type(loaded.loss) is SmoothedCrossentropy
    assert loaded.loss.smoothing == 0.2
    for step in (1, 4, 9):
        loaded.optimizer.iterations.assign(step)
        expected = 0.3 if name == "constant" else rate(step)
        np.testing.assert_allclose(loaded.optimizer.learning_rate, expected, rtol=1e-6)


# --- which weights are spared


def spared(model):
    return {weight.path for weight in no_decay(model)}


def spared_of_block(path, scheme="pre_ln"):
    """The vectors of a block, without the norms of its scheme."""
    parts = ("attention/qkv", "attention/output")
    parts += ("feed_forward/expand", "feed_forward/project")
    return {f"{path}/{part}/bias" for part in parts}


def norms(path, count):
    return {f"{path}/norm_{i}/{w}" for i in range(count) for w in ("gamma", "beta")}


SPARED = {
    "logits/bias",
    "encoder/norm/gamma",
    "encoder/norm/beta",
    *norms("encoder/residual", 2),
    *spared_of_block("encoder/block_0"),
}
OF_POSITIONS = {"learned": {"embedding/positions/table"}}
OF_POOLING = {
    "cls": {"class_token/token"},
    "attention": {"pooling/hidden/bias"},
}


@pytest.mark.parametrize("positions", POSITIONS)
def test_spared_weights_with_each_positions(positions):
    if positions == "rotary":
        model = small(positions=positions, embed_dim=8)
    else:
        model = small(positions=positions)
    assert spared(model) == SPARED | OF_POSITIONS.get(positions, set())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_spared_weights_with_each_pooling(pooling):
    model = small(positions="none", pooling=pooling)
    assert spared(model) == SPARED | OF_POOLING.get(pooling, set())


@pytest.mark.parametrize("scheme", ["post_ln", "pre_ln", *KINDS.values()])
def test_dense_kernels_and_tokens_are_decayed_under_each_scheme(scheme):
    model = small(residual=scheme)
    kept = spared(model)
    for path in {w.path for w in model.trainable_weights}:
        if "/residual/" not in path:  # tests/residuals/test_training.py has those
            assert (path in kept) != path.endswith(("kernel", "embeddings")), path


def test_the_fusion_matrices_of_attention_residual_are_decayed():
    model = small(residual="attention_residual")
    decayed = {w.path for w in model.trainable_weights} - spared(model)
    fusion = {
        f"encoder/residual/{n}_{i}/kernel" for n in ("project", "fuse") for i in (0, 1)
    }
    assert fusion <= decayed


@pytest.fixture(scope="module")
def by_hand():
    """Blocks wired by hand, some inside a Sequential inside a Model."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(11, 6, name="tokens")(ids)
    x = LearnedPositions(5, name="place")(x)
    tower = keras.Sequential(
        [
            keras.Input((None, 6)),
            ClassToken(name="first"),
            keras.Sequential([TransformerBlock(6, 2, 8, name="inner")]),
        ]
    )
    inside = keras.Model(tower.inputs, tower(tower.inputs[0]))
    x = inside(x)
    x = TransformerBlock(6, 2, 8, residual="attention_residual", name="outer")(x)
    x = AttentionPooling(name="pool")(x)
    return keras.Model(ids, keras.layers.Dense(2, name="logits")(x))


BY_HAND = {
    "place/table",
    "first/token",
    "pool/hidden/bias",
    "logits/bias",
    *(f"outer/residual/{n}_{i}/bias" for n in ("project", "fuse") for i in (0, 1)),
    *norms("outer/residual", 2),
    *norms("inner/residual", 2),
    *spared_of_block("outer"),
    *spared_of_block("inner"),
}


def without_models(paths):
    """Paths from our layers on, whichever models those are in."""
    starts = ("place", "first", "pool", "logits", "outer", "inner")
    return {p[min(p.find(s) for s in starts if s in p) :] for p in paths}


def test_spared_weights_of_a_model_wired_by_hand(by_hand):
    assert without_models(spared(by_hand)) == BY_HAND
    assert len(no_decay(by_hand)) == len(BY_HAND)


def test_spared_weights_of_a_subclassed_model():
    class Tutorial(keras.Model):
        def __init__(self):
            super().__init__()
            self.tokens = keras.layers.Embedding(11, 6)
            self.place = LearnedPositions(5, name="place")
            self.blocks = [TransformerBlock(6, 2, 8, name=f"b{i}") for i in range(2)]
            self.head = FirstToken()

        def call(self, ids):
            x = self.place(self.tokens(ids))
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    model = Tutorial()
    model(np.ones((1, 3), "int32"))
    expected = {"place/table"}
    for block in ("b0", "b1"):
        expected |= spared_of_block(block) | norms(f"{block}/residual", 2)
    assert {p.removeprefix("tutorial/") for p in spared(model)} == expected


def test_spared_weights_of_a_text_classifier():
    vectorizer = TextVectorizer(11, 5)
    vectorizer.adapt(["a warm film"])
    classifier = small()
    model = TextClassifier(classifier, vectorizer, ["a", "b", "c"])
    assert spared(model) == spared(classifier)


def test_frozen_weights_are_not_listed():
    encoder = TransformerEncoder(1, 6, 2, 8)
    model = keras.Sequential([keras.Input((None, 6)), encoder])
    encoder.trainable = False
    assert no_decay(model) == []


# --- and left alone


def step_of_decay_alone(model, optimizer):
    """Weights before and after a step whose gradients are all zero, by path."""
    for weight in model.trainable_weights:  # zeros would show nothing
        weight.assign(keras.random.uniform(weight.shape, 0.5, 1.5))
    before = {w.path: np.array(w) for w in model.trainable_weights}
    zeros = [tf.zeros(w.shape) for w in model.trainable_weights]
    optimizer.apply(zeros, model.trainable_weights)
    return before, {w.path: np.array(w) for w in model.trainable_weights}


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "loss-scaled"])
@pytest.mark.parametrize("kind", ["classifier", "by_hand"])
def test_decay_shrinks_all_but_the_spared(kind, scaled, by_hand):
    model = small(pooling="cls") if kind == "classifier" else by_hand
    optimizer = keras.optimizers.AdamW(0.5, weight_decay=0.5)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    spare(optimizer, model)
    before, after = step_of_decay_alone(model, optimizer)
    kept = spared(model)
    assert kept < set(after)
    for path, value in before.items():
        factor = 1.0 if path in kept else 0.75
        np.testing.assert_allclose(after[path], factor * value, rtol=1e-6, err_msg=path)


def test_compile_spares_by_itself():
    model = small()
    model.compile(keras.optimizers.AdamW(0.5, weight_decay=0.5))
    before, after = step_of_decay_alone(model, model.optimizer)
    same = {p for p in before if np.array_equal(before[p], after[p])}
    assert same == spared(model)


def test_optimizers_without_decay_are_left_as_they_are():
    model = small()
    for optimizer in ("adam", "sgd"):
        optimizer = keras.optimizers.get(optimizer)
        spare(optimizer, model)
        before, after = step_of_decay_alone(model, optimizer)
        for path in before:
            np.testing.assert_array_equal(before[path], after[path])


def test_a_built_optimizer_is_left_as_it_is():
    model = small()
    optimizer = keras.optimizers.AdamW(0.5, weight_decay=0.5)
    optimizer.build(model.trainable_variables)
    spare(optimizer, model)  # Keras would raise
    before, after = step_of_decay_alone(model, optimizer)
    assert all(np.all(after[path] < before[path]) for path in before)
