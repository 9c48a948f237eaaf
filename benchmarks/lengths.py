"""What buckets of like lengths save: epochs of movie reviews, tokenising included.

    python benchmarks/lengths.py --data-path FOLDER [--longest N] [--epochs N]
        [--reviews N] [--seeds N] [--blocks NAME ...] [--csv PATH]
    python benchmarks/lengths.py --data-path FOLDER --minutes 60

FOLDER holds imdb_reviews as tensorflow-datasets prepares it. Each way is trained in a
process of its own, from raw texts: our classifier in buckets, as `train` does it; the
same with all texts padded to the longest length; and with the block of the Keras
tutorials, whose heads are as wide as the stream, both ways. Printed are CPU seconds an
epoch, the ratio to our block padded, what as many test reviews say, and how many graphs
were traced; with several seeds means, and the standard deviation of the accuracy. With
`--minutes`, batches of lengths drawn anew are trained on for so long, and the memory of
the process is printed as it goes.
"""

import argparse
import itertools
import os
import statistics
import time

from measuring import Results, Worker, load_quietly

BATCH, VOCAB_SIZE = 64, 20_000
SIZES = {"num_layers": 4, "embed_dim": 128, "num_heads": 4}
KEY = "longest", "block", "lengths", "epochs", "reviews", "seeds"
COLUMNS = {
    "longest": "{longest}",
    "block": "{block}",
    "lengths": "{lengths}",
    "reviews": "{reviews}",
    "epochs": "{epochs}",
    "seeds": "{seeds}",
    "CPU s an epoch": "{cpu_seconds}",
    "wall s": "{wall_seconds}",
    "ratio": "{ratio}",
    "accuracy": "{accuracy}",
    "its spread": "{spread}",
    "graphs": "{graphs}",
}
BLOCKS = "ours", "tutorial"


def main():
    options = argparse.ArgumentParser(description="Epochs bucketed and padded.")
    options.add_argument("--data-path", required=True, help="a prepared data_dir")
    options.add_argument("--epochs", type=int, default=2, help="default: 2")
    options.add_argument("--longest", type=int, default=256, help="tokens kept")
    options.add_argument("--reviews", type=int, help="fewer, for a quick look")
    options.add_argument("--seeds", type=int, default=1, help="runs of each way")
    options.add_argument("--blocks", nargs="+", choices=BLOCKS, default=BLOCKS)
    options.add_argument("--minutes", type=float, help="watch the memory instead")
    options.add_argument("--csv", help="a file for the rows")
    args = options.parse_args()
    given = args.data_path, args.reviews, args.longest
    if args.minutes:
        with Worker(Run, *given, "ours", "bucketed", 0) as run:
            watch(run, args.minutes)
        return
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    padded = None
    for block, lengths in itertools.product(args.blocks, ("padded", "bucketed")):
        of_seeds = [
            trained(args.epochs, *given, block, lengths, seed)
            for seed in range(args.seeds)
        ]
        cpu, wall, accuracy, reviews, graphs = zip(*of_seeds, strict=True)
        padded = padded or statistics.mean(cpu)
        results.add(
            {
                "longest": args.longest,
                "block": block,
                "lengths": lengths,
                "reviews": reviews[0],
                "epochs": args.epochs,
                "seeds": args.seeds,
                "cpu_seconds": f"{statistics.mean(cpu) / args.epochs:.1f}",
                "wall_seconds": f"{statistics.mean(wall) / args.epochs:.1f}",
                "ratio": f"{statistics.mean(cpu) / padded:.2f}",
                "accuracy": f"{statistics.mean(accuracy):.4f}",
                "spread": f"{statistics.stdev(accuracy):.4f}" if args.seeds > 1 else "",
                "graphs": max(graphs),
            }
        )


def trained(epochs, *setting):
    """CPU and wall seconds of one training, the accuracy, the reviews, the graphs."""
    with Worker(Run, *setting) as run:
        _, cpu, wall = run("train", epochs)
        return cpu, wall, *(run(n)[0] for n in ("accuracy", "reviews", "graphs"))


def watch(run, minutes):
    """Prints the memory held, once a minute."""
    print("| minutes | steps | MB |\n|---|---|---|")
    started, steps = time.monotonic(), 0
    while True:
        passed = (time.monotonic() - started) / 60
        print(f"| {passed:.0f} | {steps} | {run('held')[0]:.0f} |", flush=True)
        if passed >= minutes:
            return
        steps += run("train_for", 60)[0]


class Run:
    """A classifier and its data."""

    def __init__(self, data_path, reviews, longest, block, lengths, seed):
        load_quietly()
        import keras

        from residual_keras import TextVectorizer, build_classifier, data
        from residual_keras.data import batches

        keras.utils.set_random_seed(seed)
        self.data = data.load("imdb", path=data_path)
        self.train_split, self.test = (
            data.Split(split.texts[:reviews], split.labels[:reviews])
            for split in (self.data.train, self.data.test)
        )
        vectorizer = TextVectorizer(VOCAB_SIZE, longest, "head_tail")
        vectorizer.adapt(self.train_split.texts)
        self.vectorizer = vectorizer
        if lengths == "padded":
            self.vectorizer = batches.padded(vectorizer, longest)
        self.model = build_classifier(
            vectorizer.vocab_size, 2, max_len=longest, rate=0.1, word_rate=0.1, **SIZES
        )
        if block == "tutorial":
            self.model = with_tutorial_blocks(self.model)
        self.model.compile(keras.optimizers.Adam(5e-4))
        self.longest, self.seed = longest, seed
        self.traces, self.step = 0, self.model.train_step
        self.model.train_step = self.traced

    def reviews(self):
        """How many are trained on."""
        return len(self.train_split)

    def train(self, epochs):
        """Trains from raw texts."""
        from residual_keras.data import batches

        self.model.fit(
            batches.training_batches(
                self.train_split, self.vectorizer, BATCH, seed=self.seed
            ),
            epochs=epochs,
            steps_per_epoch=batches.steps_per_epoch(self.train_split, BATCH),
            shuffle=False,
            verbose=0,
        )

    def accuracy(self):
        """On the test split."""
        from residual_keras.data import batches

        found = batches.evaluation_batches(self.test, self.vectorizer, BATCH)
        return self.model.evaluate(found, verbose=0, return_dict=True)["accuracy"]

    def traced(self, batch):
        """The model's step, which Python runs only where a graph is made of it."""
        self.traces += 1
        return self.step(batch)

    def graphs(self):
        """How many were traced for training."""
        return self.traces

    def train_for(self, seconds):
        """Trains on ids of lengths drawn anew, for so long; the number of steps."""
        import numpy as np

        rng, steps, started = np.random.default_rng(), 0, time.monotonic()
        while time.monotonic() - started < seconds:
            shape = rng.integers(1, BATCH + 1), rng.integers(1, self.longest + 1)
            ids = rng.integers(0, VOCAB_SIZE // 2, shape)
            self.model.train_on_batch(ids, rng.integers(0, 2, shape[0]))
            steps += 1
        return steps

    def held(self):
        """The memory that the process holds now, in MB."""
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def with_tutorial_blocks(classifier):
    """A classifier with the blocks of the Keras tutorials in its encoder's place."""
    from peers import tutorial_blocks

    setting = SIZES["num_layers"], 0.1, "relu", SIZES["embed_dim"]
    ids, *layers = classifier.layers
    x = ids.output
    for layer in layers:
        is_encoder = layer.name == "encoder"
        x = tutorial_blocks(x, *setting)[0] if is_encoder else layer(x)
    return type(classifier)(ids.output, x)


if __name__ == "__main__":
    main()
