"""Raw text -> ids: tokens, truncation, vocabulary, saving, serving."""

import json
import math
import os
import subprocess
import sys
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras.text import TextVectorizer, tokenize
from residual_keras.vectorizer import as_texts

CORPUS = [
    "I really liked it, it was a warm film!",
    "It was dull. It was long.",
    "好看的电影 👍",
    "Don't miss it :)",
]


def tokens(*texts):
    rows = tokenize(as_texts(texts)).to_list()
    rows = [[token.decode("utf-8") for token in row] for row in rows]
    return rows if len(rows) > 1 else rows[0]


@pytest.fixture(scope="module")
def vectorizer():
    layer = TextVectorizer(vocab_size=100, max_len=6)
    layer.adapt(CORPUS)
    return layer


# --- tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t\r\n ", []),
        ("A Fine FILM", ["a", "fine", "film"]),
        ("ÉTÉ Фильм ΟΔΟΣ", ["été", "фильм", "οδος"]),
        (
            "Wow!!! Well... :-) (sic)",
            ["wow", "!!!", "well", "...", ":-)", "(", "sic", ")"],
        ),
        ("one<br />two<br/>THREE<BR>four", ["one", "two", "three", "four"]),
        ('<a href="x.html">go</a> <b>on</b>', ["go", "on"]),
        (
            "I <3 it, a<b and c>d",
            ["i", "<", "3", "it", ",", "a", "<", "b", "and", "c", ">", "d"],
        ),
        ("don't rock'n'roll l'été", ["don't", "rock'n'roll", "l'été"]),
        ("don’t ‘so’ isn´t", ["don't", "'", "so", "'", "isn't"]),
        (
            "'tis the boys' 'best' 80's",
            ["'", "tis", "the", "boys", "'", "'", "best", "'", "80's"],
        ),
        ("it''s 'quoted.'", ["it", "''", "s", "'", "quoted", ".'"]),
        ("7/10, $5.99", ["7", "/", "10", ",", "$", "5", ".", "99"]),
        ("非常好。English一般", [*"非常好。", "english", *"一般"]),
        ("カーとひらがな", list("カーとひらがな")),
        ("か\u3099き", ["か\u3099", "き"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("ລາວ ខ្មែរ မြန်မာ", ["ລ", "າ", "ວ", "ខ្", "មែ", "រ", "မြ", "န်", "မာ"]),
        ("我don't 我'd", ["我", "don't", "我", "'", "d"]),
        ("한국어 영화", ["한국어", "영화"]),
        ("so👍👍🏽good❤️", ["so", "👍", "👍", "good", "❤"]),
        ("👩\u200d🚀", ["👩", "🚀"]),
        ("🇫🇷🇩🇪", ["🇫🇷", "🇩🇪"]),
        ("\U0001fac8", ["\U0001fac8"]),
        ("cafe\u0301 n\u0303o हिन्दी", ["cafe\u0301", "n\u0303o", "हिन्दी"]),
        ("soft\u00adhyphen می\u200cشود", ["softhyphen", "میشود"]),
        ("\ufeffbom", ["bom"]),
        ("a\x00b\x07c\x1cd", ["a", "b", "c", "d"]),
        ("İSTANBUL", ["istanbul"]),
        (b"caf\xc3 \xff ok \xed\xa0\x80", ["caf", "�", "�", "ok"]),
        ("half \ud800 pair", ["half", "?", "pair"]),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


WHITE_SPACE = [c for c in map(chr, range(0x10000)) if c.isspace()]


def test_every_white_space_of_unicode_separates():
    assert len(WHITE_SPACE) > 20
    for space in WHITE_SPACE:
        assert tokens(f"{space}a{space}b{space}") == ["a", "b"], hex(ord(space))


def plain_tokens(text):
    """The same rules, a character at a time."""
    text = text.lower().replace("’", "'").replace("\ufe0f", "").replace("\u200d", "")
    characters = []
    for character in text:  # together with the marks on it
        if unicodedata.combining(character):
            characters[-1] += character
        else:
            characters.append(character)
    kinds = [kind_of(character[0]) for character in characters]
    for i in range(1, len(kinds) - 1):
        if characters[i] == "'" and kinds[i - 1] == kinds[i + 1] == "letter":
            kinds[i] = "letter"
    result, last = [], "space"
    for character, kind in zip(characters, kinds, strict=True):
        if kind == last and kind in ("letter", "punctuation"):
            result[-1] += character
        elif kind != "space":
            result.append(character)
        last = kind
    return result


def kind_of(character):
    category = unicodedata.category(character)
    if character in "好看カか" or category == "So":
        return "single"
    if category[0] in "ZC":
        return "space"
    return "punctuation" if category[0] in "PS" else "letter"


PIECES = [*"aB7éЖß'’.,!-_$+好看カか👍☺ \u00a0\u3000\u0085\x00\ufe0f\u200d"]
PIECES += ["e\u0301", "か\u3099", "don't"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES)), min_size=30, max_size=60))
def test_tokens_are_those_of_a_plain_reading(texts):
    texts = ["".join(pieces) for pieces in texts]
    for text, found in zip(texts, tokens(*texts), strict=True):
        assert found == plain_tokens(text), repr(text)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text() | st.binary(), min_size=2, max_size=20))
