"""PyTorch and JAX give what TensorFlow gives, where they are installed."""

import functools
import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from residual_keras.residuals import SCHEMES

CODE = """
import sys
import keras, numpy as np
from residual_keras import build_classifier, residuals
ids = np.random.default_rng(0).integers(1, 50, (3, 7))
ids[0, 4:] = 0
found = {}
for scheme in residuals.SCHEMES:
    for positions, pooling in (("learned", "cls"), ("sinusoidal", "attention"),
                               ("rotary", "mean_max")):
        model = build_classifier(50, 3, residual=scheme, positions=positions,
                                 pooling=pooling, embed_dim=8, num_heads=2, max_len=9)
        rng = np.random.default_rng(1)
        for weight in sorted(model.trainable_weights, key=lambda w: w.path):
            weight.assign(rng.normal(0, 0.3, weight.shape))
        found[f"{scheme} {positions}"] = keras.ops.convert_to_numpy(model(ids))
for recompute in (False, True):
    model = build_classifier(50, 3, embed_dim=8, num_heads=2, max_len=9, rate=0.0,
                             recompute=recompute)
    rng = np.random.default_rng(2)
    for weight in sorted(model.trainable_weights, key=lambda w: w.path):
        weight.assign(rng.normal(0, 0.3, weight.shape))
    model.compile("sgd")
    model.fit(ids, np.array([0, 1, 2]), verbose=0)
    for weight in model.trainable_weights:
        name = f"trained {recompute} {weight.path}"
        found[name] = keras.ops.convert_to_numpy(weight)
for precision in ("mixed_float16", "mixed_bfloat16"):  # a text of padding alone, too
    keras.utils.set_random_seed(0)
    model = build_classifier(50, 3, embed_dim=8, num_heads=2, dtype=precision)
    logits = keras.ops.convert_to_numpy(model(ids * [[1], [1], [0]]))
    found[precision] = np.isfinite(logits).astype("float32")
model = build_classifier(50, 3, embed_dim=8, num_heads=2, rate=0.5, recompute=True)
model.compile("adam")
model.fit(ids, np.array([0, 1, 2]), verbose=0)  # dropout in blocks that are run twice
np.savez(sys.argv[1], **found)
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Runs the code under a backend; what it found, by name."""

    @functools.cache
    def compute(backend):
        path = tmp_path_factory.mktemp("backend") / f"{backend}.npz"
        environment = {**os.environ, "KERAS_BACKEND": backend}
        command = [sys.executable, "-c", CODE]
        subprocess.run([*command, path], env=environment, check=True)
        return dict(np.load(path))

    return compute


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_another_backend_gives_the_same(computed, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    ours, theirs = computed("tensorflow"), computed(backend)
    assert len(ours) >= 3 * len(SCHEMES) and ours.keys() == theirs.keys()
    for name, right in ours.items():
        np.testing.assert_allclose(theirs[name], right, atol=1e-5, err_msg=name)
        if "float" in name:
            assert right.all()
        if name.startswith("trained False"):
            again = theirs[name.replace("False", "True")]
            np.testing.assert_allclose(again, right, atol=1e-5, err_msg=name)
