"""The position-wise feed-forward network."""

import keras

from .dense import Dense
from .initializers import independent, scaled
from .norms import make_norm
from .spec import check_positive


@keras.saving.register_keras_serializable("residual_keras")
class FeedForward(keras.layers.Layer):
    """The position-wise network y = activation(x W_1 + b_1) W_2 + b_2.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3.

    Args:
        ff_dim: width of the hidden layer.
        rate: share of the hidden values that is dropped in training.
        activation: of the hidden layer, whatever `keras.activations.get` takes.
        inner_norm: the kind of a norm of the hidden values, see `make_norm`; None for
            none. It comes before their dropout (Wang et al. 2022, arXiv:2210.06423).
        kernel_initializer: of both kernels, each a draw of its own.
        init_gains: dict that multiplies the first values of ff_in and ff_out.
        epsilon: of the norm.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, embed_dim).

    Returns:
        Like x.

    Example:
        >>> FeedForward(ff_dim=16)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        ff_dim,
        rate=0.0,
        *,
        activation="relu",
        inner_norm=None,
        kernel_initializer="glorot_uniform",
        init_gains=None,
        epsilon=1e-6,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        check_positive(ff_dim=ff_dim)
        self.ff_dim = ff_dim
        self.activation = keras.activations.get(activation)
        self.inner_norm = inner_norm
        if inner_norm is not None:
            make_norm(inner_norm)  # an unknown kind is an error here
        self.kernel_initializer = independent(kernel_initializer)
        self.init_gains = init_gains or {}
        self.epsilon = epsilon
        self.dropout = keras.layers.Dropout(rate, dtype=self.dtype_policy)

    def get_config(self):
        return {
            **super().get_config(),
            "ff_dim": self.ff_dim,
            "rate": self.dropout.rate,
            "activation": keras.activations.serialize(self.activation),
            "inner_norm": self.inner_norm,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "init_gains": self.init_gains,
            "epsilon": self.epsilon,
        }

    def build(self, input_shape):
        ff_in, ff_out = (
            scaled(self.kernel_initializer, self.init_gains.get(weight, 1.0))
            for weight in ("ff_in", "ff_out")
        )
        self.expand = Dense(
            self.ff_dim,
            activation=self.activation,
            kernel_initializer=ff_in,
            dtype=self.dtype_policy,
            name="expand",
        )
        self.project = Dense(
            input_shape[-1],
            kernel_initializer=ff_out,
            dtype=self.dtype_policy,
            name="project",
        )
        hidden = (*input_shape[:-1], self.ff_dim)
        self.expand.build(input_shape)
        self.project.build(hidden)
        if self.inner_norm is not None:
            self.hidden_norm = make_norm(
                self.inner_norm, self.epsilon, dtype=self.dtype_policy, name="norm"
            )
            self.hidden_norm.build(hidden)

    def call(self, x, training=None):
        hidden = self.expand(x)
        if self.inner_norm is not None:
            hidden = self.hidden_norm(hidden)
        return self.project(self.dropout(hidden, training=training))
