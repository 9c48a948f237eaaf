"""A trained model that computes in float32, whatever it was trained in."""

from ..text_classifier import TextClassifier


def in_float32(model):
    """The same weights under the policy "float32".

    Runtimes differ in what they round to half precision, and few know bfloat16 at all.

    Args:
        model: a `TextClassifier`; it is left as it is.

    Returns:
        A `TextClassifier`, the model itself if it computes in float32 already.

    Example:
        >>> in_float32(model).classifier.get_layer("encoder").compute_dtype
        'float32'
    """
    classifier = model.classifier
    config = classifier.get_config()
    changed = with_policy(config, "float32")
    if changed == config:
        return model
    copy = type(classifier).from_config(changed)
    copy.set_weights(classifier.get_weights())
    return TextClassifier(copy, model.vectorizer, model.label_names)


def with_policy(config, name):
    """A config, each dtype policy inside replaced by the one of that name."""
    if isinstance(config, dict):
        if config.get("class_name") == "DTypePolicy":
            return {**config, "config": {**config["config"], "name": name}}
        return {key: with_policy(value, name) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(with_policy(value, name) for value in config)
    return config
