"""Which runs there are, where they lie, and how long they take."""

import pytest

from residual_keras.compare.plan import Outlook, duration, grid, held


def test_the_grid_holds_every_run_once_in_an_order_that_pairs_early(tmp_path, recipe):
    runs = grid(tmp_path, recipe, ["pre_ln", "none"], [2, 3], [0, 7], [1e-3, 1e-2])
    keys = [
        (r.recipe.num_layers, r.recipe.learning_rate, r.recipe.seed, r.recipe.residual)
        for r in runs
    ]
    assert len(set(keys)) == len({run.path for run in runs}) == 16
    assert keys[:3] == [
        (2, 1e-3, 0, "pre_ln"),
        (2, 1e-3, 0, "none"),
        (2, 1e-3, 7, "pre_ln"),
    ]
    assert all(run.recipe.data == recipe.data for run in runs)
    assert not any(tmp_path.iterdir()), "planning writes nothing"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schemes": "pre_ln"}, "schemes must be a list"),
        ({"layers": 2}, "layers must be a list"),
        ({"schemes": []}, "name something"),
        ({"seeds": [1, 2, 1]}, "nothing twice. Received: seeds=[1, 2, 1]"),
        ({"layers": [2, 0]}, "layers must be whole numbers from 1 on"),
        ({"layers": [2.5]}, "Received: layers=[2.5]"),
        ({"seeds": [-1]}, "seeds must be whole numbers from 0 on"),
        ({"learning_rates": [0.0]}, "learning_rate must be positive"),
        ({"schemes": ["a(b='c')", 'a(b="c")']}, "differ by spaces or quotes"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(tmp_path, recipe, changed, said):
    axes = {"schemes": ["pre_ln"], "layers": [2], "seeds": [0], **changed}
    with pytest.raises(ValueError, match=".*") as error:
        grid(tmp_path, recipe, **axes)
    assert said in str(error.value)


def test_a_run_begun_with_other_options_is_not_taken_up(tmp_path, recipe, pretend):
    import dataclasses

    axes = ["pre_ln"], [2], [0]
    pretend(grid(tmp_path, recipe, *axes)[0])
    assert grid(tmp_path, recipe, *axes)[0].ended()
    other = dataclasses.replace(recipe, rate=0.3)
    with pytest.raises(ValueError, match=r"rate=0\.2\. Received: rate=0\.3"):
        grid(tmp_path, other, *axes)


def test_a_run_ends_with_its_outcome(tmp_path, recipe):
    [run] = grid(tmp_path, recipe, ["pre_ln"], [2], [0])
    assert run.outcome() == {} and not run.ended()
    run.end("failed", message="no room")
    assert run.outcome() == {"status": "failed", "message": "no room"}
    assert not run.ended(), "it is tried again"
    run.end("diverged", majority=float("nan"))
    assert run.ended()


def test_the_estimate_goes_with_depth_and_jobs(tmp_path, recipe):
    outlook = Outlook(
        layers=5,
        step_seconds=0.6,
        setup_seconds=10.0,
        steps=100,
        texts=800,
        classes=2,
        epochs=4,
    )
    shallow, deep = grid(tmp_path, recipe, ["pre_ln"], [2, 5], [0])
    assert outlook.seconds(shallow) == pytest.approx(10 + 100 * 0.6 * 3 / 6)
    assert outlook.seconds(deep) == pytest.approx(10 + 100 * 0.6)
    assert outlook.total([shallow, deep], 1) == pytest.approx(40 + 70)
    assert outlook.total([shallow, deep], 2) == pytest.approx(70), "the longest waits"
    assert outlook.total([], 1) == 0
    assert [duration(s) for s in (0, 89, 100, 3599, 3601, 7500)] == [
        "0 s",
        "89 s",
        "2 min",
        "1 h 0 min",
        "1 h 0 min",
        "2 h 5 min",
    ]


def test_a_folder_is_held_by_one(tmp_path):
    folder = tmp_path / "a" / "study"
    with held(folder), pytest.raises(ValueError, match="is in use"), held(folder):
        pass
    with held(folder):
        pass
    (tmp_path / "results.csv").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and holds no study"):
        held(tmp_path).__enter__()
    with pytest.raises(ValueError, match="Cannot make"):
        held(tmp_path / "results.csv" / "below").__enter__()
