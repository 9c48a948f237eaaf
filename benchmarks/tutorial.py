"""What presets must beat: the classifier of the Keras tutorials, as large as they are.

    python benchmarks/tutorial.py --data-path FOLDER [--sizes NAME ...] [--seeds N]
        [--csv PATH]

FOLDER holds imdb_reviews as tensorflow-datasets prepares it. Everything but the size is
as in the Keras tutorial on text classification with a Transformer: 20,000 words, the
last 200 of a review, Post-LN blocks whose heads are as wide as the stream, the mean of
all tokens, a hidden layer of 20, Adam, batches of 32, 2 epochs. It learns from all
25,000 training reviews; the test reviews say how right it is, and decide nothing.
"""

import argparse
import statistics

from measuring import Results, Worker, load_quietly

VOCAB_SIZE, MAX_LEN, HIDDEN, RATE = 20_000, 200, 20, 0.1
KEY = ("size",)
COLUMNS = {
    "size": "{size}",
    "weights": "{weights}",
    "seeds": "{seeds}",
    "accuracy": "{accuracy}",
    "its spread": "{spread}",
    "lowest": "{lowest}",
    "highest": "{highest}",
    "CPU s a run": "{cpu_seconds}",
}


def main():
    options = argparse.ArgumentParser(description="The classifier of the tutorials.")
    options.add_argument("--data-path", required=True, help="a prepared data_dir")
    options.add_argument("--sizes", nargs="+", default=["tiny", "small"])
    options.add_argument("--seeds", type=int, default=3, help="default: 3")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    for size in args.sizes:
        runs = [trained(args.data_path, size, seed) for seed in range(args.seeds)]
        accuracy, weights, cpu = zip(*runs, strict=True)
        results.add(
            {
                "size": size,
                "weights": weights[0],
                "seeds": args.seeds,
                "accuracy": f"{statistics.mean(accuracy):.4f}",
                "spread": f"{statistics.stdev(accuracy):.4f}" if len(runs) > 1 else "",
                "lowest": f"{min(accuracy):.4f}",
                "highest": f"{max(accuracy):.4f}",
                "cpu_seconds": f"{statistics.mean(cpu):.0f}",
            }
        )


def trained(*setting):
    """Accuracy on the test reviews, number of weights, CPU seconds of the training."""
    with Worker(Run, *setting) as run:
        _, cpu, _ = run("train")
        return run("accuracy")[0], run("weights")[0], cpu


class Run:
    """The tutorial's classifier and its data."""

    def __init__(self, data_path, size, seed):
        load_quietly()
        import keras
        import numpy as np

        from residual_keras import TextVectorizer, data
        from residual_keras.sizes import SIZES

        keras.utils.set_random_seed(seed)
        found = data.load("imdb", path=data_path)
        texts = found.train.texts + found.validation.texts
        labels = np.concatenate([found.train.labels, found.validation.labels])
        vectorizer = TextVectorizer(VOCAB_SIZE)
        vectorizer.adapt(texts)
        self.train_split = padded(vectorizer, texts), labels
        self.test = padded(vectorizer, found.test.texts), found.test.labels
        self.model = tutorial_classifier(SIZES[size])
        loss = "sparse_categorical_crossentropy"
        self.model.compile("adam", loss, metrics=["accuracy"])

    def train(self):
        self.model.fit(*self.train_split, batch_size=32, epochs=2, verbose=0)

    def accuracy(self):
        scores = self.model.evaluate(*self.test, verbose=0, return_dict=True)
        return scores["accuracy"]

    def weights(self):
        return self.model.count_params()


def padded(vectorizer, texts):
    """Ids of one length, the padding in front, as Keras' `pad_sequences` puts it."""
    import keras

    from residual_keras.data.packing import whole_texts

    rows = list(whole_texts(texts, vectorizer))
    return keras.utils.pad_sequences(rows, maxlen=MAX_LEN)  # keeps their ends


def tutorial_classifier(size):
    """The tutorial's model, as large as one of `SIZES`."""
    import keras
    from keras.layers import Dense, Dropout, Embedding, GlobalAveragePooling1D
    from peers import tutorial_blocks

    width = size["embed_dim"]
    ids = keras.Input((MAX_LEN,), dtype="int32")
    places = keras.ops.cumsum(keras.ops.ones_like(ids), axis=1) - 1
    x = Embedding(VOCAB_SIZE, width)(ids) + Embedding(MAX_LEN, width)(places)
    heads, hidden = size["num_heads"], size["ff_dim"]
    x, _ = tutorial_blocks(x, size["num_layers"], RATE, "relu", width, heads, hidden)
    x = Dropout(RATE)(GlobalAveragePooling1D()(x))
    x = Dropout(RATE)(Dense(HIDDEN, activation="relu")(x))
    return keras.Model(ids, Dense(2, activation="softmax")(x))


if __name__ == "__main__":
    main()
