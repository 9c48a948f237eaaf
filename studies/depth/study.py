"""What a residual scheme decides as stacks grow: the literature's claims, repeated.

    python studies/depth/study.py FOLDER [--parts NAME ...] [--data-path TFDS]
        [--jobs N]

FOLDER keeps every run; the same command goes on where it was stopped. TFDS holds
imdb_reviews as tensorflow-datasets prepares it. Beside this file it leaves a CSV of
each part, and the figures and the tables of README.md, here and of the package, which
`--pages` makes anew from the CSV files without training anything.
"""

import argparse
import csv
import io
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
PAGES = HERE / "README.md", HERE.parents[1] / "README.md"
REVIEWS = {
    "data": "reviews(depth=2, train_size=5000, validation_size=500, test_size=2000)",
    "embed_dim": 32,
    "num_heads": 2,
    "rate": 0.0,
    "max_len": 96,
    "epochs": 6,
    "patience": 6,
}
IMDB = {
    "data": "imdb",
    "embed_dim": 32,
    "num_heads": 2,
    "max_len": 128,
    "epochs": 1,
}
DEEP = ["deepnorm", "rezero", "layer_scale", "attn_res"]
PARTS = {
    "reviews": {
        "schemes": [
            "none",
            "post_ln",
            "pre_ln",
            "attention_residual",
            *DEEP,
            "hyper_connections",
        ],
        "layers": [2, 6, 12],
        "seeds": [0, 1, 2],
        **REVIEWS,
    },
    "deep": {
        "schemes": ["post_ln", "pre_ln", *DEEP],
        "layers": [24, 48],
        "seeds": [0, 1],
        **REVIEWS,
    },
    "no_warmup": {
        "schemes": ["post_ln", "pre_ln", "deepnorm"],
        "layers": [6, 12, 24],
        "seeds": [0, 1, 2],
        "warmup": 0.0,
        **REVIEWS,
    },
    "imdb": {
        "schemes": ["none", "post_ln", "pre_ln", "attention_residual", "attn_res"],
        "layers": [2, 12],
        "seeds": [0, 1, 2],
        **IMDB,
    },
}
TEST_TEXTS = {"reviews": 2000, "deep": 2000, "no_warmup": 2000, "imdb": 25_000}
INSIDE = ("pre_ln", "attn_res"), 24  # whose streams are looked into, and how deep


def main():
    """The command."""
    from residual_keras.run_folder import write

    options = argparse.ArgumentParser(description="Residual schemes as stacks grow.")
    options.add_argument("folder", help="of the runs, new or begun", nargs="?")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--data-path", help="a prepared data_dir, for imdb")
    options.add_argument("--jobs", type=int, default=2, help="runs at once; default: 2")
    options.add_argument("--pages", action="store_true", help="write README.md anew")
    args = options.parse_args()
    if not args.pages:
        if args.folder is None:
            options.error("FOLDER is needed, or --pages.")
        for name in args.parts:
            train(name, pathlib.Path(args.folder) / name, args.data_path, args.jobs)
    for name in PARTS:
        if (HERE / f"{name}.csv").exists():
            write(HERE / f"{name}.svg", accuracy_figure(name))
    for path in PAGES:
        write(path, page(path.read_text(encoding="utf-8")))


def train(name, folder, data_path, jobs):
    """Does the runs of a part, and writes its CSV."""
    from residual_keras.compare import compare

    options = dict(PARTS[name])
    if options["data"] == "imdb":
        options["data_path"] = data_path
    rows = compare(folder, jobs=jobs, baseline="pre_ln", **options)
    for row in rows:
        row["folder"] = pathlib.Path(row["folder"]).name
    write_rows(HERE / f"{name}.csv", rows)
    if name == "deep":
        look_inside(folder)


def write_rows(path, rows):
    """Writes dicts as a CSV file."""
    from residual_keras.run_folder import write

    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(path, text.getvalue())


