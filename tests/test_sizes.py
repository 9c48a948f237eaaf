"""What each size weighs."""

import pytest

from residual_keras import build_classifier
from residual_keras.recipe import Recipe
from residual_keras.sizes import SIZES


def test_each_size_is_a_recipe_s_and_larger_than_the_one_before():
    recipes = [Recipe(**size, residual="post_ln") for size in SIZES.values()]
    assert list(SIZES) == ["tiny", "small", "medium", "base", "deep"]
    assert len({frozenset(size) for size in SIZES.values()}) == 1, "all say the same"
    layers = [recipe.num_layers for recipe in recipes]
    assert layers == sorted(layers) and layers[-1] >= 24
    assert all(recipe.embed_dim % recipe.num_heads == 0 for recipe in recipes)


@pytest.mark.parametrize(
    ("size", "megabytes"), [("tiny", 1.5), ("small", 4.0), ("medium", 9.0)]
)
@pytest.mark.parametrize("residual", ["pre_ln", "attention_residual"])
def test_what_is_shipped_is_small_in_half_precision(size, megabytes, residual):
    classifier = build_classifier(20_000, 2, residual=residual, **SIZES[size])
    assert classifier.count_params() * 2 < megabytes * 1e6
