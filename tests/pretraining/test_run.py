"""A pretraining run from texts to an encoder, and one that is stopped."""

import json
import signal

import numpy as np
import pytest

from residual_keras import PretrainingRecipe, load_model, pretrain
from residual_keras.pretraining import objectives, run
from residual_keras.pretraining.folder import PretrainingFolder
from residual_keras.recipe import Recipe


def weights(folder):
    return [np.array(w) for w in load_model(folder / "encoder.keras").weights]


def test_a_finished_run_keeps_what_it_promises_and_no_more(
    pretrained_run, tiny_pretraining
):
    folder, metrics = pretrained_run
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "curves.png",
        "encoder.keras",
        "history.csv",
        "metrics.json",
        "vocabulary.json",
    ]
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    assert metrics["status"] == "finished" and metrics["steps"] == 14
    held = PretrainingFolder(folder)
    assert held.recipe() == PretrainingRecipe(**tiny_pretraining)
    rows = held.rows()
    assert [row["epoch"] for row in rows] == [0, 1]
    assert rows[1]["val_loss"] < rows[0]["val_loss"]
    loss = metrics["validation"]["loss"]
    assert loss == min(row["val_loss"] for row in rows)
    assert metrics["validation"]["perplexity"] == pytest.approx(np.exp(loss))
    encoder = load_model(held.encoder)
    assert encoder.get_layer("encoder").causal
    assert encoder(np.ones((2, 5), "int32")).shape == (2, 5, 8)


def test_a_run_that_is_stopped_ends_like_a_whole_one(
    tmp_path, monkeypatch, pretrained_run, tiny_pretraining
):
    from residual_keras.training_state import TrainingState

    on_batch = TrainingState.on_train_batch_end

    def press(self, batch, logs=None):  # Ctrl-C in the middle of the second part
        if self.step + 1 == 10:
            signal.raise_signal(signal.SIGINT)
        on_batch(self, batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingState, "on_train_batch_end", press)
        metrics = pretrain(PretrainingRecipe(**tiny_pretraining), tmp_path, verbose=0)
    assert (metrics["status"], metrics["steps"]) == ("interrupted", 10)
    metrics = pretrain(None, tmp_path, resume=True, verbose=0)
    assert metrics["status"] == "finished"
    assert metrics["validation"] == pretrained_run[1]["validation"]
    for mine, theirs in zip(weights(tmp_path), weights(pretrained_run[0]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with pytest.raises(ValueError, match="finished: nothing to resume"):
        pretrain(None, tmp_path, resume=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"objective": "maskd"}, "Did you mean 'masked'"),
        ({"data": "nowhere.txt"}, "no such path exists"),
        ({"residual": "pre_lm"}, "pre_ln"),
        ({"max_len": 4001}, "must fill a row each"),
        ({"tokenizer": "word"}, "No tokenizer 'word'"),
    ],
)
def test_what_cannot_be_is_told_before_a_folder_is_made(
    tmp_path, tiny_pretraining, options, said
):
    recipe = PretrainingRecipe(**{**tiny_pretraining, **options})
    with pytest.raises(ValueError, match=said):
        pretrain(recipe, tmp_path / "run", verbose=0)
    assert not (tmp_path / "run").exists()


def test_one_text_is_too_few(tmp_path, tiny_pretraining):
    (tmp_path / "one.txt").write_text("the same\nthe same\n", encoding="utf-8")
    recipe = PretrainingRecipe(**{**tiny_pretraining, "data": tmp_path / "one.txt"})
    with pytest.raises(ValueError, match="two of them different"):
        pretrain(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"held_out": 1.0}, "held_out must be a share"),
        ({"steps": 0}, "steps must be positive"),
        ({"evaluations": -1}, "evaluations must be positive"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        PretrainingRecipe(**options)


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_the_steps_are_spread_over_the_evaluations(rows):
    for evaluations in (1, 3, 50):
        recipe = PretrainingRecipe(batch_size=3, epochs=2, evaluations=evaluations)
        times, steps = recipe.plan(rows)
        total = 2 * -(-rows // 3)
        assert times <= evaluations and total <= times * steps < total + steps
    assert PretrainingRecipe(steps=20, evaluations=5).plan(rows) == (5, 4)
    assert PretrainingRecipe(steps=9, evaluations=5).plan(rows) == (5, 2)
    assert PretrainingRecipe(steps=6, evaluations=5).plan(rows) == (3, 2)


def test_both_recipes_have_one_meaning_of_what_they_share():
    """Their config.json are read by the same names; a run's old one too."""
    shared = set(PretrainingRecipe.__dataclass_fields__) & set(
        Recipe.__dataclass_fields__
    )
    assert {"residual", "vocab_size", "data", "precision", "seed"} <= shared
    recipe = PretrainingRecipe(residual="post_ln")
    assert PretrainingRecipe.from_json(recipe.to_json()) == recipe


@pytest.mark.slow
@pytest.mark.parametrize("objective", sorted(objectives.OBJECTIVES))
def test_each_objective_learns(tmp_path, tiny_pretraining, objective):
    options = {"objective": objective, "learning_rate": 3e-3, "embed_dim": 32}
    options |= {"data": "reviews(depth=1, train_size=1500)", "max_len": 48}
    # With learned positions hidden words stay near their frequencies for long.
    options |= {"batch_size": 16, "steps": 900, "rate": 0.0, "positions": "rotary"}
    recipe = PretrainingRecipe(**{**tiny_pretraining, **options})
    pretrain(recipe, tmp_path, verbose=0)
    first, last = (row["val_loss"] for row in PretrainingFolder(tmp_path).rows())
    assert last < first - 0.02


@pytest.mark.slow
def test_every_scheme_pretrains_and_hands_over_its_weights(
    tmp_path, monkeypatch, tiny_pretraining
):
    from residual_keras import building, data, residuals, train

    def fit(self, *args, fit=run.Pretrainer.fit, **kwargs):
        self.run_eagerly = True  # tracing a graph takes longer than its one step
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(run.Pretrainer, "fit", fit)
    found = data.load("reviews(depth=1, train_size=20, validation_size=8, test_size=8)")
    schemes = residuals.SCHEMES.items()
    for scheme in [n for n, c in schemes if "residual_keras" in c.__module__]:
        options = {**tiny_pretraining, "residual": scheme, "steps": 1}
        folder = tmp_path / scheme
        metrics = pretrain(PretrainingRecipe(**options), folder, verbose=0)
        assert np.isfinite(metrics["validation"]["loss"]), scheme
        recipe = train.pretrained.take_over(Recipe(init=str(folder)))
        assert recipe.residual == scheme
        classifier = building.build(recipe, found).classifier
        ours = {variable.path: np.array(variable) for variable in classifier.weights}
        for variable in load_model(folder / "encoder.keras").weights:
            np.testing.assert_array_equal(ours[variable.path], np.array(variable))
