import csv
import json

import pytest

from residual_keras.recipe import Recipe


@pytest.fixture
def pretend():
    """Writes into a run's folder what a run with these figures would have left."""

    def write(run, accuracy=0.8, status="finished", losses=(0.7, 0.5), **outcome):
        run.path.mkdir(parents=True, exist_ok=True)
        (run.path / "config.json").write_text(run.recipe.to_json())
        if status != "failed":
            layers = run.recipe.num_layers
            outcome = {
                "majority": 0.6,
                "peak_memory_mb": 700.5,
                "gradients": {
                    "initial": [2.0 * (1 + i) for i in range(layers)],
                    "final": [0.5] * layers,
                },
                **outcome,
            }
            metrics = {
                "status": "finished",
                "steps": 26,
                "epochs": 2,
                "parameters": 1000 + 7 * layers,
                "cpu_seconds": 11.0 * layers,
                "validation": {"accuracy": accuracy, "loss": losses[-1], "texts": 50},
                "test": {"accuracy": accuracy - 0.01, "loss": 0.6, "texts": 400},
            }
            (run.path / "metrics.json").write_text(json.dumps(metrics))
            with open(run.path / "history.csv", "w", newline="") as file:
                writer = csv.writer(file)
                columns = "epoch accuracy loss val_accuracy val_loss cpu_seconds"
                writer.writerow(columns.split())
                for epoch, loss in enumerate(losses):
                    last = epoch == len(losses) - 1
                    val = accuracy if last else accuracy - 0.1
                    writer.writerow([epoch, 0.9, loss, val, loss, 9.0 - epoch])
        run.end(status, **outcome)

    return write


@pytest.fixture
def recipe():
    return Recipe(data="reviews(depth=0)")
