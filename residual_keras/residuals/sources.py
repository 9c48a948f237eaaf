"""Attention along depth: sources written one by one, and means of them."""

import typing

from keras import ops

from .mixing import of_normed
from .numbers import exact

GROUP = 8  # readers whose means over what is older are taken at once, if they can be


class Sources(typing.NamedTuple):
    """Tensors written one after the other, for readers that attend along depth.

    A softmax over depth can be taken in parts: some sources amount to one, their mean,
    whose logit is the logarithm of the sum of their logits' exponentials. So the means
    over all that is older are taken for a group of readers at a time, by one matrix
    product which goes through the old sources once and not once a reader.

    Attributes:
        queries: (embed_dim, readers), w g of each; 0 for the first, which has none.
        epsilon: added to the mean square of a source.
        group: how many readers are served at a time.
        recent: the sources since this group began: of each the logits, in a list of
            (batch, time, readers of a group), and the value, (batch, time, embed_dim).
        older: all sources before, likewise.
        means: what the older ones amount to, by reader: the logit and the mean.
    """

    queries: typing.Any
    epsilon: float
    group: int
    recent: tuple = ()
    older: tuple = ()
    means: dict = {}

    @classmethod
    def of(cls, x, queries, gains, epsilon, size=1):
        """The sources of reader 0: x alone. One more comes every `size` readers."""
        none = ops.zeros(x.shape[-1:], exact(x))
        products = [query * gain for query, gain in zip(queries, gains, strict=True)]
        group = size * max(1, GROUP // size)  # begins where a source has come
        sources = cls(ops.stack([none, *products], axis=1), epsilon, group)
        return sources.add(x, 0)

    @property
    def begins(self):
        """The first reader of each group but the first; none begins with the last."""
        return list(range(self.group, self.queries.shape[1] - 1, self.group))

    def place(self, reader):
        """The reader's group, and its place there."""
        k = min(reader // self.group, len(self.begins))
        return k, reader - k * self.group

    def add(self, value, reader):
        """With one source more, the next to read being `reader`."""
        logits = of_normed(value, self.queries, self.epsilon)
        parts = ops.split(logits, self.begins, axis=-1) if self.begins else [logits]
        more = self._replace(recent=(*self.recent, (parts, value)))
        return more.close(reader) if reader in self.begins else more

    def close(self, reader):
        """With all sources as older ones, and their means for a group of readers."""
        older, (k, _) = (*self.older, *self.recent), self.place(reader)
        logits = ops.stack([parts[k] for parts, _ in older], axis=3)
        values = ops.stack([value for _, value in older], axis=2)
        total = ops.logsumexp(logits, axis=-1, keepdims=True)
        means = ops.matmul(ops.cast(ops.exp(logits - total), values.dtype), values)
        pairs = zip(ops.unstack(total, axis=2), ops.unstack(means, axis=2), strict=True)
        means = dict(enumerate(pairs, start=reader))
        return self._replace(recent=(), older=older, means=means)

    def mean(self, reader):
        """What `reader` makes of all sources, and before it the logit of that."""
        k, at = self.place(reader)
        pairs = [self.means[reader]] if reader in self.means else []
        pairs += [(parts[k][..., at : at + 1], value) for parts, value in self.recent]
        if len(pairs) == 1:
            return pairs[0]
        logits, values = zip(*pairs, strict=True)
        logits = ops.concatenate(logits, axis=-1)
        weights = ops.cast(ops.softmax(logits), values[0].dtype)
        weights = ops.split(weights, len(values), axis=-1)
        mean = sum(a * v for a, v in zip(weights, values, strict=True))
        return ops.logsumexp(logits, axis=-1, keepdims=True), mean

    def weights(self, reader):
        """What `reader` gives to each source, (batch, time, sources)."""
        k, at = self.place(reader)
        logits = [parts[k][..., at] for parts, _ in (*self.older, *self.recent)]
        logits = ops.stack(logits, axis=-1)
        return ops.exp(logits - ops.logsumexp(logits, axis=-1, keepdims=True))

    def weighted(self, reader):
        """What any reader, whichever is the next, makes of all sources."""
        values = [value for _, value in (*self.older, *self.recent)]
        weights = ops.expand_dims(ops.cast(self.weights(reader), values[0].dtype), 2)
        return ops.squeeze(ops.matmul(weights, ops.stack(values, axis=2)), 2)

    def logits(self, value, reader):
        """The logit of a value that is no source yet, for one reader."""
        return of_normed(value, self.queries[:, reader : reader + 1], self.epsilon)