def test_any_text_or_bytes_yields_clean_tokens(texts):
    for row in tokens(*texts):
        for token in row:
            assert token
            assert not any(character.isspace() for character in token)


def test_lower_case_is_the_same_in_every_locale(serving):
    assert serving["turkish"] == [["title", "istanbul"]]


# --- ids


def test_ids(vectorizer):
    ids = vectorizer(["It was, it was", "unheard", ""])
    it, was, comma = map(vectorizer.get_vocabulary().index, ["it", "was", ","])
    assert ids.dtype == tf.int32
    np.testing.assert_array_equal(
        ids, [[it, was, comma, it, was], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    )


def test_ids_are_as_wide_as_the_longest_text_and_at_least_one(vectorizer):
    assert vectorizer(["it was", "it"]).shape == (2, 2)
    assert vectorizer(["", " "]).shape == (2, 1)
    assert vectorizer([]).shape == (0, 1)
    np.testing.assert_array_equal(vectorizer(["", " "]), [[0], [0]])


def test_a_text_has_the_same_ids_in_any_batch(vectorizer):
    together = vectorizer(CORPUS).numpy()
    for text, row in zip(CORPUS, together, strict=True):
        alone = vectorizer([text]).numpy()[0]
        np.testing.assert_array_equal(row[: len(alone)], alone)
        assert not row[len(alone) :].any()


@pytest.mark.parametrize("max_len", [1, 2, 5, 6])
@pytest.mark.parametrize("truncation", ["head", "tail", "head_tail"])
def test_truncation(truncation, max_len):
    words = [chr(ord("a") + i) for i in range(11)]
    texts = [" ".join(words[:length]) for length in range(12)]
    layer = TextVectorizer(max_len=max_len, truncation=truncation)
    layer.adapt(texts)
    vocabulary = layer.get_vocabulary()
    for length, row in enumerate(layer(texts).numpy()):
        kept = words[:length]
        if length > max_len:
            half = math.ceil(max_len / 2)
            kept = {
                "head": kept[:max_len],
                "tail": kept[length - max_len :],
                "head_tail": kept[:half] + kept[length - (max_len - half) :],
            }[truncation]
        assert [vocabulary[i] for i in row] == kept + [""] * (max_len - len(kept))


def test_the_same_ids_in_a_data_set_a_function_and_a_functional_model(vectorizer):
    expected = vectorizer(CORPUS)
    (mapped,) = tf.data.Dataset.from_tensor_slices(CORPUS).batch(4).map(vectorizer)
    np.testing.assert_array_equal(mapped, expected)
    traced = tf.function(vectorizer)(tf.constant(CORPUS))
    np.testing.assert_array_equal(traced, expected)
    for shape in ((), (1,)):
        text = keras.Input(shape, dtype="string")
        ids = vectorizer(text)
        assert (ids.shape, ids.dtype) == ((None, None), "int32")
        model = keras.Model(text, ids)
        column = tf.reshape(tf.constant(CORPUS), (-1, *shape))
        np.testing.assert_array_equal(model(column), expected)
        np.testing.assert_array_equal(model.predict(column, verbose=0), expected)


def test_the_layer_works_in_any_kind_of_model(vectorizer):
    expected = vectorizer(CORPUS)
    text = keras.Input((), dtype="string")
    inner = keras.Model(text, vectorizer(text))
    outer_text = keras.Input((), dtype="string")
    nested = keras.Model(outer_text, inner(outer_text, training=True))
    for model in (
        keras.Sequential([vectorizer]),
        nested,
        keras.models.clone_model(nested),
    ):
        np.testing.assert_array_equal(model(tf.constant(CORPUS)), expected)


def test_a_model_with_the_layer_inside_is_not_compiled_by_xla(vectorizer):
    text = keras.Input((), dtype="string")
    ids = vectorizer(text)
    model = keras.Model(text, keras.layers.Embedding(100, 2, mask_zero=True)(ids))
    model.compile(jit_compile="auto")
    assert model.jit_compile is False


# --- vocabulary


def test_vocabulary_is_ordered_by_frequency_then_token():
    layer = TextVectorizer()
    layer.adapt(["b b c", "a c b", "好 a"])
    assert layer.get_vocabulary() == ["", "[UNK]", "b", "a", "c", "好"]
    assert layer.vocab_size == 6


def test_vocabulary_stops_at_vocab_size():
    layer = TextVectorizer(vocab_size=4)
    assert layer.vocab_size == 4
    layer.adapt(["b b c", "a c b"])
    assert layer.get_vocabulary() == ["", "[UNK]", "b", "c"]
    np.testing.assert_array_equal(layer(["a b c"]), [[1, 2, 3]])


def test_adapt_forgets_what_it_learnt_before():
    layer = TextVectorizer()
    layer.adapt(["old words"])
    layer.adapt(["new"])
    assert layer.get_vocabulary() == ["", "[UNK]", "new"]
    np.testing.assert_array_equal(layer(["new old"]), [[2, 1]])


def test_adapt_takes_lists_arrays_and_data_sets(vectorizer):
    texts = tf.data.Dataset.from_tensor_slices(CORPUS)
    column = tf.data.Dataset.from_tensor_slices(np.array(CORPUS, object)[:, None])
    for source in (np.array(CORPUS), texts, texts.batch(3), column.batch(2)):
        layer = TextVectorizer(vocab_size=100)
        layer.adapt(source)
        assert layer.get_vocabulary() == vectorizer.get_vocabulary()


def test_config_brings_the_vocabulary_back(vectorizer):
    config = json.loads(json.dumps(vectorizer.get_config()))
    assert config["vocab_size"] == 100
    copy = TextVectorizer.from_config(config)
    assert copy.get_vocabulary() == vectorizer.get_vocabulary()
    np.testing.assert_array_equal(copy(CORPUS), vectorizer(CORPUS))
    fresh = TextVectorizer.from_config(TextVectorizer(max_len=3).get_config())
    assert (fresh.max_len, fresh.vocabulary) == (3, None)


# --- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 2}, "vocab_size=2"),
        ({"vocab_size": 10.5}, "vocab_size=10.5"),
        ({"max_len": 0}, "max_len=0"),
        ({"max_len": True}, "max_len=True"),
        ({"max_len": None}, "max_len=None"),
        ({"truncation": "middle"}, "head_tail.*truncation='middle'"),
        ({"vocabulary": ["a", "b"]}, "must begin with"),
        ({"vocabulary": ["", "[UNK]", 3]}, "strings only"),
        ({"vocabulary": ["", "[UNK]", "a", "a"]}, "twice.*'a'"),
        ({"vocabulary": ["", "[UNK]", "a", "b"], "vocab_size": 3}, "vocab_size=3"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TextVectorizer(**arguments)


def test_the_layer_asks_to_be_adapted():
    layer = TextVectorizer()
    for use in (lambda: layer(["a"]), layer.get_vocabulary):
        with pytest.raises(ValueError, match="adapt"):
            use()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "at least one token"),
        (["", " "], "at least one token"),
        ("one text", "Pass a list"),
        (tf.data.Dataset.from_tensors((["a"], [1])), "Drop the labels"),
        (tf.data.Dataset.from_tensors([1]), "must yield texts"),
        (tf.data.Dataset.from_tensors(["a"]).repeat(), "infinite"),
    ],
)
def test_adapt_refuses_what_it_cannot_learn_from(source, message):
    with pytest.raises(ValueError, match=message):
        TextVectorizer().adapt(source)


