"""The Transformer block and the stack of them; neither knows which scheme it runs."""

import keras

from . import residuals
from .attention import SelfAttention
from .feed_forward import FeedForward
from .initializers import independent
from .stack import Stack

WEIGHTS = (("query", "key", "value", "output"), ("ff_in", "ff_out"))  # by sublayer


@keras.saving.register_keras_serializable("residual_keras")
class TransformerBlock(Stack):
    """Self-attention, then a feed-forward network, each joined on by `residual`.

    A drop-in for the block of the Keras tutorials. With the scheme's verbs, and f_0 and
    f_1 the two sublayers:

        S = start(x)
        S = write(S, f_0(read(S, 0)), 0)
        S = write(S, f_1(read(S, 1)), 1)
        y = finish(S)

    so "post_ln" gives the published block,

        a = LN(x + Dropout(Attention(x)))
        y = LN(a + Dropout(FeedForward(a)))

    (Vaswani et al. 2017, arXiv:1706.03762), and "pre_ln" the bare stream x + f(LN(x)):
    the norm at the end of a stack is the stack's, see `TransformerEncoder`. Blocks that
    are stacked by hand carry one tensor between them.

    Args:
        embed_dim: width of the output, and of the stream. An input of another width is
            projected to it first, so that the skip path has that width too.
        num_heads: number of attention heads.
        ff_dim: width of the feed-forward network's hidden layer.
        rate: share of each sublayer's output that is dropped in training.
        residual: the scheme, "name" or "name(option=value)"; see `residuals.get`. None
            is for a block whose stack carries the stream: only `advance` works then.
        key_dim: width of a head; None means embed_dim // num_heads. The block of the
            tutorials, whose heads are as wide as the input, has key_dim=embed_dim.
        activation: of the feed-forward network.
        attention_rate: share of the attention weights that is dropped in training.
        ff_rate: share of the feed-forward network's hidden values that is dropped.
        causal: whether a token attends only to itself and those before it.
        rotary: whether attention turns queries and keys by their position.
        kernel_initializer: of all kernels of the sublayers, each a draw of its own.
        epsilon: added to the variance in the norms.
        sublayer_options: two dicts of further constructor arguments, for attention and
            for the feed-forward network; set by the stack whose scheme asks for them.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, any width).
        mask: (batch, time), True at real tokens; Keras fills it in where an
            `Embedding(mask_zero=True)` stands before. It is passed on.
        attention_mask: bool, (batch, time, time) or (batch, 1, time, time), True where
            the query (second axis from the right) may see the key (last).
        training: whether dropout is on.
        return_attention_scores: also return the attention weights.

    Returns:
        (batch, time, embed_dim), and where asked (batch, num_heads, time, time).

    Raises:
        ValueError: if embed_dim is not divisible by num_heads and no key_dim is given,
            or an argument is out of range.

    Example:
        >>> block = TransformerBlock(embed_dim=128, num_heads=8, ff_dim=512)
        >>> block(keras.ops.ones((32, 64, 128)), training=True).shape
        TensorShape([32, 64, 128])
    """

    def __init__(
        self,
        embed_dim,
        num_heads,
        ff_dim,
        rate=0.1,
        *,
        residual="post_ln",
        key_dim=None,
        activation="relu",
        attention_rate=0.0,
        ff_rate=0.0,
        causal=False,
        rotary=False,
        kernel_initializer="glorot_uniform",
        epsilon=1e-6,
        sublayer_options=None,
        **kwargs,
    ):
        super().__init__(embed_dim, num_heads, key_dim, causal, **kwargs)
        rates = {"rate": rate, "attention_rate": attention_rate, "ff_rate": ff_rate}
        for name, value in rates.items():
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be in [0, 1]. Received: {name}={value}")
        self.rate = rate
        self.epsilon = epsilon
        self.kernel_initializer = independent(kernel_initializer)
        self.residual = self.residual_spec = None
        if residual is not None:
            self.make_residual(residual, rate, epsilon)
            sublayer_options = sublayer_options or asked_of_block(self.residual, 0)
        self.sublayer_options = sublayer_options or [{}, {}]
        common = {
            "kernel_initializer": self.kernel_initializer,
            "dtype": self.dtype_policy,
        }
        self.attention = SelfAttention(
            num_heads,
            embed_dim // num_heads if key_dim is None else key_dim,
            attention_rate,
            rotary=rotary,
            name="attention",
            **common,
            **self.sublayer_options[0],
        )
        self.feed_forward = FeedForward(
            ff_dim,
            ff_rate,
            activation=activation,
            name="feed_forward",
            **common,
            **self.sublayer_options[1],
        )

    def get_config(self):
        attention, feed_forward = self.attention, self.feed_forward
        return {
            **super().get_config(),
            "embed_dim": self.embed_dim,
            "num_heads": self.num_heads,
            "ff_dim": feed_forward.ff_dim,
            "rate": self.rate,
            "residual": plain(self.residual_spec),
            "key_dim": self.key_dim,
            "activation": keras.activations.serialize(feed_forward.activation),
            "attention_rate": attention.dropout.rate,
            "ff_rate": feed_forward.dropout.rate,
            "causal": self.causal,
            "rotary": attention.rotary,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "epsilon": self.epsilon,
            "sublayer_options": self.sublayer_options,
        }

    def build(self, input_shape):
        shape = self.build_projection(input_shape)
        layers = (self.residual, self.attention, self.feed_forward)
        for layer in filter(None, layers):
            layer.build(shape)

    def carry(self, state, bias, training):
        state, scores = self.advance(state, self.residual, 0, bias, training)
        return state, [scores]

    def shown(self, scores):
        return scores[0]

    def advance(self, state, residual, i, bias=None, training=None):
        """Carries a scheme's running state past the block's two sublayers.

        Args:
            state: what `residual` gave last.
            residual: the `Residual` of the stack that the block is part of.
            i: the index of the block's attention in that stack.
            bias: what is added to the attention scores, see `attention_bias`.
            training: whether dropout is on.

        Returns:
            The state, and the attention weights (batch, num_heads, time, time).
        """
        update, scores = self.attention(
            residual.read(state, i),
            bias,
            training=training,
            return_attention_scores=True,
        )
        state = residual.write(state, residual.drop(update), i)
        update = self.feed_forward(residual.read(state, i + 1), training=training)
        return residual.write(state, residual.drop(update), i + 1), scores


