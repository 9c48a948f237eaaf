"""What it costs to turn texts into ids, ours beside other libraries.

    pip install '.[subwords]' && python benchmarks/vectorizers.py [--file reviews.tsv]

All sub-word tokenizers are given one vocabulary, learnt from the texts. Each is
measured in a process of its own, and they take turns over the same batches. Printed are
texts a CPU second, all threads together; of libraries that are not installed, nothing.
"""

import argparse
import importlib.util
import itertools
import statistics
from typing import NamedTuple

from measuring import Results, Worker, load_quietly

VOCAB_SIZE, MAX_LEN = 20_000, 512
KEY = "tokenizer", "batch"
COLUMNS = {
    "tokenizer": "{tokenizer}",
    "batch": "{batch}",
    "texts a CPU second": "{rate}",
    "CPU seconds to learn": "{learn}",
    "texts with other ids than ours": "{other}",
}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--file", help="of texts; default: embedded reviews")
    options.add_argument("--text-column", default="text", help="its column in the file")
    options.add_argument("--texts", type=int, default=4096, help="default: 4096")
    options.add_argument("--batches", nargs="+", type=int, default=[64, 512])
    options.add_argument("--rounds", type=int, default=5, help="default: 5")
    options.add_argument("--csv", help="a file whose rows of these names to replace")
    args = options.parse_args()
    results = Results(COLUMNS, KEY, args.csv)
    print(results.head())
    source = args.file, args.text_column, args.texts
    with Worker(Learner, source) as learner:
        learnt = {name: learner("learn", name) for name in Learner.KINDS}
    workers = {
        name: Worker(peer.make, source, learnt[peer.vocabulary][0])
        for name, peer in PEERS.items()
        if all(map(importlib.util.find_spec, peer.needs))
    }
    ids = {name: worker("ids")[0] for name, worker in workers.items()}
    for batch in args.batches:
        spent = {name: [] for name in workers}
        for turn, (name, worker) in itertools.product(
            range(args.rounds + 1), workers.items()
        ):
            _, cpu, _ = worker("run", batch)
            if turn:  # the first one traces
                spent[name].append(cpu)
        for name in workers:
            differing = sum(
                a != b for a, b in zip(ids[name], ids["wordpiece"], strict=True)
            )
            results.add(
                {
                    "tokenizer": name,
                    "batch": batch,
                    "rate": f"{args.texts / statistics.median(spent[name]):,.0f}",
                    "learn": f"{learnt[name][1]:.1f}" if name in learnt else "",
                    "other": "" if name == "words" else differing,
                }
            )
    for worker in workers.values():
        worker.process.shutdown()


class Learner:
    """Learns a vocabulary of either kind from the texts."""

    KINDS = {"words": "TextVectorizer", "wordpiece": "WordPieceVectorizer"}

    def __init__(self, source):
        load_quietly()
        self.texts = load_texts(*source)

    def learn(self, name):
        import residual_keras

        layer = getattr(residual_keras, self.KINDS[name])(VOCAB_SIZE)
        layer.adapt(self.texts)
        return layer.get_vocabulary()


class Words:
    """Our `TextVectorizer`, in a graph."""

    def __init__(self, source, vocabulary):
        load_quietly()
        self.texts = load_texts(*source)
        self.make(vocabulary)

    def make(self, vocabulary):
        import tensorflow as tf

        spec = tf.TensorSpec([None], tf.string)
        self.call = tf.function(self.layer(vocabulary), input_signature=[spec])

    def layer(self, vocabulary):
        from residual_keras import TextVectorizer

        return TextVectorizer(VOCAB_SIZE, MAX_LEN, vocabulary=vocabulary)

    def ids(self):
        """The ids of each text without padding."""
        return [[i for i in row if i] for row in self.call(self.texts).numpy().tolist()]

    def run(self, batch):
        for start in range(0, len(self.texts), batch):
            self.call(self.texts[start : start + batch])


class Pieces(Words):
    """Our `WordPieceVectorizer`, in a graph."""

    def layer(self, vocabulary):
        from residual_keras import WordPieceVectorizer

        return WordPieceVectorizer(VOCAB_SIZE, MAX_LEN, vocabulary=vocabulary)


class KerasHub(Words):
    """keras_hub's WordPieceTokenizer in a graph, by the ops of tensorflow-text."""

    def layer(self, vocabulary):
        from keras_hub.tokenizers import WordPieceTokenizer

        return WordPieceTokenizer(
            vocabulary, sequence_length=MAX_LEN, lowercase=True, strip_accents=True
        )


class Tokenizers(Words):
    """The package tokenizers, which is Rust and no part of any graph."""

    def make(self, vocabulary):
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        ids = {token: i for i, token in enumerate(vocabulary)}
        model = models.WordPiece(ids, unk_token="[UNK]")
        self.tokenizer = Tokenizer(model)
        self.tokenizer.normalizer = normalizers.BertNormalizer()
        self.tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        self.tokenizer.enable_truncation(MAX_LEN)
        self.strings = [text.decode("utf-8") for text in self.texts.numpy()]

    def ids(self):
        return [each.ids for each in self.tokenizer.encode_batch(self.strings)]

    def run(self, batch):
        for start in range(0, len(self.strings), batch):
            self.tokenizer.encode_batch(self.strings[start : start + batch])


def load_texts(file, text_column, number):
    """The first texts of a file as a string tensor."""
    from residual_keras import data
    from residual_keras.data import files
    from residual_keras.vectorizer import as_texts

    if file:
        texts = files.read_texts(file, text_column=text_column)
    else:
        texts = data.load("reviews").train.texts
    return as_texts(texts[:number])


class Peer(NamedTuple):
    """What is measured, with whose vocabulary, and the packages that it needs."""

    make: type
    vocabulary: str = "wordpiece"
    needs: tuple = ()


PEERS = {
    "words": Peer(Words, "words"),
    "wordpiece": Peer(Pieces),
    "keras_hub": Peer(KerasHub, needs=("keras_hub", "tensorflow_text")),
    "tokenizers": Peer(Tokenizers, needs=("tokenizers",)),
}


if __name__ == "__main__":
    main()
