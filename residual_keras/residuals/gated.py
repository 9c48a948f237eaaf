"""Schemes whose state is one tensor, joined to the update by learned matrices."""

import keras
from keras import ops

from .base import Residual, register


@register("attention_residual")
class AttentionResidual(Residual):
    """x <- LN(F [x ; Dropout(P f(x) + b_P)] + b_F): attention-residual fusion.

    The update is projected, put beside the stream, and one matrix F (2d to d, the
    stream's half first) learns how the two are joined; attention and feed-forward each
    have their own P, F and LN. It adds 3 d^2 + 4 d weights a sublayer. Dropout falls
    once, on the projected update, as published.

    With `fusion_init="identity"`, F = [I | I] and P = I: it starts as `post_ln`. With
    "glorot_uniform", as published, the shortcut starts as a random projection, so the
    signal of the first blocks is lost with depth: at twelve blocks it reaches 0.748
    on `reviews(depth=1)` where "identity" reaches 0.943 (tests/test_goals.py).

    Source: a practice guide on rebuilding the residual connection of a Keras block; no
    paper. Not to be confused with "Attention Residuals" of the Kimi team (2026), which
    is softmax attention along depth.

    Args:
        num_sublayers: n, two for every Transformer block.
        fusion_init: "glorot_uniform" or "identity".
        **kwargs: of `Residual`.

    Raises:
        ValueError: if `fusion_init` is neither.
    """

    def __init__(self, num_sublayers, fusion_init="glorot_uniform", **kwargs):
        super().__init__(num_sublayers, **kwargs)
        if fusion_init not in ("glorot_uniform", "identity"):
            raise ValueError(
                'fusion_init must be "glorot_uniform" or "identity". '
                f"Received: fusion_init={fusion_init!r}"
            )
        self.fusion_init = fusion_init

    def build(self, input_shape):
        *_, width = input_shape
        both = (*input_shape[:-1], 2 * width)
        square, wide = "glorot_uniform", "glorot_uniform"
        if self.fusion_init == "identity":
            square, wide = "identity", identity_pair
        self.projections = self.add_denses("project", width, square, input_shape)
        self.fusions = self.add_denses("fuse", width, wide, both)
        self.norms = self.add_norms(self.num_sublayers, input_shape)

    def drop(self, update):
        return update  # `write` drops, after the projection

    def write(self, state, update, i):
        update = self.dropout(self.projections[i](update))
        fused = self.fusions[i](ops.concatenate([state, update], axis=-1))
        return self.norms[i](fused)

    @property
    def decayed(self):
        return [dense.kernel for dense in (*self.projections, *self.fusions)]

    def add_denses(self, name, width, initializer, input_shape):
        """A built Dense layer for each sublayer."""
        denses = []
        for i in range(self.num_sublayers):
            dense = keras.layers.Dense(
                width,
                kernel_initializer=initializer,
                dtype=self.dtype_policy,
                name=f"{name}_{i}",
            )
            dense.build(input_shape)
            denses.append(dense)
        return denses


def identity_pair(shape, dtype=None):
    """[I | I], as a kernel of shape (2d, d): the sum of what stands side by side."""
    width = shape[-1]
    return ops.concatenate([ops.eye(width, dtype=dtype)] * 2, axis=0)
