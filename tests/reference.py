"""What each residual scheme computes, in NumPy: the equation and nothing else.

The function named after a scheme takes x (batch, time, width), the sublayers f_i as
functions, the scheme's weights by their path inside it, the norms' epsilon, and the
scheme's options. It returns what `finish` returns; the norm that a stack adds is not
part of it. A kernel stands on the right, as in Keras: y = x K + b. At the end of the
file stands how many weights each scheme has.
"""

import numpy as np


def layer_norm(x, epsilon, gain=1.0, offset=0.0):
    """LN(x), over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return gain * centred / np.sqrt(variance + epsilon) + offset


def post_ln(x, sublayers, weights, epsilon):
    """x <- LN(x + f(x))."""
    for i, f in enumerate(sublayers):
        gain, offset = weights[f"norm_{i}/gamma"], weights[f"norm_{i}/beta"]
        x = layer_norm(x + f(x), epsilon, gain, offset)
    return x


def pre_ln(x, sublayers, weights, epsilon):
    """x <- x + f(LN(x))."""
    for i, f in enumerate(sublayers):
        gain, offset = weights[f"norm_{i}/gamma"], weights[f"norm_{i}/beta"]
        x = x + f(layer_norm(x, epsilon, gain, offset))
    return x


def none(x, sublayers, weights, epsilon):
    """x <- f(x)."""
    for f in sublayers:
        x = f(x)
    return x


def attention_residual(x, sublayers, weights, epsilon, fusion_init=None):
    """x <- LN([x ; f(x) P + b_P] F + b_F); `fusion_init` is about the start alone."""
    for i, f in enumerate(sublayers):
        p = f(x) @ weights[f"project_{i}/kernel"] + weights[f"project_{i}/bias"]
        both = np.concatenate([x, p], axis=-1)
        fused = both @ weights[f"fuse_{i}/kernel"] + weights[f"fuse_{i}/bias"]
        gain, offset = weights[f"norm_{i}/gamma"], weights[f"norm_{i}/beta"]
        x = layer_norm(fused, epsilon, gain, offset)
    return x


# Weights that a scheme adds to n sublayers of width d, and a stack's norm at the end.
COUNTS = {
    "attention_residual": lambda n, d: (n * (3 * d * d + 4 * d), 0),
    "none": lambda n, d: (0, 2 * d),
    "post_ln": lambda n, d: (n * 2 * d, 0),
    "pre_ln": lambda n, d: (n * 2 * d, 2 * d),
}
