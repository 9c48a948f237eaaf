"""The whole classifier: padding, head and loss, ids, sizes, saving, precision, XLA."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras import (
    AttentionPooling,
    InverseSquareRoot,
    SmoothedCrossentropy,
    TransformerBlock,
    build_classifier,
    no_decay,
    residuals,
)
from residual_keras.classifier import Classifier
from residual_keras.embedding import POSITIONS
from residual_keras.norms import NORMS, make_norm
from residual_keras.pooling import POOLINGS
from residual_keras.positions import LearnedPositions
from residual_keras.residuals import SCHEMES

OWN_SCHEMES = [
    n for n, c in SCHEMES.items() if c.__module__.startswith("residual_keras.")
]
# The last of each kind of state, where all would take too long.
KINDS = {scheme.__module__: name for name, scheme in SCHEMES.items()}
SOME_SCHEMES = ["post_ln", "pre_ln", *KINDS.values()]
WIDTH, HIDDEN, MAX_LEN, VOCABULARY = 8, 12, 11, 23
IDS = np.array([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0], [22, 3, 4, 0, 0]])


def small(num_classes=3, **kwargs):
    sizes = {
        "num_layers": 1,
        "embed_dim": WIDTH,
        "num_heads": 2,
        "ff_dim": HIDDEN,
        "max_len": MAX_LEN,
        "rate": 0.0,
    }
    return build_classifier(VOCABULARY, num_classes, **{**sizes, **kwargs})


def perturb(model, rng):
    """Moves every weight, so that gains, offsets and zeros cannot hide a fault."""
    for weight in model.trainable_weights:
        noise = 0.3 * rng.normal(size=weight.shape)
        weight.assign(np.asarray(weight) + noise.astype("float32"))
    return model


def separable(num_classes, rng):
    """Ids and labels: each class has its own word, among noise."""
    labels = rng.integers(0, max(2, num_classes), 64)
    ids = rng.integers(10, VOCABULARY, (64, 7))
    ids[:, 3] = 2 + labels
    return ids, labels


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(7)
    return small()


@pytest.fixture(scope="module")
def yes_or_no():
    keras.utils.set_random_seed(7)
    return small(1)


# --- padding


def check_padding(model):
    short = model(np.array([[3, 4, 5]]))
    for length in (4, MAX_LEN):
        padded = np.zeros((1, length), "int32")
        padded[0, :3] = 3, 4, 5
        np.testing.assert_allclose(model(padded), short, atol=1e-5)
    longer = np.zeros((2, 7), "int32")
    longer[0, :3] = 3, 4, 5
    longer[1] = 9
    np.testing.assert_allclose(model(longer)[0], short[0], atol=1e-5)
    empty = model(np.zeros((1, 3), "int32"))
    assert np.all(np.isfinite(empty))
    assert np.any(np.abs(model(np.array([[3, 4, 6]])) - short) > 1e-3)  # it does read


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_nothing(positions, pooling, rng):
    model = small(positions=positions, pooling=pooling)
    check_padding(perturb(model, rng))


@pytest.mark.parametrize("scheme", SOME_SCHEMES)
def test_padding_changes_nothing_under_each_scheme(scheme, rng):
    check_padding(perturb(small(residual=scheme, num_layers=3), rng))


def test_padding_changes_nothing_in_a_model_wired_by_hand(rng):
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)(ids)
    x = LearnedPositions(MAX_LEN)(x)
    outputs = []
    for _ in range(3):
        x = TransformerBlock(WIDTH, 2, HIDDEN, rate=0.0)(x)
        outputs.append(x)
    pooled = AttentionPooling()(x)
    model = keras.Model(ids, keras.layers.Dense(2)(pooled))
    check_padding(perturb(model, rng))
    for x in keras.Model(ids, outputs)(IDS):
        np.testing.assert_array_equal(x._keras_mask, IDS != 0)


# --- head, loss, accuracy


@pytest.mark.parametrize("num_classes", [1, 2, 5])
def test_compile_chooses_loss_and_accuracy_that_fit_the_head(num_classes):
    model = small(num_classes)
    model.compile("adam")
    kind = keras.losses.BinaryCrossentropy
    if num_classes > 1:
        kind = keras.losses.SparseCategoricalCrossentropy
    assert type(model.loss) is kind
    assert model.loss.get_config()["from_logits"] is True
    assert model.num_classes == num_classes == model(IDS).shape[-1]


@pytest.mark.parametrize("metrics", [None, ["accuracy"], ["acc"]])
def test_a_single_logit_says_yes_from_zero_on(yes_or_no, metrics):
    bias = np.array([0.3])
    yes_or_no.get_layer("logits").set_weights([np.zeros((2 * WIDTH, 1)), bias])
    yes_or_no.compile("adam", metrics=metrics, run_eagerly=True)
    found = yes_or_no.evaluate(IDS, np.ones(3), verbose=0, return_dict=True)
    assert found["accuracy"] == 1.0
    assert found["loss"] == pytest.approx(np.log1p(np.exp(-0.3)), rel=1e-5)


def test_accuracy_of_several_logits(model):
    model.compile("adam", run_eagerly=True)
    likeliest = np.argmax(model(IDS), axis=-1)
    labels = (likeliest + [0, 1, 0]) % 3
    assert model.evaluate(IDS, labels, verbose=0)[1] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "binary_crossentropy",
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(),
        keras.losses.BinaryCrossentropy(from_logits=False),
        keras.losses.CategoricalCrossentropy(),
        keras.losses.BinaryFocalCrossentropy(),
    ],
)
def test_a_loss_of_probabilities_is_refused(model, loss):
    with pytest.raises(ValueError, match=r"must take logits.*from_logits=True"):
        model.compile("adam", loss)


def own_crossentropy(labels, logits):
    return keras.losses.sparse_categorical_crossentropy(
        labels, logits, from_logits=True
    )


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.CategoricalHinge(),
        SmoothedCrossentropy(0.1),
        own_crossentropy,
        "mse",
    ],
)
def test_a_loss_of_logits_is_taken(model, loss):
    model.compile("adam", loss)
    assert model.loss is loss


def test_compiling_again_leaves_no_metric_behind(model):
    model.compile("adam", run_eagerly=True)
    top = keras.metrics.SparseTopKCategoricalAccuracy(2, name="top")
    model.compile("adam", metrics=[top], run_eagerly=True)
    found = model.evaluate(IDS, np.array([0, 1, 2]), verbose=0, return_dict=True)
    assert set(found) == {"loss", "top"}


@pytest.mark.parametrize("num_classes", [1, 3])
def test_it_learns_what_can_be_learned(num_classes, rng):
    ids, labels = separable(num_classes, rng)
    model = small(num_classes)
    model.compile(keras.optimizers.Adam(1e-2))
    learned = model.fit(ids, labels, epochs=15, verbose=0)
    assert learned.history["accuracy"][0] < 1
    assert learned.history["accuracy"][-1] == 1


# --- class and sample weights


def by_hand(logits, labels, weights):
    """The weighted cross-entropy, averaged over the texts."""
    logits = np.asarray(logits, "float64")
    if logits.shape[-1] == 1:
        logits = np.concatenate([0 * logits, logits], axis=-1)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.mean(-log_p[np.arange(len(labels)), labels] * weights)


@pytest.fixture(scope="module", params=[1, 3])
def still(request):
    """A model that no step changes."""
    keras.utils.set_random_seed(7)
    model = small(request.param)
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    return model


LABELS = np.array([0, 1, 1, 0, 1, 0, 0])
BATCH = np.random.default_rng(7).integers(0, VOCABULARY, (7, 5))
HEAVY = {0: 1.0, 1: 5.0}


@pytest.mark.parametrize(
    ("dtype", "shape"), [("int32", (7,)), ("float32", (7, 1)), ("bool", (7, 1))]
)
def test_class_weights_equal_a_hand_calculation(still, shape, dtype):
    labels = LABELS.astype(dtype).reshape(shape)
    expected = by_hand(still(BATCH), LABELS, np.where(LABELS == 1, 5, 1))
    for weights in (HEAVY, {1: 5.0}):  # a class without one weighs 1
        found = still.fit(BATCH, labels, class_weight=weights, verbose=0)
        assert found.history["loss"][0] == pytest.approx(expected, rel=1e-4)
    if dtype != "bool":  # Keras rounds the labels of a data set
        rows = tf.data.Dataset.from_tensor_slices((BATCH, labels)).batch(7)
        found = still.fit(rows, class_weight=HEAVY, shuffle=False, verbose=0)
        assert found.history["loss"][0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("shape", [(7,), (7, 1)])
def test_sample_weights_equal_a_hand_calculation(still, shape, rng):
    weights = rng.uniform(0, 3, 7)
    expected = by_hand(still(BATCH), LABELS, weights)
    found = still.fit(BATCH, LABELS.reshape(shape), sample_weight=weights, verbose=0)
    assert found.history["loss"][0] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("num_classes", [1, 3])
def test_one_graph_takes_labels_of_either_shape(num_classes):
    model = small(num_classes)
    model.compile(keras.optimizers.SGD(0.0))
    expected = by_hand(model(BATCH), LABELS, np.where(LABELS == 1, 5, 1))
    right = model(BATCH)[:, 0] > 0 if num_classes == 1 else np.argmax(model(BATCH), 1)
    for shape in [(7,), (7, 1), (7,)]:  # it knows no rank from the second on
        found = model.fit(BATCH, LABELS.reshape(shape), class_weight=HEAVY, verbose=0)
        assert found.history["loss"][0] == pytest.approx(expected, rel=1e-4)
        accuracy = np.mean(np.asarray(right) == LABELS)
        assert found.history["accuracy"][0] == pytest.approx(accuracy)


# --- the norm of the embedding


@pytest.mark.parametrize("kind", NORMS)
def test_the_embedding_can_have_a_norm(kind, rng, tmp_path):
    model = perturb(small(embedding_norm=kind, epsilon=0.1, pooling="cls"), rng)
    names = [layer.name for layer in model.layers]
    assert names[2:5] == ["class_token", "embedding_norm", "embedding_dropout"]
    x = model.get_layer("class_token")(model.get_layer("embedding")(IDS))
    norm = make_norm(kind, epsilon=0.1)
    norm.build(x.shape)
    norm.set_weights(model.get_layer("embedding_norm").get_weights())
    mask = np.pad(IDS != 0, [(0, 0), (1, 0)], constant_values=True)
    x = model.get_layer("encoder")(norm(x), mask=mask)
    y = model.get_layer("logits")(model.get_layer("pooling")(x, mask=mask))
    np.testing.assert_allclose(model(IDS), y, atol=1e-5)
    check_padding(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(IDS), model(IDS))


# --- what goes through to the encoder


def test_the_encoder_s_arguments_go_through(rng):
    asked = {
        "norm": "rms_norm",
        "parallel": True,
        "stochastic_depth": 0.25,
        "key_dim": 5,
        "activation": "gelu",
        "attention_rate": 0.1,
        "ff_rate": 0.2,
        "causal": True,
        "qk_norm": True,
        "value_residual": True,
        "score_residual": True,
        "head_scale": True,
        "epsilon": 1e-3,
        "final_norm": False,
        "recompute": True,
    }
    model = small(num_layers=2, kernel_initializer="he_normal", **asked)
    found = model.get_layer("encoder").get_config()
    assert asked.items() <= found.items()
    assert found["kernel_initializer"]["class_name"] == "HeNormal"
    check_padding(perturb(model, rng))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("atention_rate", "No argument 'atention_rate'. Did you mean 'attention_rate'"),
        ("num_clases", "No argument 'num_clases'. Did you mean 'num_classes'"),
        ("rotary", "No argument 'rotary'. .*positions"),
        ("kwargs", "No argument 'kwargs'. "),
    ],
)
def test_a_wrong_argument_is_named(argument, message):
    with pytest.raises(ValueError, match=message) as error:
        small(**{argument: 1})
    assert "\n" not in str(error.value)


class Starts(residuals.Residual):
    """Says how the tokens start, and keeps what it is calibrated by."""

    def embedding_initializer(self, width):
        return keras.initializers.Constant(1 / (width * self.num_blocks))

    def calibrate(self, run):
        self.seen = run()


@pytest.mark.parametrize("parallel", [False, True])
def test_the_scheme_says_how_the_tokens_start(parallel):
    per_block = 1 if parallel else 2
    scheme = Starts(2 * per_block, per_block=per_block)
    model = small(residual=scheme, num_layers=2, parallel=parallel)
    tokens = model.get_layer("embedding").tokens.embeddings
    np.testing.assert_array_equal(tokens, np.float32(1 / (2 * WIDTH)))
    plain = small(residual="pre_ln").get_layer("embedding")
    assert plain.embeddings_initializer is None


def test_calibration_is_one_eager_pass_without_dropout(model):
    scheme = Starts(2)
    one = small(residual=scheme, rate=0.5)
    one.calibrate([(IDS, None), (None, None)])
    np.testing.assert_allclose(scheme.seen, one(IDS), atol=1e-6)
    before = model.get_weights()
    model.calibrate([(IDS, None)])
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


# --- ids


def test_float_arrays_are_cast_to_ids_by_keras(model):
    np.testing.assert_array_equal(model(IDS.astype("float64")), model(IDS))
    np.testing.assert_array_equal(model(IDS + 0.9), model(IDS))  # as a cast does


@pytest.mark.parametrize("id_", [VOCABULARY, 10_000, -1])
def test_unknown_ids_are_predicted_as_unknown(model, id_):
    ids, unknown = np.array([[3, id_, 4]]), np.array([[3, 1, 4]])
    expected = model.predict(unknown, verbose=0)
    np.testing.assert_array_equal(model.predict(ids, verbose=0), expected)
    np.testing.assert_array_equal(model(ids), model(unknown))


@pytest.mark.parametrize("empty_row", [False, True])
def test_ragged_ids_are_padded(model, empty_row):
    rows = [[3, 4, 5], [6], [] if empty_row else [7]]
    ragged = tf.ragged.constant(rows, dtype="int32")
    np.testing.assert_array_equal(model(ragged), model(ragged.to_tensor()))
    found = model.predict(ragged, verbose=0)
    np.testing.assert_allclose(found, model(ragged.to_tensor()), atol=1e-6)


def test_ragged_ids_are_trained_on_as_padded_ones():
    ragged = tf.ragged.constant([[3, 4, 5], [6], []], dtype="int32")
    labels = np.array([0, 1, 2])
    model = small(word_rate=0.5)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    start, ends = model.get_weights(), []
    for ids in (ragged, ragged.to_tensor()):
        model.set_weights(start)
        keras.utils.set_random_seed(3)
        model.get_layer("word_dropout").seed_generator.state.assign([3, 3])
        model.fit(ids, labels, shuffle=False, verbose=0)
        ends.append(model.get_weights())
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_short_texts_keep_their_words():
    lengths = {"word_rate_min_len": 7, "fragment_rate_min_len": 5}
    model = small(word_rate=0.5, fragment_rate=0.5, **lengths)
    assert model.get_layer("word_dropout").min_len == 7
    assert model.get_layer("fragments").min_len == 5


def test_a_batch_without_any_token(model):
    nothing = tf.RaggedTensor.from_row_lengths(tf.zeros((0,), "int32"), [0, 0])
    found = model(nothing)
    np.testing.assert_allclose(found, model(np.zeros((2, 3), "int32")), atol=1e-6)


def lengths(*lengths):
    """A data set with a batch of each length, as bucketing makes them."""
    signature = tf.TensorSpec((None, None), "int32")
    return tf.data.Dataset.from_generator(
        lambda: (np.full((2, n), 3, "int32") for n in lengths),
        output_signature=signature,
    )


def test_too_long_a_text_is_an_error_with_learned_positions(model):
    for call in (model, lambda ids: model.predict(ids, verbose=0)):
        with pytest.raises(ValueError, match=r"max_len=11.*a length of 12"):
            call(np.ones((1, 12), "int32"))
    # Once Keras' graph leaves the length open, TensorFlow finds out.
    errors = (ValueError, tf.errors.InvalidArgumentError)
    with pytest.raises(errors, match=r"max_len=11.* 12|\[0, 11\], but got 12"):
        model.predict(lengths(2, 3, 4, 12), verbose=0)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_other_positions_know_no_limit(positions, rng):
    ids = rng.integers(1, VOCABULARY, (2, 5 * MAX_LEN))
    found = small(positions=positions)(ids)
    keras.utils.set_random_seed(7)
    roomy = small(positions=positions, max_len=999)
    np.testing.assert_array_equal(found, roomy(ids))


# --- names, shapes, sizes


def test_layers_have_their_names():
    model = small(pooling="cls", word_rate=0.1)
    assert model.input.dtype == "int32"
    assert [layer.name for layer in model.layers] == [
        "token_ids",
        "word_dropout",
        "embedding",
        "class_token",
        "embedding_dropout",
        "encoder",
        "pooling",
        "pooling_dropout",
        "logits",
    ]


@pytest.mark.parametrize(("pooling", "length"), [("mean", 5), ("cls", 6)])
def test_features_can_be_read_off_a_layer(pooling, length):
    model = small(pooling=pooling)
    features = keras.Model(model.input, model.get_layer("encoder").output)
    assert features(IDS).shape == (3, length, WIDTH)
    vector = keras.Model(model.input, model.get_layer("pooling").output)
    head = model.get_layer("logits")
    np.testing.assert_allclose(head(vector(IDS)), model(IDS), atol=1e-6)


def dense(inputs, outputs, bias=True):
    return inputs * outputs + (outputs if bias else 0)


@pytest.mark.parametrize("scheme", SOME_SCHEMES)
def test_parameters_and_summary_by_formula(scheme, reference):
    model = small(residual=scheme, num_layers=2)
    block = dense(WIDTH, 3 * WIDTH) + dense(WIDTH, WIDTH)
    block += dense(WIDTH, HIDDEN) + dense(HIDDEN, WIDTH)
    block += reference.INNER.get(scheme, lambda *sizes: 0)(2, WIDTH // 2, HIDDEN)
    total = (VOCABULARY + MAX_LEN) * WIDTH + 2 * block + dense(2 * WIDTH, 3)
    total += sum(reference.COUNTS[scheme](4, WIDTH))
    assert model.count_params() == total

    lines = []
    model.summary(print_fn=lines.append, expand_nested=True, line_length=100)
    text = "\n".join(lines)
    assert f"Total params: {total:,} " in text
    assert f"(None, None, {WIDTH})" in text
    assert "?" not in text
    assert "unbuilt" not in text


@pytest.mark.parametrize(
    ("pooling", "added"),
    [
        ("mean", dense(WIDTH, 3)),
        ("mean_max", dense(2 * WIDTH, 3)),
        ("cls", WIDTH + dense(WIDTH, 3)),
        ("attention", dense(WIDTH, WIDTH) + WIDTH + dense(WIDTH, 3)),
    ],
)
def test_parameters_of_a_pooling_by_formula(pooling, added):
    base = small(pooling="max", positions="none")
    model = small(pooling=pooling, positions="none")
    assert model.count_params() - base.count_params() == added - dense(WIDTH, 3)


def test_ff_dim_is_four_times_the_width_unless_given():
    encoder = small(ff_dim=None).get_layer("encoder")
    assert encoder.get_config()["ff_dim"] == 4 * WIDTH


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "num_classes=0"),
        ({"num_classes": -1}, "num_classes=-1"),
        ({"pooling": "mean-max"}, "Did you mean 'mean_max'"),
        ({"positions": "learnt"}, "Did you mean 'learned'"),
        ({"residual": "preln"}, "Did you mean 'pre_ln'"),
        ({"residual": "pre_ln(depth=3)"}, "no option 'depth'"),
        ({"num_heads": 3}, "num_heads=3"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"word_rate": 1.0}, "rate=1.0"),
        ({"positions": "rotary", "key_dim": 3}, "key_dim=3"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)


# --- saving


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Trained models of several kinds in a folder, and what they predict."""
    keras.utils.set_random_seed(7)
    folder = tmp_path_factory.mktemp("saved")
    models = {
        "fitted": small(rate=0.1),
        "smoothed": small(
            residual="attention_residual(fusion_init='identity')",
            positions="sinusoidal",
            pooling="cls",
            num_layers=2,
            activation="gelu",
        ),
        "half": small(
            1, positions="rotary", pooling="attention", dtype="mixed_bfloat16"
        ),
        "scaled": small(dtype="mixed_float16", word_rate=0.1),
        "never compiled": small(2, residual="none", positions="none", pooling="mean"),
    }
    decaying = {"weight_decay": 0.5, "global_clipnorm": 1.0}
    labels = np.array([0, 1, 0])
    models["fitted"].compile(keras.optimizers.AdamW(1e-2, **decaying))
    models["smoothed"].compile(
        keras.optimizers.AdamW(InverseSquareRoot(1e-2, 4), **decaying),
        SmoothedCrossentropy(0.1),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="2")],
        steps_per_execution=3,
    )
    models["half"].compile("adam")
    models["scaled"].compile(keras.optimizers.AdamW(1e-2, **decaying))
    for name, model in models.items():
        if model.compiled:
            model.run_eagerly = True
            model.fit(IDS, labels, epochs=2, verbose=0)
            model.run_eagerly = False
        model.save(folder / f"{name}.keras")
    return folder, models


