"""Attention maps are the weights that the layers compute."""

import numpy as np
import pytest

from residual_keras import analysis


def test_maps_are_those_of_the_encoder(classifier, ids):
    found = analysis.attention_maps(classifier, ids)
    x = classifier.get_layer("embedding")(ids)
    _, scores = classifier.get_layer("encoder")(
        x, mask=ids != 0, return_attention_scores=True
    )
    for ours, theirs in zip(found.weights, scores, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_text_s_own_tokens(make, ids):
    words, maps = analysis.attention_maps(make("pre_ln"), ids).of_text(0)
    assert words == ["0", "1", "2"]
    for weights in maps:
        assert weights.shape == (2, 3, 3)
        np.testing.assert_allclose(weights.sum(-1), 1)


def test_a_class_token_comes_first(make, ids):
    model = make("pre_ln", pooling="cls")
    found = analysis.attention_maps(model, ids)
    assert found.mask.sum(1).tolist() == ((ids != 0).sum(1) + 1).tolist()
    words = [["the", "fine", "plot"], *[[]] * 4]
    named = analysis.AttentionMaps(found.weights, found.mask, words)
    assert named.of_text(0)[0] == ["[class]", "the", "fine", "plot"]


def test_plot(make, ids):
    found = analysis.attention_maps(make("pre_ln"), ids)
    axes = found.plot(text=1)
    assert [one.get_title() for one in axes] == ["block 0, mean", "block 1, mean"]
    for one, weights in zip(found.plot(text=1, head=1), found.weights, strict=True):
        np.testing.assert_allclose(one.images[0].get_array(), weights[1, 1])
    with pytest.raises(ValueError, match="head must be a number below 2"):
        found.plot(head=2)
    with pytest.raises(ValueError, match="text must be a number below 5"):
        found.plot(text=-1)
