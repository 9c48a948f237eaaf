"""What is asked, and which answers count."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras.embedding import UNKNOWN_ID
from residual_keras.pretraining import objectives, run
from residual_keras.pretraining.recipe import PretrainingRecipe

WORDS, TIME = 47, 17


class Vocabulary:
    vocab_size = WORDS


@pytest.fixture
def rows(rng):
    found = rng.integers(1, WORDS, (13, TIME)).astype("int32")
    found[rng.random(found.shape) < 0.1] = 0
    return found


def model(rows, objective, **options):
    recipe = PretrainingRecipe(
        objective=objective, embed_dim=8, num_heads=2, max_len=TIME, **options
    )
    made = run.build(recipe, Vocabulary, rows)
    for weight in made.objective.trainable_weights:  # some start as zeros
        weight.assign(weight + keras.random.normal(weight.shape, stddev=0.3))
    return made


def test_next_token_sees_no_future(rows):
    made = model(rows, "next_token", num_layers=2)
    inner = made.encoder.get_layer("encoder")
    read, words = made.objective.ask(rows, training=False)
    np.testing.assert_array_equal(read, rows[:, :-1])
    np.testing.assert_array_equal(words, rows[:, 1:])
    x = tf.Variable(np.random.default_rng(3).normal(size=(2, 7, 8)).astype("float32"))
    table = tf.constant(made.encoder.get_layer("embedding").tokens.embeddings)
    for t in range(7):
        with tf.GradientTape() as tape:
            y = inner(x)[:, t : t + 1]
            loss = made.objective.loss(y, words[:2, t : t + 1], table, training=False)
        gradient = np.abs(tape.gradient(loss, x)).max(axis=(0, 2))
        assert (gradient[: t + 1] > 0).all() and (gradient[t + 1 :] == 0).all()


def test_masked_hides_so_many_words_in_each_row_and_asks_for_them(rows):
    objective = objectives.get("masked(rate=0.3)", np.ones(WORDS))
    read, (places, words) = objective.ask(tf.constant(rows), training=True)
    read, places = np.array(read), np.array(places).reshape(len(rows), -1)
    assert places.shape[1] == round(0.3 * TIME)
    hidden = np.zeros(rows.size, bool)
    hidden[places] = True
    assert hidden.sum() == places.size, "none twice"
    np.testing.assert_array_equal(words, rows.ravel()[places.ravel()])
    assert (rows.ravel()[hidden] > 0).all(), "what separates texts is no word"
    np.testing.assert_array_equal(read.ravel()[~hidden], rows.ravel()[~hidden])


def test_masked_hides_in_three_ways():
    objective = objectives.get("masked(rate=0.5)", np.ones(2000))
    rows = tf.fill((200, 200), 7)
    read, (places, _) = objective.ask(rows, training=True)
    read = np.array(read).ravel()[np.array(places)]
    unknown, same = (read == UNKNOWN_ID).mean(), (read == 7).mean()
    assert unknown == pytest.approx(0.8, abs=0.012)
    assert same == pytest.approx(0.1, abs=0.01)
    others = read[(read != UNKNOWN_ID) & (read != 7)]
    assert others.min() >= 2 and others.max() < 2000 and len(set(others)) > 1000


def test_masked_judges_the_hidden_words_alone(rows):
    made = model(rows, "masked")
    _, answers = made.objective.ask(tf.constant(rows), training=True)
    x = tf.Variable(tf.random.normal((*rows.shape, 8), seed=5))
    table = tf.random.normal((WORDS, 8), seed=6)
    with tf.GradientTape() as tape:
        loss = made.objective.loss(x, answers, table, training=False)
    counts = np.abs(tape.gradient(loss, x)).max(axis=2).ravel() > 0
    assert sorted(np.flatnonzero(counts)) == sorted(np.array(answers[0]))


def test_replaced_asks_which_words_are_others(rng):
    share = np.array([0, 0, 3, 1, 0])
    objective = objectives.get("replaced(rate=0.25)", share * 10**6)
    rows = np.full((101, 211), 4, "int32")
    rows[:, ::10] = 0
    read, (replaced, is_word) = objective.ask(tf.constant(rows), training=True)
    read, replaced = np.array(read), np.array(replaced)
    np.testing.assert_array_equal(replaced, read != rows)
    np.testing.assert_array_equal(is_word, rows > 0)
    assert not replaced[rows == 0].any()
    assert replaced[rows > 0].mean() == pytest.approx(0.25, abs=0.01)
    assert (read[replaced] == 2).mean() == pytest.approx(0.75, abs=0.02)
    # a word drawn for itself is none that was replaced
    own = objectives.get("replaced(rate=0.5)", np.array([0, 0, 0, 0, 10**9]))
    assert not np.array(own.ask(tf.constant(rows), training=True)[1][0]).any()


def test_replaced_judges_words_by_binary_cross_entropy(rows, rng):
    made = model(rows, "replaced")
    x = rng.normal(size=(*rows.shape, 8)).astype("float32")
    _, answers = made.objective.ask(tf.constant(rows), training=True)
    layers = made.objective.hidden, made.objective.logit
    hidden = x @ np.array(layers[0].kernel) + np.array(layers[0].bias)
    hidden = np.array(keras.activations.gelu(hidden))
    logits = (hidden @ np.array(layers[1].kernel) + np.array(layers[1].bias))[..., 0]
    sure = 1 / (1 + np.exp(-logits))
    replaced, is_word = map(np.array, answers)
    losses = -np.log(np.where(replaced, sure, 1 - sure))[is_word]
    found = made.objective.loss(tf.constant(x), answers, None, training=True)
    assert float(found) == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.parametrize("spec", ["masked", "replaced"])
def test_validation_asks_the_same_each_time_and_training_does_not(rows, spec):
    made = model(rows, spec)
    ids = tf.constant(rows)
    losses = [float(made(ids, training=False)) for _ in range(2)]
    assert losses[0] == losses[1]
    asked = [np.array(made.objective.ask(ids, training=True)[0]) for _ in range(2)]
    assert (asked[0] != asked[1]).any()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("maskd", "Did you mean 'masked'?"),
        ("masked(rat=0.1)", "Did you mean 'rate'?"),
        ("masked(rate=0)", "rate must be a share in (0, 1). Received: rate=0"),
        ("replaced(rate=1.5)", "rate=1.5"),
        ("next_token(samples=0)", "samples=0"),
        ("next_token(counts=3)", "'next_token' has no option 'counts'"),
        ("masked(", "name(option=value)"),
    ],
)
def test_what_is_no_objective_is_refused(spec, said):
    with pytest.raises(ValueError, match=".*") as error:
        objectives.get(spec, np.ones(9))
    assert said in str(error.value)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("spec", sorted(objectives.OBJECTIVES))
def test_the_loss_is_finite_and_exact_enough_in_half_precision(rows, spec, precision):
    losses = []
    for each in ("float32", precision):
        keras.utils.set_random_seed(3)
        losses.append(float(model(rows, spec, precision=each)(rows, training=False)))
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
