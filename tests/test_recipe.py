"""What decides a run, read and written."""

import dataclasses
import signal

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from residual_keras.recipe import Recipe
from residual_keras.run_folder import RunFolder, newest_folder, next_folder


def values(field):
    kinds = {
        "str": st.text(max_size=9),
        "int": st.integers(1, 99),
        "float": st.floats(0, 0.99).filter(bool),
        "bool": st.booleans(),
    }
    name = getattr(field.type, "__name__", str(field.type))
    base, *none = [part.strip() for part in name.split("|")]
    base = str(field.type).split(" | ")[0] if base not in kinds else base
    return kinds[base] | st.none() if none or "None" in str(field.type) else kinds[base]


@given(st.fixed_dictionaries({f.name: values(f) for f in dataclasses.fields(Recipe)}))
def test_json_round_trip(options):
    if not options["teacher"]:  # nobody to say what negations mean
        options["negations"] = 0
    recipe = Recipe(**options)
    assert Recipe.from_json(recipe.to_json()) == recipe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "must be JSON"),
        ("[]", "Received: list"),
        ('{"residul": "pre_ln"}', "Did you mean 'residual'?"),
        ('{"epochs": -1}', "epochs must be positive. Received: epochs=-1"),
        ('{"warmup": 1}', "warmup"),
        ('{"weight_decay": -1}', "weight_decay"),
        ('{"seed": -1}', "seed=-1"),
    ],
)
def test_a_config_that_cannot_be_is_refused(text, said):
    with pytest.raises(ValueError, match=".*") as error:
        Recipe.from_json(text)
    assert said in str(error.value)


def test_every_field_says_what_it_means():
    for field in dataclasses.fields(Recipe):
        assert field.metadata["help"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("residual", "post_ln"),
        ("norm", "rms_norm"),
        ("parallel", True),
        ("stochastic_depth", 0.25),
        ("num_layers", 3),
        ("embed_dim", 8),
        ("num_heads", 2),
        ("ff_dim", 5),
        ("activation", "gelu"),
        ("rate", 0.3),
        ("attention_rate", 0.3),
        ("ff_rate", 0.3),
        ("qk_norm", True),
        ("value_residual", True),
        ("score_residual", True),
        ("head_scale", True),
        ("recompute", True),
    ],
)
def test_what_the_recipe_says_reaches_the_encoder(field, value):
    from residual_keras import building
    from residual_keras.data import load

    data = load("reviews(depth=1, train_size=20, validation_size=8, test_size=8)")
    plain, changed = (
        building.build(Recipe(**options), data).classifier.get_layer("encoder")
        for options in ({"num_layers": 2}, {"num_layers": 2, field: value})
    )
    assert changed.get_config()[field] == value != plain.get_config()[field]


def test_the_embedding_s_norm_reaches_the_classifier():
    from residual_keras import building
    from residual_keras.data import load

    data = load("reviews(depth=1, train_size=20, validation_size=8, test_size=8)")
    model = building.build(Recipe(num_layers=1, embedding_norm="rms_norm"), data)
    layer = model.classifier.get_layer("embedding_norm")
    assert isinstance(layer, keras.layers.RMSNormalization)
    with pytest.raises(ValueError, match="Did you mean 'layer_norm'"):
        building.build(Recipe(embedding_norm="layer_nrm"), data)


def test_a_fresh_run_is_calibrated_by_its_first_batch(
    tmp_path, monkeypatch, tiny_recipe
):
    """Before any step, and not again when it is taken up."""
    from residual_keras import Classifier
    from residual_keras.data import batches
    from residual_keras.train import train

    seen, steps = [], []

    def calibrate(self, batches, texts):
        ids, _ = next(iter(batches))
        signal.raise_signal(signal.SIGINT)  # ends the run after its first step
        steps.append(int(self.optimizer.iterations))
        seen.append(np.array(ids))

    training_batches = batches.training_batches

    def first_kept(*args, **kwargs):
        training = training_batches(*args, **kwargs)
        seen.append(np.array(next(iter(training))[0]))
        return training

    monkeypatch.setattr(Classifier, "calibrate", calibrate)
    monkeypatch.setattr(batches, "training_batches", first_kept)
    recipe = Recipe(**{**tiny_recipe, "epochs": 1})
    quietly = {"verbose": 0, "export": False}
    assert train(recipe, tmp_path, **quietly)["status"] == "interrupted"
    resumed = train(None, tmp_path, resume=True, **quietly)
    assert resumed["status"] == "finished" and steps == [0]
    np.testing.assert_array_equal(seen[1], seen[0])


