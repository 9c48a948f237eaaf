"""What a scheme tells whoever looks inside: weights it mixes by, and early exits."""

import re

import numpy as np
import pytest
from keras import ops

from residual_keras import residuals
from residual_keras.spec import parse

EPSILON = 1e-3
BY_DEPTH = ("deepnorm", "keel", "mix_ln")  # their constants depend on the whole depth


def carried(spec, rng, num_sublayers=10, width=8):
    """A scheme with no weight as it started, and the writes of a stack of tanh's."""
    options = {"epsilon": EPSILON, "dtype": "float64"}
    scheme = residuals.get(spec, num_sublayers=num_sublayers, **options)
    scheme.build((None, None, width))
    for weight in scheme.trainable_weights:
        weight.assign(weight + 0.3 * rng.normal(size=weight.shape))
    x, writes, shown = rng.normal(size=(2, 3, width)), [], {}
    scheme.watch = lambda i, name, weights, over: shown.update({(name, i): weights})
    state = scheme.start(ops.convert_to_tensor(x))
    for i in range(num_sublayers):
        update = ops.convert_to_tensor(sublayer(scheme.read(state, i)))
        writes.append((state, update))
        state = scheme.write(state, update, i)
    y = scheme.finish(state)
    scheme.watch = None
    return scheme, x, writes, ops.convert_to_numpy(y), shown


def sublayer(u):
    if isinstance(u, (tuple, list)):
        query, key, value = u
        u = query + 2 * key - value / 2
    return np.tanh(np.roll(u, 1, axis=-1)) + 0.2


def named(scheme):
    return {w.path.split("/", 1)[1]: w.numpy() for w in scheme.weights}


def test_an_exit_is_what_a_shorter_stack_would_return(spec, reference, rng):
    name, options = parse(spec)
    plain = residuals.SCHEMES[name].exit is residuals.Residual.exit
    n = 4 if plain else 10  # more than one group of readers along depth
    scheme, x, writes, y, _ = carried(spec, rng, n)
    leaving = [ops.convert_to_numpy(scheme.exit(*w, i)) for i, w in enumerate(writes)]
    np.testing.assert_allclose(leaving[-1], y, rtol=1e-9)
    if name in BY_DEPTH:
        assert plain
        return
    for k in range(2, n + 1, 2 if plain else 1):  # some know whole blocks alone
        weights = named(scheme)
        for path in list(weights):  # the weights of the end are those of the whole
            weights[re.sub(rf"_{n}(?=/|$)", f"_{k}", path)] = weights[path]
        if name == "skip_init":
            weights["alpha"] = weights["alpha"][:k]
        expected = getattr(reference, name)(
            x, [sublayer] * k, weights, EPSILON, **options
        )
        scale = max(1, np.abs(expected).max())
        np.testing.assert_allclose(leaving[k - 1], expected, rtol=0, atol=1e-9 * scale)


def test_a_scheme_that_learns_to_mix_shows_it_and_stays_the_same(spec, rng):
    scheme, x, writes, y, shown = carried(spec, rng, num_sublayers=4)
    inside_norms = {
        id(weight)
        for layer in scheme._flatten_layers(include_self=False)
        if "norm" in layer.name
        for weight in layer.weights
    }
    mixing = [w for w in scheme.trainable_weights if id(w) not in inside_norms]
    assert bool(mixing) == bool(shown), [w.path for w in mixing]

    state = scheme.start(ops.convert_to_tensor(x))
    for i, (_, update) in enumerate(writes):
        state = scheme.write(state, update, i)
    np.testing.assert_array_equal(ops.convert_to_numpy(scheme.finish(state)), y)


@pytest.mark.parametrize("dynamic", [True, False])
def test_connections_are_those_of_the_equation(dynamic, reference, rng):
    spec = f"hyper_connections(streams=3, dynamic={dynamic})"
    scheme, x, writes, _, shown = carried(spec, rng, num_sublayers=4)
    weights, h = named(scheme), np.stack([x] * 3, axis=-2)
    for i, (_, update) in enumerate(writes):
        read, mix, share = reference.connections(h, i, weights, EPSILON, dynamic)
        np.testing.assert_allclose(shown["A", i], mix, atol=1e-12)
        np.testing.assert_allclose(shown["b", i], share[..., 0], atol=1e-12)
        if i:
            np.testing.assert_allclose(shown["a", i], read[..., 0], atol=1e-12)
        h = mix.swapaxes(-1, -2) @ h + share * update.numpy()[..., None, :]


@pytest.mark.parametrize("size", [1, 3])
def test_attention_along_depth_is_that_of_the_equation(size, reference, rng):
    spec = f"attn_res(block_size={size})"
    scheme, x, writes, _, shown = carried(spec, rng)  # more readers than one group
    weights, updates = named(scheme), [update.numpy() for _, update in writes]
    for i in range(1, len(writes) + 1):
        blocks = [updates[k : min(k + size, i)] for k in range(0, i, size)]
        sources = [x, *map(sum, blocks)]
        expected = reference.attention_to(sources, weights, i, EPSILON)
        np.testing.assert_allclose(
            np.moveaxis(shown["a", i], -1, 0), expected, atol=1e-12
        )


def test_sums_over_blocks_are_shown_by_source(rng):
    scheme, _, _, _, shown = carried("dense_former(dilation=2)", rng)
    fourth = named(scheme)["alpha_4"]
    np.testing.assert_allclose(
        shown["a", 7], [fourth[0], 0, fourth[1], 0, fourth[2]], atol=1e-12
    )


def test_gates_and_scales_are_the_factors(rng):
    scheme, _, writes, _, shown = carried("highway", rng, num_sublayers=4)
    x, update = writes[3]
    after = ops.convert_to_numpy(scheme.exit(x, update, 3))
    x, y = x.numpy(), np.maximum(update.numpy(), 0)
    np.testing.assert_allclose(after, y + shown["g", 3] * (x - y), atol=1e-12)
    scheme, _, _, _, shown = carried("rezero", rng, num_sublayers=4)
    np.testing.assert_allclose(shown["a", 3], named(scheme)["alpha"][1])
    scheme, _, _, _, shown = carried(
        "attention_residual(fusion_init='identity')", rng, num_sublayers=4
    )
    for kernel in (*scheme.projections, *scheme.fusions):
        assert kernel.kernel.shape[1] == 8
    x = np.eye(8)
    fuse, project = scheme.fusions[1].kernel.numpy(), scheme.projections[1].kernel
    both = [x @ fuse[:8], project.numpy() @ fuse[8:]]
    singular = [np.linalg.svd(one, compute_uv=False) for one in both]
    expected = [np.sqrt(np.mean(s**2)) for s in singular]
    np.testing.assert_allclose(shown["F", 1], expected, atol=1e-12)
