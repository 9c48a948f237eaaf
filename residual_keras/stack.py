"""From a tensor to the stream, past the sublayers, and back to a tensor."""

import keras

from . import residuals
from .attention import attention_bias
from .dense import Dense

WEIGHTS = (("query", "key", "value", "output"), ("ff_in", "ff_out"))  # by sublayer


class Stack(keras.layers.Layer):
    """What a block by itself and a stack of blocks share: from the input to `finish`.

    A subclass sets `residual`, and `norm` where the stack ends with one, and says in
    `carry` how the state passes its sublayers.
    """

    num_layers = 1

    def __init__(self, embed_dim, num_heads, key_dim, causal, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if embed_dim < 1 or num_heads < 1:
            raise ValueError(
                "embed_dim and num_heads must be positive. "
                f"Received: embed_dim={embed_dim}, num_heads={num_heads}"
            )
        if key_dim is None and embed_dim % num_heads:
            raise ValueError(
                "num_heads must divide embed_dim, or key_dim be given. "
                f"Received: embed_dim={embed_dim}, num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.causal = causal
        # No class attribute: on the PyTorch backend it would hide the layer set later.
        self.norm = None

    def make_residual(self, spec, parallel, **kwargs):
        """Makes the scheme for the stack's sublayers; `spec` goes into the config."""
        per_block = 1 if parallel else 2
        self.residual_spec = spec
        self.residual = residuals.get(
            spec,
            num_sublayers=per_block * self.num_layers,
            per_block=per_block,
            dtype=self.dtype_policy,
            name="residual",
            **kwargs,
        )
        if self.residual.per_block != per_block:  # an instance
            raise ValueError(
                f"With parallel={parallel}, a block has {per_block} for a residual "
                f"scheme. Received: {self.residual.name} with "
                f"per_block={self.residual.per_block}"
            )

    def carry(self, state, bias, training, return_attention_scores):
        """The state after all sublayers; a list of each block's scores, or of None."""
        raise NotImplementedError

    def build_projection(self, input_shape):
        """Builds what brings x to embed_dim, if need be; returns the stream's shape."""
        if len(input_shape) != 3 or input_shape[-1] is None:
            raise ValueError(
                "The input must have shape (batch, time, width), its width known. "
                f"Received: shape={tuple(input_shape)}. Token ids go through an "
                "embedding first."
            )
        stream_shape = (*input_shape[:-1], self.embed_dim)
        self.projection = None
        if input_shape[-1] != self.embed_dim:
            self.projection = Dense(
                self.embed_dim, dtype=self.dtype_policy, name="projection"
            )
            self.projection.build(input_shape)
        return stream_shape

    def call(
        self,
        x,
        mask=None,
        attention_mask=None,
        training=None,
        return_attention_scores=False,
    ):
        if self.residual is None:
            raise ValueError(
                "A block with residual=None is driven by its stack and cannot be "
                "called by itself. Name a scheme, such as residual='pre_ln'."
            )
        if mask is None:  # Keras fills it in only where x is the lone tensor
            mask = getattr(x, "_keras_mask", None)
        bias = attention_bias(x, mask, attention_mask, self.causal)
        if self.projection is not None:
            x = self.projection(x)
        state, scores = self.carry(
            self.residual.start(x), bias, training, return_attention_scores
        )
        y = self.residual.finish(state)
        if self.norm is not None:
            y = self.norm(y)
        return (y, self.shown(scores)) if return_attention_scores else y

    def calibrate(self, x, mask=None):
        """Sets what the scheme reads off one batch before training, if it does.

        Args:
            x: a batch, as in a call.
            mask: as in a call.
        """
        self.residual.calibrate(lambda: self(x, mask=mask, training=False))

    def shown(self, scores):
        """The list of scores as the caller gets it."""
        return scores

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.embed_dim)

    def compute_output_spec(self, x, *args, return_attention_scores=False, **kwargs):
        y = keras.KerasTensor(self.compute_output_shape(x.shape), self.compute_dtype)
        if not return_attention_scores:
            return y
        batch, time, _ = x.shape
        shape = (batch, self.num_heads, time, time)
        scores = [
            keras.KerasTensor(shape, self.compute_dtype) for _ in range(self.num_layers)
        ]
        return y, self.shown(scores)

    @property
    def spared(self):
        """What weight decay leaves alone: the scheme's weights but for its matrices."""
        decayed = {id(weight) for weight in self.residual.decayed}
        return [w for w in self.residual.trainable_weights if id(w) not in decayed]


def check_shares(**shares):
    """Raises ValueError if a share, such as a rate of dropout, is not in [0, 1]."""
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be in [0, 1]. Received: {name}={value}")


def asked_of_block(residual, index):
    """What a scheme asks of a block's two sublayers, as constructor arguments."""
    last = residual.per_block * (index + 1) - 1
    first = last - residual.per_block + 1  # the same, where both are one sublayer
    attention, feed_forward = (
        {
            **residual.sublayer_options(i),
            "init_gains": {weight: residual.init_gain(i, weight) for weight in weights},
        }
        for i, weights in zip((first, last), WEIGHTS, strict=True)
    )
    if index == 0:  # no block before it: what weighs that one's values would be dead
        attention["value_residual"] = False
    return [attention, feed_forward]


def plain(residual):
    """A scheme as it stands in a config: its spec, or the config of an instance."""
    if isinstance(residual, residuals.Residual):
        config = keras.saving.serialize_keras_object(residual)
        config.pop("build_config", None)  # its stack builds it
        return config
    return residual
