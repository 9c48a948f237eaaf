"""What each residual scheme computes, in NumPy: the equation and nothing else.

The function named after a scheme takes x (batch, time, width), the sublayers f_i as
functions, the scheme's weights by their path inside it, the norms' epsilon, and the
scheme's options. It returns what `finish` returns; the norm that a stack adds is not
part of it. A kernel stands on the right, as in Keras: y = x K + b. At the end of the
file stands how many weights each scheme has.
"""

import math

import numpy as np


def layer_norm(x, epsilon, gain=1.0, offset=0.0):
    """LN(x), over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return gain * centred / np.sqrt(variance + epsilon) + offset


def norm(x, weights, name, epsilon):
    """LN(x) with the weights of the norm of that name."""
    return layer_norm(x, epsilon, weights[f"{name}/gamma"], weights[f"{name}/beta"])


def rms(x, epsilon):
    """x / sqrt(mean(x^2)), over the last axis."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


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


def sandwich_ln(x, sublayers, weights, epsilon):
    """x <- x + LN'(f(LN(x)))."""
    for i, f in enumerate(sublayers):
        y = f(norm(x, weights, f"norm_{i}", epsilon))
        x = x + norm(y, weights, f"update_norm_{i}", epsilon)
    return x


def peri_ln(x, sublayers, weights, epsilon, embedding_norm=True):
    """x <- x + LN'(f(LN(x))), from x = LN_0(x)."""
    if embedding_norm:
        x = norm(x, weights, "start_norm_0", epsilon)
    for i, f in enumerate(sublayers):
        y = f(norm(x, weights, f"norm_{i}", epsilon))
        x = x + norm(y, weights, f"update_norm_{i}", epsilon)
    return x


def sub_ln(x, sublayers, weights, epsilon, depth=None):
    """x <- x + f(LN(x)); the norms inside f are f's, `depth` is about the start."""
    for i, f in enumerate(sublayers):
        x = x + f(norm(x, weights, f"norm_{i}", epsilon))
    return x


