"""All that decides a training run: a plain value, a key and a flag each."""

import dataclasses
import json

from .spec import look_up


def _option(default, text):
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a run trains on, which model, and how.

    The fields are the options of `residual-keras train` and the keys of a run's
    config.json; each one's meaning stands in its metadata, and so in `--help`.

    Example:
        >>> Recipe(residual="post_ln", epochs=3).residual
        'post_ln'
    """

    data: str = _option(
        "reviews", "reviews, imdb, snippets, or the path of a file or a folder"
    )
    data_path: str | None = _option(
        None, "imdb: a prepared data_dir, aclImdb_v1.tar.gz, or its extracted tree"
    )
    download: bool = _option(False, "imdb: fetch it from the network")
    text_column: str | None = _option(None, "own files: the texts' column (text)")
    label_column: str | None = _option(None, "own files: the labels' column (label)")
    validation: str | None = _option(
        None, "share of the training rows to validate on (0.1), or a path"
    )
    test: str | None = _option(None, "own files: the path of the test rows")
    data_seed: int = _option(0, "decides which rows are validated on")

    residual: str = _option("pre_ln", "the scheme, see `residual-keras schemes`")
    norm: str = _option("layer_norm", "layer_norm, rms_norm or dyt")
    parallel: bool = _option(False, "attention and feed-forward read the same input")
    num_layers: int = _option(2, "Transformer blocks")
    embed_dim: int = _option(96, "width of the stream")
    num_heads: int = _option(4, "attention heads")
    ff_dim: int | None = _option(None, "width inside the feed-forward nets (4 times)")
    tokenizer: str = _option("words", "words, or wordpiece: sub-words as in BERT")
    vocab_size: int = _option(20_000, "words or sub-words to know at most")
    max_len: int = _option(512, "tokens kept of a text")
    truncation: str = _option("head_tail", "which ones: head, tail or head_tail")
    positions: str = _option("learned", "learned, sinusoidal, rotary or none")
    pooling: str = _option("mean_max", "mean, max, mean_max, attention or cls")
    activation: str = _option("relu", "of the feed-forward nets")
    qk_norm: bool = _option(False, "normalise each head's queries and keys")
    value_residual: bool = _option(False, "mix in the first block's values")
    score_residual: bool = _option(False, "add the attention scores of the last block")
    head_scale: bool = _option(False, "give each attention head a learned factor")
    rate: float = _option(0.2, "dropout on every sublayer's output")
    word_rate: float | None = _option(
        None, "share of the words read as unknown (0.15 for long texts, else 0)"
    )
    attention_rate: float = _option(0.0, "dropout on the attention weights")
    ff_rate: float = _option(0.0, "dropout inside the feed-forward nets")
    stochastic_depth: float = _option(
        0.0, "share of the texts that the last block skips in training; less for others"
    )

    epochs: int | None = _option(
        None, "times through the rows at most (as many as make 60M characters, 2 to 12)"
    )
    batch_size: int = _option(64, "texts in a step")
    learning_rate: float = _option(1e-3, "at its peak")
    schedule: str = _option("cosine", "cosine, inverse_sqrt or constant")
    warmup: float = _option(0.1, "share of the steps in which the rate rises")
    weight_decay: float = _option(0.1, "AdamW's, on matrices only")
    clipnorm: float = _option(1.0, "largest norm of all gradients together")
    label_smoothing: float = _option(0.0, "doubt about every label")
    patience: int = _option(3, "epochs without a lower validation loss to stop after")
    precision: str = _option("float32", "or mixed_bfloat16, mixed_float16")
    pad_to_multiple_of: int | None = _option(
        None, "ids that a batch's length is a multiple of (1; under XLA 64)"
    )
    recompute: bool = _option(False, "run each block twice a step, to save memory")
    seed: int = _option(0, "of the initial weights, the order of rows and dropout")

    def __post_init__(self):
        positive = ("epochs", "batch_size", "patience", "learning_rate", "clipnorm")
        positive += ("pad_to_multiple_of",)
        for name in positive:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive. Received: {name}={value}")
        if not 0 <= self.warmup < 1:
            raise ValueError(
                f"warmup must be a share in [0, 1). Received: warmup={self.warmup}"
            )
        if self.weight_decay < 0:
            raise ValueError(
                "weight_decay must not be negative. "
                f"Received: weight_decay={self.weight_decay}"
            )
        if self.seed < 0 or self.data_seed < 0:
            raise ValueError(
                "Seeds must not be negative. "
                f"Received: seed={self.seed}, data_seed={self.data_seed}"
            )

    def epochs_for(self, texts):
        """The number of epochs over these training texts, at most.

        A model of some words learns a large set by heart from the third epoch on, and
        has not begun to learn a small one by then.
        """
        characters = sum(map(len, texts)) or 1
        return self.epochs or min(12, max(2, round(60_000_000 / characters)))

    def word_rate_for(self, texts):
        """The share of the words of these training texts that is read as unknown.

        A text of a sentence or two often hangs on one word, which would be lost.
        """
        long = sum(map(len, texts)) >= 300 * len(texts)
        return (0.15 if long else 0.0) if self.word_rate is None else self.word_rate

    def data_options(self):
        """The keyword arguments of `data.load` that the recipe sets."""
        options = {
            "seed": self.data_seed,
            "path": self.data_path,
            "download": self.download or None,
            "text_column": self.text_column,
            "label_column": self.label_column,
            "validation": _number_or_path(self.validation),
            "test": self.test,
        }
        return {name: value for name, value in options.items() if value is not None}

    def to_json(self):
        """The recipe as the text of a config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text):
        """The recipe in the text of a config.json.

        Raises:
            ValueError: if it is no JSON object, or has a key that is no option.
        """
        try:
            options = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"A config.json must be JSON. Received: {error}") from None
        if not isinstance(options, dict):
            raise ValueError(
                f"A config.json must hold an object. Received: {type(options).__name__}"
            )
        known = {field.name: field for field in dataclasses.fields(cls)}
        for name in options:
            look_up(known, name, "option")
        return cls(**options)


def _number_or_path(value):
    try:
        return None if value is None else float(value)
    except ValueError:
        return value
