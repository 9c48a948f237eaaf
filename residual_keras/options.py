"""What any training run decides: a plain value, a key and a flag each."""

import dataclasses
import json

from .spec import look_up


def option(default, text):
    """A field of a dataclass, with its meaning for `--help`."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Which texts."""

    data: str = option(
        "reviews", "reviews, imdb, snippets, or the path of a file or a folder"
    )
    data_path: str | None = option(
        None, "imdb: a prepared data_dir, aclImdb_v1.tar.gz, or its extracted tree"
    )
    download: bool = option(False, "imdb: fetch it from the network")
    text_column: str | None = option(None, "own files: the texts' column (text)")
    validation: str | None = option(
        None, "share of the training rows to validate on (0.1), or a path"
    )
    data_seed: int = option(0, "decides which rows are validated on")

    def data_options(self):
        """The keyword arguments of `data.load` that the options set."""
        options = {
            "seed": self.data_seed,
            "path": self.data_path,
            "download": self.download or None,
            "text_column": self.text_column,
            "validation": _number_or_path(self.validation),
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """Which vocabulary and which encoder: what its weights are the weights of."""

    residual: str = option("pre_ln", "the scheme, see `residual-keras schemes`")
    norm: str = option("layer_norm", "layer_norm, rms_norm or dyt")
    parallel: bool = option(False, "attention and feed-forward read the same input")
    num_layers: int = option(2, "Transformer blocks")
    embed_dim: int = option(96, "width of the stream")
    num_heads: int = option(4, "attention heads")
    ff_dim: int | None = option(None, "width inside the feed-forward nets (4 times)")
    tokenizer: str = option("words", "words, or wordpiece: sub-words as in BERT")
    vocab_size: int = option(20_000, "words or sub-words to know at most")
    max_len: int = option(512, "tokens kept of a text")
    positions: str = option("learned", "learned, sinusoidal, rotary or none")
    embedding_norm: str | None = option(
        None, "a norm between embedding and encoder, as BERT has: layer_norm, ..."
    )
    activation: str = option("relu", "of the feed-forward nets")
    qk_norm: bool = option(False, "normalise each head's queries and keys")
    value_residual: bool = option(False, "mix in the first block's values")
    score_residual: bool = option(False, "add the attention scores of the last block")
    head_scale: bool = option(False, "give each attention head a learned factor")


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """How it is trained."""

    rate: float = option(0.2, "dropout on every sublayer's output")
    attention_rate: float = option(0.0, "dropout on the attention weights")
    ff_rate: float = option(0.0, "dropout inside the feed-forward nets")
    stochastic_depth: float = option(
        0.0, "share of the texts that the last block skips in training; less for others"
    )
    batch_size: int = option(64, "texts in a step")
    learning_rate: float = option(1e-3, "at its peak")
    schedule: str = option("cosine", "cosine, inverse_sqrt or constant")
    warmup: float = option(0.1, "share of the steps in which the rate rises")
    weight_decay: float = option(0.1, "AdamW's, on matrices only")
    clipnorm: float = option(1.0, "largest norm of all gradients together")
    precision: str = option("float32", "or mixed_bfloat16, mixed_float16")
    recompute: bool = option(False, "run each block twice a step, to save memory")
    seed: int = option(0, "of the initial weights, the order of rows and dropout")


@dataclasses.dataclass(frozen=True)
class Options(TrainingOptions, ModelOptions, DataOptions):
    """What the recipes of all runs have in common."""

    def __post_init__(self):
        self.check_positive("batch_size", "learning_rate", "clipnorm")
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

    def check_positive(self, *names):
        """Raises ValueError if one of these options is set, and not above 0."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive. Received: {name}={value}")

    def encoder_options(self):
        """The keyword arguments of `build_classifier` down to the encoder's."""
        names = {field.name for field in dataclasses.fields(ModelOptions)}
        names -= {"tokenizer", "vocab_size"}
        names |= {"rate", "attention_rate", "ff_rate", "stochastic_depth", "recompute"}
        return {
            **{name: getattr(self, name) for name in sorted(names)},
            "dtype": self.precision,
        }

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
