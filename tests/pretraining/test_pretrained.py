"""Training that starts with a pretrained encoder."""

import dataclasses

import numpy as np
import pytest

from residual_keras import Recipe, building, data, load_model, train
from residual_keras.options import ModelOptions
from residual_keras.pretraining.folder import PretrainingFolder
from residual_keras.pretraining.pretrained import take_over


@pytest.fixture(scope="module")
def reviews():
    return data.load("reviews(depth=1, train_size=40, validation_size=8, test_size=8)")


def test_words_model_and_weights_are_taken_over(pretrained_run, reviews):
    folder, _ = pretrained_run
    held = PretrainingFolder(folder)
    recipe = take_over(Recipe(init=str(folder), pooling="max", rate=0.4, batch_size=9))
    for field in dataclasses.fields(ModelOptions):
        assert getattr(recipe, field.name) == getattr(held.recipe(), field.name)
    assert (recipe.pooling, recipe.rate, recipe.batch_size) == ("max", 0.4, 9)
    model = building.build(recipe, reviews)
    assert model.vectorizer.get_vocabulary() == held.read_vocabulary()
    encoder, classifier = load_model(held.encoder), model.classifier
    ours = {variable.path: np.array(variable) for variable in classifier.weights}
    for variable in encoder.weights:
        np.testing.assert_array_equal(ours[variable.path], np.array(variable))
    # What one block makes of the last token is the same, causal or not.
    ids = np.arange(2, 13)[None]
    x = classifier.get_layer("embedding")(ids)
    y = classifier.get_layer("encoder")(x)
    assert not classifier.get_layer("encoder").causal
    np.testing.assert_array_equal(y[:, -1], encoder(ids)[:, -1])
    assert not np.allclose(y[:, 0], encoder(ids)[:, 0])


def test_shorter_texts_use_the_first_positions(pretrained_run, reviews):
    folder, _ = pretrained_run
    recipe = take_over(Recipe(init=str(folder), max_len=5))
    model = building.build(recipe, reviews)
    assert model.vectorizer(["a b c d e f g h"]).shape == (1, 5)
    [whole] = [
        np.array(v)
        for v in load_model(folder / "encoder.keras").weights
        if v.path == "embedding/positions/table"
    ]
    kept = model.classifier.get_layer("embedding").place.table
    np.testing.assert_array_equal(kept, whole[:5])
    assert take_over(recipe) == recipe, "once is enough"


def test_what_differs_is_refused(pretrained_run, tmp_path, tiny_recipe):
    folder = str(pretrained_run[0])
    for options, said in [
        ({"num_layers": 3}, "num_layers=3 and not 1"),
        ({"residual": "post_ln"}, "residual='post_ln' and not 'pre_ln'"),
        ({"max_len": 14}, "max_len=14 and not 13"),
        ({"norm": "dyt", "num_heads": 1}, "norm='dyt' .*, num_heads=1 and not 2"),
    ]:
        with pytest.raises(ValueError, match=said):
            take_over(Recipe(init=folder, **options))
    # asked for by its default, as the command line tells
    assert take_over(Recipe(init=folder)).num_layers == 1
    with pytest.raises(ValueError, match="num_layers=2 and not 1"):
        take_over(Recipe(init=folder, num_layers=2), given=["num_layers"])
    with pytest.raises(ValueError, match="holds no run"):
        take_over(Recipe(init=str(tmp_path)))
    with pytest.raises(ValueError, match="num_layers=7"):
        options = {**tiny_recipe, "init": folder, "num_layers": 7}
        train.train(Recipe(**options), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_longer_texts_need_positions_that_are_not_learned(tmp_path):
    from residual_keras import PretrainingRecipe

    PretrainingFolder(tmp_path).create(PretrainingRecipe(positions="rotary"))
    recipe = take_over(Recipe(init=str(tmp_path), max_len=600))
    assert (recipe.max_len, recipe.positions) == (600, "rotary")


def test_a_damaged_folder_is_named(pretrained_run, tmp_path, reviews):
    folder = PretrainingFolder(tmp_path)
    folder.create(PretrainingFolder(pretrained_run[0]).recipe())
    recipe = take_over(Recipe(init=str(tmp_path)))
    with pytest.raises(ValueError, match=r"vocabulary.json cannot be read"):
        building.build(recipe, reviews)
    folder.write_vocabulary(["", "[UNK]", "a"])
    with pytest.raises(ValueError, match=r"encoder.keras, no file"):
        building.build(recipe, reviews)
    bytes_ = PretrainingFolder(pretrained_run[0]).encoder.read_bytes()
    folder.encoder.write_bytes(bytes_)
    with pytest.raises(ValueError, match="does not fit the recipe.*embedding/tokens"):
        building.build(recipe, reviews)


def test_a_comparison_does_not_start_with_one_encoder(tmp_path):
    from residual_keras.compare import compare

    with pytest.raises(ValueError, match="one scheme and one depth"):
        compare(tmp_path / "study", init="pretrained/a")


@pytest.mark.slow
def test_train_starts_with_it_and_is_resumed(
    pretrained_run, tmp_path, monkeypatch, tiny_recipe
):
    import signal

    from residual_keras.training_state import TrainingState

    folder = str(pretrained_run[0])
    free = ("data", "batch_size", "epochs", "word_rate", "attention_rate", "patience")
    options = {name: tiny_recipe[name] for name in free} | {"init": folder}
    options |= {"layer_decay": 0.7, "ema_momentum": 0.8}
    train.train(Recipe(**options), tmp_path / "whole", verbose=0, export=False)
    on_batch = TrainingState.on_train_batch_end

    def press(self, batch, logs=None):
        if self.step + 1 == 17:
            signal.raise_signal(signal.SIGINT)
        on_batch(self, batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingState, "on_train_batch_end", press)
        train.train(Recipe(**options), tmp_path / "run", verbose=0, export=False)
    train.train(None, tmp_path / "run", resume=True, verbose=0, export=False)
    texts = ["the plot was superb", "the cast felt dull"]
    found, expected = (
        load_model(tmp_path / name / "model.keras").predict(texts)
        for name in ("run", "whole")
    )
    np.testing.assert_array_equal(found, expected)
