"""Checkpoints of BERT's architecture -> a `TextClassifier` to fine-tune."""

import importlib.util
import json

import numpy as np

from .classifier import build_classifier
from .paths import path_of
from .text_classifier import TextClassifier
from .vectorizer import integer
from .wordpiece import WordPieceVectorizer

SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "layer_norm_eps")
# What a config.json that is silent means.
SILENT = {
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "type_vocab_size": 2,
}
# The values of which we can do the same; a key that is missing means the first.
SUPPORTED = {
    "model_type": ("bert",),
    "hidden_act": ("gelu", "relu"),
    "position_embedding_type": ("absolute",),
    "pad_token_id": (0,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}
SUPPORTED_TOKENS = {
    "do_basic_tokenize": (True,),
    "tokenize_chinese_chars": (True,),
    "strip_accents": (None,),  # wherever upper case is read as lower
}
OLDER = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# Buffers without anything learned in them, and BERT's own head on top of [CLS].
LEFT_OUT = ("embeddings.position_ids", "embeddings.token_type_ids", "pooler.")


def from_bert(
    folder,
    num_classes=2,
    label_names=None,
    max_len=None,
    pooling="mean",
    truncation="head",
    **kwargs,
):
    """Reads a checkpoint of BERT's architecture into a classifier to fine-tune.

    Embedding and encoder are the checkpoint's, and give its numbers; pooling and logits
    are new. BERT adds a vector for the first or second of two texts: the first's goes
    into the positions here. Needs the package `safetensors`:
    `pip install 'residual_keras[convert]'`.

    The vectors of all tokens, (batch, time, embed_dim), are those of the layer
    "encoder" of `model.classifier`, and a text's vector, (batch, width), that of
    "pooling".

    Args:
        folder: the path of a folder with config.json, tokenizer_config.json, vocab.txt
            and model.safetensors, as `save_pretrained` of transformers writes it.
        num_classes: number of logits.
        label_names: the labels' names in the order of their numbers; None: the numbers.
        max_len: number of tokens kept of a text, with "[CLS]" and "[SEP]"; None: as
            many as the checkpoint has positions.
        pooling: "mean", "max", "mean_max" or "attention".
        truncation: which tokens of a longer text are kept, see `WordPieceVectorizer`.
        **kwargs: of `build_classifier`, for what the checkpoint leaves open, such as
            dtype, recompute and stochastic_depth; rate and attention_rate are those of
            config.json by default.

    Returns:
        A `TextClassifier`, not yet compiled.

    Raises:
        ValueError: if a file is missing or cannot be read; if config.json asks for what
            differs from BERT; if a weight is missing, left over, of another shape or
            not finite; or if an argument is out of range.

    Source: Devlin et al. 2018, arXiv:1810.04805.

    Example:
        >>> model = from_bert("all-MiniLM-L6-v2", label_names=["negative", "positive"])
        >>> model.classifier.compile(keras.optimizers.AdamW(5e-5))
        >>> model.classifier.fit(model.vectorizer(["Good.", "Bad."]), np.array([1, 0]))
        >>> model.save("model.keras")
    """
    folder = path_of(folder, "A checkpoint")
    config = read_config(folder)
    positions = config["max_position_embeddings"]
    max_len = integer("max_len", positions if max_len is None else max_len, at_least=3)
    if max_len > positions:
        raise ValueError(
            f"The checkpoint has {positions} positions, and max_len must not be more. "
            f"Received: max_len={max_len}"
        )
    if pooling == "cls":
        raise ValueError(
            "pooling='cls' would put a new token before BERT's own. Received: "
            "pooling='cls'. Choose mean, max, mean_max or attention."
        )
    given = {
        "vocab_size": config["vocab_size"],
        "residual": "post_ln",
        "parallel": False,
        "num_layers": config["num_hidden_layers"],
        "embed_dim": config["hidden_size"],
        "num_heads": config["num_attention_heads"],
        "key_dim": None,
        "ff_dim": config["intermediate_size"],
        "positions": "learned",
        "embedding_norm": "layer_norm",
        "norm": "layer_norm",
        "activation": config["hidden_act"],
        "epsilon": config["layer_norm_eps"],
    }
    fixed = sorted(given.keys() & kwargs.keys())
    if fixed:
        raise ValueError(f"The checkpoint decides {fixed}. Leave them out.")
    rates = {
        "rate": config["hidden_dropout_prob"],
        "attention_rate": config["attention_probs_dropout_prob"],
    }
    vectorizer = WordPieceVectorizer.from_file(
        folder / "vocab.txt",
        max_len=max_len,
        truncation=truncation,
        lowercase=lowercase(folder),
        add_special_tokens=True,
    )
    weights = arranged(Checkpoint(folder / "model.safetensors"), config, max_len)
    classifier = build_classifier(
        num_classes=num_classes,
        max_len=max_len,
        pooling=pooling,
        **{**rates, **kwargs, **given},
    )
    variables = {variable.path: variable for variable in classifier.weights}
    for path, value in weights.items():
        variables[path].assign(value)
    if label_names is None:
        label_names = range(max(2, num_classes))
    return TextClassifier(classifier, vectorizer, label_names)


def read_config(folder):
    """The settings in a checkpoint's config.json, a dict."""
    path = folder / "config.json"
    config = {**SILENT, **read_json(path)}
    check(path, config, SUPPORTED)
    for name in SIZES:
        value = config.get(name)
        if not isinstance(value, int) or value < 1:
            raise ValueError(
                f"{path} must tell {name}, a positive integer. "
                f"Received: {name}={value!r}"
            )
    for name in RATES:
        value = config[name]
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(
                f"{path} must tell {name}, a number in [0, 1). "
                f"Received: {name}={value!r}"
            )
    return config


def lowercase(folder):
    """Whether a checkpoint's tokenizer reads upper case as lower."""
    path = folder / "tokenizer_config.json"
    config = read_json(path)
    check(path, config, SUPPORTED_TOKENS)
    if "do_lower_case" not in config:
        raise ValueError(f"{path} must tell whether do_lower_case is true or false.")
    return config["do_lower_case"]


def read_json(path):
    """The object in a JSON file, a dict."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            "A checkpoint's folder holds config.json and tokenizer_config.json. "
            f"Received: path={str(path)!r} ({error})"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{path} must hold an object. Received: {type(found).__name__}"
        )
    return found


def check(path, config, supported):
    """Raises ValueError if a setting has a value that is not supported."""
    for name, values in supported.items():
        value = config.get(name, values[0])
        if value not in values:
            raise ValueError(
                f"{path} asks for what this encoder does not do. Received: "
                f"{name}={value!r}. Supported: {', '.join(map(repr, values))}."
            )


class Checkpoint:
    """The weights in a file of safetensors, by BERT's names, each to be read once.

    Args:
        path: of the file.

    Raises:
        ValueError: if safetensors is not installed, or the file cannot be read.
    """

    def __init__(self, path):
        if importlib.util.find_spec("safetensors") is None:
            raise ValueError(
                "Reading a checkpoint needs the package safetensors. Install it: "
                "pip install 'residual_keras[convert]'."
            )
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        self.path = path
        try:
            weights = load_file(path)
        except (OSError, SafetensorError, KeyError, TypeError) as error:  # odd dtypes
            raise ValueError(
                "A checkpoint's weights are one file, model.safetensors; a pickle, "
                "which can run code, is not read. "
                f"Received: path={str(path)!r} ({error})"
            ) from None
        # A model with a head has its encoder's weights under "bert.".
        prefix = "bert." if any(name.startswith("bert.") for name in weights) else ""
        self.weights = {
            modern(name.removeprefix(prefix)): value
            for name, value in weights.items()
            if name.startswith(prefix)
        }
        self.faults = []

    def read(self, name, *shape):
        """A weight as float32; zeros, and a fault, if none of that shape is fit."""
        value = self.weights.pop(name, None)
        if value is None:
            fault = "is missing"
        elif value.shape != shape:
            fault = f"has shape {value.shape}"
        elif not np.isfinite(value).all():
            fault = "is not finite"
        else:
            return value.astype("float32", copy=False)
        self.faults.append(f"{name} {shape} {fault}")
        return np.zeros(shape, "float32")

    def finish(self):
        """Raises ValueError if a weight was missing or unfit, or is left over."""
        left = [name for name in self.weights if not name.startswith(LEFT_OUT)]
        faults = self.faults + [f"{name} is left over" for name in sorted(left)]
        if faults:
            more = f", and {len(faults) - 5} more" if len(faults) > 5 else ""
            raise ValueError(
                f"{self.path} does not hold the weights that its config.json tells of: "
                f"{'; '.join(faults[:5])}{more}."
            )


def modern(name):
    """A weight's name; the norms of older checkpoints have gamma and beta."""
    for old, new in OLDER.items():
        name = name.replace(old, new)
    return name


def arranged(checkpoint, config, max_len):
    """Arrays by the paths of our weights; (in, out) where BERT has (out, in)."""
    width, hidden = config["hidden_size"], config["intermediate_size"]
    found = {}

    def table(name, rows):
        return checkpoint.read(f"embeddings.{name}_embeddings.weight", rows, width)

    def norm(path, name):
        for ours, theirs in (("gamma", "weight"), ("beta", "bias")):
            found[f"{path}/{ours}"] = checkpoint.read(f"{name}.{theirs}", width)

    def dense(path, names, size_in, size_out):
        """One kernel of one or several, side by side."""
        kernels = [checkpoint.read(f"{n}.weight", size_out, size_in).T for n in names]
        biases = [checkpoint.read(f"{n}.bias", size_out) for n in names]
        found[f"{path}/kernel"] = np.concatenate(kernels, axis=1)
        found[f"{path}/bias"] = np.concatenate(biases)

    found["embedding/tokens/embeddings"] = table("word", config["vocab_size"])
    positions = table("position", config["max_position_embeddings"])
    first, *_ = table("token_type", config["type_vocab_size"])
    found["embedding/positions/table"] = positions[:max_len] + first
    norm("embedding_norm", "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        block, layer = f"encoder/block_{i}", f"encoder.layer.{i}"
        heads = [f"{layer}.attention.self.{n}" for n in ("query", "key", "value")]
        output, expand = f"{layer}.attention.output", f"{layer}.intermediate.dense"
        project = f"{layer}.output"
        dense(f"{block}/attention/qkv", heads, width, width)
        dense(f"{block}/attention/output", [f"{output}.dense"], width, width)
        dense(f"{block}/feed_forward/expand", [expand], width, hidden)
        dense(f"{block}/feed_forward/project", [f"{project}.dense"], hidden, width)
        norm(f"encoder/residual/norm_{2 * i}", f"{output}.LayerNorm")
        norm(f"encoder/residual/norm_{2 * i + 1}", f"{project}.LayerNorm")
    checkpoint.finish()
    return found
