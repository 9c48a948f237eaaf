"""The logit lens: the head's reading after every block."""

import numpy as np
import pytest
from keras import ops

from residual_keras import TransformerEncoder, analysis


def test_the_last_reading_is_the_model_s_own(classifier, ids, labels):
    from residual_keras.analysis.lens import read
    from residual_keras.analysis.recording import record

    inputs = ops.convert_to_tensor(ids)
    [one], _ = record(classifier, inputs)
    last = read(classifier, inputs, one, one.block_exits[-1])
    np.testing.assert_allclose(last, classifier(ids), atol=1e-5)

    found = analysis.logit_lens(classifier, ids, labels)
    np.testing.assert_allclose(found.logits[-1], classifier(ids), atol=1e-5)
    right = np.argmax(found.logits, axis=-1) == labels
    np.testing.assert_allclose(found.accuracy, right.mean(1))
    assert found.agreement[-1] == 1
    p = np.exp(found.logits) / np.exp(found.logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(found.probabilities, p, atol=1e-6)
    picked = [[row[k] for row, k in zip(at, found.labels[-1], strict=True)] for at in p]
    np.testing.assert_allclose(found.confidence, np.mean(picked, axis=1), atol=1e-6)


def test_readings_before_are_those_of_shorter_stacks(make, ids):
    """Under `pre_ln`, k blocks of the stack, its norm and the head."""
    model = make("pre_ln")
    stack = model.get_layer("encoder")
    found = analysis.logit_lens(model, ids)
    assert found.accuracy is None
    x, mask = model.get_layer("embedding")(ids), ids != 0
    pool, head = model.get_layer("pooling"), model.get_layer("logits")
    before = head(pool(stack.norm(x), mask=mask))
    np.testing.assert_allclose(found.logits[0], before, atol=1e-5)
    short = TransformerEncoder(1, 8, 2, 11, dtype="float64")
    short.build((None, None, 8))
    short.blocks[0].set_weights(stack.blocks[0].get_weights())
    for mine, theirs in zip(short.residual.norms, stack.residual.norms, strict=False):
        mine.set_weights(theirs.get_weights())
    short.norm.set_weights(stack.norm.get_weights())
    after = head(pool(short(x, mask=mask), mask=mask))
    np.testing.assert_allclose(found.logits[1], after, atol=1e-5)


def test_streams_of_other_widths_are_refused(ids):
    import keras

    from residual_keras import MeanPooling, TransformerBlock

    x = inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(23, 8, mask_zero=True)(x)
    x = TransformerBlock(6, 2, 11)(TransformerBlock(8, 2, 11)(x))
    model = keras.Model(inputs, keras.layers.Dense(3)(MeanPooling()(x)))
    with pytest.raises(ValueError, match=r"as wide. Received: embed_dim=\[6, 8\]"):
        analysis.logit_lens(model, ids)
    assert len(analysis.stream_profile(model, ids).rms) == 5


def test_a_model_that_returns_tokens_decides_nothing(ids):
    with pytest.raises(ValueError, match="Only a classifier decides"):
        analysis.logit_lens(TransformerEncoder(1, 8, 2, 11), np.ones((2, 3, 8)))


def test_plot(make, ids, labels):
    found = analysis.logit_lens(make("pre_ln"), ids, labels)
    axes = found.plot()
    assert len(axes.lines) == 3
    np.testing.assert_array_equal(axes.lines[2].get_ydata(), found.accuracy)
    assert len(analysis.logit_lens(make("pre_ln"), ids).plot().lines) == 2
