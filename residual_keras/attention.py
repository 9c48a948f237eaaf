"""Self-attention: masks, rotary positions, scores."""

import keras
from keras import ops

from .initializers import independent, scaled, side_by_side

MASKED = -1e9  # added once to a masked score, in float32 at least: its weight is 0


@keras.saving.register_keras_serializable("residual_keras")
class SelfAttention(keras.layers.Layer):
    """Multi-head scaled dot-product attention of a sequence to itself.

    For each head, with Q, K, V = x W_q + b_q, x W_k + b_k, x W_v + b_v:

        y = softmax(Q K^T / sqrt(key_dim) + bias) V

    and the heads, side by side, go through the output projection. Source: Vaswani et
    al. 2017, arXiv:1706.03762, section 3.2. One kernel holds W_q, W_k and W_v, each
    (embed_dim, num_heads * key_dim) and drawn by itself.

    Args:
        num_heads: number of heads.
        key_dim: width of a head.
        rate: share of the attention weights that is dropped in training.
        rotary: whether queries and keys are turned by their position (`turn`).
        kernel_initializer: of all four kernels, each a draw of its own.
        init_gains: dict that multiplies the first values of query, key, value, output.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, embed_dim).
        bias: what is added to the scores, such as `attention_bias` gives; broadcastable
            to (batch, num_heads, time, time), or None.
        return_attention_scores: also return the weights.

    Returns:
        (batch, time, embed_dim), and where asked the attention weights before dropout,
        (batch, num_heads, time, time).

    Raises:
        ValueError: if a number is out of range, or `rotary` meets an odd `key_dim`.

    Example:
        >>> SelfAttention(num_heads=2, key_dim=4)(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        rate=0.0,
        *,
        rotary=False,
        kernel_initializer="glorot_uniform",
        init_gains=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        for name, value in {"num_heads": num_heads, "key_dim": key_dim}.items():
            if value < 1:
                raise ValueError(f"{name} must be positive. Received: {name}={value}")
        if rotary and key_dim % 2:
            raise ValueError(
                "Rotary positions turn pairs of numbers, so key_dim must be even. "
                f"Received: key_dim={key_dim}. Choose another num_heads or key_dim."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.rotary = rotary
        self.kernel_initializer = independent(kernel_initializer)
        self.init_gains = init_gains or {}
        self.dropout = keras.layers.Dropout(rate, dtype=self.dtype_policy)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "rate": self.dropout.rate,
            "rotary": self.rotary,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "init_gains": self.init_gains,
        }

    def build(self, input_shape):
        width = self.num_heads * self.key_dim
        query, key, value, output = (
            scaled(self.kernel_initializer, self.init_gains.get(weight, 1.0))
            for weight in ("query", "key", "value", "output")
        )
        self.qkv = keras.layers.Dense(
            3 * width,
            kernel_initializer=side_by_side([query, key, value]),
            dtype=self.dtype_policy,
            name="qkv",
        )
        self.output_dense = keras.layers.Dense(
            input_shape[-1],
            kernel_initializer=output,
            dtype=self.dtype_policy,
            name="output",
        )
        self.qkv.build(input_shape)
        self.output_dense.build((*input_shape[:-1], width))

    def call(self, x, bias=None, training=None, return_attention_scores=False):
        batch, time = ops.shape(x)[0], ops.shape(x)[1]
        heads = (batch, time, 3, self.num_heads, self.key_dim)
        # (3, batch, num_heads, time, key_dim)
        qkv = ops.transpose(ops.reshape(self.qkv(x), heads), (2, 0, 3, 1, 4))
        query, key, value = ops.unstack(qkv, 3, axis=0)
        if self.rotary:
            query, key = turn(query), turn(key)

        # In half precision, products of large numbers overflow and a softmax over many
        # tokens loses them: scores are never below float32.
        exact = keras.backend.result_type(query.dtype, "float32")
        query, key = ops.cast(query, exact), ops.cast(key, exact)
        query = query * self.key_dim**-0.5
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        if bias is not None:
            # Keras casts a bias as it casts x: in float16 MASKED arrives as -inf, and a
            # row of those has no softmax.
            scores = scores + ops.maximum(ops.cast(bias, exact), MASKED)
        weights = ops.cast(softmax(scores), self.compute_dtype)

        y = ops.matmul(self.dropout(weights, training=training), value)
        y = ops.transpose(y, (0, 2, 1, 3))
        y = ops.reshape(y, (batch, time, self.num_heads * self.key_dim))
        y = self.output_dense(y)
        return (y, weights) if return_attention_scores else y


def softmax(scores):
    """Softmax over the last axis; 1 over an axis of size 1, where Keras warns."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores)


