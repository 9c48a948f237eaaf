"""Files that earlier versions saved load, and answer as they did (R57)."""

import json
import pathlib

import numpy as np
import pytest

from residual_keras import load_model, residuals

VERSIONS = sorted((pathlib.Path(__file__).parent / "fixtures").glob("v*"))
SAVED = [path for folder in VERSIONS for path in sorted(folder.glob("*.keras"))]


def expected(path):
    stored = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))
    return stored["texts"], np.array(stored["probabilities"][path.stem])


@pytest.mark.parametrize("path", SAVED, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_saved_model_answers_as_it_did(path):
    texts, probabilities = expected(path)
    model = load_model(path)
    np.testing.assert_allclose(model.predict(texts), probabilities, atol=2e-6)

    for weight in model.classifier.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    model.classifier.load_weights(path.with_suffix(".weights.h5"))
    np.testing.assert_allclose(model.predict(texts), probabilities, atol=2e-6)


def test_every_scheme_of_the_first_version_is_kept():
    first = {path.stem for path in SAVED if path.parent == VERSIONS[0]}
    assert first and first <= set(residuals.SCHEMES)


def test_weights_of_a_smaller_scheme_are_refused():
    model = load_model(VERSIONS[0] / "attention_residual.keras")
    with pytest.raises(ValueError, match=r"norm|project|fuse|expected"):
        model.classifier.load_weights(VERSIONS[0] / "post_ln.weights.h5")
