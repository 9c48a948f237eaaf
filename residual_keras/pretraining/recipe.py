"""All that decides a pretraining run."""

import dataclasses

from ..options import Options, option


@dataclasses.dataclass(frozen=True)
class PretrainingRecipe(Options):
    """What an encoder is pretrained on, and how.

    The fields are the options of `residual-keras pretrain` and the keys of a run's
    config.json; each one's meaning stands in its metadata, and so in `--help`.

    Example:
        >>> PretrainingRecipe(data="imdb", objective="masked(rate=0.2)").epochs
        1
    """

    validation: str | None = option(
        None, "imdb and the like: share of the training rows that is left to validate"
    )
    max_len: int = option(256, "tokens in a row, and positions learned")
    rate: float = option(0.0, "dropout on every sublayer's output")
    batch_size: int = option(32, "rows in a step")
    objective: str = option(
        "next_token", "next_token, masked or replaced, such as masked(rate=0.15)"
    )
    held_out: float = option(0.01, "share of the texts to measure the loss on")
    epochs: int = option(1, "times through the texts")
    steps: int | None = option(None, "instead of epochs: how many at least")
    evaluations: int = option(5, "how often the loss is measured")

    def __post_init__(self):
        super().__post_init__()
        self.check_positive("epochs", "steps", "evaluations")
        if not 0 < self.held_out < 1:
            raise ValueError(
                "held_out must be a share in (0, 1). "
                f"Received: held_out={self.held_out}"
            )

    def plan(self, rows):
        """How many evaluations there are, and how many steps before each.

        The last evaluation is preceded by as many as the others, so there may be a few
        more steps in all than were asked for.

        Args:
            rows: number of packed rows.

        Returns:
            `(evaluations, steps)`.

        Example:
            >>> PretrainingRecipe(batch_size=2, evaluations=3).plan(rows=20)
            (3, 4)
        """
        total = self.steps or self.epochs * -(-rows // self.batch_size)
        steps = -(-total // self.evaluations)
        return -(-total // steps), steps
