"""One text at a time: how long a SavedModel takes, ours beside Keras' own block.

    python benchmarks/latency.py [--lengths N ...] [--times N] [--csv PATH]

Both models are embedding, blocks, mean over the tokens and head, of the same sizes; one
has `TransformerEncoder(residual="post_ln")`, the other the block of
benchmarks/peers.py, made of Keras' own layers. Each is exported with `model.export`,
read back by TensorFlow, and asked for one text of token ids at a time, in turns.
"padded" asks with the text padded to the longest length, as a model of one fixed length
must; ours is also asked through Keras, by `predict_on_batch` and a plain call. Printed
are wall milliseconds, the median and the 99th percentile, and the median ratio to the
SavedModel of the Keras block at the padded length.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np
from measuring import Results, load_quietly
from peers import EMBED_DIM, FF_DIM, NUM_HEADS, tutorial_blocks

LONGEST, VOCAB_SIZE = 256, 20_000
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
        ids = rng.integers(1, VOCAB_SIZE, (args.times, 1, length)).astype("int32")
        found = in_turns(ways, ids)
        theirs = statistics.median(found["Keras block, SavedModel, padded"])
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
    for number, text in enumerate([*texts[:5], *texts]):
        for name, ask in ways.items():
            started = time.perf_counter()
            ask(text)
            if number >= 5:  # the first ones make graphs and fill caches
                found[name].append(time.perf_counter() - started)
    return found


def ask_all(layers):
    """The ways to ask for one text, (1, time), by name."""
    import keras

    from residual_keras import MeanPooling, TransformerEncoder

    encoder = TransformerEncoder(
        layers, EMBED_DIM, NUM_HEADS, FF_DIM, residual="post_ln"
    )
    ours = model_of(encoder, MeanPooling())

    def blocks(x):
        return tutorial_blocks(x, layers, 0.0, "relu", EMBED_DIM // NUM_HEADS)[0]

    theirs = model_of(blocks, keras.layers.GlobalAveragePooling1D())
    served, their_served = map(exported, (ours, theirs))
    return {
        "Keras block, SavedModel, padded": lambda ids: their_served(padded(ids)),
        "Keras block, SavedModel": their_served,
        "ours, SavedModel, padded": lambda ids: served(padded(ids)),
        "ours, SavedModel": served,
        "ours, predict_on_batch": ours.predict_on_batch,
        "ours, a call": lambda ids: ours(ids, training=False).numpy(),
    }


def model_of(blocks, pooling):
    """A classifier of token ids around a stack of blocks."""
    import keras

    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCAB_SIZE, EMBED_DIM, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.Dense(2)(pooling(blocks(x))))


def exported(model):
    """The function that a SavedModel of the model serves."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
    # The module must live as long as its function.
    return lambda ids, loaded=loaded: loaded.serve(tf.constant(ids)).numpy()


def padded(ids):
    """The text, with zeros up to the longest length."""
    return np.pad(ids, ((0, 0), (0, LONGEST - ids.shape[1])))


if __name__ == "__main__":
    main()
