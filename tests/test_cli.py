"""The command line, as typed."""

import csv
import io
import json
import pathlib
import subprocess
import sys
import time

import pytest

from residual_keras import cli
from residual_keras.pretraining.recipe import PretrainingRecipe
from residual_keras.recipe import Recipe


@pytest.fixture
def run(capsys):
    """Runs the command line in this process: exit status, stdout, stderr."""

    def call(*arguments):
        try:
            status = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse's own
            status = stop.code
        return status, *capsys.readouterr()

    return call


def test_help_answers_without_loading_tensorflow():
    code = (
        "import sys; from residual_keras import cli\n"
        "try: cli.main(['--help'])\n"
        "finally: print({'tensorflow', 'keras', 'numpy'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    for verb in (
        "train",
        "pretrain",
        "compare",
        "evaluate",
        "predict",
        "export",
        "presets",
        "schemes",
        "doctor",
    ):
        assert f"\n    {verb} " in out
    assert out.endswith("set()\n")


@pytest.mark.parametrize(
    ("verb", "kind"), [("train", Recipe), ("pretrain", PretrainingRecipe)]
)
def test_every_option_of_a_recipe_is_a_flag_with_help(run, verb, kind):
    status, out, _ = run(verb, "--help")
    assert status == 0
    for name in kind.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in out


def test_pretrain_hands_on_what_was_given(run, tmp_path, monkeypatch):
    from residual_keras.pretraining import run as pretraining

    asked = []

    def kept(recipe, folder, **options):
        asked.append((recipe, str(folder), options))
        status = "interrupted" if options["resume"] else "finished"
        return {"status": status, "steps": 3}

    monkeypatch.setattr(pretraining, "pretrain", kept)
    monkeypatch.chdir(tmp_path)
    flags = ["--data", "mine.txt", "--size", "tiny", "--objective", "masked(rate=0.2)"]
    status, _, err = run("pretrain", *flags, "--max-len", 64)
    assert status == 0 and "train --init pretrained/mine-pre_ln-1" in err
    recipe, folder, options = asked[0]
    assert (recipe.data, recipe.objective) == ("mine.txt", "masked(rate=0.2)")
    assert (recipe.embed_dim, recipe.max_len) == (32, 64)
    assert folder == "pretrained/mine-pre_ln-1"
    assert options == {"resume": False, "verbose": 2}
    status, _, err = run("pretrain", "--resume", "--run-dir", "x", "--quiet")
    assert status == 130 and "pretrain --resume --run-dir x" in err
    assert asked[1][::2] == (None, {"resume": True, "verbose": 2})


