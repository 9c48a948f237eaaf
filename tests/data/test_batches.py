import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow")

from residual_keras import TextVectorizer  # noqa: E402
from residual_keras.data import batches  # noqa: E402
from residual_keras.data.splits import Split  # noqa: E402


def vectorize(texts):
    return tf.strings.unicode_decode(texts, "UTF-8").to_tensor()


@pytest.fixture(scope="module")
def split():
    """103 texts, each told apart by its first character, of 1 to 40 words."""
    rng = np.random.default_rng(0)
    texts = [chr(200 + i) + " a" * int(rng.integers(40)) for i in range(103)]
    return Split(texts, np.arange(103) % 7)


def rows(dataset):
    return [(ids.numpy().tolist(), labels.numpy().tolist()) for ids, labels in dataset]


LENGTHS = st.lists(st.integers(0, 500), max_size=400)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**40), st.integers(0, 100))
def test_plan_deals_each_index_once(lengths, batch_size, seed, epoch):
    plan = batches.plan(lengths, batch_size, seed=seed, epoch=epoch)
    indices = np.concatenate([*plan, np.zeros(0, int)])
    assert sorted(indices) == list(range(len(lengths)))
    sizes = sorted(map(len, plan))
    assert all(size == batch_size for size in sizes[1:])
    assert len(plan) == -(-len(lengths) // batch_size)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**40), st.integers(0, 100))
def test_plan_is_deterministic(lengths, batch_size, seed, epoch):
    first = batches.plan(lengths, batch_size, seed=seed, epoch=epoch)
    again = batches.plan(np.array(lengths), batch_size, seed=seed, epoch=epoch)
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(left, right)


def partition(plan):
    return {frozenset(batch.tolist()) for batch in plan}


@pytest.mark.parametrize("lengths", [np.full(200, 5), np.arange(6000)])
def test_epochs_and_seeds_mix_the_batches_anew(lengths):
    plans = [
        partition(batches.plan(lengths, 8, seed=seed, epoch=epoch))
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    for left, right in itertools.combinations(plans, 2):
        assert len(left & right) < 0.05 * len(left)


def test_plan_does_not_order_the_batches_by_length():
    lengths = np.arange(400)
    plan = batches.plan(lengths, 8, seed=0, epoch=0)
    means = [lengths[batch].mean() for batch in plan]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.4


@pytest.mark.parametrize("seed", range(3))
def test_plan_saves_most_of_the_padding(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(5, 0.7, 5000).astype(int) + 1
    order = rng.permutation(5000)

    def padding(plan):
        return sum(lengths[batch].max() * len(batch) for batch in plan) - lengths.sum()

    in_random_order = [order[i : i + 32] for i in range(0, 5000, 32)]
    bucketed = batches.plan(lengths, 32, seed=seed, epoch=0)
    assert padding(bucketed) < 0.1 * padding(in_random_order)


def test_an_epoch_holds_each_text_once_with_its_label(split):
    steps = batches.steps_per_epoch(split, 8)
    assert steps == 13
    dataset = batches.training_batches(split, vectorize, 8, seed=0)
    assert dataset.cardinality().numpy() == tf.data.INFINITE_CARDINALITY
    ids, labels = dataset.element_spec
    assert (ids.shape.rank, ids.dtype) == (2, tf.int32)
    assert (labels.shape.rank, labels.dtype) == (1, tf.int32)
    label_of = {}
    for ids, labels in dataset.take(steps):
        assert ids.shape[1] == (ids != 0).numpy().sum(axis=1).max()
        label_of.update(zip(ids[:, 0].numpy() - 200, labels.numpy(), strict=True))
    assert label_of == dict(enumerate(split.labels))


@settings(max_examples=8, deadline=None)
@given(start=st.integers(0, 40))
def test_a_resumed_run_sees_the_same_batches(start):
    split = Split([chr(97 + i) * (i + 1) for i in range(23)], np.arange(23) % 2)
    whole = batches.training_batches(split, vectorize, 4, seed=5)  # 6 steps an epoch
    resumed = batches.training_batches(split, vectorize, 4, seed=5, start_step=start)
    assert rows(resumed.take(8)) == rows(whole.skip(start).take(8))


def test_training_batches_begin_anew_with_each_iteration(split):
    dataset = batches.training_batches(split, vectorize, 8, seed=0).take(3)
    assert rows(dataset) == rows(dataset)


def test_model_fit_walks_through_the_epochs_without_losing_a_batch(split):
    import keras

    class Recorder(keras.Model):
        def train_step(self, data):
            seen.append(data[0].numpy().tolist())
            return {"loss": 0.0}

    seen = []
    model = Recorder()
    model.compile(run_eagerly=True)
    steps = batches.steps_per_epoch(split, 32)
    dataset = batches.training_batches(split, vectorize, 32, seed=2)
    model.fit(dataset, steps_per_epoch=steps, epochs=3, verbose=0, shuffle=False)
    assert seen == [ids for ids, _ in rows(dataset.take(3 * steps))]


def test_evaluation_covers_the_split_in_the_order_it_says(split):
    dataset = batches.evaluation_batches(split, vectorize, 8)
    assert dataset.cardinality() == len(dataset) == batches.steps_per_epoch(split, 8)
    widths = [ids.shape[1] for ids, _ in dataset]
    assert widths == sorted(widths)

    order = batches.evaluation_order(split, vectorize)
    firsts = np.concatenate([ids[:, 0].numpy() for ids, _ in dataset])
    labels = np.concatenate([labels.numpy() for _, labels in dataset])
    restored = np.empty_like(firsts)
    restored[order] = firsts
    np.testing.assert_array_equal(restored, 200 + np.arange(103))
    np.testing.assert_array_equal(labels, split.labels[order])


def test_evaluation_of_nothing_is_empty():
    dataset = batches.evaluation_batches(Split([], []), vectorize, 8)
    assert len(dataset) == 0
    assert rows(dataset) == []


def test_lengths_are_counted_in_tokens():
    def count_words(texts):
        words = tf.strings.split(texts)
        return tf.ones_like(words, tf.int32).to_tensor()

    split = Split(["a b c", "", "internationalisation", "one two"], [0, 0, 0, 0])
    order = batches.evaluation_order(split, count_words)
    assert order.tolist() == [1, 2, 3, 0]


def test_the_texts_are_not_copied_into_the_graph():
    split = Split(["x" * 1000] * 1000, np.zeros(1000, int))
    graphs = []

    def spy(texts):
        graphs.append(texts.graph)
        return vectorize(texts)

    list(batches.evaluation_batches(split, spy, 100))
    assert graphs
    assert all(graph.as_graph_def().ByteSize() < 50_000 for graph in graphs)


@pytest.mark.parametrize(
    "name, value",
    [("batch_size", 0), ("batch_size", 2.0), ("seed", -1), ("start_step", -1)],
)
def test_refuses_numbers_out_of_range(split, name, value):
    arguments = {"batch_size": 8, "seed": 0, "start_step": 0, name: value}
    with pytest.raises(ValueError, match=f"Received: {name}={value}"):
        batches.training_batches(split, vectorize, **arguments)


def test_refuses_to_train_on_nothing():
    with pytest.raises(ValueError, match="Received: split with 0 texts"):
        batches.training_batches(Split([], []), vectorize, 8, seed=0)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 13), min_size=1), st.integers(1, 20))
