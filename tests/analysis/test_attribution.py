"""Words and what they add: what integrated gradients promise holds."""

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import MeanPooling, TransformerBlock, analysis
from residual_keras.analysis.decision import log_odds


def scores(model, ids, label):
    """The log-odds of a label, in NumPy."""
    logits = ops.convert_to_numpy(model(np.array([ids])))[0].astype("float64")
    others = np.delete(logits, label)
    return logits[label] - np.log(np.exp(others).sum())


def test_values_sum_to_what_the_words_make_of_the_decision(classifier, ids):
    decided = int(np.argmax(classifier(ids[1:2])))
    found = analysis.word_attributions(classifier, ids[1], steps=300)
    assert found.label == decided
    np.testing.assert_allclose(found.score, scores(classifier, ids[1], decided), 1e-5)
    unknown = scores(classifier, np.ones_like(ids[1]), decided)
    np.testing.assert_allclose(found.baseline, unknown, atol=1e-5)
    # A maximum over tokens has kinks, which the integral finds its way around.
    size = np.abs(found.values).sum()
    assert abs(found.gap) < 0.03 * max(size, 1)


@pytest.mark.parametrize("classes", [1, 2])
def test_a_linear_model_is_taken_apart_exactly(classes):
    """At first `rezero` is the identity: each word adds (e - e_unknown) w / n."""
    inputs = keras.Input((None,), dtype="int32")
    embedding = keras.layers.Embedding(23, 8, mask_zero=True)
    head = keras.layers.Dense(classes)
    x = TransformerBlock(8, 2, 11, residual="rezero")(embedding(inputs))
    model = keras.Model(inputs, head(MeanPooling()(x)))
    ids = np.array([4, 9, 1, 7, 0, 0])
    found = analysis.word_attributions(model, ids, label=1, steps=1)
    table, kernel = embedding.embeddings.numpy(), head.kernel.numpy()
    towards = kernel[:, 0] if classes == 1 else kernel[:, 1] - kernel[:, 0]
    expected = (table[ids[:4]] - table[1]) @ towards / 4
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    assert found.words == ["0", "1", "2", "3"] and found.values[2] == 0
    against = analysis.word_attributions(model, ids, label=0, steps=1)
    np.testing.assert_allclose(against.values, -expected, atol=1e-6)


def test_log_odds_of_logits_and_of_probabilities():
    logits = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.log(p[:, 2] / (1 - p[:, 2]))
    bare = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    soft = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "softmax")])
    hard = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, "sigmoid")])
    tensor = ops.convert_to_tensor
    np.testing.assert_allclose(log_odds(bare, tensor(logits), 2), expected)
    np.testing.assert_allclose(log_odds(soft, tensor(p), 2), expected)
    np.testing.assert_allclose(log_odds(hard, tensor(p[:, 2:]), 1), expected)
    np.testing.assert_allclose(log_odds(hard, tensor(p[:, 2:]), 0), -expected)


def test_what_cannot_be_told_apart_is_refused(make, ids):
    with pytest.raises(ValueError, match="label must be a number below 3"):
        analysis.word_attributions(make("pre_ln"), ids[0], label=3)
    with pytest.raises(ValueError, match="steps must be positive"):
        analysis.word_attributions(make("pre_ln"), ids[0], steps=0)
    block = TransformerBlock(8, 2, 11, name="bare")
    with pytest.raises(ValueError, match="embedding.*Received: bare"):
        analysis.word_attributions(block, np.ones((3, 8), "float32"))


WORDS = analysis.WordAttributions(
    ["the", "<b>", "$plot$", "was", "good"] * 8,
    np.tile([0.0, -2.0, 0.5, 0.1, 3.0], 8),
    "positive",
    2.5,
    -0.5,
)


def test_colours_go_from_blue_to_red():
    white, blue, pink, _, red = WORDS.colours()[:5]
    np.testing.assert_allclose(white, 1)
    assert blue[2] > blue[0] and red[0] > red[2]
    assert pink.sum() > red.sum()
    assert WORDS.gap == pytest.approx(8 * 1.6 - 3)


def test_html_is_escaped():
    page = WORDS.html()
    assert "&lt;b&gt;" in page and "<b>positive: log-odds +2.50" in page
    assert page.count("<span") == 40 and 'title="+3.000"' in page
    assert WORDS._repr_html_() == page


def test_plot_keeps_words_apart():
    axes = WORDS.plot()
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) == 40
    for one, other in zip(boxes[:-1], boxes[1:], strict=True):
        assert not one.overlaps(other)
    frame = axes.figure.bbox
    assert all(box.x0 >= 0 and box.x1 <= frame.width for box in boxes)
