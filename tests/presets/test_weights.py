"""What half precision may cost a weight, and what it may not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from residual_keras import load_preset, save_to_preset
from residual_keras.presets.weights import half

NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(arrays.arrays("float32", arrays.array_shapes(max_dims=2), elements=NUMBERS))
def test_half_precision_is_off_by_a_share_of_the_largest_number(values):
    found = half(values)
    error = np.abs(found.astype("float64") - values.astype("float64"))
    assert error.max() <= 2.0**-11 * np.abs(values.astype("float64")).max()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.1, -2.5], "float16"),
        ([65504.0], "float16"),
        ([65504.0, 70000.0], "float32"),  # beyond the range
        ([1e-6, 3e-6], "float32"),  # a scale that has hardly begun
        ([0.1, 1e-9], "float16"),  # lost beside the other one anyway
        ([0.0, 0.0], "float16"),
        ([], "float16"),
    ],
)
def test_what_half_precision_cannot_say_stays_as_it_is(values, dtype):
    assert half(np.float32(values)).dtype == dtype


def test_weights_beyond_half_precision_come_back(make, tmp_path):
    model = make(residual="layer_scale")
    large, small = model.classifier.trainable_weights[:2]
    large.assign(np.full(large.shape, 1e5))
    small.assign(np.full(small.shape, 1.2345e-6))
    folder = save_to_preset(model, tmp_path / "p")
    loaded = load_preset(folder).classifier
    np.testing.assert_array_equal(loaded.trainable_weights[0], large)
    np.testing.assert_array_equal(loaded.trainable_weights[1], small)
    with np.load(folder / "weights.npz") as stored:
        kept = {name for name in stored if stored[name].dtype == "float32"}
    assert kept == {f"0000/{large.path}", f"0001/{small.path}"}
