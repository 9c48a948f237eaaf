"""Every way to carry a Transformer's residual stream, behind one argument.

The names below are imported when they are first used, so that the command line can
answer without loading TensorFlow. To read a saved model use `load_model`, or import
keras before this package: then its classes are registered at once, and
`keras.models.load_model` knows them.
"""

import importlib
import sys

__version__ = "0.1.0"

_HOMES = {
    "SelfAttention": "attention",
    "attention_bias": "attention",
    "Classifier": "classifier",
    "build_classifier": "classifier",
    "build_ngram_classifier": "ngrams",
    "NGramLogits": "ngrams",
    "build_latent_classifier": "latent",
    "LatentFeatures": "latent",
    "ClassToken": "embedding",
    "TokenAndPositionEmbedding": "embedding",
    "WordDropout": "embedding",
    "Fragments": "fragments",
    "TransformerBlock": "block",
    "from_bert": "convert",
    "TransformerEncoder": "encoder",
    "export_model": "export",
    "export_saved_model": "export",
    "FeedForward": "feed_forward",
    "DynamicTanh": "norms",
    "make_norm": "norms",
    "InverseSquareRoot": "optimization",
    "SmoothedCrossentropy": "optimization",
    "no_decay": "optimization",
    "schedule": "optimization",
    "LayerwiseAdamW": "layer_rates",
    "AttentionPooling": "pooling",
    "FirstToken": "pooling",
    "MaxPooling": "pooling",
    "MeanMaxPooling": "pooling",
    "MeanPooling": "pooling",
    "LearnedPositions": "positions",
    "NoPositions": "positions",
    "SinusoidalPositions": "positions",
    "describe_preset": "presets.description",
    "list_presets": "presets.shelf",
    "load_preset": "presets.loading",
    "save_to_preset": "presets.saving",
    "PretrainingRecipe": "pretraining.recipe",
    "pretrain": "pretraining.run",
    "Recipe": "recipe",
    "Residual": "residuals",
    "load_model": "saved",
    "TextVectorizer": "text",
    "TextClassifier": "text_classifier",
    "WordPieceVectorizer": "wordpiece",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__():
    return __all__


if "keras" in sys.modules:
    importlib.import_module(".saved", __name__)
