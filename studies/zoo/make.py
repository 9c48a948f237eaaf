"""Makes one preset of the package: trains it, measures it, and puts it on the shelf.

    python studies/zoo/make.py NAME [--data-path FOLDER] [--run-dir FOLDER]

The same command goes on where it was stopped. The preset goes into
residual_keras/presets/NAME, and its figures into presets.json there. Of one that is
there it writes the card anew, with what this file now says of its data and limits; to
train it anew, delete its folder first. The trained model is evaluated on the test texts
in float32, and what is stored of it in half precision; nothing here is chosen by that,
but recipes were changed after it (`earlier_test_accuracies` on the cards). NAME is one
of PRESETS, such as small_pre_ln_imdb. Encoders for IMDB learn from ngrams_imdb what it
makes of the reviews without labels.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import platform
import sys
import tempfile

from residual_keras.presets import files, shelf
from residual_keras.presets.card import card
from residual_keras.recipe import Recipe
from residual_keras.run_folder import RunFolder, write
from residual_keras.sizes import SIZES
from residual_keras.spec import look_up

SCHEMES = {  # and what else of a recipe is theirs
    "post_ln": {"residual": "post_ln", "embedding_norm": "layer_norm"},  # as BERT
    "pre_ln": {"residual": "pre_ln"},
    "attention_residual": {"residual": "attention_residual"},
    "deepnorm": {"residual": "deepnorm"},
    "rezero": {"residual": "rezero"},
    "hyper_connections": {"residual": "hyper_connections"},
    "attn_res": {"residual": "attn_res(block_size=2)"},
}
DATA = {
    "imdb": {
        "data": "IMDB, the Large Movie Review Dataset: 25,000 reviews to train on, a "
        "tenth of them kept for validation, 25,000 to test on, 50,000 without label",
        "licence": "none is stated; its makers ask to cite them. The preset has words "
        "and weights from it, and no text",
        "source": "Maas et al. 2011, ACL, https://aclanthology.org/P11-1015",
        "limits": [
            "It has read English film reviews that say clearly what their writers "
            "think; those in between were left out of the data.",
            "It was made for whole reviews. A few words that say nothing of a film's "
            "worth, or another language, may get a sure answer, and negation is not "
            "understood: 'How it behaves' counts both.",
        ],
    },
}
EARLIER = {  # on the test reviews, and known when the preset was made once more
    "ngrams_imdb": "0.91312, 0.9166, 0.92336",
    "tiny_post_ln_imdb": "0.882, 0.89444",
    "tiny_pre_ln_imdb": "0.89652, 0.89796",
    "tiny_attention_residual_imdb": "0.89544, 0.89384",
    "tiny_deepnorm_imdb": "0.89756, 0.89928",
    "tiny_rezero_imdb": "0.89688",
    "tiny_hyper_connections_imdb": "0.89656",
    "tiny_attn_res_imdb": "0.89776, 0.89844",
    "small_attention_residual_imdb": "0.889",
}
ALWAYS_TOLD = ("batch_size", "learning_rate", "rate", "seed")
GOLDEN_TEXTS = (
    "A wonderful little film, truly moving.",
    "I wanted to like it, but it is boring and far too long.",
    "",
)
PAPERS = {
    "classifier": "Wang and Manning 2012, ACL, https://aclanthology.org/P12-2018",
    "word_vectors": "Levy et al. 2015, TACL, https://aclanthology.org/Q15-1016",
    "unlabelled": "Deerwester et al. 1990, JASIS 41(6) (latent semantic analysis)",
    "teacher": "Xie et al. 2020, arXiv:1911.04252 (learning a teacher's answers)",
}
ENCODER = {
    "teacher": "ngrams_imdb",
    "positions": "rotary",
    "word_vectors": "neighbours",
}
BY_SIZE = {  # and by the names whose recipe differs from it
    # Without fragments they gave a text of unknown words one sure answer.
    "tiny": {"epochs": 2, "fragment_rate": 0.1},
    "small": {"epochs": 1, "precision": "mixed_bfloat16"},
    # Its random projections take longer: after one epoch it was right on 0.898 of the
    # validation reviews, where the other schemes were on 0.904 to 0.911.
    "small_attention_residual": {"epochs": 2},
}
PRESETS = {
    "ngrams_imdb": {
        "data": "imdb",
        "classifier": "ngrams(order=3, buckets=4194304, rank=400)",
        "vocab_size": 30_000,
        "max_len": 1024,
        "unlabelled": "imdb",
        "learning_rate": 2e-3,
        "epochs": 2,
    },
    **{
        f"{size}_{scheme}_imdb": {
            "size": size,
            "data": "imdb",
            **SCHEMES[scheme],
            **ENCODER,
            **BY_SIZE[size],
            **BY_SIZE.get(f"{size}_{scheme}", {}),
        }
        for size, scheme in itertools.product(("tiny", "small"), SCHEMES)
    },
}


def main(arguments=None):
    """The command; returns its exit status."""
    options = argparse.ArgumentParser(description="Makes one preset of the package.")
    options.add_argument("name", metavar="NAME", help="such as small_pre_ln_imdb")
    options.add_argument("--data-path", help="imdb: as `residual-keras train` takes it")
    options.add_argument("--run-dir", help="default: runs/zoo/NAME")
    args = options.parse_args(arguments)
    run_dir = args.run_dir or pathlib.Path("runs", "zoo", args.name)
    try:
        return make(args.name, args.data_path, RunFolder(run_dir))
    except ValueError as error:
        print(f"make.py: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def make(name, data_path, run):
    """Does what of it is not done yet; returns the exit status."""
    options = dict(look_up(PRESETS, name, "preset to make"))
    facts = {**DATA[options["data"].split("(")[0]], "size": options.pop("size", None)}
    if name in EARLIER:
        facts["earlier_test_accuracies"] = EARLIER[name]
    facts["papers"] = [paper for option, paper in PAPERS.items() if option in options]
    recipe = Recipe(**{**SIZES.get(facts["size"], {}), **options}, data_path=data_path)
    folder = shelf.ROOT / name
    if folder.exists():
        retell(folder, facts, told(recipe))
        print(f"{folder} is there. Delete it to train it anew.", file=sys.stderr)
    else:
        metrics = trained(recipe, run)
        if metrics["status"] == "interrupted":
            print("Interrupted. The same command goes on.", file=sys.stderr)
            return 130
        path = " --data-path FOLDER" if data_path else ""
        facts["command"] = f"python studies/zoo/make.py {name}{path}"
        store(name, recipe, run, {**facts, **taken(metrics)})
    shelf.enter(name)
    print(shelf.table([name]))
    return 0


def retell(folder, facts, asked):
    """Brings what is told of a preset up to date; its weights and figures stay."""
    said = files.read(folder)
    files.checked(folder, said)
    if said["facts"]["recipe"] != asked:
        raise ValueError(
            f"{folder} was made by another recipe. Delete it to train it anew."
        )
    said["facts"] |= facts
    said["sha256"][files.PRESET] = files.seal(said)
    write(folder / files.PRESET, files.written(said).decode("utf-8"))
    write(folder / files.CARD, card(said))


def told(recipe):
    """The options of a recipe that the card tells: the unusual ones, and a few more."""
    usual = dataclasses.asdict(Recipe())
    return {
        key: value
        for key, value in dataclasses.asdict(elsewhere(recipe)).items()
        if value != usual[key] or key in ALWAYS_TOLD
    }


def trained(recipe, run):
    """The metrics of a finished run, or of one that was interrupted, here or before."""
    metrics = run.read_metrics()
    begun = run.config.exists()
    if begun and elsewhere(run.recipe()) != elsewhere(recipe):
        raise ValueError(f"{run.path} holds a run of another recipe. Give --run-dir.")
    if metrics.get("status") != "finished":
        from residual_keras.train import train

        recipe = None if begun else recipe
        metrics = train(recipe, run.path, resume=begun, verbose=2, export=False)
    return metrics


def elsewhere(recipe):
    """A recipe without the place of its data."""
    return dataclasses.replace(recipe, data_path=None)


def taken(metrics):
    """What the training took, and what it reached before half precision."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
    kinds = [name.get("device_name", "a GPU") for name in names]
    return {
        "hardware": ", ".join([f"{os.cpu_count()} {platform.machine()} cores", *kinds]),
        "seconds": round(metrics["seconds"]),
        "cpu_seconds": round(metrics["cpu_seconds"]),
        "epochs_trained": metrics["epochs"],
        "tensorflow": tf.__version__,
        "validation": metrics["validation"],
        "float32_accuracy": metrics["test"]["accuracy"],
    }


def store(name, recipe, run, facts):
    """Writes the preset, with figures of the very weights that it holds."""
    from residual_keras import data, load_model, load_preset, save_to_preset
    from residual_keras.presets.behaviour import check_behaviour
    from residual_keras.presets.measure import measure

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch, name)
        stored = load_preset(save_to_preset(load_model(run.model), scratch))
    test = data.load(recipe.data, **recipe.data_options()).test
    facts["recipe"] = told(recipe)
    facts["metrics"] = {"split": "test", **measure(stored, test)}
    facts["behaviour"] = check_behaviour(stored, stored.label_names[-1])
    facts["golden"] = golden(stored)
    folder = save_to_preset(stored, shelf.ROOT / name, facts)
    print(folder, f"{files.size(folder) / 1e6:.2f} MB")


def golden(model):
    """Logits of a few texts, for a test to find again."""
    import tensorflow as tf

    ids = model.vectorizer.call(tf.constant(GOLDEN_TEXTS))
    logits = model.classifier(ids, training=False).numpy().tolist()
    return dict(zip(GOLDEN_TEXTS, logits, strict=True))


if __name__ == "__main__":
    sys.exit(main())
