"""The stack of Transformer blocks, one scheme running through all of them."""

import keras

from .block import TransformerBlock
from .initializers import independent
from .norms import make_norm
from .recompute import Recomputation
from .spec import check_positive
from .stack import Stack, asked_of_block, check_shares, plain


@keras.saving.register_keras_serializable("residual_keras")
class TransformerEncoder(Stack):
    """A stack of Transformer blocks under one residual scheme.

    With f_0 .. f_{n-1} the sublayers of all blocks, n = 2 num_layers:

        S = start(x)
        S = write(S, f_i(read(S, i)), i)    for i = 0 .. n-1
        y = finish(S)                       then a norm, where the scheme asks for it

    Args:
        num_layers: number of blocks.
        embed_dim: width of the stream; an input of another width is projected first.
        num_heads: number of attention heads in each block.
        ff_dim: width of the feed-forward networks' hidden layer.
        rate: share of each sublayer's output that is dropped in training.
        residual: the scheme, such as "pre_ln" or
            "attention_residual(fusion_init='identity')"; see `residuals.get`.
        norm: the kind of all norms on the stream, the last one's too: "layer_norm",
            "rms_norm" or "dyt".
        parallel: whether a block's sublayers are one, see `TransformerBlock`; n is
            num_layers then.
        stochastic_depth: p; block k of N, counted from 1, leaves its updates out for a
            share p k / N of the samples in training.
        key_dim: as the other arguments down to epsilon, see `TransformerBlock`.
        activation: of the feed-forward networks.
        attention_rate: share of the attention weights that is dropped.
        ff_rate: share of the feed-forward networks' hidden values that is dropped.
        causal: whether a token attends only to itself and those before it.
        rotary: whether attention turns queries and keys by their position.
        qk_norm: whether queries and keys are normalised.
        value_residual: whether the values of the first block are mixed in.
        score_residual: whether the scores of the block before are added.
        head_scale: whether each head's result has a learned factor.
        kernel_initializer: of all kernels of the sublayers, each a draw of its own.
        epsilon: added to the variance in the norms.
        final_norm: whether the stack ends with a norm; None leaves it to the scheme.
        recompute: whether training keeps only what goes from block to block, and runs
            each block once more for its gradient: less memory for more time.
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
        final_norm=None,
        recompute=False,
        **kwargs,
    ):
        super().__init__(embed_dim, num_heads, key_dim, causal, **kwargs)
        check_positive(num_layers=num_layers)
        check_shares(stochastic_depth=stochastic_depth)
        self.num_layers = num_layers
        self.stochastic_depth = stochastic_depth
        self.final_norm = final_norm
        self.recompute = recompute
        if recompute:
            self.recomputation = Recomputation(
                dtype=self.dtype_policy, name="recomputation"
            )
        self.block_options = {
            "embed_dim": embed_dim,
            "num_heads": num_heads,
            "ff_dim": ff_dim,
            "rate": rate,
            "norm": norm,
            "parallel": parallel,
            "key_dim": key_dim,
            "activation": activation,
            "attention_rate": attention_rate,
            "ff_rate": ff_rate,
            "causal": causal,
            "rotary": rotary,
            "qk_norm": qk_norm,
            "value_residual": value_residual,
            "score_residual": score_residual,
            "head_scale": head_scale,
            "kernel_initializer": independent(kernel_initializer),
            "epsilon": epsilon,
        }
        self.make_residual(residual, parallel, rate=rate, epsilon=epsilon, norm=norm)
        self.blocks = [
            TransformerBlock(
                **self.block_options,
                residual=None,
                stochastic_depth=stochastic_depth * (index + 1) / num_layers,
                sublayer_options=asked_of_block(self.residual, index),
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index in range(num_layers)
        ]
        if self.residual.final_norm if final_norm is None else final_norm:
            self.norm = make_norm(norm, epsilon, dtype=self.dtype_policy, name="norm")

    def get_config(self):
        of_block = self.blocks[0].get_config()
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            **{name: of_block[name] for name in self.block_options},
            "residual": plain(self.residual_spec),
            "stochastic_depth": self.stochastic_depth,
            "final_norm": self.final_norm,
            "recompute": self.recompute,
        }

    def build(self, input_shape):
        shape = self.build_projection(input_shape)
        for layer in filter(None, (self.residual, *self.blocks, self.norm)):
            layer.build(shape)

    def carry(self, state, bias, training, return_attention_scores):
        all_scores, memory = [], None
        for index, block in enumerate(self.blocks):

            def advance(carried, index=index, block=block):
                state, memory, bias = carried
                i = self.residual.per_block * index
                return block.advance(
                    state,
                    self.residual,
                    i,
                    bias,
                    training,
                    memory,
                    return_attention_scores,
                )

            carried = state, memory, bias
            if self.recompute and training:
                layers = [block, self.residual]
                found = self.recomputation.run(advance, carried, layers)
            else:
                found = advance(carried)
            state, scores, memory = found
            all_scores.append(scores)
        return state, all_scores
