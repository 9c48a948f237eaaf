"""What a pretraining run leaves on disk."""

import json

from ..run_folder import RunFolder, write
from .recipe import PretrainingRecipe


class PretrainingFolder(RunFolder):
    """The files of one pretraining run.

    config.json      the recipe
    vocabulary.json  the tokens by id
    history.csv      a row an evaluation
    curves.png       the same, drawn
    metrics.json     how it ended
    encoder.keras    ids (batch, time) -> vectors (batch, time, embed_dim)
    best.weights.h5, state/    only until it has ended: what `--resume` needs

    Args:
        path: of the folder.

    Example:
        >>> PretrainingFolder("pretrained/a").encoder
        PosixPath('pretrained/a/encoder.keras')
    """

    kind = PretrainingRecipe
    verb = "pretrain"

    def __init__(self, path):
        super().__init__(path)
        self.encoder = self.path / "encoder.keras"
        self.vocabulary = self.path / "vocabulary.json"

    def write_vocabulary(self, tokens):
        """Writes vocabulary.json."""
        write(self.vocabulary, json.dumps(tokens, ensure_ascii=False) + "\n")

    def read_vocabulary(self):
        """The tokens by id.

        Raises:
            ValueError: if there is no such file, or it is damaged.
        """
        try:
            return json.loads(self.vocabulary.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{self.vocabulary} cannot be read. Received: {error}. Give the folder "
                f"that `residual-keras {self.verb}` made."
            ) from None