def test_train_takes_the_model_of_a_pretrained_encoder(run, tmp_path, monkeypatch):
    from residual_keras import train
    from residual_keras.pretraining.folder import PretrainingFolder

    asked = []

    def kept(recipe, folder, **options):
        asked.append(recipe)
        return {"status": "finished"}

    monkeypatch.setattr(train, "train", kept)
    folder = PretrainingFolder(tmp_path / "first")
    folder.create(PretrainingRecipe(num_layers=5, residual="post_ln"))
    monkeypatch.chdir(tmp_path)
    assert run("train", "--init", folder.path, "--rate", 0.3)[0] == 0
    recipe = asked[0]
    assert (recipe.num_layers, recipe.residual) == (5, "post_ln")
    assert (recipe.rate, recipe.max_len, recipe.init) == (0.3, 256, str(folder.path))
    # 2 is the default, and asked for all the same
    for flags in (["--num-layers", 2], ["--size", "tiny"]):
        status, out, err = run("train", "--init", folder.path, *flags)
        assert (status, out) == (2, "") and "num_layers=2 and not 5" in err
        assert err.count("\n") == 1
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("terminal", "flags", "expected"),
    [(True, [], 1), (True, ["--quiet"], 2), (False, [], 2)],
)
def test_a_progress_bar_is_for_terminals(monkeypatch, run, terminal, flags, expected):
    from residual_keras import train

    asked = []
    monkeypatch.setattr(
        train,
        "train",
        lambda *_, verbose, **__: asked.append(verbose) or {"status": "finished"},
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    run("train", *flags)
    assert asked == [expected]


def test_train_in_a_new_process_then_predict_from_a_pipe(tmp_path, tiny_recipe):
    flags = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in {**tiny_recipe, "epochs": 1}.items()
    ]
    command = [sys.executable, "-m", "residual_keras"]
    done = subprocess.run(
        [*command, "train", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout[done.stdout.index("{") :])["status"] == "finished"
    assert "\b" not in done.stdout and "\r" not in done.stdout, "a bar in a pipe"
    [folder] = (tmp_path / "runs").iterdir()
    assert (folder / "export" / "1" / "saved_model.pb").exists()
    done = subprocess.run(
        [*command, "predict", "--format", "json"],
        cwd=tmp_path,
        input="the plot was superb\n\nthe cast felt dull\x85really\n".encode(),
        capture_output=True,
        check=True,
    )
    lines = done.stdout.decode().rstrip("\n").split("\n")
    answers = [json.loads(line) for line in lines]
    assert [a["text"] for a in answers] == [
        "the plot was superb",
        "",
        "the cast felt dull\x85really",
    ]
    assert done.stderr == b"", "nothing but the answers"


def test_predict_writes_text_csv_and_json(run, whole_run):
    texts = ["the plot was superb", 'a "quoted", text']
    options = ["--run-dir", whole_run[0], *texts]
    status, out, _ = run("predict", *options)
    assert status == 0
    label, probability, text = out.split("\n")[0].split("\t")
    assert label in ("negative", "positive") and text == texts[0]
    assert 0.5 <= float(probability) <= 1

    _, out, _ = run("predict", "--format", "csv", *options)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["text"] for row in rows] == texts
    _, out, _ = run("predict", "--format", "json", *options)
    for line, row in zip(out.rstrip().split("\n"), rows, strict=True):
        answer = json.loads(line)
        assert answer["label"] == row["label"]
        assert answer["probabilities"]["positive"] == float(row["positive"])
        assert sum(answer["probabilities"].values()) == pytest.approx(1)


