"""How far single words go on `reviews`, and a small Transformer, by nesting depth.

    pip install '.[bench]' && python benchmarks/reviews.py [DEPTH ...]

Prints a row a depth: test accuracy of logistic regression on tf-idf of one and two
words, and of the default recipe, with its training's wall and CPU seconds.
"""

import sys
import tempfile

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from residual_keras import Recipe, data
from residual_keras.train import train


def bag_of_words(reviews):
    """Test accuracy of logistic regression on tf-idf of one and two words."""
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"[^\s]+")
    model = make_pipeline(words, LogisticRegression(C=10, max_iter=1000))
    model.fit(reviews.train.texts, reviews.train.labels)
    return model.score(reviews.test.texts, reviews.test.labels)


def main(depths):
    """Prints the table."""
    print("| depth | bag of words | 2 blocks, pre_ln | epochs | wall s | CPU s |")
    print("|---|---|---|---|---|---|")
    for depth in depths:
        spec = f"reviews(depth={depth})"
        words = bag_of_words(data.load(spec))
        with tempfile.TemporaryDirectory() as folder:
            found = train(Recipe(data=spec), folder, verbose=0)
        print(
            f"| {depth} | {words:.3f} | {found['test']['accuracy']:.3f} "
            f"| {found['epochs']} | {found['seconds']:.0f} "
            f"| {found['cpu_seconds']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main([int(depth) for depth in sys.argv[1:]] or [0, 1, 2, 3, 4, 6])
