"""Texts cut to a few words in training."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from residual_keras import Fragments, build_classifier

LENGTH, TIME = 997, 1009


@pytest.fixture(scope="module")
def cut():
    """Fragments of many texts 2, 3, 4, ... of one length, with padding."""
    keras.utils.set_random_seed(3)
    text = np.zeros((2003, TIME), "int32")
    text[:, :LENGTH] = np.arange(2, LENGTH + 2)
    return np.asarray(Fragments(1.0)(text, training=True))


def test_words_in_a_row_are_kept_and_stand_in_front(cut):
    for row in cut:
        kept = np.count_nonzero(row)
        assert 1 <= kept < LENGTH
        assert not row[kept:].any()
        known = np.flatnonzero(row > 1)
        starts = row[known] - known
        assert len(set(starts)) <= 1
        if len(starts):
            assert 2 <= starts[0] <= LENGTH + 2 - kept


def test_the_logarithm_of_the_length_is_uniform(cut):
    """P(kept <= k) = log(k + 1) / log(n), for k of n words."""
    kept = np.count_nonzero(cut, axis=1)
    for k in (1, 2, 7, 31, 313):
        expected = np.log(k + 1) / np.log(LENGTH)
        assert np.mean(kept <= k) == pytest.approx(expected, abs=0.03)


def test_every_place_of_a_text_is_kept_alike(cut):
    """A fragment of k of n words starts at 0 .. n - k, each as often."""
    kept = np.count_nonzero(cut, axis=1)
    first = np.where(cut[:, 0] > 1, cut[:, 0] - 2, -1)
    told = first >= 0
    share = first[told] / (LENGTH - kept[told])
    found = np.quantile(share, [0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(found, [0, 0.25, 0.5, 0.75, 1], atol=0.05)


def test_each_text_has_its_own_share_of_unknown_words(cut):
    kept = np.count_nonzero(cut, axis=1)
    long = cut[kept > 100]
    share = np.sum(long == 1, axis=1) / np.count_nonzero(long, axis=1)
    found = np.quantile(share, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(found, [0.25, 0.5, 0.75], atol=0.06)


def test_the_rate_is_the_share_of_texts(rng):
    ids = rng.integers(2, 97, (1009, 31))
    found = np.asarray(Fragments(0.3)(ids, training=True))
    whole = (found == ids).all(axis=1)
    assert np.mean(~whole) == pytest.approx(0.3, abs=0.05)


def test_it_is_off_at_inference(rng):
    ids = rng.integers(0, 97, (3, 5))
    for training in (False, None):
        np.testing.assert_array_equal(Fragments(1.0)(ids, training=training), ids)
    np.testing.assert_array_equal(Fragments(0)(ids, training=True), ids)


def test_nothing_is_made_of_no_text_and_one_word_stays_one():
    ids = np.array([[0, 0, 0], [7, 0, 0]])
    for _ in range(20):
        found = np.asarray(Fragments(1.0)(ids, training=True))
        assert not found[0].any()
        assert found[1, 0] in (1, 7) and not found[1, 1:].any()


@pytest.mark.parametrize("time", [5, None])
def test_short_texts_are_not_cut(time):
    ids = tf.constant([[7, 7, 7, 7, 0], [7, 7, 7, 0, 0], [0, 0, 0, 0, 0]])
    symbolic = keras.Input((time,), dtype="int32")
    model = keras.Model(symbolic, Fragments(1.0, min_len=4)(symbolic))
    for _ in range(20):
        found = np.asarray(model(ids, training=True))
        np.testing.assert_array_equal(found[1:], ids[1:])
        assert (found[0] != np.asarray(ids[0])).any()


@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_fresh_every_call_and_reproducible(compiled):
    def two_draws():
        keras.utils.set_random_seed(7)
        layer = Fragments(1.0)
        call = tf.function(layer, jit_compile=True) if compiled else layer
        ids = tf.fill((31, 101), 5)
        return np.stack([call(ids, training=True) for _ in range(2)])

    first, second = two_draws()
    assert np.mean(first != second) > 0.1
    np.testing.assert_array_equal(two_draws(), [first, second])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_it_keeps_the_dtype(dtype):
    ids = tf.constant([[5, 0]], dtype)
    assert Fragments(0.5)(ids, training=True).dtype == dtype
    assert Fragments(0.5)(keras.KerasTensor((None, 2), dtype)).dtype == dtype


def test_its_config_makes_the_same_layer():
    layer = Fragments(0.25, min_len=3, name="f")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert type(again) is Fragments and again.get_config() == layer.get_config()
    assert (again.rate, again.min_len) == (0.25, 3)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(ValueError, match=f"rate={rate}"):
        Fragments(rate)


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="min_len=-1"):
        Fragments(0.1, min_len=-1)


def test_a_classifier_learns_how_little_a_word_tells():
    """One of a text's thirteen words tells its label, and words 4 to 7 tell nothing.

    Every text has one that tells, so only fragments show what is known without it.
    """

    def answers(fragment_rate):
        rng = np.random.default_rng(5)
        labels = rng.integers(0, 2, 2000)
        ids = rng.integers(4, 8, (2000, 13))
        ids[np.arange(2000), rng.integers(0, 13, 2000)] = 2 + labels
        keras.utils.set_random_seed(5)
        model = build_classifier(
            vocab_size=8,
            num_classes=2,
            num_layers=1,
            embed_dim=8,
            num_heads=2,
            rate=0.0,
            fragment_rate=fragment_rate,
        )
        model.compile(keras.optimizers.Adam(0.01))
        model.fit(ids, labels, batch_size=50, epochs=3, verbose=0)
        words = np.array([[2], [3], [1], [5]])
        found = np.asarray(keras.ops.softmax(model(words)))
        return found[0, 0], found[1, 1], found[2:, 0]

    *told, even = answers(fragment_rate=0.5)
    assert min(told) > 0.9 and np.abs(even - 0.5).max() < 0.15, (told, even)
    *told, even = answers(fragment_rate=0.0)
    assert min(told) > 0.9 and np.abs(even - 0.5).max() > 0.4, (told, even)