def test_predict_and_evaluate_files(run, whole_run, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(
        "review,stars\nthe plot was superb,positive\nthe cast felt dull,negative\n",
        encoding="utf-8",
    )
    where = ["--run-dir", whole_run[0], "--file", path, "--text-column", "review"]
    status, out, _ = run("predict", *where)
    assert status == 0 and len(out.rstrip().split("\n")) == 2
    status, out, _ = run("evaluate", *where, "--label-column", "stars")
    assert status == 0 and json.loads(out)["texts"] == 2
    path.write_text("review,stars\nso so,neutral\n", encoding="utf-8")
    status, out, err = run("evaluate", *where, "--label-column", "stars")
    assert (status, out) == (2, "")
    assert "neutral" in err and "mine.csv" in err and "line 2" in err


def test_evaluate_repeats_the_run_s_own_figure(run, whole_run):
    status, out, _ = run("evaluate", "--run-dir", whole_run[0])
    assert status == 0
    # Threads add up a float32 loss in an order of their own: its last bit differs.
    assert json.loads(out) == pytest.approx(whole_run[1]["test"], rel=1e-6)


def test_export_adds_a_version(run, whole_run, tmp_path):
    base = tmp_path / "a model"
    (base / "3").mkdir(parents=True)
    status, out, err = run("export", whole_run[0], f"{base}/", "--half-precision")
    assert (status, out) == (0, f"{base / '4'}\n")
    assert f"-v '{base}:/models/classifier'" in err  # R19
    card = (base / "4" / "README.md").read_text(encoding="utf-8")
    assert f"| test accuracy | {whole_run[1]['test']['accuracy']:.4g} |" in card
    assert sorted(path.name for path in base.iterdir()) == ["3", "4"]


def test_export_takes_a_saved_model_too(run, whole_run, tmp_path):
    path = whole_run[0] / "model.keras"
    status, out, err = run("export", path, tmp_path / "out", "--format", "onxx")
    assert status == 2 and "Did you mean 'onnx'?" in err
    status, out, err = run("export", path, tmp_path / "out", "--int8", "--explain")
    assert (status, out) == (0, f"{tmp_path / 'out' / '1'}\n")
    card = (tmp_path / "out" / "1" / "README.md").read_text(encoding="utf-8")
    assert "| weights stored as | int8 |" in card and "`attributions`" in card


def test_schemes_are_listed_with_their_equations(run):
    status, out, _ = run("schemes")
    assert status == 0
    lines = [" ".join(line.split()) for line in out.split("\n")]
    assert any(line.startswith("post_ln x <- LN(x + f(x)).") for line in lines)
    assert "attention_residual(fusion_init='glorot_uniform')" in out
    groups = [line for line in lines if line.startswith("State: ")]
    assert len(groups) == len(set(groups)), "a kind's schemes stand together"


def test_all_is_told_of_one_scheme(run):
    status, out, _ = run("schemes", "attention_residual(fusion_init='identity')")
    assert status == 0
    assert out.startswith("attention_residual(fusion_init='glorot_uniform')\n")
    for part in ("State: one tensor", "When: ", "When not: ", "Source: ", "Options:"):
        assert f"\n{part}" in out


def test_schemes_as_json(run):
    _, out, _ = run("schemes", "--format", "json")
    schemes = {scheme["name"]: scheme for scheme in json.loads(out)}
    assert schemes["post_ln"]["equation"] == "x <- LN(x + f(x))."
    _, out, _ = run("schemes", "post_ln", "--format", "json")
    assert json.loads(out) == schemes["post_ln"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--data", "nowhere.csv"], "no such path exists"),
        (["train", "--data", "review"], "Did you mean 'reviews'?"),
        (["train", "--data", "reviews(depht=1)"], "Did you mean 'depth'?"),
        (["train", "--residual", "pre-ln"], "name(option=value)"),
        (["train", "--residual", "pre_lm"], "Did you mean 'pre_ln'?"),
        (["train", "--residual", "pre_ln(gain=1)"], "no option 'gain'"),
        (["schemes", "xyz"], "No residual scheme 'xyz'. Known: "),
        (["schemes", "pre-ln"], "Did you mean 'pre_ln'?"),
        (["train", "--epochs", "0"], "epochs must be positive"),
        (["train", "--num-heads", "7"], "num_heads must divide embed_dim"),
        (["train", "--pooling", "median"], "No pooling 'median'"),
        (["train", "--schedule", "linear"], "No schedule 'linear'"),
        (["train", "--truncation", "middle"], "head_tail"),
        (["train", "--rate", "1.5"], "1.5"),
        (["train", "--resume"], "--run-dir"),
        (["train", "--init", "nowhere"], "nowhere holds no run"),
        (["train", "--layer-decay", "2"], "layer_decay must be in (0, 1]"),
        (["pretrain", "--objective", "maskd"], "Did you mean 'masked'?"),
        (["pretrain", "--data", "nowhere.txt"], "no such path exists"),
        (["pretrain", "--resume", "--run-dir", "x", "--steps", "1"], "out --steps"),
        (["train", "--resume", "--run-dir", "x", "--rate", "0"], "leave out --rate"),
        (["train", "--size", "smal"], "Did you mean 'small'?"),
        (["train", "--resume", "--run-dir", "x", "--size", "tiny"], "leave out --size"),
        (["compare", "x", "--seeds", "1", "1"], "nothing twice"),
        (["compare", "x", "--jobs", "0"], "jobs must be positive"),
        (["compare", "x", "--baseline", "post_lm"], "Did you mean 'post_ln'?"),
        (["compare", "x", "--schemes", "pre_lm"], "Did you mean 'pre_ln'?"),
        (["predict", "a text"], "no trained model under runs/"),
        (["predict", "--run-dir", "nowhere", "a"], "nowhere holds no trained model"),
        (["predict", "--file", "nowhere.txt"], "nowhere.txt"),
        (["predict", "--file", "a.txt", "b"], "not both"),
        (["predict", "--preset", "nowhere", "a"], "No preset 'nowhere'"),
        (["predict", "--preset", "x", "--run-dir", "y", "a"], "not both"),
        (["export", "nowhere", "out"], "nowhere holds no trained model"),
    ],
)
def test_bad_input_gets_one_line_and_status_2(
    run, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments)
    assert status == 2 and out == ""
    assert err.startswith("residual-keras: ") and said in err
    assert err.count("\n") == 1, "one line"
    assert not any(tmp_path.rglob("*")), "a refused command leaves nothing behind"


