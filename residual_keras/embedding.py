"""Token ids -> (batch, time, embed_dim): tokens, their positions, a class token."""

import keras
from keras import ops

from .positions import LearnedPositions, NoPositions, SinusoidalPositions
from .spec import check_positive, look_up

PADDING_ID = 0
UNKNOWN_ID = 1

POSITIONS = {
    "learned": lambda max_len, **kwargs: LearnedPositions(max_len, **kwargs),
    "sinusoidal": lambda max_len, **kwargs: SinusoidalPositions(**kwargs),
    "rotary": lambda max_len, **kwargs: NoPositions(**kwargs),  # attention's affair
    "none": lambda max_len, **kwargs: NoPositions(**kwargs),
}


@keras.saving.register_keras_serializable("residual_keras")
class TokenAndPositionEmbedding(keras.layers.Layer):
    """x_t = E[id_t] + P_t: what each token is, and where it stands.

    Id 0 is padding and makes the mask; an id outside 0 .. vocab_size - 1 is read as 1,
    the unknown token, on every device (a look-up would raise on a CPU, give zeros on a
    GPU, and wrap a negative id to the last row).

    Args:
        vocab_size: number of ids, padding and unknown among them.
        max_len: number of tokens in the longest text; only "learned" needs the limit.
        embed_dim: width of the stream.
        positions: "learned", "sinusoidal", "none", or "rotary": nothing is added here
            then, and the encoder turns queries and keys (`rotary=True`).
        embeddings_initializer: of the tokens; None for the one that fits the positions.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        ids: integers, (batch, time).

    Returns:
        (batch, time, embed_dim), with the mask ids != 0.

    Raises:
        ValueError: if an argument is out of range, if ids are not integers, or as
            `LearnedPositions` does if a text is too long.

    Example:
        >>> embed = TokenAndPositionEmbedding(vocab_size=100, max_len=16, embed_dim=8)
        >>> embed(keras.ops.ones((2, 5), "int32")).shape
        TensorShape([2, 5, 8])
    """

    def __init__(
        self,
        vocab_size,
        max_len,
        embed_dim,
        positions="learned",
        embeddings_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if vocab_size <= UNKNOWN_ID:
            raise ValueError(
                "vocab_size counts padding (0) and the unknown token (1), so it is at "
                f"least 2. Received: vocab_size={vocab_size}"
            )
        check_positive(embed_dim=embed_dim)
        self.vocab_size = vocab_size
        self.max_len = max_len
        self.embed_dim = embed_dim
        self.positions = positions
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        place = look_up(POSITIONS, positions, "positions")
        self.place = place(max_len, dtype=self.dtype_policy, name="positions")
        self.tokens = keras.layers.Embedding(
            vocab_size,
            embed_dim,
            embeddings_initializer=(
                self.embeddings_initializer or self.place.token_initializer
            ),
            dtype=self.dtype_policy,
            name="tokens",
        )

    def get_config(self):
        start = keras.initializers.serialize(self.embeddings_initializer)
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "max_len": self.max_len,
            "embed_dim": self.embed_dim,
            "positions": self.positions,
            "embeddings_initializer": start,
        }

    def build(self, input_shape):
        self.tokens.build(input_shape)
        self.place.build((*input_shape, self.embed_dim))

    def call(self, ids):
        self.check_integers(ids)
        return self.place(self.tokens(known_ids(ids, self.vocab_size)))

    def compute_mask(self, ids, previous_mask=None):
        return ops.not_equal(ids, PADDING_ID)

    def compute_output_spec(self, ids):
        self.check_integers(ids)
        shape = self.place.compute_output_shape((*ids.shape, self.embed_dim))
        return keras.KerasTensor(shape, self.compute_dtype)

    def check_integers(self, ids):
        """Raises ValueError if ids are of another type."""
        if not keras.backend.is_int_dtype(ids.dtype):
            raise ValueError(
                f"Token ids must be integers. Received: dtype={ids.dtype}. Half "
                "precision cannot even hold 2049, so cast them before, and say "
                'keras.Input((None,), dtype="int32").'
            )

    @property
    def longest(self):
        """The number of tokens that a text may have, or None where it is all one."""
        return getattr(self.place, "max_len", None)

    @property
    def spared(self):
        """The weights that weight decay leaves alone."""
        return getattr(self.place, "spared", [])


def known_ids(ids, vocab_size):
    """Token ids, those beyond the vocabulary read as unknown."""
    known = ops.logical_and(ids >= 0, ids < vocab_size)
    return ops.where(known, ids, UNKNOWN_ID)


@keras.saving.register_keras_serializable("residual_keras")
class WordDropout(keras.layers.Layer):
    """Reads a share of the words as unknown, in training: a text is more than one word.

    Source: Iyyer et al. 2015 (Deep Averaging Networks, ACL), section 3.2, where the
    words vanish; here they leave their place.

    Args:
        rate: the share.
        min_len: tokens. A text of fewer keeps its words, for it may hang on one.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        ids: integers, (batch, time).
        training: whether words are dropped.

    Returns:
        Like ids; padding stays padding.

    Raises:
        ValueError: if `rate` is not in [0, 1), or `min_len` is negative.

    Example:
        >>> WordDropout(0.5)(keras.ops.array([[7, 8, 0]]), training=False)[0, 0]
        <tf.Tensor: shape=(), dtype=int32, numpy=7>
    """

    def __init__(self, rate, min_len=0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be in [0, 1). Received: rate={rate}")
        if min_len < 0:
            raise ValueError(
                f"min_len must not be negative. Received: min_len={min_len}"
            )
        self.rate = rate
        self.min_len = min_len
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, ids, training=None):
        if not training or self.rate == 0:
            return ids
        draw = keras.random.uniform(ops.shape(ids), seed=self.seed_generator)
        words = ids != PADDING_ID
        length = ops.sum(ops.cast(words, "int32"), axis=1, keepdims=True)
        drop = (draw < self.rate) & words & (length >= self.min_len)
        return ops.where(drop, ops.cast(UNKNOWN_ID, ids.dtype), ids)

    def compute_output_spec(self, ids, training=None):
        return keras.KerasTensor(ids.shape, ids.dtype)


@keras.saving.register_keras_serializable("residual_keras")
class ClassToken(keras.layers.Layer):
    """Puts one learned vector before every sequence, and True before its mask.

    Source: Devlin et al. 2018, arXiv:1810.04805.

    Call arguments:
        x: (batch, time, embed_dim).

    Returns:
        (batch, time + 1, embed_dim).

    Example:
        >>> ClassToken()(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 4, 8])
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def build(self, input_shape):
        self.token = self.add_weight(
            shape=(1, 1, input_shape[-1]), initializer="uniform", name="token"
        )

    def call(self, x):
        first = ops.broadcast_to(self.token, (ops.shape(x)[0], 1, x.shape[-1]))
        return ops.concatenate([ops.cast(first, x.dtype), x], axis=1)

    def compute_mask(self, x, previous_mask=None):
        if previous_mask is None:
            return None
        return ops.pad(previous_mask, [[0, 0], [1, 0]], constant_values=True)

    def compute_output_shape(self, input_shape):
        batch, time, width = input_shape
        return (batch, None if time is None else time + 1, width)

    @property
    def spared(self):
        """The weights that weight decay leaves alone."""
        return [self.token]
