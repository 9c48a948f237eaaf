import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras.data.splits import Split, TextData, stratified_split


def make_split(sizes, repeats=1):
    texts, labels = [], []
    for label, size in enumerate(sizes):
        for i in range(size):
            texts += [f"text {i} of class {label}"] * repeats
            labels += [label] * repeats
    return Split(texts, np.array(labels))


def test_labels_become_int32():
    split = Split(["a", "b"], [1, 0])
    assert split.labels.dtype == np.int32
    assert len(split) == 2
    assert len(Split([], [])) == 0


@pytest.mark.parametrize("labels", [[0], [0.0, 1.0], [[0], [1]], ["0", "1"], [0, -1]])
def test_refuses_labels_that_are_not_one_class_number_a_text(labels):
    with pytest.raises(ValueError, match=r"[Ll]abel.*Received: "):
        Split(["a", "b"], labels)


def test_data_is_frozen():
    split = make_split([2, 2])
    data = TextData("films", ("bad", "good"), split, split)
    assert data.test is None
    with pytest.raises(AttributeError):
        data.name = "other"


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=5),
    repeats=st.integers(1, 3),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32),
)
def test_split_is_a_stratified_partition(sizes, repeats, fraction, seed):
    split = make_split(sizes, repeats)
    train, validation = stratified_split(split, fraction, seed)

    rows = sorted(zip(split.texts, split.labels.tolist(), strict=True))
    parts = train.texts + validation.texts, [*train.labels, *validation.labels]
    assert sorted(zip(*parts, strict=True)) == rows
    assert not set(train.texts) & set(validation.texts)
    counts = np.bincount(validation.labels, minlength=len(sizes)) / repeats
    for count, size in zip(counts, sizes, strict=True):
        assert 1 <= count <= size - 1
        if 1 <= fraction * size <= size - 1:
            assert abs(count - fraction * size) <= 0.5


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 2))),
    seed=st.integers(0, 100),
)
def test_conflicting_labels_split_cleanly_or_are_refused(rows, seed):
    split = Split([text for text, _ in rows], [label for _, label in rows])
    try:
        train, validation = stratified_split(split, 0.3, seed)
    except ValueError as error:
        assert "two distinct texts of its own" in str(error)
        return
    assert not set(train.texts) & set(validation.texts)
    assert set(train.labels) == set(validation.labels) == set(split.labels)


def test_a_shared_text_goes_to_the_rarer_class():
    # Class 1 has but two texts, one of them shared with class 0.
    split = Split(["both", "zero", "one more", "both", "one"], [0, 0, 0, 1, 1])
    train, validation = stratified_split(split, 0.5, seed=0)
    assert set(train.labels) == set(validation.labels) == {0, 1}


def test_split_keeps_the_order_and_follows_the_seed():
    split = make_split([30, 30])
    train, validation = stratified_split(split, 0.2, seed=3)
    again, _ = stratified_split(split, 0.2, seed=3)
    other, _ = stratified_split(split, 0.2, seed=4)
    assert train.texts == again.texts != other.texts
    place = {text: i for i, text in enumerate(split.texts)}
    for part in (train, validation):
        places = [place[text] for text in part.texts]
        assert places == sorted(places)


def test_split_is_the_same_everywhere():
    _, validation = stratified_split(make_split([5, 5]), 0.4, seed=7)
    assert validation.texts == [
        "text 0 of class 0",
        "text 2 of class 0",
        "text 0 of class 1",
        "text 1 of class 1",
    ]


@pytest.mark.parametrize("fraction", [0, 1, 1.5, -0.1, float("nan")])
def test_refuses_a_fraction_outside_0_and_1(fraction):
    with pytest.raises(ValueError, match="between 0 and 1. Received: fraction="):
        stratified_split(make_split([5, 5]), fraction, seed=0)


def test_names_the_class_with_too_few_texts():
    split = Split(["a", "b", "c", "c"], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="Received: class 1 with 1"):
        stratified_split(split, 0.5, seed=0)
    with pytest.raises(ValueError, match=r"class 1 \('good'\)"):
        stratified_split(split, 0.5, seed=0, label_names=("bad", "good"))
