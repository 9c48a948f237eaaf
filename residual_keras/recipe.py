"""All that decides the training of a classifier."""

import dataclasses

from .options import Options, option

SHORT = 50  # tokens; a text of fewer may hang on one word


@dataclasses.dataclass(frozen=True)
class Recipe(Options):
    """What a run trains on, which model, and how.

    The fields are the options of `residual-keras train` and the keys of a run's
    config.json; each one's meaning stands in its metadata, and so in `--help`.

    Example:
        >>> Recipe(residual="post_ln", epochs=3).residual
        'post_ln'
    """

    label_column: str | None = option(None, "own files: the labels' column (label)")
    test: str | None = option(None, "own files: the path of the test rows")
    classifier: str = option(
        "transformer", "or ngrams, latent: linear models of words, to compare with"
    )
    truncation: str = option(
        "head_tail", "which tokens of a longer text are kept: head, tail or head_tail"
    )
    pooling: str = option("mean_max", "mean, max, mean_max, attention or cls")
    word_rate: float | None = option(
        None, "share of the words read as unknown (0.15 in texts of 50 tokens and more)"
    )
    fragment_rate: float = option(
        0.0, "share of the texts cut to a few words: how little those tell is learned"
    )
    word_vectors: str = option(
        "random", "or neighbours: words start alike where they have like neighbours"
    )
    epochs: int | None = option(
        None, "times through the rows at most (as many as make 60M characters, 2 to 12)"
    )
    label_smoothing: float = option(0.0, "doubt about every label")
    patience: int = option(3, "epochs without a lower validation loss to stop after")
    pad_to_multiple_of: int | None = option(
        None, "ids that a batch's length is a multiple of (1; under XLA 64)"
    )
    init: str | None = option(
        None, "a folder of `residual-keras pretrain`: start with its encoder"
    )
    teacher: str | None = option(
        None,
        "a run's folder or a preset, or several apart by commas: what they make "
        "of texts without labels is learned too",
    )
    unlabelled: str | None = option(
        None, "texts without labels: imdb, or a path (a teacher has those of `data`)"
    )
    negations: int = option(
        0,
        "a teacher's lessons in English: short sentences to take of each text without "
        "a label and to learn with a 'not' put in too, and half as many passages that "
        "have one",
    )
    layer_decay: float = option(
        1.0, "factor on the learning rate from each block to the one below it"
    )
    ema_momentum: float | None = option(
        None, "keep the weights' moving average, with this share of the old at a step"
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_positive("epochs", "patience", "pad_to_multiple_of")
        if self.negations < 0 or (self.negations and not self.teacher):
            raise ValueError(
                "negations must not be negative, and a teacher has to say what the "
                f"sentences mean. Received: negations={self.negations}, "
                f"teacher={self.teacher!r}"
            )
        if not 0 < self.layer_decay <= 1:
            raise ValueError(
                f"layer_decay must be in (0, 1]. Received: "
                f"layer_decay={self.layer_decay}"
            )
        if self.ema_momentum is not None and not 0 <= self.ema_momentum < 1:
            raise ValueError(
                "ema_momentum must be a share in [0, 1). "
                f"Received: ema_momentum={self.ema_momentum}"
            )

    def epochs_for(self, texts):
        """The number of epochs over these training texts, at most.

        A model of some words learns a large set by heart from the third epoch on, and
        has not begun to learn a small one by then.
        """
        characters = sum(map(len, texts)) or 1
        return self.epochs or min(12, max(2, round(60_000_000 / characters)))

    def word_noise(self):
        """The keyword arguments of `build_classifier` on words that training hides.

        A text of a sentence or two often hangs on one word, which would be lost: what
        is left of a negation in particular has the other answer.
        """
        noise = {"fragment_rate": self.fragment_rate}
        if self.negations:
            noise["fragment_rate_min_len"] = SHORT
        if self.word_rate is None:
            return {**noise, "word_rate": 0.15, "word_rate_min_len": SHORT}
        return {**noise, "word_rate": self.word_rate}

    def data_options(self):
        """The keyword arguments of `data.load` that the recipe sets."""
        own = {"label_column": self.label_column, "test": self.test}
        given = {name: value for name, value in own.items() if value is not None}
        return {**super().data_options(), **given}
