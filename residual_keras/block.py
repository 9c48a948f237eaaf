"""The Transformer block, which does not know which scheme it runs."""

import keras

from .attention import SelfAttention
from .feed_forward import FeedForward
from .initializers import independent
from .stack import Stack, asked_of_block, check_shares, plain


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
    the norm at the end of a stack is the stack's, see `TransformerEncoder`.

    Blocks that are stacked by hand carry one tensor between them, and each is a stack
    of its own. A scheme whose state is more than one tensor (pair, streams, history) is
    closed at every block's end; one whose constants need the depth of the whole, or a
    block's place in it, takes them as options, `depth=` and `block=`. `value_residual`
    and `score_residual` add nothing there, for no block comes before.

    Args:
        embed_dim: width of the output, and of the stream. An input of another width is
            projected to it first, so that the skip path has that width too.
        num_heads: number of attention heads.
        ff_dim: width of the feed-forward network's hidden layer.
        rate: share of each sublayer's output that is dropped in training.
        residual: the scheme, "name" or "name(option=value)"; see `residuals.get`. None
            is for a block whose stack carries the stream: only `advance` works then.
        norm: the kind of the scheme's norms: "layer_norm", "rms_norm" or "dyt".
        parallel: whether attention and the feed-forward network read the same input,
            and their updates, summed, are written as one (Chowdhery et al. 2022,
            arXiv:2204.02311, section 2). Not every scheme allows it.
        stochastic_depth: share of the samples for which an update is left out in
            training; what is kept is divided by 1 - stochastic_depth (Huang et al.
            2016, arXiv:1603.09382).
        key_dim: width of a head; None means embed_dim // num_heads. The block of the
            tutorials, whose heads are as wide as the input, has key_dim=embed_dim.
        activation: of the feed-forward network.
        attention_rate: share of the attention weights that is dropped in training.
        ff_rate: share of the feed-forward network's hidden values that is dropped.
        causal: whether a token attends only to itself and those before it.
        rotary: whether attention turns queries and keys by their position.
        qk_norm: as the other arguments down to head_scale, see `SelfAttention`; what
            the scheme asks for comes on top.
        value_residual: whether the values of a stack's first block are mixed in.
        score_residual: whether the scores of the block before are added.
        head_scale: whether each head's result has a learned factor.
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
        norm="layer_norm",
        parallel=False,
        stochastic_depth=0.0,
        key_dim=None,
        activation="relu",
        attention_rate=0.0,
        ff_rate=0.0,
        causal=False,
        rotary=False,
        qk_norm=False,
        value_residual=False,
        score_residual=False,
        head_scale=False,
        kernel_initializer="glorot_uniform",
        epsilon=1e-6,
        sublayer_options=None,
        **kwargs,
    ):
        super().__init__(embed_dim, num_heads, key_dim, causal, **kwargs)
        check_shares(rate=rate, attention_rate=attention_rate, ff_rate=ff_rate)
        check_shares(stochastic_depth=stochastic_depth)
        self.rate = rate
        self.norm_kind = norm
        self.parallel = parallel
        self.stochastic_depth = stochastic_depth
        self.epsilon = epsilon
        self.kernel_initializer = independent(kernel_initializer)
        self.residual = self.residual_spec = None
        if residual is not None:
            self.make_residual(
                residual, parallel, rate=rate, epsilon=epsilon, norm=norm
            )
            sublayer_options = sublayer_options or asked_of_block(self.residual, 0)
        self.sublayer_options = sublayer_options or [{}, {}]
        self.attention_options = {
            "rotary": rotary,
            "qk_norm": qk_norm,
            "value_residual": value_residual,
            "score_residual": score_residual,
            "head_scale": head_scale,
        }
        common = {
            "kernel_initializer": self.kernel_initializer,
            "epsilon": epsilon,
            "dtype": self.dtype_policy,
        }
        self.attention = SelfAttention(
            num_heads,
            embed_dim // num_heads if key_dim is None else key_dim,
            attention_rate,
            name="attention",
            **{**common, **self.attention_options, **self.sublayer_options[0]},
        )
        self.feed_forward = FeedForward(
            ff_dim,
            ff_rate,
            activation=activation,
            name="feed_forward",
            **{**common, **self.sublayer_options[1]},
        )
        if stochastic_depth:
            self.skip = keras.layers.Dropout(
                stochastic_depth,
                noise_shape=(None, 1, 1),
                dtype=self.dtype_policy,
                name="skip",
            )

    def get_config(self):
        feed_forward = self.feed_forward
        return {
            **super().get_config(),
            "embed_dim": self.embed_dim,
            "num_heads": self.num_heads,
            "ff_dim": feed_forward.ff_dim,
            "rate": self.rate,
            "residual": plain(self.residual_spec),
            "norm": self.norm_kind,
            "parallel": self.parallel,
            "stochastic_depth": self.stochastic_depth,
            "key_dim": self.key_dim,
            "activation": keras.activations.serialize(feed_forward.activation),
            "attention_rate": self.attention.dropout.rate,
            "ff_rate": feed_forward.dropout.rate,
            "causal": self.causal,
            **self.attention_options,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "epsilon": self.epsilon,
            "sublayer_options": self.sublayer_options,
        }

    def build(self, input_shape):
        shape = self.build_projection(input_shape)
        layers = (self.residual, self.attention, self.feed_forward)
        for layer in filter(None, layers):
            layer.build(shape)

    def carry(self, state, bias, training, return_attention_scores):
        state, scores, _ = self.advance(
            state,
            self.residual,
            0,
            bias,
            training,
            return_attention_scores=return_attention_scores,
        )
        return state, [scores]

    def shown(self, scores):
        return scores[0]

    def advance(
        self,
        state,
        residual,
        i,
        bias=None,
        training=None,
        memory=None,
        return_attention_scores=False,
    ):
        """Carries a scheme's running state past the block's two sublayers.

        Args:
            state: what `residual` gave last.
            residual: the `Residual` of the stack that the block is part of.
            i: the index of the block's attention in that stack.
            bias: what is added to the attention scores, see `attention_bias`.
            training: whether dropout is on.
            memory: what the block before passed on; None in the first.
            return_attention_scores: whether the attention weights are asked for.

        Returns:
            The state, the attention weights (batch, num_heads, time, time) or None, and
            the memory for the next block, see `SelfAttention`.
        """
        x = residual.read(state, i)
        update, *scores, memory = self.attention(
            x,
            bias,
            memory,
            training=training,
            return_attention_scores=return_attention_scores,
            return_memory=True,
        )
        if self.parallel:
            update = update + self.feed_forward(x, training=training)
        state = self.join(state, update, residual, i, training)
        if not self.parallel:
            x = residual.read(state, i + 1)
            update = self.feed_forward(x, training=training)
            state = self.join(state, update, residual, i + 1, training)
        return state, scores[0] if scores else None, memory

    def join(self, state, update, residual, i, training):
        """The state after an update, which may be dropped in part or as a whole."""
        update = residual.drop(update)
        if self.stochastic_depth:
            update = self.skip(update, training=training)
        return residual.write(state, update, i)