def test_an_input_that_is_not_text_is_refused(vectorizer):
    for bad in (tf.constant([1]), np.array([1.0]), [1], tf.ragged.constant([["a"]])):
        with pytest.raises(ValueError, match="`texts` must"):
            vectorizer(bad)
    with pytest.raises(ValueError, match="raw texts"):
        vectorizer(keras.Input((4,), dtype="int32"))
    with pytest.raises(ValueError, match=r"\(n, 1\)"):
        vectorizer(keras.Input((4,), dtype="string"))


# --- as_texts


class Column:
    """Stands for a pandas Series: an index of its own, values by `__array__`."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __getitem__(self, key):
        raise KeyError(key)

    def __len__(self):
        return len(self.values)


TEXTS = ["good", "好看\x00", ""]


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS, object),
        np.array(TEXTS, object)[:, None],
        [[text] for text in TEXTS],
        [text.encode() for text in TEXTS],
        Column(TEXTS),
        tf.constant(TEXTS),
        tf.constant(TEXTS)[:, None],
    ],
)
def test_as_texts_takes_what_users_have(texts):
    tensor = as_texts(texts)
    assert (tensor.shape, tensor.dtype) == ((3,), tf.string)
    assert [text.decode() for text in tensor.numpy()] == TEXTS


def test_as_texts_takes_arrays_of_str():
    assert as_texts(np.array(["good", "bad"])).numpy().tolist() == [b"good", b"bad"]
    assert as_texts([]).shape == (0,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("good", "Pass a list"),
        (b"good", "Pass a list"),
        (["good", None], "None .* at row 1"),
        (["good", "bad", float("nan")], "nan .* at row 2"),
        (Column(["good", float("nan")]), "nan .* at row 1"),
        ([1, 2], "1 .int. at row 0"),
        (np.array([1.5]), "at row 0"),
        ([["good", "bad"]], r"shape=\(1, 2\)"),
        ([["good", "bad"], ["dull"]], "list. at row 0"),
        (None, r"shape=\(\)"),
        ({"text": ["good"]}, r"shape=\(\)"),
        (tf.constant("good"), r"shape=\(\)"),
        (tf.constant([1]), "int32"),
        (tf.ragged.constant([["good"], []]), "RaggedTensor"),
        (tf.sparse.from_dense(["good"]), "SparseTensor"),
    ],
)
def test_as_texts_refuses_the_rest(texts, message):
    with pytest.raises(ValueError, match=message):
        as_texts(texts)


# --- another process


SENTENCES = [*CORPUS, "", "unheard words 👩\u200d🚀 <br />don’t", "a\u00a0b\u3000c"]
SENTENCES += [f"it was film {number} 看" for number in range(1000)]

# The served model first, with nothing but TensorFlow; then Keras' own format.
OTHER_PROCESS = """
import json, sys
import tensorflow as tf

