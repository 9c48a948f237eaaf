import pytest


@pytest.fixture(scope="session")
def tiny_pretraining():
    """The options of a pretraining run of seconds."""
    return {
        "data": "reviews(depth=1, train_size=120, validation_size=8, test_size=8)",
        "num_layers": 1,
        "embed_dim": 8,
        "num_heads": 2,
        "max_len": 13,
        "vocab_size": 101,
        "batch_size": 5,
        "steps": 14,
        "evaluations": 2,
        "rate": 0.1,
        "held_out": 0.1,
    }


@pytest.fixture(scope="session")
def pretrained_run(tmp_path_factory, tiny_pretraining):
    """The folder and the metrics of a pretraining run; to read only."""
    from residual_keras import PretrainingRecipe, pretrain

    folder = tmp_path_factory.mktemp("pretrained") / "whole"
    return folder, pretrain(PretrainingRecipe(**tiny_pretraining), folder, verbose=0)
