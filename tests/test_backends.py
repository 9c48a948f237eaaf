"""The layers give the same on PyTorch as on TensorFlow, where PyTorch is installed."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

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
model = build_classifier(50, 3, embed_dim=8, num_heads=2, max_len=9, rate=0.0)
for weight in sorted(model.trainable_weights, key=lambda w: w.path):
    weight.assign(rng.normal(0, 0.3, weight.shape))
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(ids, np.array([0, 1, 2]), verbose=0)
for weight in model.trainable_weights:
    found[f"trained {weight.path}"] = keras.ops.convert_to_numpy(weight)
np.savez(sys.argv[1], **found)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
def test_torch_gives_the_same(tmp_path):
    for backend in ("torch", "tensorflow"):
        command = [sys.executable, "-c", CODE, tmp_path / f"{backend}.npz"]
        environment = {**os.environ, "KERAS_BACKEND": backend}
        subprocess.run(command, env=environment, check=True)
    ours, theirs = (np.load(tmp_path / f"{b}.npz") for b in ("torch", "tensorflow"))
    assert len(list(ours)) >= 12
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5, err_msg=name)
