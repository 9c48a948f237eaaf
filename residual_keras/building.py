"""The `TextClassifier` of a recipe, before its first step."""

import functools
import inspect

from .classifier import build_classifier
from .data.packing import whole_texts
from .latent import build_latent_classifier
from .ngrams import build_ngram_classifier
from .pretraining import pretrained
from .spec import check_options, look_up, parse
from .text_classifier import TextClassifier
from .tokenizers import make_vectorizer
from .word_vectors import start_from_neighbours


def build(recipe, data, texts=None):
    """The `TextClassifier` of a recipe, its weights drawn anew.

    With `init`, words and encoder are those of that run instead.

    Args:
        recipe: a `Recipe`.
        data: its `TextData`.
        texts: what the words are learned from; None: the texts that it trains on.

    Raises:
        ValueError: if a name or an option is unknown, or does not go with the rest.
    """
    look_up(WORD_VECTORS, recipe.word_vectors, "word_vectors")
    new = not recipe.init and parse(recipe.classifier)[0] == "transformer"
    if recipe.word_vectors != "random" and not new:
        raise ValueError(
            "Only a new Transformer takes word vectors; leave them at random. "
            f"Received: word_vectors={recipe.word_vectors!r}, init={recipe.init!r}, "
            f"classifier={recipe.classifier!r}."
        )
    if recipe.init:
        vectorizer = pretrained.vectorizer(recipe)
    else:
        vectorizer = make_vectorizer(recipe, truncation=recipe.truncation)
        vectorizer.adapt(data.train.texts if texts is None else texts)
    name, options = parse(recipe.classifier)
    make = look_up(CLASSIFIERS, name, "classifier")
    classifier = make(recipe, data, vectorizer, options)
    if recipe.init:
        pretrained.load_encoder(classifier, recipe)
    return TextClassifier(classifier, vectorizer, data.label_names)


def transformer(recipe, data, vectorizer, options):
    """The `Classifier` of a recipe, whose fields are all its options."""
    check_options(options, {}, "classifier 'transformer'")
    return build_classifier(
        vectorizer.vocab_size,
        len(data.label_names),
        pooling=recipe.pooling,
        **recipe.word_noise(),
        **recipe.encoder_options(),
    )


def linear(build_linear, recipe, data, vectorizer, options):
    """A linear classifier of words, with the options that its builder has."""
    known = inspect.getfullargspec(build_linear).kwonlydefaults.keys() - {"name"}
    check_options(options, known, f"classifier {recipe.classifier!r}")
    return build_linear(vectorizer.vocab_size, len(data.label_names), **options)


CLASSIFIERS = {
    "transformer": transformer,
    "ngrams": functools.partial(linear, build_ngram_classifier),
    "latent": functools.partial(linear, build_latent_classifier),
}
WORD_VECTORS = {"random": lambda *_: None, "neighbours": start_from_neighbours}


def start(recipe, model, rows, texts):
    """Reads off texts what a new model starts from.

    Args:
        recipe: a `Recipe`.
        model: its `TextClassifier`.
        rows: pairs of ids and labels, those of the texts that it trains on.
        texts: all texts that it may read, labelled or not.
    """
    WORD_VECTORS[recipe.word_vectors](model, texts)
    model.classifier.calibrate(rows, whole_texts(texts, model.vectorizer))


def reads_texts(recipe):
    """Whether what it starts from depends on texts without labels."""
    name, options = parse(recipe.classifier)
    reads = name == "latent" or options.get("rank")
    return bool(reads) or recipe.word_vectors != "random"
