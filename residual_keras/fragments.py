"""Some texts cut to a few words, in training: little text says little."""

import keras
from keras import ops

from .embedding import PADDING_ID, UNKNOWN_ID


@keras.saving.register_keras_serializable("residual_keras")
class Fragments(keras.layers.Layer):
    """Leaves a share of the texts a few words in a row, in training.

    A fragment keeps the label of its text, so a model learns how much a few words tell:
    the answer of least loss is the share of each label among the texts with these words
    in them. Without such rows it is as sure of one word as of a page, and of words that
    it does not know.

    Of a text of n tokens, k in a row are kept, from a random one on, log k uniform in
    [0, log n]; they are moved to the front, and padding follows. Each of them is read
    as unknown with a probability that is the text's own, uniform in [0, 1].

    Args:
        rate: the share of the texts.
        min_len: tokens. A text of fewer is never cut, for it may hang on one.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        ids: integers, (batch, time), padding last.
        training: whether texts are cut.

    Returns:
        Like ids.

    Raises:
        ValueError: if `rate` is not in [0, 1], or `min_len` is negative.

    Example:
        >>> ids = keras.ops.array([[7, 8, 9, 0]])
        >>> int(keras.ops.count_nonzero(Fragments(1.0)(ids, training=True))) <= 3
        True
    """

    def __init__(self, rate, min_len=0, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be in [0, 1]. Received: rate={rate}")
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
        batch, time = ops.shape(ids)
        length = ops.sum(ops.cast(ids != PADDING_ID, "float32"), axis=1, keepdims=True)
        cut = (self.draw(batch, 1) < self.rate) & (length >= self.min_len)
        kept = ops.floor(ops.power(ops.maximum(length, 1.0), self.draw(batch, 1)))
        start = ops.floor(self.draw(batch, 1) * (length - kept + 1))
        place = ops.arange(time)[None]
        source = ops.minimum(ops.cast(start, "int32") + place, time - 1)
        found = ops.take_along_axis(ids, source, axis=1)
        unknown = self.draw(batch, time) < self.draw(batch, 1)
        found = ops.where(unknown, ops.cast(UNKNOWN_ID, ids.dtype), found)
        inside = place < ops.cast(ops.minimum(kept, length), "int32")
        fragment = ops.where(inside, found, ops.cast(PADDING_ID, ids.dtype))
        return ops.where(cut, fragment, ids)

    def draw(self, *shape):
        """Uniform random numbers in [0, 1)."""
        return keras.random.uniform(shape, seed=self.seed_generator)

    def compute_output_spec(self, ids, training=None):
        return keras.KerasTensor(ids.shape, ids.dtype)