folder = sys.argv[1]
sentences = json.load(open(folder + "/sentences.json", encoding="utf-8"))
served = tf.saved_model.load(folder + "/served")
outputs = served.signatures["serving_default"](tf.constant(sentences))
result = {name: value.numpy().tolist() for name, value in outputs.items()}
result["imported"] = "residual_keras" in sys.modules
result["turkish"] = [
    [token.decode() for token in row]
    for row in served.tokens(tf.constant(["TITLE İSTANBUL"])).to_list()
]

import keras
import residual_keras.text

model = keras.saving.load_model(folder + "/model.keras")
result["restored"] = model(tf.constant(sentences)).numpy().tolist()
result["vocabulary"] = model.get_layer("text").get_vocabulary()
json.dump(result, open(folder + "/result.json", "w", encoding="utf-8"))
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    """What another process, in a Turkish locale, makes of what this one saved."""
    keras.utils.set_random_seed(7)
    folder = tmp_path_factory.mktemp("serving")
    layer = TextVectorizer(vocab_size=100, max_len=6, name="text")
    layer.adapt(CORPUS)
    text = keras.Input((), dtype="string")
    embedded = keras.layers.Embedding(layer.vocab_size, 3)(layer(text))
    model = keras.Model(text, keras.ops.mean(embedded, axis=1))
    model.save(folder / "model.keras")

    module = tf.Module()
    module.table = layer.table
    module.weights = [weight.value for weight in model.weights]
    strings = tf.TensorSpec([None], tf.string, name="text")
    module.tokens = tf.function(tokenize, input_signature=[strings])
    serve = tf.function(
        lambda text: {"ids": layer(text), "mean": model(text)},
        input_signature=[strings],
    )
    tf.saved_model.save(
        module, str(folder / "served"), signatures=serve.get_concrete_function()
    )

    sentences = json.dumps(SENTENCES)
    (folder / "sentences.json").write_text(sentences, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, str(folder)],
        check=True,
        env={
            **os.environ,
            "LC_ALL": "tr_TR.UTF-8",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {**result, "layer": layer, "model": model}


def test_a_saved_model_serves_the_same_ids_without_this_package(serving):
    assert serving["imported"] is False
    np.testing.assert_array_equal(serving["ids"], serving["layer"](SENTENCES))
    expected = serving["model"](tf.constant(SENTENCES))
    np.testing.assert_allclose(serving["mean"], expected, rtol=1e-6)


def test_a_keras_file_brings_the_vocabulary_to_a_new_process(serving):
    assert serving["vocabulary"] == serving["layer"].get_vocabulary()
    expected = serving["model"](tf.constant(SENTENCES))
    np.testing.assert_allclose(serving["restored"], expected, rtol=1e-6)


@pytest.mark.parametrize("truncation", ["head", "tail", "head_tail"])
def test_tokens_are_what_the_ids_stand_for(truncation):
    vectorizer = TextVectorizer(vocab_size=50, max_len=3, truncation=truncation)
    vectorizer.adapt(["one two three four five"])
    texts = ["One, two three four", "", "zebra five"]
    vocabulary = vectorizer.get_vocabulary()
    found = vectorizer.tokens(texts)
    for tokens, ids in zip(found, vectorizer(texts).numpy(), strict=True):
        assert len(tokens) == np.count_nonzero(ids)
        for token, number in zip(tokens, ids, strict=False):
            assert number == 1 or vocabulary[number] == token
    assert found[2] == ["zebra", "five"]
