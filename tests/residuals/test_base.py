"""The table of schemes: asking for one, and entering one's own."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from residual_keras import (
    Residual,
    TransformerBlock,
    TransformerEncoder,
    build_classifier,
    residuals,
)
from residual_keras.residuals import SCHEMES, register, scheme_options

# Asking


def test_every_scheme_is_had_by_name(spec):
    scheme = residuals.get(spec, num_sublayers=6, rate=0.3, epsilon=1e-3, name="mine")
    assert isinstance(scheme, Residual)
    assert (scheme.num_sublayers, scheme.epsilon, scheme.name) == (6, 1e-3, "mine")
    assert scheme.dropout.rate == 0.3


def test_every_scheme_says_what_it_computes(name):
    lines = (SCHEMES[name].__doc__ or "").strip().splitlines()
    assert "<-" in lines[0] or "=" in lines[0]  # the equation


def test_every_scheme_says_when_to_use_it_and_who_made_it(name):
    paragraphs = inspect.cleandoc(SCHEMES[name].__doc__).split("\n\n")
    labels = [text.partition(": ")[0] for text in paragraphs]
    asked = ("When", "When not", "Source")
    assert [label for label in labels if label in asked] == list(asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "pre_lm",
            r"No residual scheme 'pre_lm'. Did you mean 'pre_ln'\? Known: .*none",
        ),
        ("attention_res", "Did you mean 'attention_residual'"),
        ("xyz", "No residual scheme 'xyz'. Known: .*none"),
        ("PRE_LN", "No residual scheme 'PRE_LN'"),
        (
            "attention_residual(fusion_int='identity')",
            "no option 'fusion_int'. Did you mean 'fusion_init'",
        ),
        ("pre_ln(scale=2)", "'pre_ln' has no option 'scale'. It has none"),
        ("pre_ln(num_sublayers=2)", "no option 'num_sublayers'"),
        ("pre_ln(rate=0.5)", "no option 'rate'"),
        ("pre_ln(epsilon=0.5)", "no option 'epsilon'"),
        ("pre_ln(name='x')", "no option 'name'"),
        ("attention_residual(fusion_init='zeros')", "Received: fusion_init='zeros'"),
        ("attention_residual(fusion_init=None)", "Received: fusion_init=None"),
        ("pre_ln(scale=__import__('os').getcwd())", "with literal values. Received"),
        ("__import__('os').getcwd()", "with literal values. Received"),
        ("pre-ln", "Write a spec as name or name"),
        ("", "Write a spec as name or name"),
        (None, "Received: None"),
        (True, "Received: True"),
        (SCHEMES["pre_ln"], "Received: <class .*PreNorm"),
        ({}, "Received: {}"),
        ({"class_name": "Nowhere", "config": {}}, "`residuals.register`.*Nowhere"),
        (keras.saving.serialize_keras_object(keras.layers.ReLU()), "Received: <ReLU"),
    ],
)
def test_wrong_asking(asked, message):
    with pytest.raises(ValueError, match=message):
        residuals.get(asked, num_sublayers=2)


@pytest.mark.parametrize("num_sublayers", [0, -2, 2.0, None, "2"])
def test_wrong_number_of_sublayers(spec, num_sublayers):
    with pytest.raises(ValueError, match=f"num_sublayers={num_sublayers!r}"):
        residuals.get(spec, num_sublayers=num_sublayers)


def test_an_instance_serves_its_own_depth_only(spec):
    scheme = residuals.get(spec, num_sublayers=4)
    assert residuals.get(scheme, num_sublayers=4) is scheme
    with pytest.raises(ValueError, match="num_sublayers=4"):
        residuals.get(scheme, num_sublayers=6)
    config = keras.saving.serialize_keras_object(scheme)
    assert residuals.get(config, num_sublayers=4).get_config() == scheme.get_config()
    with pytest.raises(ValueError, match="num_sublayers=4"):
        residuals.get(config, num_sublayers=6)


def test_stacks_say_what_is_wrong_with_a_spec():
    for make in (
        lambda spec: TransformerBlock(6, 2, 7, residual=spec),
        lambda spec: TransformerEncoder(2, 6, 2, 7, residual=spec),
        lambda spec: build_classifier(23, 3, residual=spec),
    ):
        with pytest.raises(ValueError, match="Did you mean 'pre_ln'"):
            make("pre_lm")
        with pytest.raises(ValueError, match="num_sublayers=10"):
            make(residuals.get("pre_ln", num_sublayers=10))


def test_a_block_without_a_scheme_cannot_be_called(rng):
    block = TransformerBlock(6, 2, 7, residual=None)
    x = rng.normal(size=(2, 3, 6))
    with pytest.raises(ValueError, match="residual='pre_ln'"):
        block(x)


def test_options_by_name():
    assert scheme_options("pre_ln") == {}
    assert scheme_options("attention_residual") == {"fusion_init": "glorot_uniform"}


# Entering


def test_a_scheme_of_ones_own_in_six_lines(registry, rng):
    @register("half")
    class Half(Residual):
        def write(self, state, update, i):
            return state + 0.5 * update

    x = rng.normal(size=(2, 3, 6)).astype("float32")
    block = TransformerBlock(6, 2, 7, rate=0.0, residual="half")
    y = ops.convert_to_numpy(block(x))
    middle = x + 0.5 * ops.convert_to_numpy(block.attention(x))
    expected = middle + 0.5 * ops.convert_to_numpy(block.feed_forward(middle))
    np.testing.assert_allclose(y, expected, atol=1e-5)

    model = build_classifier(23, 3, residual="half", embed_dim=6, num_heads=2)
    assert type(model.get_layer("encoder").residual) is Half
    assert model(np.ones((2, 5), "int32")).shape == (2, 3)


def test_options_of_ones_own(registry):
    @register("part")
    class Part(Residual):
        def __init__(self, num_sublayers, share=0.5, **kwargs):
            super().__init__(num_sublayers, **kwargs)
            self.share = share

    assert scheme_options("part") == {"share": 0.5}
    assert residuals.get("part(share=2)", num_sublayers=2).share == 2
    with pytest.raises(ValueError, match="Did you mean 'share'"):
        residuals.get("part(shore=2)", num_sublayers=2)


def test_an_instance_need_not_be_registered_to_be_used(rng):
    """The base class itself is the plain residual x + f(x)."""
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    block = TransformerBlock(6, 2, 7, rate=0.0, residual=Residual(2))
    y = ops.convert_to_numpy(block(x))
    middle = x + ops.convert_to_numpy(block.attention(x))
    expected = middle + ops.convert_to_numpy(block.feed_forward(middle))
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_a_name_is_given_once(registry):
    with pytest.raises(ValueError, match="'pre_ln' is already PreNorm.*Received: Mine"):

        @register("pre_ln")
        class Mine(Residual):
            pass

    assert SCHEMES["pre_ln"].__name__ == "PreNorm"


def test_a_cell_may_be_run_again(registry):
    def cell():
        @register("again")
        class Again(Residual):
            pass

        return Again

    cell()
    assert cell() is SCHEMES["again"]


def test_a_class_may_be_called_like_another(registry):
    @register("my_pre_ln")
    class PreNorm(Residual):
        pass

    for name in ("pre_ln", "my_pre_ln"):
        scheme = residuals.get(name, num_sublayers=2)
        config = keras.saving.serialize_keras_object(scheme)
        assert type(residuals.get(config, num_sublayers=2)) is SCHEMES[name]


@pytest.mark.parametrize("name", ["", "pre-ln", "2nd", "a b", "class", "None", None, 3])
def test_a_name_is_an_identifier(name):
    with pytest.raises(ValueError, match=f"Received: name={name!r}"):
        register(name)