LOAD = """
import json, pathlib, sys
import keras
import residual_keras
import numpy as np

ids, found = np.array(json.loads(sys.argv[2])), {}
for path in pathlib.Path(sys.argv[1]).glob("*.keras"):
    model = keras.models.load_model(path)
    found[path.stem] = {
        "type": type(model).__name__,
        "logits": np.asarray(model(ids)).tolist(),
        "dtype": str(np.asarray(model(ids)).dtype),
        "policies": {layer.name: layer.dtype_policy.name for layer in model.layers},
        "compiled": model.compiled,
    }
print(json.dumps(found))
"""


def test_a_new_process_loads_the_very_models(saved, new_process):
    folder, models = saved
    found = new_process(LOAD, folder, json.dumps(IDS.tolist()))
    assert set(found) == set(models)
    for name, model in models.items():
        of = found[name]
        assert of["type"] == "Classifier"
        assert of["dtype"] == "float32"
        np.testing.assert_array_equal(np.float32(of["logits"]), model(IDS), name)
        policies = {layer.name: layer.dtype_policy.name for layer in model.layers}
        assert of["policies"] == policies
        assert of["compiled"] == model.compiled == (name != "never compiled")


@pytest.mark.parametrize("name", ["fitted", "smoothed", "half", "scaled"])
def test_compilation_survives_saving(saved, name):
    folder, models = saved
    model, loaded = models[name], keras.models.load_model(folder / f"{name}.keras")
    assert type(loaded) is Classifier
    assert type(loaded.loss) is type(model.loss)
    assert loaded.loss.get_config() == model.loss.get_config()
    assert type(loaded.optimizer) is type(model.optimizer)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert loaded.steps_per_execution == model.steps_per_execution
    assert {w.path for w in no_decay(loaded)} == {w.path for w in no_decay(model)}
    for one, other in zip(
        loaded.optimizer.variables, model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(one, other)

    labels = np.array([0, 1, 0])
    ends = []
    for each in (model, loaded):  # and goes on alike, decay and metrics too
        weights = each.get_weights()
        each.run_eagerly = True
        keras.utils.set_random_seed(3)
        for seed in seeds(each):
            seed.assign([3, 3])
        history = each.fit(IDS, labels, verbose=0).history
        ends.append((history, each.get_weights()))
        each.set_weights(weights)
    assert ends[0][0].keys() == ends[1][0].keys()
    for key, value in ends[0][0].items():
        assert value == pytest.approx(ends[1][0][key], rel=1e-5), key
    for one, other in zip(ends[0][1], ends[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def seeds(model):
    """The states of a model's random generators."""
    return [v for v in model.non_trainable_variables if "seed" in v.path]


def test_a_choice_about_xla_survives_and_auto_stays_open():
    for choice in ("auto", True, False):
        model = small()
        model.compile("adam", jit_compile=choice)
        assert model.get_compile_config()["jit_compile"] is choice


def test_a_model_that_was_not_compiled_has_no_compile_config():
    assert small().get_compile_config() is None


# --- precision, XLA, reproducibility


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_by_argument(policy):
    options = {"pooling": "cls", "embedding_norm": "layer_norm"}
    half, full = small(dtype=policy, **options), small(**options)
    half.set_weights(full.get_weights())
    policies = {layer.name: layer.dtype_policy.name for layer in half.layers}
    names = ["embedding", "class_token", "embedding_norm", "embedding_dropout"]
    for name in [*names, "encoder"]:
        assert policies[name] == policy
    for name in ("pooling", "pooling_dropout", "logits"):
        assert policies[name] == "float32"
    assert half(IDS).dtype == "float32"
    assert all(w.dtype == "float32" for w in half.trainable_weights)
    tolerance = 0.1 if policy == "mixed_bfloat16" else 0.02
    np.testing.assert_allclose(half(IDS), full(IDS), atol=tolerance)


@pytest.fixture
def global_float16():
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy("float32")


def test_large_ids_survive_a_global_half_precision(global_float16):
    model = build_classifier(5003, 2, num_layers=1, embed_dim=8, num_heads=2)
    expected = model(np.array([[4097]], "int32"))
    for ids in ([[4097]], [[4097.0]]):
        np.testing.assert_array_equal(model(np.array(ids)), expected)
    assert np.any(model(np.array([[4096]])) != expected)
    assert expected.dtype == "float32"


def test_the_loss_is_scaled_where_a_layer_computes_in_float16():
    scaler = keras.optimizers.LossScaleOptimizer
    model = small(dtype="mixed_float16")
    model.compile("adam")
    assert type(model.optimizer) is scaler
    own = scaler(keras.optimizers.Adam())
    model.compile(own)
    assert model.optimizer is own
    model.compile("adam", auto_scale_loss=False)
    assert type(model.optimizer) is keras.optimizers.Adam
    other = small(dtype="mixed_bfloat16")
    other.compile("adam")
    assert type(other.optimizer) is keras.optimizers.Adam


def trained(seed, rng):
    """The losses of a run with dropout and a short last batch, and its weights."""
    keras.utils.set_random_seed(seed)
    model = small(rate=0.2, word_rate=0.2)
    model.compile("adam")
    ids, labels = separable(3, rng)
    losses = model.fit(ids[:37], labels[:37], batch_size=16, verbose=0)
    return losses.history["loss"], model.get_weights()


def test_a_seed_makes_the_run():
    losses, weights = zip(
        *(trained(5, np.random.default_rng(7)) for _ in range(2)), strict=True
    )
    assert losses[0] == losses[1]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def train_step_by_step(model, ids, labels):
    losses = [model.train_on_batch(ids, labels)[0] for _ in range(3)]
    return losses, model.predict_on_batch(ids)


def check_xla(scheme, rng):
    ids, labels = separable(3, rng)
    model = small(residual=scheme)
    start, found = model.get_weights(), {}
    for jit_compile in (False, True):
        model.set_weights(start)
        model.compile("sgd", jit_compile=jit_compile)
        assert model.jit_compile is jit_compile
        found[jit_compile] = train_step_by_step(model, ids, labels)
    for plain, compiled in zip(*found.values(), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-3, atol=1e-4)


def test_xla_changes_nothing(rng):
    check_xla("pre_ln", rng)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", OWN_SCHEMES)
def test_xla_changes_nothing_under_each_scheme(scheme, rng):
    check_xla(scheme, rng)


@pytest.mark.slow
@pytest.mark.parametrize("stddev", [0.02, 1.0])
@pytest.mark.parametrize("scheme", OWN_SCHEMES)
def test_every_scheme_stays_finite_at_a_high_rate_with_decay(scheme, stddev, rng):
    ids, labels = separable(3, rng)
    model = small(residual=scheme, num_layers=2, rate=0.1)
    tokens = model.get_layer("embedding").tokens.embeddings
    tokens.assign(rng.normal(scale=stddev, size=tokens.shape))
    model.compile(keras.optimizers.AdamW(3e-3, weight_decay=0.1, global_clipnorm=1.0))
    losses = model.fit(ids, labels, batch_size=16, epochs=125, verbose=0)
    assert np.all(np.isfinite(losses.history["loss"]))
    assert all(np.all(np.isfinite(w)) for w in model.get_weights())
    assert model.evaluate(ids, labels, verbose=0)[1] == 1.0


def test_keras_own_backup_goes_on_with_a_new_model(tmp_path):  # R23
    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise RuntimeError

    def fit(*callbacks):
        model = build_classifier(9, 2, num_layers=1, embed_dim=4, num_heads=2)
        model.compile("adam")
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        ids, labels = np.ones((6, 3), "int32"), np.zeros(6, "int32")
        options = {"batch_size": 3, "epochs": 5, "verbose": 0}
        history = model.fit(ids, labels, callbacks=[backup, *callbacks], **options)
        return model, history

    with pytest.raises(RuntimeError):
        fit(Stop())
    model, history = fit()
    assert history.epoch == [2, 3, 4]
    assert int(model.optimizer.iterations) == 5 * 2