def test_padding_to_a_multiple_adds_zeros_and_nothing_else(lengths, multiple):
    vectorizer = TextVectorizer(vocab_size=5, max_len=11)
    vectorizer.adapt(["a b c"])
    texts = [" a" * length for length in lengths]
    ids = vectorizer(texts).numpy()
    padded = batches.padded(vectorizer, multiple)(texts).numpy()
    time = padded.shape[1]
    assert ids.shape[1] <= time < ids.shape[1] + multiple or ids.shape[1] == 0
    assert time == 11 or (time < 11 and time % multiple == 0)
    np.testing.assert_array_equal(padded[:, : ids.shape[1]], ids)
    assert not padded[:, ids.shape[1] :].any()


def test_batches_of_one_length_say_so(split):
    vectorizer = TextVectorizer(vocab_size=5, max_len=11)
    vectorizer.adapt(["a"])
    found = batches.evaluation_batches(split, batches.padded(vectorizer, 11), 8)
    assert found.element_spec[0].shape.as_list() == [None, 11]


@pytest.mark.parametrize("multiple", [0, 2.0])
def test_refuses_to_pad_to_a_multiple_of_nothing(multiple):
    with pytest.raises(ValueError, match=f"Received: multiple={multiple}"):
        batches.padded(vectorize, multiple)