@keras.saving.register_keras_serializable("residual_keras")
class TransformerEncoder(Stack):
    """A stack of Transformer blocks under one residual scheme.

    With f_0 .. f_{n-1} the sublayers of all blocks, n = 2 num_layers:

        S = start(x)
        S = write(S, f_i(read(S, i)), i)    for i = 0 .. n-1
        y = finish(S)                       then LN(y), where the scheme asks for it

    Args:
        num_layers: number of blocks.
        embed_dim: width of the stream; an input of another width is projected first.
        num_heads: number of attention heads in each block.
        ff_dim: width of the feed-forward networks' hidden layer.
        rate: share of each sublayer's output that is dropped in training.
        residual: the scheme, such as "pre_ln" or
            "attention_residual(fusion_init='identity')"; see `residuals.get`.
        key_dim: as the other arguments down to epsilon, see `TransformerBlock`.
        activation: of the feed-forward networks.
        attention_rate: share of the attention weights that is dropped.
        ff_rate: share of the feed-forward networks' hidden values that is dropped.
        causal: whether a token attends only to itself and those before it.
        rotary: whether attention turns queries and keys by their position.
        kernel_initializer: of all kernels of the sublayers, each a draw of its own.
        epsilon: added to the variance in the norms.
        final_norm: whether the stack ends with a norm; None leaves it to the scheme.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, any width).
        mask: (batch, time), True at real tokens; filled in by Keras and passed on.
        attention_mask: as in `TransformerBlock`.
        training: whether dropout is on.
        return_attention_scores: also return the attention weights.

    Returns:
        (batch, time, embed_dim), and where asked a list with the attention weights
        (batch, num_heads, time, time) of each block.

    Raises:
        ValueError: if an argument is out of range; see `TransformerBlock`.

    Example:
        >>> encoder = TransformerEncoder(2, embed_dim=8, num_heads=2, ff_dim=16)
        >>> encoder(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        num_layers,
        embed_dim,
        num_heads,
        ff_dim,
        rate=0.1,
        *,
        residual="pre_ln",
        key_dim=None,
        activation="relu",
        attention_rate=0.0,
        ff_rate=0.0,
        causal=False,
        rotary=False,
        kernel_initializer="glorot_uniform",
        epsilon=1e-6,
        final_norm=None,
        **kwargs,
    ):
        super().__init__(embed_dim, num_heads, key_dim, causal, **kwargs)
        if num_layers < 1:
            raise ValueError(
                f"num_layers must be positive. Received: num_layers={num_layers}"
            )
        self.num_layers = num_layers
        self.final_norm = final_norm
        self.block_options = {
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "ff_dim": ff_dim,
            "rate": rate,
            "key_dim": key_dim,
            "activation": activation,
            "attention_rate": attention_rate,
            "ff_rate": ff_rate,
            "causal": causal,
            "rotary": rotary,
            "kernel_initializer": independent(kernel_initializer),
            "epsilon": epsilon,
        }
        self.make_residual(residual, rate, epsilon)
        self.blocks = [
            TransformerBlock(
                **self.block_options,
                residual=None,
                sublayer_options=asked_of_block(self.residual, 2 * index),
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index in range(num_layers)
        ]
        if self.residual.final_norm if final_norm is None else final_norm:
            self.norm = keras.layers.LayerNormalization(
                epsilon=epsilon, dtype=self.dtype_policy, name="norm"
            )

    def get_config(self):
        of_block = self.blocks[0].get_config()
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            **{name: of_block[name] for name in self.block_options},
            "residual": plain(self.residual_spec),
            "final_norm": self.final_norm,
        }

    def build(self, input_shape):
        shape = self.build_projection(input_shape)
        for layer in filter(None, (self.residual, *self.blocks, self.norm)):
            layer.build(shape)

    def carry(self, state, bias, training):
        all_scores = []
        for index, block in enumerate(self.blocks):
            state, scores = block.advance(
                state, self.residual, 2 * index, bias, training
            )
            all_scores.append(scores)
        return state, all_scores


def asked_of_block(residual, i):
    """What a scheme asks of sublayers i and i + 1, as their constructor arguments."""
    return [
        {
            **residual.sublayer_options(j),
            "init_gains": {w: residual.init_gain(j, w) for w in WEIGHTS[j % 2]},
        }
        for j in (i, i + 1)
    ]


def plain(residual):
    """A scheme as it stands in a config: its spec, or the config of an instance."""
    if isinstance(residual, residuals.Residual):
        config = keras.saving.serialize_keras_object(residual)
        config.pop("build_config", None)  # its stack builds it
        return config
    return residual
