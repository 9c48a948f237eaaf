"""What holds for one scheme alone, among those that carry two tensors."""

import numpy as np
import pytest
from keras import ops

from residual_keras import residuals

WIDTH = 7


def built(spec, num_sublayers=6, **options):
    options = {"dtype": "float64", "epsilon": 1e-12, **options}
    scheme = residuals.get(spec, num_sublayers=num_sublayers, **options)
    scheme.build((None, None, WIDTH))
    return scheme


def run(scheme, x, num_sublayers=6):
    """What `finish` returns, the sum of input and updates, and the last state."""
    state, total = scheme.start(ops.convert_to_tensor(x)), x
    for i in range(num_sublayers):
        update = np.sin(i + 3 * np.roll(numpy(scheme.read(state, i)), 1, axis=-1))
        state = scheme.write(state, ops.convert_to_tensor(update), i)
        total = total + update
    return numpy(scheme.finish(state)), total, state


def numpy(y):
    return ops.convert_to_numpy(y)


def test_resi_dual_is_post_ln_plus_the_norm_of_the_sum(reference, rng):
    x = rng.normal(size=(2, 3, WIDTH))
    y, total, _ = run(built("resi_dual"), x)
    post, same_total, _ = run(built("post_ln"), x)
    np.testing.assert_allclose(total, same_total, atol=1e-12)  # of the same updates
    expected = post + reference.layer_norm(total, 1e-12)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [0.01, 0.5, 8.0])
def test_the_scale_of_resi_dual_is_divided_out(scale, rng):
    x = rng.normal(size=(2, 3, WIDTH))
    one, total, _ = run(built("resi_dual"), x)
    two, _, (_, r) = run(built(f"resi_dual(scale={scale})"), x)
    np.testing.assert_allclose(two, one, rtol=0, atol=1e-6)
    np.testing.assert_allclose(numpy(r), scale * total, atol=1e-12)


@pytest.mark.parametrize(("scale", "finite"), [(1.0, False), (1 / 16, True)])
def test_the_scale_of_resi_dual_guards_half_precision(scale, finite):
    """Six updates of 30000 are more than float16 can hold."""
    scheme = built(f"resi_dual(scale={scale})", dtype="float16")
    update = ops.cast(3e4 * np.linspace(0.9, 1, WIDTH)[None, None], "float16")
    state = scheme.start(ops.zeros((1, 1, WIDTH), "float16"))
    for i in range(6):
        state = scheme.write(state, update, i)
    assert np.isfinite(numpy(scheme.finish(state))).all() == finite


@pytest.mark.parametrize("scale", ["0", "-1.0", "'x'", "None"])
def test_the_scale_of_resi_dual_is_positive(scale):
    with pytest.raises(ValueError, match="scale must be a .*number. Received: scale="):
        residuals.get(f"resi_dual(scale={scale})", num_sublayers=2)


def test_b2t_takes_the_bottom_of_each_block_to_its_top(reference, rng):
    """A block's input reaches its last norm whatever attention writes between."""
    scheme = built("b2t")
    bottom, huge, update = rng.normal(size=(3, 2, 3, WIDTH))
    state = scheme.start(ops.convert_to_tensor(bottom))
    state = scheme.write(state, ops.convert_to_tensor(1e9 * huge), 0)
    middle = reference.layer_norm(huge, 1e-12)
    np.testing.assert_allclose(numpy(scheme.read(state, 1)), middle, atol=1e-6)
    state = scheme.write(state, ops.convert_to_tensor(update), 1)
    top = reference.layer_norm(bottom + middle + update, 1e-12)
    for part in state:  # the next block begins with it
        np.testing.assert_allclose(numpy(part), top, atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "gain"), [("b2t", 3**-0.5), ("b2t(depth=4)", 0.5), ("b2t(depth=100)", 0.1)]
)
def test_all_kernels_of_b2t_start_smaller(spec, gain):
    scheme = built(spec)
    weights = ["query", "key", "value", "output", "ff_in", "ff_out"]
    for i in range(6):
        assert [scheme.init_gain(i, w) for w in weights] == [pytest.approx(gain)] * 6


def test_b2t_needs_the_middle_of_a_block():
    with pytest.raises(ValueError, match="per_block=1"):
        built("b2t", per_block=1)


@pytest.mark.parametrize("per_block", [1, 2])
@pytest.mark.parametrize("block", [1, 3])
def test_updates_count_less_in_later_blocks_of_siamese_norm(
    per_block, block, reference, rng
):
    scheme = built(f"siamese_norm(block={block})", per_block=per_block)
    x, r, update = rng.normal(size=(3, 2, 3, WIDTH))
    for i in range(6):
        state = tuple(map(ops.convert_to_tensor, (x, r)))
        new_x, new_r = scheme.write(state, ops.convert_to_tensor(update), i)
        step = update / np.sqrt(block + i // per_block)
        expected = reference.layer_norm(x + step, 1e-12)
        np.testing.assert_allclose(numpy(new_x), expected, atol=1e-9)
        np.testing.assert_allclose(numpy(new_r), r + update, atol=1e-12)


def test_both_streams_of_siamese_norm_leave_it(reference, rng):
    x = rng.normal(size=(2, 3, WIDTH))
    y, total, (stream, _) = run(built("siamese_norm"), x)
    np.testing.assert_allclose((numpy(stream) ** 2).mean(-1), 1, atol=1e-9)
    expected = numpy(stream) + reference.layer_norm(total, 1e-12)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "spec", ["siamese_norm(block=0)", "siamese_norm(block=1.5)", "b2t(depth=0)"]
)
def test_blocks_are_counted_from_one(spec):
    with pytest.raises(ValueError, match=r"must be a positive .*Received: \w+="):
        residuals.get(spec, num_sublayers=2)