def normformer(x, sublayers, weights, epsilon, scale_shortcut=False):
    """x <- x + LN'(f(LN(x))) for attention, x <- w x + f(LN(x)) for feed-forward."""
    for k in range(len(sublayers) // 2):
        attention, feed_forward = sublayers[2 * k : 2 * k + 2]
        y = attention(norm(x, weights, f"norm_{2 * k}", epsilon))
        x = x + norm(y, weights, f"update_norm_{k}", epsilon)
        y = feed_forward(norm(x, weights, f"norm_{2 * k + 1}", epsilon))
        x = (weights["shortcuts"][k] if scale_shortcut else 1) * x + y
    return x


def res_post_norm(x, sublayers, weights, epsilon, init_gain=0.0):
    """x <- x + LN(f(x)); `init_gain` is about the start alone."""
    for i, f in enumerate(sublayers):
        x = x + norm(f(x), weights, f"norm_{i}", epsilon)
    return x


def mix_ln(x, sublayers, weights, epsilon, fraction=0.25):
    """x <- LN(x + f(x)) in the first blocks, x <- x + f(LN(x)) in the others."""
    blocks = len(sublayers) // 2
    for i, f in enumerate(sublayers):
        if i // 2 < np.floor(fraction * blocks):
            x = norm(x + f(x), weights, f"norm_{i}", epsilon)
        else:
            x = x + f(norm(x, weights, f"norm_{i}", epsilon))
    return x


def hybrid_norm(x, sublayers, weights, epsilon):
    """x <- LN(x + f(x)) for attention, x <- x + f(x) for feed-forward."""
    for i, f in enumerate(sublayers):
        x = x + f(x)
        if i % 2 == 0:
            x = norm(x, weights, f"norm_{i // 2}", epsilon)
    return x


def rezero(x, sublayers, weights, epsilon, shared=True):
    """x <- x + a f(x), a of the block or of the sublayer."""
    for i, f in enumerate(sublayers):
        x = x + weights["alpha"][i // 2 if shared else i] * f(x)
    return x


def skip_init(x, sublayers, weights, epsilon):
    """x <- x + a f(x)."""
    for a, f in zip(weights["alpha"], sublayers, strict=True):
        x = x + a * f(x)
    return x


def layer_scale(x, sublayers, weights, epsilon):
    """x <- x + g f(LN(x)), g a vector."""
    for i, f in enumerate(sublayers):
        x = x + weights[f"gamma_{i}"] * f(norm(x, weights, f"norm_{i}", epsilon))
    return x


def deepnorm(x, sublayers, weights, epsilon, depth=None):
    """x <- LN((2N)^(1/4) x + f(x)) in a stack of N blocks."""
    blocks = depth or len(sublayers) / 2
    for i, f in enumerate(sublayers):
        x = norm((2 * blocks) ** 0.25 * x + f(x), weights, f"norm_{i}", epsilon)
    return x


def admin(x, sublayers, weights, epsilon):
    """x <- LN(w x + f(x)), w a vector."""
    for i, f in enumerate(sublayers):
        x = norm(weights[f"omega_{i}"] * x + f(x), weights, f"norm_{i}", epsilon)
    return x


def t_fixup(x, sublayers, weights, epsilon):
    """x <- x + f(x)."""
    for f in sublayers:
        x = x + f(x)
    return x


def ln_scaling(x, sublayers, weights, epsilon, block=1):
    """x <- x + f(LN(x) / sqrt(l)), l the block's number."""
    for i, f in enumerate(sublayers):
        u = norm(x, weights, f"norm_{i}", epsilon)
        x = x + f(u / np.sqrt(block + i // 2))
    return x


def keel(x, sublayers, weights, epsilon, depth=None):
    """x <- LN'(n x + f(LN(x))) in a stack of n sublayers, its first two without LN'."""
    n = 2 * depth if depth else len(sublayers)
    plain = 0 if depth else 2
    for i, f in enumerate(sublayers):
        y = f(norm(x, weights, f"norm_{i}", epsilon))
        if i < plain:
            x = x + y
        else:
            x = norm(n * x + y, weights, f"outer_norm_{i - plain}", epsilon)
    return x


def prores(x, sublayers, weights, epsilon, warmup_steps=1000, block=1, training=False):
    """x <- x + min(t / (T l), 1) f(LN(x)), l the block's number; x + f(LN(x)) later."""
    for i, f in enumerate(sublayers):
        ramp = weights["counter/steps"] / (warmup_steps * (block + i // 2))
        y = f(norm(x, weights, f"norm_{i}", epsilon))
        x = x + (min(ramp, 1) if training else 1) * y
    return x


def unit(x, epsilon):
    """x / |x|."""
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + epsilon)


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def delta(x, sublayers, weights, epsilon, beta=None):
    """x <- x + b (v - k^T x) k; `beta` is about the start alone."""
    for i, f in enumerate(sublayers):
        u = norm(x, weights, f"norm_{i}", epsilon)
        k = unit(f(u), epsilon)
        b = 2 * sigmoid(u @ weights[f"share_{i}"] + weights["share_bias"][i])
        v = 4 * sigmoid(x @ weights[f"value_{i}"] + weights["value_bias"][i])
        x = x + b * (v - (k * x).sum(-1, keepdims=True)) * k
    return x


def ngpt_lerp(x, sublayers, weights, epsilon, alpha=0.05):
    """x <- N(x + |a| (N(f(x)) - x)), a = alpha sqrt(d) s."""
    x = unit(x, epsilon)
    for i, f in enumerate(sublayers):
        rate = np.abs(alpha * np.sqrt(x.shape[-1]) * weights[f"alpha_{i}"])
        x = unit(x + rate * (unit(f(x), epsilon) - x), epsilon)
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


def highway(x, sublayers, weights, epsilon, bias=2.0):
    """x <- g x + (1 - g) ReLU(f(LN(x))), g = sigmoid(x W + b); b starts at `bias`."""
    for i, f in enumerate(sublayers):
        y = np.maximum(f(norm(x, weights, f"norm_{i}", epsilon)), 0)
        g = sigmoid(x @ weights[f"gate_{i}/kernel"] + weights[f"gate_{i}/bias"])
        x = g * x + (1 - g) * y
    return x


def gru_gate(x, sublayers, weights, epsilon, bias=2.0):
    """x <- (1 - z) x + z h, a GRU; the bias of U_z starts at -`bias`."""
    for i, f in enumerate(sublayers):
        w_r, u_r, w_z, u_z, w_g, u_g = (
            weights[f"{name}_{i}/kernel"]
            for name in ("w_r", "u_r", "w_z", "u_z", "w_g", "u_g")
        )
        y = np.maximum(f(norm(x, weights, f"norm_{i}", epsilon)), 0)
        r = sigmoid(y @ w_r + x @ u_r)
        z = sigmoid(y @ w_z + x @ u_z + weights[f"u_z_{i}/bias"])
        h = np.tanh(y @ w_g + (r * x) @ u_g)
        x = (1 - z) * x + z * h
    return x


def input_gate(x, sublayers, weights, epsilon):
    """x <- sigmoid(x W) x + ReLU(f(LN(x)))."""
    for i, f in enumerate(sublayers):
        y = np.maximum(f(norm(x, weights, f"norm_{i}", epsilon)), 0)
        x = sigmoid(x @ weights[f"gate_{i}/kernel"]) * x + y
    return x


def output_gate(x, sublayers, weights, epsilon, bias=2.0):
    """x <- x + sigmoid(x W + b) ReLU(f(LN(x))); b starts at -`bias`."""
    for i, f in enumerate(sublayers):
        y = np.maximum(f(norm(x, weights, f"norm_{i}", epsilon)), 0)
        gate = x @ weights[f"gate_{i}/kernel"] + weights[f"gate_{i}/bias"]
        x = x + sigmoid(gate) * y
    return x


def sigmoid_tanh_gate(x, sublayers, weights, epsilon, bias=2.0):
    """x <- x + sigmoid(y W + b) tanh(y U), y = ReLU(f(LN(x))); b starts at -`bias`."""
    for i, f in enumerate(sublayers):
        y = np.maximum(f(norm(x, weights, f"norm_{i}", epsilon)), 0)
        gate = y @ weights[f"gate_{i}/kernel"] + weights[f"gate_{i}/bias"]
        x = x + sigmoid(gate) * np.tanh(y @ weights[f"value_{i}/kernel"])
    return x


def resi_dual(x, sublayers, weights, epsilon, scale=1.0):
    """x <- LN(x + f(x)); at the end x + LN(s (input + sum of f(x)))."""
    total = x
    for i, f in enumerate(sublayers):
        y = f(x)
        total = total + y
        x = norm(x + y, weights, f"norm_{i}", epsilon)
    return x + norm(scale * total, weights, "sum_norm_0", epsilon)


def b2t(x, sublayers, weights, epsilon, depth=None):
    """m = LN(x + f(x)), x <- LN(x + m + g(m)); `depth` is about the start alone."""
    for i in range(0, len(sublayers), 2):
        attention, feed_forward = sublayers[i : i + 2]
        m = norm(x + attention(x), weights, f"norm_{i}", epsilon)
        x = norm(x + m + feed_forward(m), weights, f"norm_{i + 1}", epsilon)
    return x


def siamese_norm(x, sublayers, weights, epsilon, block=1):
    """x <- LN(x + y / sqrt(l)), r <- r + y, y = f(LN(x + LN(r))); ends as x + LN(r)."""
    r = x
    for i, f in enumerate(sublayers):
        both = x + norm(r, weights, f"sum_norm_{i}", epsilon)
        y = f(norm(both, weights, f"norm_{i}", epsilon))
        step = y / np.sqrt(block + i // 2)
        x = norm(x + step, weights, f"stream_norm_{i}", epsilon)
        r = r + y
    return x + norm(r, weights, f"sum_norm_{len(sublayers)}", epsilon)


def hyper_connections(x, sublayers, weights, epsilon, streams=4, dynamic=True):
    """h_k <- sum_j A_jk h_j + b_k f(LN(sum_j a_j h_j)), in the end their sum."""
    h = np.stack([x] * streams, axis=-2)
    for i, f in enumerate(sublayers):
        read, mix, share = connections(h, i, weights, epsilon, dynamic)
        u = (read * h).sum(-2) if i else x
        update = f(norm(u, weights, f"norm_{i}", epsilon))[..., None, :]
        h = mix.swapaxes(-1, -2) @ h + share * update
    return h.sum(-2)


def connections(h, i, weights, epsilon, dynamic=True):
    """a, A and b of sublayer i for streams h (batch, time, streams, width)."""
    columns = weights[f"static_{i}"]
    if dynamic:
        scale = np.full(columns.shape[1], weights[f"scale_{i}"][0])
        scale[-1] = weights[f"scale_{i}"][1]
        normed = layer_norm(h, epsilon)
        columns = columns + scale * np.tanh(normed @ weights[f"kernel_{i}"])
    ends = [columns.shape[-1] - h.shape[-2] - 1, columns.shape[-1] - 1]
    return np.split(columns, ends, axis=-1)


def frac_connections(x, sublayers, weights, epsilon, parts=None):
    """h_k <- sum_j A_jk h_j + b_k f_k(LN(Y^T h)), h the parts of x."""
    parts = weights["share_0"].size
    h = np.stack(np.split(x, parts, axis=-1), axis=-2)
    for i, f in enumerate(sublayers):
        u = (weights[f"read_{i}"].T @ h).reshape(x.shape)
        update = f(norm(u, weights, f"norm_{i}", epsilon)).reshape(h.shape)
        h = weights[f"mix_{i}"].T @ h + weights[f"share_{i}"][:, None] * update
    return h.reshape(x.shape)


def mhc(x, sublayers, weights, epsilon, streams=4, iterations=20, init=None):
    """h <- R h + q f(LN(p h)), in the end their sum."""
    n = streams
    h = np.stack([x] * n, axis=-2)
    for i, f in enumerate(sublayers):
        # all streams as one vector, the n values of a channel side by side
        v = h.swapaxes(-1, -2).reshape(*x.shape[:-1], -1) if i else x
        scale = weights[f"scale_{i}"]
        scale = np.repeat(scale, [n, n, n * n][: scale.size])
        logits = rms(v, epsilon) @ weights[f"kernel_{i}"] * scale + weights[f"bias_{i}"]
        q, p, matrix = np.split(logits, [n, 2 * n], axis=-1)
        u = (sigmoid(p)[..., None] * h).sum(-2) if i else x
        update = f(norm(u, weights, f"norm_{i}", epsilon))
        if matrix.size:
            matrix = np.exp(matrix).reshape(*x.shape[:-1], n, n)
            for _ in range(iterations):
                matrix /= matrix.sum(-2, keepdims=True)
                matrix /= matrix.sum(-1, keepdims=True)
            h = matrix @ h
        h = h + 2 * sigmoid(q)[..., None] * update[..., None, :]
    return h.sum(-2)


def gated_residual(x, sublayers, weights, epsilon, streams=4, rank=None):
    """h_j <- h_j + s_j f(mean_j G_j RMS(h_j)), in the end one more such mean."""
    h = np.stack([x] * streams, axis=-2)
    for i in range(len(sublayers) + 1):
        normed = rms(h, epsilon) * weights[f"gain_{i}"]
        v = normed.reshape(*x.shape[:-1], -1)
        inner = v @ weights[f"down_{i}"] / streams
        gate = sigmoid(inner * sigmoid(inner) @ weights[f"up_{i}"])
        u = (gate.reshape(h.shape) * normed).mean(-2)
        if i < len(sublayers):
            share = 2 * sigmoid(v @ weights[f"share_{i}"] / streams)
            h = h + share[..., None] * sublayers[i](u)[..., None, :]
    return u


def attend(sources, weights, reader, epsilon):
    """sum_j a_j v_j, a = softmax_j(w^T RMS(v_j)), w and the gain of that reader."""
    if len(sources) == 1:
        return sources[0]
    a = attention_to(sources, weights, reader, epsilon)
    return (a[..., None] * np.stack(sources)).sum(0)


def attention_to(sources, weights, reader, epsilon):
    """The weights of `attend`, (sources, batch, time)."""
    query = weights[f"query_{reader}"] * weights[f"gain_{reader}"]
    scores = rms(np.stack(sources), epsilon) @ query
    a = np.exp(scores - scores.max(0))
    return a / a.sum(0)


def attn_res(x, sublayers, weights, epsilon, block_size=None):
    """f reads LN of what it makes of the input and the sums of S updates each."""
    size = block_size or 1
    updates = []

    def mean(reader):
        blocks = [updates[k : k + size] for k in range(0, len(updates), size)]
        return attend([x, *map(sum, blocks)], weights, reader, epsilon)

    for i, f in enumerate(sublayers):
        updates.append(f(norm(mean(i), weights, f"norm_{i}", epsilon)))
    return mean(len(sublayers))


def delta_attn_res(x, sublayers, weights, epsilon):
    """x <- x + f(LN(x + what f makes of the input and all updates))."""
    sources = [x]
    for i, f in enumerate(sublayers):
        u = x + attend(sources, weights, i, epsilon)
        sources.append(f(norm(u, weights, f"norm_{i}", epsilon)))
        x = x + sources[-1]
    return x


def dense_former(x, sublayers, weights, epsilon, dilation=1, period=1):
    """x <- x + f(LN(x)); after every `period`th block a sum over what blocks gave."""
    history = [x]
    for i, f in enumerate(sublayers):
        x = x + f(norm(x, weights, f"norm_{i}", epsilon))
        block, inside = divmod(i + 1, 2)
        if not inside:
            history.append(x)
            if block % period == 0:
                alpha = weights[f"alpha_{block}"][::-1]  # from the newest
                mixed = history[::-1][::dilation]
                x = sum(a * v for a, v in zip(alpha, mixed, strict=True))
    return x


def mudd(x, sublayers, weights, epsilon):
    """x <- x + f(LN(x)); after a block four sums, or one, over what blocks gave."""
    history, inputs = [x], []
    for i, f in enumerate(sublayers):
        u = norm(x, weights, f"norm_{i}", epsilon)
        if i % 2 == 0 and inputs:
            names = f"norm_{i}", f"key_norm_{i // 2 - 1}", f"value_norm_{i // 2 - 1}"
            u = tuple(
                norm(one, weights, name, epsilon)
                for one, name in zip(inputs, names, strict=True)
            )
        x = x + f(u)
        if i % 2:
            history.append(x)
            k = len(history) - 1
            static = weights[f"static_{k}"]
            hidden = rms(x, epsilon) @ weights[f"expand_{k}"]
            hidden = hidden * (1 + np.vectorize(math.erf)(hidden / 2**0.5)) / 2
            dynamic = hidden @ weights[f"mix_{k}"]
            a = static + dynamic.reshape(*x.shape[:2], *static.shape)
            *inputs, x = np.einsum("btcj,jbtd->cbtd", a, history)
    return x


def parts_of(width):
    """Into how many parts a stream falls: 4, or the next number that divides it."""
    return next((n for n in range(4, width) if width % n == 0), width)


# Weights that a scheme adds to n sublayers of width d, and a stack's norm at the end.
COUNTS = {
    "admin": lambda n, d: (n * 3 * d, 0),
    "attention_residual": lambda n, d: (n * (3 * d * d + 4 * d), 0),
    "attn_res": lambda n, d: (n * 4 * d, 2 * d),
    "b2t": lambda n, d: (n * 2 * d, 0),
    "deepnorm": lambda n, d: (n * 2 * d, 0),
    "delta": lambda n, d: (n * (4 * d + 2), 2 * d),
    "delta_attn_res": lambda n, d: ((2 * n - 1) * 2 * d, 2 * d),
    "dense_former": lambda n, d: (n * 2 * d + sum(range(2, n // 2 + 2)), 2 * d),
    "frac_connections": lambda n, d: (
        n * (2 * d + 2 * parts_of(d) ** 2 + parts_of(d)),
        2 * d,
    ),
    "gated_residual": lambda n, d: (
        (n + 1) * (2 * max(1, d // 8) * 4 * d + 4 * d) + n * 4 * 4 * d,
        0,
    ),
    "gru_gate": lambda n, d: (n * (6 * d * d + 3 * d), 0),
    "highway": lambda n, d: (n * (d * d + 3 * d), 0),
    "hybrid_norm": lambda n, d: (n * d, 2 * d),
    # The first sublayer has no a: 4 numbers and a column of W less.
    "hyper_connections": lambda n, d: (
        n * (2 * d + 4 * 6 + 6 * d + 2) - (4 + d),
        2 * d,
    ),
    "input_gate": lambda n, d: (n * (d * d + 2 * d), 2 * d),
    "keel": lambda n, d: ((n - 1) * 4 * d, 0),
    "layer_scale": lambda n, d: (n * 3 * d, 2 * d),
    "ln_scaling": lambda n, d: (n * 2 * d, 2 * d),
    # first q alone, of one stream; last q and p; between them R too
    "mhc": lambda n, d: (
        n * 2 * d
        + (d * 4 + 4 + 1)
        + (4 * d * 8 + 8 + 2)
        + (n - 2) * (4 * d * 24 + 24 + 3),
        2 * d,
    ),
    "mix_ln": lambda n, d: (n * 2 * d, 2 * d),
    "mudd": lambda n, d: (
        (2 * n - 2) * 2 * d
        # m sources, c sums, 4 or 1: W_1 (d, 4 m), W_2 (4 m, c m), c m numbers
        + sum(
            4 * m * d + (4 * m + 1) * m * (4 if m <= n // 2 else 1)
            for m in range(2, n // 2 + 2)
        ),
        2 * d,
    ),
    "ngpt_lerp": lambda n, d: (n * d, 0),
    "none": lambda n, d: (0, 2 * d),
    "normformer": lambda n, d: (n * 3 * d, 2 * d),
    "output_gate": lambda n, d: (n * (d * d + 3 * d), 2 * d),
    "peri_ln": lambda n, d: (n * 4 * d + 2 * d, 2 * d),
    "post_ln": lambda n, d: (n * 2 * d, 0),
    "pre_ln": lambda n, d: (n * 2 * d, 2 * d),
    "prores": lambda n, d: (n * 2 * d + 1, 2 * d),  # one counts steps
    "res_post_norm": lambda n, d: (n * 2 * d, 2 * d),
    "resi_dual": lambda n, d: (n * 2 * d + 2 * d, 0),
    "rezero": lambda n, d: (n // 2, 0),
    "sandwich_ln": lambda n, d: (n * 4 * d, 2 * d),
    "siamese_norm": lambda n, d: (n * 6 * d + 2 * d, 0),
    "sigmoid_tanh_gate": lambda n, d: (n * (2 * d * d + 3 * d), 2 * d),
    "skip_init": lambda n, d: (n, 0),
    "sub_ln": lambda n, d: (n * 2 * d, 2 * d),
    "t_fixup": lambda n, d: (0, 0),
}

# Weights that a scheme asks for inside a block: of so many heads, so wide, and ff_dim.
INNER = {
    "hybrid_norm": lambda heads, width, ff: 3 * width,
    "normformer": lambda heads, width, ff: heads + 2 * ff,
    "sub_ln": lambda heads, width, ff: 2 * heads * width + 2 * ff,
}