def study(name):
    """A part's CSV as the `Study` that `compare` made of it, without its histories."""
    from residual_keras.compare.results import Result, Study

    with (HERE / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = [dict(map(typed, row.items())) for row in csv.DictReader(file)]
    return Study([Result(row, [], {}, 1 / TEST_TEXTS[name]) for row in rows], "pre_ln")


def typed(item):
    """A cell of the CSV as the number that it was."""
    name, text = item
    if not text:
        return name, None
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            continue
    return name, text


def accuracy_figure(name):
    """The SVG of accuracy against depth."""
    from residual_keras.compare.plots import accuracy_against_depth, draw

    return draw(study(name), accuracy_against_depth)


def look_inside(folder):
    """Follows the streams of trained models: inside.csv and inside.png."""
    from matplotlib.figure import Figure

    from residual_keras import analysis, data, load_model
    from residual_keras.run_folder import save

    schemes, layers = INSIDE
    texts = data.load(REVIEWS["data"]).test.texts[:64]
    figure = Figure(figsize=(10.8, 3.0), layout="constrained")
    size, turn, depth = figure.subplots(1, 3)
    rows = []
    for scheme, marker in zip(schemes, "os", strict=True):
        run = folder / "runs" / f"{scheme}-{layers}_blocks-seed_0-rate_0.001"
        model = load_model(run / "model.keras")
        profile = analysis.stream_profile(model, texts)
        size.plot(profile.rms, f"{marker}-", markersize=3, label=scheme)
        turn.plot(profile.token_cosine, f"{marker}-", markersize=3, label=scheme)
        found = analysis.mixing_weights(model, texts)
        uneven = [""] * len(profile.rms)
        if found.names:
            found.plot([depth])
            depth.set(title=f"{scheme}: share of each source")
            uneven = [f"{a.max() * len(a):.3f}" for a in found.mean("a")]
        for place, (rms, cosine, most) in enumerate(
            zip(profile.rms, profile.token_cosine, uneven, strict=True)
        ):
            rows.append(
                {
                    "scheme": scheme,
                    "sublayers": place,
                    "rms": f"{rms:.4f}",
                    "token_cosine": f"{cosine:.4f}",
                    "largest_share": most,  # in shares of sources that are all alike
                }
            )
    size.set(title="RMS of the stream", xlabel="sublayers before", yscale="log")
    turn.set(title="cosine between tokens", xlabel="sublayers before")
    for axes in (size, turn):
        axes.grid(alpha=0.3)
        axes.legend()
    write_rows(HERE / "inside.csv", rows)
    save(HERE / "inside.png", lambda path: figure.savefig(path, dpi=110))


def page(text):
    """A README.md with the tables of the CSV files that are there."""
    for name in PARTS:
        if (HERE / f"{name}.csv").exists():
            start, end = f"<!-- {name}: study.py -->", f"<!-- end of {name} -->"
            found = study(name)
            middle = f"{start}\n\n{table(found)}\n\n{effort(found)}\n\n{end}"
            text = re.sub(
                f"{start}.*?{end}", lambda _, m=middle: m, text, flags=re.DOTALL
            )
    return text


def table(found):
    """Accuracy by scheme and depth, in Markdown."""
    from residual_keras.compare.plan import blocks

    lines = [["scheme", *map(blocks, found.depths)], ["---"] * (1 + len(found.depths))]
    for scheme in found.schemes:
        cells = [cell(found, scheme, layers) for layers in found.depths]
        lines.append([f"`{scheme}`", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def effort(found):
    """How many runs there were, and what they took."""
    hours = sum(result.row["cpu_seconds"] or 0 for result in found.results) / 3600
    return f"{len(found.results)} runs, {hours:.1f} CPU hours."


def cell(found, scheme, layers):
    """Mean and spread over the seeds, and whether that is beyond the noise."""
    from residual_keras.compare.table import figure

    key = scheme, layers
    if key not in found.chosen:
        return ""
    text = figure(found.chosen[key], found)
    verdict = found.difference(scheme, layers).verdict
    return f"{text} ({verdict})" if verdict in ("better", "worse") else text


if __name__ == "__main__":
    main()
