"""Lower layers learn more slowly: a learning rate for each depth."""

import re

import keras

from .optimization import no_decay


@keras.saving.register_keras_serializable("residual_keras")
class LayerwiseAdamW(keras.optimizers.Adam):
    """AdamW in which each weight has a rate and a decay of its own.

        w <- w - r_w lr (Adam(g) + d_w w)

    Keras' AdamW decays all weights at one rate, those that hardly learn as well, so
    decay is taken here. Source: Loshchilov and Hutter 2017, arXiv:1711.05101.

    Args:
        learning_rate: lr, a number or a schedule.
        factors: r, a dict from a variable's path; 1 where a path is not in it.
        decays: d, likewise; 0 where a path is not in it.
        **kwargs: of `keras.optimizers.Adam`.

    Example:
        >>> LayerwiseAdamW(1e-3, {"embedding/tokens/embeddings": 0.1}, {}).name
        'layerwise_adam_w'
    """

    def __init__(
        self, learning_rate, factors, decays, name="layerwise_adam_w", **kwargs
    ):
        super().__init__(learning_rate, name=name, **kwargs)
        self.factors = dict(factors)
        self.decays = dict(decays)

    def build(self, variables):
        # On TensorFlow, `update_step` is given the variable inside, which has no path.
        self.paths = {id(variable.value): variable.path for variable in variables}
        super().build(variables)

    def update_step(self, gradient, variable, learning_rate):
        path = getattr(variable, "path", None) or self.paths[id(variable)]
        rate = learning_rate * self.factors.get(path, 1.0)
        if path in self.decays:
            decay = keras.ops.cast(rate * self.decays[path], variable.dtype)
            self.assign_sub(variable, variable * decay)
        super().update_step(gradient, variable, rate)

    def get_config(self):
        own = {"factors": self.factors, "decays": self.decays}
        return {**super().get_config(), **own}


def layerwise(learning_rate, classifier, layer_decay, weight_decay, **kwargs):
    """An optimizer whose rate falls from each block to the one below it.

    With n blocks, counted from the top: block k learns at lr layer_decay^k, tokens and
    positions at lr layer_decay^(n + 1), and pooling and head at lr. What a scheme keeps
    for a sublayer goes with its block, what it keeps for all with the top one.
    Sources: Howard and Ruder 2018, arXiv:1801.06146; Clark et al. 2020,
    arXiv:2003.10555, appendix B.

    Args:
        learning_rate: lr, a number or a schedule.
        classifier: a `Classifier`, built.
        layer_decay: in (0, 1].
        weight_decay: of the weights that `no_decay` does not spare.
        **kwargs: of `LayerwiseAdamW`.

    Returns:
        A `LayerwiseAdamW`.

    Example:
        >>> layerwise(1e-3, classifier, 0.8, 0.1).factors["encoder/block_1/..."]
        0.8
    """
    encoder = classifier.get_layer("encoder")
    spared = {variable.path for variable in no_decay(classifier)}
    paths = [variable.path for variable in classifier.trainable_variables]
    return LayerwiseAdamW(
        learning_rate,
        {path: layer_decay ** steps_down(path, encoder) for path in paths},
        {path: weight_decay for path in paths if path not in spared},
        **kwargs,
    )


def steps_down(path, encoder):
    """How many steps below the head a weight stands.

    Args:
        path: of a variable of a `Classifier`.
        encoder: its `TransformerEncoder`.
    """
    blocks = encoder.num_layers
    if path.startswith("embedding"):
        return blocks + 1
    if found := re.match(r"encoder/block_(\d+)/", path):
        return blocks - int(found[1])
    if path.startswith("encoder/residual/"):
        number = re.search(r"_(\d+)", path)  # of the sublayer
        per_block = encoder.residual.per_block
        block = int(number[1]) // per_block if number else blocks - 1
        return max(1, blocks - block)
    return 0
