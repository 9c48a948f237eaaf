"""What the package promises to reach, trained for real: minutes each.

    pytest -m slow -n 0 -s tests/test_goals.py

prints what was reached.
"""

import os
import pathlib
import runpy
import subprocess
import sys

import pytest

from residual_keras import Recipe
from residual_keras.train import train

pytestmark = pytest.mark.slow
DATA = os.environ.get("RESIDUAL_KERAS_DATA")
BENCHMARKS = pathlib.Path(__file__).parent.parent / "benchmarks"
SCHEMES = ["post_ln", "pre_ln", "attention_residual"]
# Those of which no docstring says that deep stacks do not learn.
DEEP = [
    "pre_ln",
    "sandwich_ln",
    "peri_ln",
    "res_post_norm",
    "rezero",
    "skip_init",
    "layer_scale",
    "deepnorm",
    "t_fixup",
    "ln_scaling",
    "keel",
    "prores",
    "ngpt_lerp",
    "resi_dual",
    "b2t",
    "siamese_norm",
    "hyper_connections",
    "frac_connections",
    "mhc",
    "gated_residual",
    "attn_res",
    "attn_res(block_size=12)",
    "delta_attn_res",
    "dense_former",
]


def reached(tmp_path, **options):
    recipe = Recipe(**options)
    metrics = train(recipe, tmp_path / "run", verbose=0)
    print(
        f"\n{recipe.data} {recipe.residual} x {recipe.num_layers}: "
        f"test accuracy {metrics['test']['accuracy']:.4f} "
        f"after {metrics['epochs']} epochs, {metrics['seconds']:.0f} s"
    )
    return metrics["test"]["accuracy"]


def test_two_blocks_compose_what_a_bag_of_words_cannot(tmp_path):
    assert reached(tmp_path) > 0.95


@pytest.mark.parametrize(
    "residual", [*SCHEMES, "attention_residual(fusion_init='identity')", "none"]
)
def test_twelve_blocks_need_a_shortcut(tmp_path, residual):
    """Without one, tokens grow alike: a bag of words is left, which decides nothing."""
    accuracy = reached(
        tmp_path,
        data="reviews(depth=1)",
        residual=residual,
        num_layers=12,
        embed_dim=32,
        max_len=64,
        rate=0.1,
        weight_decay=0.01,
        epochs=12,
        patience=12,
        learning_rate=5e-4,
        warmup=0.3,
    )
    if residual == "none":
        assert accuracy < 0.6
    else:  # the fusion starts as a random projection: slower at this depth
        assert accuracy > (0.65 if residual == "attention_residual" else 0.85)


@pytest.mark.parametrize("layers", [24, 48])
@pytest.mark.parametrize("residual", DEEP)
def test_deep_stacks_learn(tmp_path, narrow, residual, layers):
    accuracy = reached(tmp_path, residual=residual, num_layers=layers, **narrow)
    assert accuracy > 0.85


def test_deepnorm_at_200_blocks(tmp_path, narrow):
    assert reached(tmp_path, residual="deepnorm", num_layers=200, **narrow) > 0.85


@pytest.fixture(scope="module")
def narrow():
    """The small blocks and easy reviews of benchmarks/depth.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return runpy.run_path(BENCHMARKS / "depth.py")["SIZES"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """IMDB as tensorflow-datasets lays it out."""
    if not DATA:
        pytest.skip("RESIDUAL_KERAS_DATA is not set")
    folder = tmp_path_factory.mktemp("tfds")
    script = pathlib.Path(DATA) / "prepare_tfds_imdb.py"
    subprocess.run([sys.executable, script, folder], check=True)
    return folder


@pytest.mark.parametrize("residual", SCHEMES)
def test_imdb(tmp_path, prepared, residual):
    options = {"data": "imdb", "data_path": str(prepared), "residual": residual}
    assert reached(tmp_path, **options) > (0.875 if residual == "pre_ln" else 0.85)
