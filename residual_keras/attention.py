"""Self-attention: masks, rotary positions, scores."""

import keras
from keras import ops

from .dense import Dense
from .dot_product import (
    FUSED,
    MASKED,
    fused_attention,
    products,
    softmax,
    softmax_product,
)
from .initializers import independent, scaled, side_by_side
from .norms import make_norm
from .spec import check_positive


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
        qk_norm: whether each head's queries and keys are normalised before that, by
            RMSNorm with a learned gain (Henry et al. 2020, arXiv:2010.04245, in the
            form of Dehghani et al. 2023, arXiv:2302.05442). It bounds the scores.
        value_norm: the same for the values.
        value_residual: whether the values become a V + b V_1, with the values V_1 of
            the first block and learned numbers a and b, both 1/2 at first (Zhou et al.
            2024, arXiv:2410.17897).
        score_residual: whether the scores of the block before are added, both without
            `bias` (He et al. 2020, arXiv:2012.11747). They stay in memory for it.
        head_scale: whether each head's result is multiplied by a learned number, 1 at
            first (Shleifer et al. 2021, arXiv:2110.09456).
        inner_norm: the kind of a norm over all heads' results, side by side, before the
            output projection, see `make_norm`; None for none (Wang et al. 2022,
            arXiv:2210.06423).
        kernel_initializer: of all four kernels, each a draw of its own.
        init_gains: dict that multiplies the first values of query, key, value, output.
        epsilon: of the norms.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        x: (batch, time, embed_dim), or three of those: what queries, keys and values
            are made from.
        bias: what is added to the scores, such as `attention_bias` gives; broadcastable
            to (batch, num_heads, time, time), or None.
        memory: what the attention of the block before passed on; None in the first.
        return_attention_scores: also return the weights.
        return_memory: also return what to pass on.

    Returns:
        (batch, time, embed_dim), and where asked the attention weights before dropout,
        (batch, num_heads, time, time), and the memory: V_1, (batch, num_heads, time,
        key_dim), and the scores without `bias`; None for what no block can ask for.

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
        qk_norm=False,
        value_norm=False,
        value_residual=False,
        score_residual=False,
        head_scale=False,
        inner_norm=None,
        kernel_initializer="glorot_uniform",
        init_gains=None,
        epsilon=1e-6,
        **kwargs,
    ):
        # Half precision would lose the scores of the block before, and turn MASKED to
        # -inf: what comes in is cast where it is used.
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        check_positive(num_heads=num_heads, key_dim=key_dim)
        if rotary and key_dim % 2:
            raise ValueError(
                "Rotary positions turn pairs of numbers, so key_dim must be even. "
                f"Received: key_dim={key_dim}. Choose another num_heads or key_dim."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.rotary = rotary
        self.qk_norm = qk_norm
        self.value_norm = value_norm
        self.value_residual = value_residual
        self.score_residual = score_residual
        self.head_scale = head_scale
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
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "rate": self.dropout.rate,
            "rotary": self.rotary,
            "qk_norm": self.qk_norm,
            "value_norm": self.value_norm,
            "value_residual": self.value_residual,
            "score_residual": self.score_residual,
            "head_scale": self.head_scale,
            "inner_norm": self.inner_norm,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "init_gains": self.init_gains,
            "epsilon": self.epsilon,
        }

    def build(self, input_shape):
        if not isinstance(input_shape[-1], int):  # of queries', keys' and values' own
            input_shape, *_ = input_shape
        heads = (*input_shape[:-1], self.num_heads * self.key_dim)
        query, key, value, output = (
            scaled(self.kernel_initializer, self.init_gains.get(weight, 1.0))
            for weight in ("query", "key", "value", "output")
        )
        self.qkv = Dense(
            3 * heads[-1],
            kernel_initializer=side_by_side([query, key, value]),
            dtype=self.dtype_policy,
            name="qkv",
        )
        self.output_dense = Dense(
            input_shape[-1],
            kernel_initializer=output,
            dtype=self.dtype_policy,
            name="output",
        )
        self.qkv.build(input_shape)
        self.output_dense.build(heads)
        if self.qk_norm:
            self.query_norm = self.add_norm("rms_norm", self.key_dim, "query_norm")
            self.key_norm = self.add_norm("rms_norm", self.key_dim, "key_norm")
        if self.value_norm:
            self.values_norm = self.add_norm("rms_norm", self.key_dim, "value_norm")
        if self.value_residual:
            half = keras.initializers.Constant(0.5)
            self.own = self.add_weight(shape=(), initializer=half, name="own")
            self.first = self.add_weight(shape=(), initializer=half, name="first")
        if self.head_scale:
            self.scales = self.add_weight(
                shape=(self.num_heads,), initializer="ones", name="head_scale"
            )
        if self.inner_norm is not None:
            self.heads_norm = self.add_norm(self.inner_norm, heads[-1], "inner_norm")

    def add_norm(self, kind, width, name):
        """A built norm over the last axis."""
        norm = make_norm(kind, self.epsilon, dtype=self.dtype_policy, name=name)
        norm.build((None, None, width))
        return norm

    def call(
        self,
        x,
        bias=None,
        memory=None,
        training=None,
        return_attention_scores=False,
        return_memory=False,
    ):
        query, key, value = self.project(x)
        first, previous = (value, None) if memory is None else memory
        if self.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.rotary:
            query, key = turn(query), turn(key)
        if self.value_residual and memory is not None:
            own, share = (ops.cast(w, value.dtype) for w in (self.own, self.first))
            value = own * value + share * first

        # What nobody asked for is not passed on, or a stack would have to keep it. The
        # first block cannot tell: it mixes no values in.
        passed_on = self.value_residual or memory is None
        memory = first if passed_on else None, None
        drops = bool(self.dropout.rate and training)
        if FUSED and not (drops or return_attention_scores or self.score_residual):
            y = fused_attention(query, key, value, bias)
        else:
            scores = products(query, key)
            if self.score_residual:
                scores = scores if previous is None else scores + previous
                memory = memory[0], scores
            if bias is not None:
                # A row of -inf has no softmax.
                scores = scores + ops.maximum(ops.cast(bias, scores.dtype), MASKED)
            keep = None
            if drops:
                keep = self.dropout(ops.ones_like(scores), training=training)
            y = softmax_product(scores, value, keep)
            if return_attention_scores:
                weights = ops.cast(softmax(scores), self.compute_dtype)
        if self.head_scale:
            y = y * ops.reshape(ops.cast(self.scales, y.dtype), (-1, 1, 1))
        y = ops.transpose(y, (0, 2, 1, 3))
        y = ops.reshape(y, (*ops.shape(y)[:2], self.num_heads * self.key_dim))
        if self.inner_norm is not None:
            y = self.heads_norm(y)
        y = self.output_dense(y)
        also = [weights] if return_attention_scores else []
        also += [memory] if return_memory else []
        return (y, *also) if also else y

    def project(self, x):
        """Queries, keys and values, (batch, num_heads, time, key_dim) each."""
        heads = (self.num_heads, self.key_dim)
        if not isinstance(x, (tuple, list)):
            batch, time = ops.shape(x)[0], ops.shape(x)[1]
            parts = ops.reshape(self.qkv(x), (batch, time, 3, *heads))
            # (3, batch, num_heads, time, key_dim)
            parts = ops.unstack(ops.transpose(parts, (2, 0, 3, 1, 4)), 3, axis=0)
        else:
            kernels, biases = (
                ops.split(ops.cast(weight, self.compute_dtype), 3, axis=-1)
                for weight in (self.qkv.kernel, self.qkv.bias)
            )
            parts = []
            for one, kernel, bias in zip(x, kernels, biases, strict=True):
                part = ops.matmul(ops.cast(one, self.compute_dtype), kernel) + bias
                part = ops.reshape(part, (*ops.shape(part)[:2], *heads))
                parts.append(ops.transpose(part, (0, 2, 1, 3)))
        query, key, value = parts
        return query, key, self.values_norm(value) if self.value_norm else value

    def compute_mask(self, x, previous_mask=None):
        return previous_mask[0] if isinstance(x, (tuple, list)) else previous_mask


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