def attention_bias(x, mask=None, attention_mask=None, causal=False):
    """What to add to attention scores so that a query sees what the masks allow.

    The masks are joined as booleans first, so no two extreme numbers are ever summed.

    Args:
        x: (batch, time, embed_dim), for its length.
        mask: (batch, time), True at real tokens, or None.
        attention_mask: (batch, time, time) or (batch, 1, time, time), True where the
            query (third axis from the right) may see the key, or None.
        causal: whether a token sees only itself and those before it.

    Returns:
        float32, broadcastable to (batch, num_heads, time, time), 0 where allowed and
        very negative elsewhere; None if all is allowed. A query that may see nothing
        sees everything alike.

    Raises:
        ValueError: if a mask has another rank, or holds floats.
    """
    allowed = []
    if mask is not None:
        mask = _boolean("mask", mask, ranks=(2,))
        allowed.append(ops.expand_dims(ops.expand_dims(mask, 1), 1))
    if attention_mask is not None:
        attention_mask = _boolean("attention_mask", attention_mask, ranks=(3, 4))
        if len(attention_mask.shape) == 3:
            attention_mask = ops.expand_dims(attention_mask, 1)
        allowed.append(attention_mask)
    if causal:
        place = ops.arange(ops.shape(x)[1])
        before = ops.expand_dims(place, 1) >= ops.expand_dims(place, 0)
        allowed.append(ops.expand_dims(ops.expand_dims(before, 0), 0))
    if not allowed:
        return None
    together = allowed[0]
    for one in allowed[1:]:
        together = ops.logical_and(together, one)
    return ops.where(
        together, ops.zeros((), "float32"), ops.full((), MASKED, "float32")
    )


def _boolean(name, mask, ranks):
    shapes = {
        2: "(batch, time)",
        3: "(batch, time, time)",
        4: "(batch, 1, time, time)",
    }
    mask = ops.convert_to_tensor(mask)
    rank = len(mask.shape)
    if rank not in ranks or (rank == 4 and mask.shape[1] not in (1, None)):
        raise ValueError(
            f"{name} must have shape {' or '.join(shapes[r] for r in ranks)}. "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )
    if keras.backend.is_float_dtype(mask.dtype):
        raise ValueError(
            f"{name} must be boolean, True where attention is allowed. "
            f"Received: dtype={mask.dtype}. Cast it to bool."
        )
    return ops.cast(mask, "bool")


def turn(x, wavelength=10_000.0):
    """Rotary positions: pair j of the token at position t is turned by t w^(-2j/d).

    Number j and number j + d/2 make a pair, so that the product of a query and a key
    depends on their distance alone. Source: Su et al. 2021, arXiv:2104.09864.

    Args:
        x: (batch, num_heads, time, d), d even.
        wavelength: w, in tokens.

    Returns:
        Like x.
    """
    half = x.shape[-1] // 2
    speed = wavelength ** (-ops.arange(half, dtype="float32") / half)
    place = ops.cast(ops.arange(ops.shape(x)[2]), "float32")
    angle = ops.expand_dims(place, 1) * ops.expand_dims(speed, 0)  # (time, d/2)
    cos, sin = ops.cast(ops.cos(angle), x.dtype), ops.cast(ops.sin(angle), x.dtype)
    first, second = ops.split(x, 2, axis=-1)
    return ops.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )
