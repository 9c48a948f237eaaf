"""Schemes whose state is one tensor, turned towards the update or along it."""

import math

import keras
from keras import ops

from .base import Residual, register
from .numbers import checked, exact, number


@register("delta")
class Delta(Residual):
    """x <- x + b (v - k^T x) k, k = f(u)/|f(u)|, u = LN(x), and LN at the end.

    The sublayer gives a direction k alone. What x holds along k is replaced, by the
    share b, by the number v; all that is orthogonal to k stays. Both are scalars of the
    token, b = 2 sigmoid(w_b^T u + c_b) and v = 4 sigmoid(w_v^T x + c_v): b near 0 keeps
    x, 1 puts v in place of the old value, 2 reflects. w_b, w_v (embed_dim) and c_v
    start at 0, so v at 2, and c_b such that b starts at `beta`. That is 2 (d + 1)
    weights a sublayer beside the norm's. epsilon is added to |f(u)|^2, so that an
    update dropped to zero leaves x as it is.

    The state is x and u, which the next sublayer reads and its b is made from. Blocks
    stacked by hand lose the norm at the end. The paper's wider state, a matrix for each
    token with a convolution over tokens, is not here.

    When: the stream shall be able to forget, at the cost of a few vectors.

    When not: where the size of an update shall count: it is divided out, so dropping
    all of a branch (stochastic depth) cannot be made up for by scaling the others; or
    deep and narrow: in benchmarks/depth.py 24 blocks stay at 0.482.

    Source: Zhang et al. 2026, arXiv:2601.00417.

    Args:
        beta: first value of b, between 0 and 2.

    Raises:
        ValueError: if `beta` is not between 0 and 2.
    """

    final_norm = True

    def __init__(self, num_sublayers, beta=1.0, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = 0 < number("beta", beta) < 2
        self.beta = checked(fits, "beta", beta, "between 0 and 2, both excluded")

    def build(self, input_shape):
        n, width = self.num_sublayers, input_shape[-1]
        self.norms = self.add_norms(n, input_shape)
        logit = math.log(self.beta / (2 - self.beta))
        self.share_bias = self.add_numbers((n,), "share_bias", logit)
        self.value_bias = self.add_numbers((n,), "value_bias")
        self.shares, self.values = (
            [self.add_numbers((width, 1), f"{name}_{i}") for i in range(n)]
            for name in ("share", "value")
        )

    def add_numbers(self, shape, name, value=0.0):
        start = keras.initializers.Constant(value)
        return self.add_exact(name, shape, start)

    def start(self, x):
        return x, self.norms[0](x)

    def read(self, state, i):
        return state[1]

    def write(self, state, update, i):
        x, u = state
        k = unit(update, self.epsilon)
        precise = ops.cast(x, k.dtype)
        share = ops.matmul(ops.cast(u, k.dtype), self.shares[i]) + self.share_bias[i]
        value = ops.matmul(precise, self.values[i]) + self.value_bias[i]
        share, value = 2 * ops.sigmoid(share), 4 * ops.sigmoid(value)
        self.show(i, "b", share[..., 0])
        self.show(i, "v", value[..., 0])
        change = value - ops.sum(k * precise, axis=-1, keepdims=True)
        x = x + ops.cast(share * change * k, x.dtype)
        return x, self.norms[i + 1](x) if i + 1 < self.num_sublayers else None

    def finish(self, state):
        return state[0]


@register("ngpt_lerp")
class NormalizedLerp(Residual):
    """x <- N(x + |a| (N(f(x)) - x)), N(x) = x/|x|; x = N(x) at the start.

    The stream stays on the unit sphere and is moved a part of the way towards the
    update, at first `alpha` of it. a (embed_dim) is learned for each sublayer, d
    weights: like its paper, the scheme stores s = a / (alpha sqrt(d)), which starts at
    1/sqrt(d), so that its numbers are of the size of the stream's. epsilon is added to
    |x|^2, so that a zero gives zero. Blocks stacked by hand lose nothing.

    Of nGPT this is the residual path alone. Not here: matrices normalised after every
    step, queries and keys of unit norm with a learned scale and the softmax's factor
    sqrt(key_dim), the scales inside the feed-forward network and of the logits, and
    training without weight decay and warm-up. A sublayer reads numbers of about
    1/sqrt(d), far smaller than behind a norm.

    When: the stream's norm shall be bounded in every block without a gain to learn.

    When not: to have the speed that nGPT reports: most of it is in what is not here.

    Source: Loshchilov et al. 2024, arXiv:2410.01131.

    Args:
        alpha: first value of all numbers of a.

    Raises:
        ValueError: if `alpha` is no positive number.
    """

    def __init__(self, num_sublayers, alpha=0.05, **kwargs):
        super().__init__(num_sublayers, **kwargs)
        fits = number("alpha", alpha) > 0
        self.alpha = checked(fits, "alpha", alpha, "positive")

    def build(self, input_shape):
        width = input_shape[-1]
        self.scale = self.alpha * width**0.5
        self.alphas = self.add_vectors("alpha", input_shape, width**-0.5)

    def start(self, x):
        return ops.cast(unit(x, self.epsilon), x.dtype)

    def write(self, state, update, i):
        x, y = ops.cast(state, exact(state)), unit(update, self.epsilon)
        rate = ops.abs(self.scale * self.alphas[i])
        self.show(i, "a", rate, "channel")
        x = x + rate * (y - x)
        return ops.cast(unit(x, self.epsilon), state.dtype)


def unit(x, epsilon):
    """x/|x| in float32 at least, and finite with finite gradients where x is 0."""
    x = ops.cast(x, exact(x))
    square = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(square + epsilon)
