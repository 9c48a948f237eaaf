"""One text at a time: how long a SavedModel takes, ours beside Keras' own block.

    python benchmarks/latency.py [--lengths N ...] [--times N] [--csv PATH]

Both models are embedding, blocks, mean over the tokens and head, of the same sizes;
ours has `residual="post_ln"` and positions besides, the other is the block of
benchmarks/peers.py, made of Keras' own layers. That is exported with `model.export`,
ours by `residual_keras.export` in every format whose runtime is installed, and each is
asked for one text at a time, in turns: its token ids, or where it says so the raw text.
"padded" asks with the ids padded to the longest length, as a model of one fixed length
must. Printed are wall milliseconds, the median and the 99th percentile, and the ratio
of medians to the SavedModel of the Keras block at the padded length.
"""

import argparse
import importlib.util
import statistics
import tempfile
import time

import numpy as np
from measuring import Results, load_quietly
from peers import EMBED_DIM, FF_DIM, NUM_HEADS, tutorial_blocks

LONGEST, VOCAB_SIZE = 256, 20_000
PADDED = "Keras block, SavedModel, padded"
KEY = "asked", "tokens"
COLUMNS = {
    "asked": "{asked}",
    "tokens": "{tokens}",
    "ms": "{ms}",
    "99 in 100 within": "{ms_99}",
    "ratio": "{ratio}",
}


def main():
    options = argparse.ArgumentParser(description="Milliseconds a text.")
    options.add_argument("--lengths", nargs="+", type=int, default=[16, 64, LONGEST])
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--times", type=int, default=200, help="default: 200")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    load_quietly()
    ways = ask_all(args.layers)
    rng = np.random.default_rng(0)
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for length in args.lengths:
        ids = rng.integers(2, VOCAB_SIZE, (args.times, 1, length)).astype("int32")
        found = in_turns(ways, ids)
        theirs = statistics.median(found[PADDED])
        for name, seconds in found.items():
            middle = statistics.median(seconds)
            results.add(
                {
                    "asked": name,
                    "tokens": length,
                    "layers": args.layers,
                    "ms": f"{1000 * middle:.2f}",
                    "ms_99": f"{1000 * np.percentile(seconds, 99):.2f}",
                    "ratio": f"{middle / theirs:.2f}",
                    "times": args.times,
                }
            )


def in_turns(ways, texts):
    """Wall seconds of every text, by way."""
    found = {name: [] for name in ways}
    for number, ids in enumerate([*texts[:5], *texts]):
        text = " ".join(map(word, ids[0]))
        for name, ask in ways.items():
            started = time.perf_counter()
            ask(text, ids)
            if number >= 5:  # the first ones make graphs and fill caches
                found[name].append(time.perf_counter() - started)
    return found


def ask_all(layers):
    """The ways to ask for the label of one text, by name."""
    import tensorflow as tf

    from residual_keras import TextClassifier, TextVectorizer, build_classifier

    vectorizer = TextVectorizer(VOCAB_SIZE, LONGEST)
    vectorizer.adapt([" ".join(map(word, range(2, VOCAB_SIZE)))])
    classifier = build_classifier(
        VOCAB_SIZE,
        2,
        residual="post_ln",
        num_layers=layers,
        embed_dim=EMBED_DIM,
        num_heads=NUM_HEADS,
        ff_dim=FF_DIM,
        max_len=LONGEST,
        pooling="mean",
    )
    ours = TextClassifier(classifier, vectorizer, ["bad", "good"])
    theirs = exported(keras_block(layers))
    ways = {
        PADDED: lambda text, ids: theirs(padded(ids)),
        "Keras block, SavedModel": lambda text, ids: theirs(ids),
        "ours, in Keras": lambda text, ids: classifier(ids, training=False).numpy(),
        "ours, `predict` of a raw text": lambda text, ids: ours.predict([text]),
    }
    served = in_each_format(ours)
    signatures = served.pop("saved_model").loaded.signatures
    by_ids, by_text = signatures["token_ids"], signatures["serving_default"]
    return {
        **ways,
        "ours, SavedModel, padded": lambda text, ids: by_ids(token_ids=padded(ids)),
        "ours, SavedModel": lambda text, ids: by_ids(token_ids=tf.constant(ids)),
        "ours, SavedModel of a raw text": lambda text, ids: by_text(
            text=tf.constant([text])
        ),
        **{
            f"ours, {name}": lambda text, ids, run=run: run([text], ids)
            for name, run in served.items()
        },
    }


def word(number):
    """A word for each id."""
    return f"w{number}"


def keras_block(layers):
    """The classifier of a Keras tutorial, its heads as wide as ours."""
    import keras

    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCAB_SIZE, EMBED_DIM, mask_zero=True)(ids)
    x = tutorial_blocks(x, layers, 0.0, "relu", EMBED_DIM // NUM_HEADS)[0]
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, keras.layers.Dense(2)(x))


def exported(model):
    """The function that Keras' own export of a model serves."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
    # The module must live as long as its function.
    return lambda ids, loaded=loaded: loaded.serve(tf.constant(ids)).numpy()


def in_each_format(model):
    """Our exports, loaded in their runtimes, by format; of missing ones, nothing."""
    from residual_keras.export import FORMATS, export_model

    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, kind in FORMATS.items():
            if all(map(importlib.util.find_spec, kind.libraries)):
                path = export_model(model, f"{folder}/{name}", name).path
                runs[name] = kind().load(path)
    return runs


def padded(ids):
    """The text, with zeros up to the longest length."""
    return np.pad(ids, ((0, 0), (0, LONGEST - ids.shape[1])))


if __name__ == "__main__":
    main()
