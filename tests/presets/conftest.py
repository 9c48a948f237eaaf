import pytest

TEXTS = [
    "A warm and funny film.",
    "",
    "Dull!",
    "It was long, and it was dull.",
    "好看 👍",
]
LABELS = ["dull", "fine"]


@pytest.fixture(scope="session")
def make():
    """Makes a small model whose weights are not what they started as."""
    import keras
    import numpy as np

    from residual_keras import TextClassifier, TextVectorizer, build_classifier

    def made(labels=LABELS, num_classes=2, **options):
        keras.utils.set_random_seed(11)
        vectorizer = TextVectorizer(vocab_size=50, max_len=13)
        vectorizer.adapt(TEXTS)
        classifier = build_classifier(
            vectorizer.vocab_size,
            num_classes,
            num_layers=1,
            embed_dim=6,
            num_heads=3,
            ff_dim=7,
            max_len=13,
            **options,
        )
        rng = np.random.default_rng(11)
        for weight in classifier.trainable_weights:
            weight.assign(weight + rng.normal(0, 0.1, weight.shape))
        return TextClassifier(classifier, vectorizer, labels)

    return made


@pytest.fixture(scope="session")
def model(make):
    """A model to read only."""
    return make()


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The shelf of the package, moved to an empty folder."""
    from residual_keras.presets import shelf

    root = tmp_path / "shelf"
    root.mkdir()
    (root / "presets.json").write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(shelf, "ROOT", root)
    return shelf


@pytest.fixture(scope="session")
def split():
    from residual_keras.data import Split

    texts = ["a warm film", "dull, dull!", "long", "it was funny", "a dull film"]
    return Split(texts, [1, 0, 0, 1, 1])
