"""What blocks add: a block that is skipped is one whose sublayers give 0."""

import numpy as np
import pytest

from residual_keras import analysis


def test_skipping_none_is_the_model_s_own_accuracy(classifier, ids, labels):
    found = analysis.skipped_blocks(classifier, ids, labels, batch_size=4)
    right = np.argmax(classifier(ids), axis=1) == labels
    assert found.whole == pytest.approx(right.mean())
    assert found.without.shape == (2,) and found.texts == 5
    np.testing.assert_allclose(found.losses, found.whole - found.without)


def test_a_skipped_block_is_one_that_gives_zero(classifier, ids):
    """Its last layers made 0 are the same, where no norm inside comes after them."""
    from residual_keras.analysis.ablation import run_without

    stack = classifier.get_layer("encoder")
    skipped = run_without((stack.residual, 1), classifier, ids)
    block = stack.blocks[1]
    ends = (
        *block.attention.output_dense.weights,
        *block.feed_forward.project.weights,
    )
    before = [weight.numpy() for weight in ends]
    try:
        for weight in ends:
            weight.assign(np.zeros(weight.shape))
        np.testing.assert_allclose(skipped, classifier(ids), atol=1e-6)
    finally:
        for weight, value in zip(ends, before, strict=True):
            weight.assign(value)
    whole = run_without(None, classifier, ids)
    np.testing.assert_array_equal(whole, classifier(ids))
    assert np.abs(whole - skipped).max() > 1e-3


def test_without_a_shortcut_nothing_is_left(make, ids, labels):
    from residual_keras.analysis.ablation import run_without

    model = make("none")
    logits = run_without((model.get_layer("encoder").residual, 0), model, ids[3:4])
    others = run_without((model.get_layer("encoder").residual, 0), model, ids[4:5])
    np.testing.assert_allclose(logits, others, atol=1e-6)


def test_labels_must_fit(make, ids, labels):
    with pytest.raises(ValueError, match="one integer label for each of the 5 texts"):
        analysis.skipped_blocks(make("pre_ln"), ids, labels[:3])
    with pytest.raises(ValueError, match="dtype=float64"):
        analysis.skipped_blocks(make("pre_ln"), ids, labels + 0.5)


def test_plot():
    found = analysis.SkippedBlocks(0.9, np.array([0.5, 0.8]), 10)
    axes = found.plot()
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0.5, 0.8])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 0.9)
