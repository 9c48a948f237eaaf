"""Models from files: importing this module makes all our classes known to Keras."""

import pathlib

import keras

from . import (  # noqa: F401
    classifier,
    latent,
    layer_rates,
    ngrams,
    optimization,
    pooling,
    residuals,
    text,
    text_classifier,
    wordpiece,
)


def load_model(path):
    """Loads a model that was saved with our layers in it.

    As `keras.models.load_model`, which works too once this module, or any name of the
    package, was imported after Keras; here the order does not matter.

    Args:
        path: of a `.keras` file, such as a run's model.keras.

    Returns:
        The model, compiled if it was when saved.

    Raises:
        ValueError: if there is no such file, or it holds no model that can be read.

    Example:
        >>> load_model("runs/reviews-pre_ln-1/model.keras").label_names
        ['negative', 'positive']
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"A saved model is a .keras file. Received: {path}, no file")
    try:
        return keras.models.load_model(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        # Keras appends the whole config, thousands of characters.
        raise ValueError(f"{path} cannot be loaded: {str(error)[:200]}") from None