def test_batches_are_as_long_as_the_recipe_says(tmp_path, monkeypatch, tiny_recipe):
    from residual_keras import Classifier
    from residual_keras.train import train

    seen = []

    def spy(name):
        step = getattr(Classifier, name)

        def spied(self, batch):
            seen.append((name, batch[0].shape[1]))
            return step(self, batch)

        return spied

    for name in ("train_step", "test_step"):
        monkeypatch.setattr(Classifier, name, spy(name))
    asked = {"epochs": 1, "max_len": 47, "pad_to_multiple_of": 47}
    train(Recipe(**{**tiny_recipe, **asked}), tmp_path, verbose=0, export=False)
    assert set(seen) == {("train_step", 47), ("test_step", 47)}


def test_under_xla_lengths_are_few(tiny_recipe):
    from residual_keras import building, train
    from residual_keras.data import load

    recipe = Recipe(**tiny_recipe)
    data = load(recipe.data)
    model = building.build(recipe, data)
    for jit_compile, time in ((False, 2), (True, 64)):
        model.classifier.compile(jit_compile=jit_compile)
        vectorizer = train.padded_vectorizer(model, None)
        assert vectorizer(["Two words", "One"]).shape == (2, time)


def test_many_long_texts_get_fewer_epochs():
    assert Recipe().epochs_for(["a short one"] * 8000) == 12
    assert Recipe().epochs_for(["x" * 1300] * 22_500) == 2
    assert Recipe().epochs_for(["x" * 1300] * 9_000) == 5
    assert Recipe(epochs=7).epochs_for(["x"]) == 7
    assert Recipe().epochs_for([""]) == 12


def test_words_are_dropped_from_long_texts_unless_a_share_is_asked_for():
    whole = {"fragment_rate": 0}
    default = {"word_rate": 0.15, "word_rate_min_len": 50, **whole}
    assert Recipe().word_noise() == default
    assert Recipe(word_rate=0.3).word_noise() == {"word_rate": 0.3, **whole}
    assert Recipe(word_rate=0.0).word_noise() == {"word_rate": 0, **whole}


def test_negations_are_not_cut():
    cut = {"word_rate": 0, "fragment_rate": 0.1}
    assert Recipe(**cut).word_noise() == cut
    found = Recipe(**cut, negations=1, teacher="a", unlabelled="b").word_noise()
    assert found == {**cut, "fragment_rate_min_len": 50}


def test_data_options_hold_only_what_was_asked():
    assert Recipe().data_options() == {"seed": 0}
    recipe = Recipe(validation="0.2", test="t.csv", download=True, data_path="a")
    assert recipe.data_options() == {
        "seed": 0,
        "validation": 0.2,
        "test": "t.csv",
        "download": True,
        "path": "a",
    }
    assert Recipe(validation="dev.csv").data_options()["validation"] == "dev.csv"


def test_folders_are_numbered_and_named_after_data_and_scheme(tmp_path):
    recipe = Recipe(data="reviews(depth=3)", residual="attention_residual(rate=0.1)")
    first = next_folder(recipe, tmp_path)
    assert first.name == "reviews_depth=3-attention_residual_rate=0.1-1"
    first.mkdir()
    assert next_folder(recipe, tmp_path).name.endswith("-2")
    assert next_folder(Recipe(data="/some/where/my.csv.gz"), tmp_path).name == (
        "my-pre_ln-1"
    )


def test_the_newest_model_is_found(tmp_path):
    with pytest.raises(ValueError, match="no trained model"):
        newest_folder(tmp_path)
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.keras").touch()
    import os

    os.utime(tmp_path / "b" / "model.keras", (1, 1))
    assert newest_folder(tmp_path).name == "a"


def test_rows_are_kept_up_to_an_epoch(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.rows() == []
    folder.history.write_text("epoch,val_loss\n0,0.5\n1,0.1234567890123\n2,0.3\n")
    folder.keep_rows(2)
    assert [row["val_loss"] for row in folder.rows()] == [0.5, 0.1234567890123]
    folder.keep_rows(0)
    assert not folder.history.exists()