@pytest.mark.parametrize("arguments", [[], ["tran"], ["train", "--epochs", "two"]])
def test_a_wrong_grammar_is_argparse_s_to_refuse(run, arguments):
    status, out, err = run(*arguments)
    assert status == 2 and out == "" and "usage:" in err


def test_interrupted_training_exits_130(run, tmp_path, tiny_recipe, monkeypatch):
    from residual_keras import train

    monkeypatch.setattr(
        train, "train", lambda *a, **k: {"status": "interrupted", "steps": 3}
    )
    status, out, err = run("train", "--run-dir", tmp_path / "run")
    assert status == 130
    assert "at step 3" in err and f"--resume --run-dir {tmp_path / 'run'}" in err


def test_compare_hands_on_what_was_given_and_prints_the_tables(
    run, tmp_path, monkeypatch
):
    given = {}

    def compare(folder, **options):
        given.update(options)
        if options.get("jobs") == 2:
            raise KeyboardInterrupt
        pathlib.Path(folder).mkdir()
        pathlib.Path(folder, "results.md").write_text("- the answer\n")

    monkeypatch.setattr("residual_keras.compare.compare", compare)
    spec = "mhc(streams=2)"
    flags = ["--schemes", "pre_ln", spec, "--seeds", 3, 5, "--embed-dim", 16]
    status, out, err = run("compare", tmp_path / "study", *flags)
    assert (status, out) == (0, "- the answer\n") and "report.html" in err
    assert given == {"schemes": ["pre_ln", spec], "seeds": [3, 5], "embed_dim": 16}
    status, out, err = run("compare", tmp_path / "study", "--jobs", 2)
    assert (status, out) == (130, "") and "The same command goes on." in err


def test_a_size_says_what_no_flag_says(run, monkeypatch):
    from residual_keras import train
    from residual_keras.sizes import SIZES

    asked = []

    def kept(recipe, folder, **options):
        asked.append(recipe)
        return {"status": "finished"}

    monkeypatch.setattr(train, "train", kept)
    assert run("train", "--size", "small", "--num-layers", 3)[0] == 0
    assert asked == [Recipe(**{**SIZES["small"], "num_layers": 3})]


def test_presets_are_listed_and_asked(run, tmp_path, monkeypatch, whole_run):
    from residual_keras import load_model, save_to_preset
    from residual_keras.presets import shelf

    monkeypatch.setattr(shelf, "ROOT", tmp_path)
    (tmp_path / "presets.json").write_text("{}", encoding="utf-8")
    assert run("presets") == (0, "", "This version comes with no presets.\n")
    assert run("presets", "*imdb*") == (0, "", "This version comes with no presets.\n")
    model = load_model(whole_run[0] / "model.keras")
    for name, facts in {
        "tiny_pre_ln_reviews": {"size": "tiny", "metrics": {"accuracy": 0.8765}},
        "mine": {},
    }.items():
        save_to_preset(model, tmp_path / name, facts)
        shelf.enter(name)
    status, out, err = run("presets")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.rstrip().split("\n")] == [
        ["name", "scheme", "size", "MB", "accuracy"],
        ["mine", "pre_ln", "0.0"],
        ["tiny_pre_ln_reviews", "pre_ln", "tiny", "0.0", "0.876"],
    ]
    assert "mine" not in run("presets", "tiny*")[1]
    for arguments in (["presets", "tiny_pre_ln"], ["predict", "--preset", "mien", "a"]):
        status, out, err = run(*arguments)
        assert (status, out) == (2, "") and "Did you mean" in err
        assert err.count("\n") == 1

    for name in ("mine", tmp_path / "mine"):
        status, out, err = run("predict", "--preset", name, "the plot was superb")
        label, _, text = out.rstrip().split("\t")
        assert (status, err, text) == (0, "", "the plot was superb")
        assert label in model.label_names
    weights = tmp_path / "mine" / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:-1])
    status, out, err = run("predict", "--preset", "mine", "a")
    assert (status, out) == (2, "") and f"{weights} is not the file" in err
    assert err.count("\n") == 1


def test_no_network_is_told_in_seconds(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    started = time.monotonic()
    status, _, err = run("train", "--data", "imdb", "--run-dir", tmp_path / "run")
    assert status == 2 and "--download" in err
    assert time.monotonic() - started < 15, "TensorFlow's import included"
