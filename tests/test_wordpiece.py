"""Raw text -> ids of sub-words: against BERT's rules and the package `tokenizers`."""

import gzip
import json
import os
import pathlib
import sys
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from residual_keras import (
    TextClassifier,
    WordPieceVectorizer,
    build_classifier,
    export_saved_model,
)
from residual_keras.vectorizer import as_texts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = [
    *SPECIAL,
    *"abcdeinorsuwxyz!#,.",
    *("##" + c for c in "abcdeinrstwyz"),
    *["un", "##like", "##ly", "wood", "##en", "##ood", "dre", "##dre", "##adful"],
    *["ß", "и", "##и", "##ил", "фил", "фи", "##ьм", "είν", "##αι", "好", "看", "##看"],
    *["한", "ᄒ", "##ᅡ", "##ᆫ", "é", "##É", "=", "👍", "##👍", "##🏽"],
]
CORPUS = [
    "I really liked it, it was a warm film!",
    "It was dull. It was long, long, long.",
    "好看的电影 👍 好看",
    "Don't miss it :) it is liked",
]


def words(layer, *texts):
    rows = layer.split(as_texts(texts)).to_list()
    rows = [[word.decode("utf-8") for word in row] for row in rows]
    return rows if len(rows) > 1 else rows[0]


@pytest.fixture(scope="module")
def vectorizer():
    return WordPieceVectorizer(vocabulary=VOCABULARY, max_len=9999)


@pytest.fixture(scope="module")
def cased():
    return WordPieceVectorizer(vocabulary=VOCABULARY, max_len=9999, lowercase=False)


# --- words


@pytest.mark.parametrize(
    ("text", "expected", "expected_cased"),
    [
        ("", [], []),
        (" \t\r\n ", [], []),
        ("A Fine FILM", ["a", "fine", "film"], ["A", "Fine", "FILM"]),
        ("Élan Ёж ΟΔΟΣ", ["elan", "еж", "οδοσ"], ["Élan", "Ёж", "ΟΔΟΣ"]),
        ("cafe\u0301s", ["cafes"], ["cafe\u0301s"]),
        ("İs Kelvin: \u212a Ω", ["is", "kelvin", ":", "k", "ω"], None),
        ("각", ["\u1100\u1161\u11a8"], ["각"]),
        ("don't...", ["don", "'", "t", ".", ".", "."], ["don", "'", "t", *"..."]),
        ("a$b^c`d~e", [*"a$b^c`d~e"], [*"a$b^c`d~e"]),
        ("«a»—b、c", [*"«a»—b、c"], [*"«a»—b、c"]),
        ("a+b≠c", [*"a+b=c"], [*"a+", "b≠c"]),
        ("好看film的", ["好", "看", "film", "的"], ["好", "看", "film", "的"]),
        ("カタひら ไทย", ["カタひら", "ไทย"], ["カタひら", "ไทย"]),
        ("\uf900", ["\u8c48"], ["\uf900"]),
        ("a\u00a0b\u3000c\u2028d", [*"abcd"], [*"abcd"]),
        ("a\x00b\x07\u200d\u00ad\ufeff\ufffd\ue000c\x0bd", ["abcd"], ["abcd"]),
        ("\u0301 \u200d", [], ["\u0301"]),
        (b"caf\xc3 \xff ok \xed\xa0\x80", ["caf", "ok"], ["caf", "ok"]),
        ("[SEP] <br />", [*"[", "sep", *"]<", "br", *"/>"], None),
        ("👍🏽 x👍", ["👍🏽", "x👍"], ["👍🏽", "x👍"]),
    ],
)
def test_words(vectorizer, cased, text, expected, expected_cased):
    assert words(vectorizer, text) == expected
    if expected_cased is not None:
        assert words(cased, text) == expected_cased


IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)]
IDEOGRAPHS += [(0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF)]
IDEOGRAPHS += [(0x2F800, 0x2FA1F)]


def plain_words(text, lowercase):
    """BERT's words, a character at a time."""
    clean = ""
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category[0] == "Z":
            clean += " "
        elif any(low <= ord(character) <= high for low, high in IDEOGRAPHS):
            clean += f" {character} "
        elif category not in ("Cc", "Cf", "Co") and character != "\ufffd":
            clean += character
    if lowercase:
        clean = unicodedata.normalize("NFD", clean)
        clean = "".join(c for c in clean if unicodedata.category(c) != "Mn")
        clean = "".join(c.lower() for c in clean)
    for character in set(clean):
        category = unicodedata.category(character)
        if category[0] == "P" or (character.isascii() and category[0] == "S"):
            clean = clean.replace(character, f" {character} ")
    return clean.split(" ")


def plain_pieces(word, vocabulary):
    """The longest pieces from the start on, or the unknown one."""
    pieces, start = [], 0
    while start < len(word) <= 100:
        for stop in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:stop]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = stop
    return pieces if len(word) <= 100 else ["[UNK]"]


def plain_tokens(text, vocabulary, lowercase):
    return [
        piece
        for word in plain_words(text, lowercase)
        for piece in plain_pieces(word, vocabulary)
    ]


CHARACTERS = [chr(code) for code in range(0x110000)]
CHARACTERS = [c for c in CHARACTERS if unicodedata.category(c) not in ("Cn", "Cs")]
KNOWN = "".join(t.removeprefix("##") for t in VOCABULARY if t not in SPECIAL)
SNIPPETS = [*KNOWN, *VOCABULARY, *" \t\u00a0\u3000.,!#$≠—。"]
SNIPPETS += [
    "unlikely",
    "dreadful",
    "WOODEN",
    "фильм",
    "ÉTÉ",
    "e\u0301",
    "한",
    "a" * 99,
]
SNIPPETS += ["\x00", "\u200d", "\ufeff", "\ufffd", "\ue000", "İ", "Σ", "ẞ", "\u1fef"]


def texts_of(characters):
    """Lists of texts of snippets and of any character."""
    text = st.lists(st.sampled_from(SNIPPETS) | st.sampled_from(characters))
    return st.lists(text.map("".join), min_size=20, max_size=40)


@settings(max_examples=12, deadline=None)
@given(texts_of(CHARACTERS), st.booleans())
def test_tokens_are_those_of_a_plain_reading(vectorizer, cased, texts, lowercase):
    found = (vectorizer if lowercase else cased).token_ids(as_texts(texts)).to_list()
    for text, ids in zip(texts, found, strict=True):
        expected = plain_tokens(text, VOCABULARY, lowercase)
        assert [VOCABULARY[i] for i in ids] == expected, repr(text)


# The package's tables are of Unicode 8: what had another kind before is left out.
OLD = [
    c
    for c in CHARACTERS
    if unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)
]


def peer(vocabulary, lowercase):
    """BERT's tokeniser of the package, which reads no "[SEP]" in a text."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    ids = {token: i for i, token in enumerate(vocabulary)}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(
        strip_accents=lowercase, lowercase=lowercase
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda texts: [each.ids for each in made.encode_batch(texts)]


@settings(max_examples=12, deadline=None)
@given(texts_of(OLD), st.booleans())
def test_ids_are_those_of_the_package_tokenizers(vectorizer, cased, texts, lowercase):
    layer = vectorizer if lowercase else cased
    found = layer.token_ids(as_texts(texts)).to_list()
    assert found == peer(VOCABULARY, lowercase)(texts)


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_of_unicode(vectorizer, cased, lowercase):
    """Between two letters, beside a plain reading and the package's."""
    theirs = peer(VOCABULARY, lowercase)
    layer = vectorizer if lowercase else cased
    for start in range(0, len(CHARACTERS), 10_000):
        texts = [f"a{c}b" for c in CHARACTERS[start : start + 10_000]]
        for text, found in zip(texts, words(layer, *texts), strict=True):
            assert found == [w for w in plain_words(text, lowercase) if w], repr(text)
    for start in range(0, len(OLD), 10_000):
        texts = [f"a{c}b" for c in OLD[start : start + 10_000]]
        assert layer.token_ids(as_texts(texts)).to_list() == theirs(texts)


@pytest.fixture(scope="module")
def real_texts():
    """Every text of every set."""
    if "RESIDUAL_KERAS_DATA" not in os.environ:
        pytest.skip("RESIDUAL_KERAS_DATA names no folder of real data")
    texts = []
    for path in sorted(pathlib.Path(os.environ["RESIDUAL_KERAS_DATA"]).rglob("*.gz")):
        if not path.name.endswith(".ids.tsv.gz"):
            lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
            texts += [line.split("\t", 1)[1] for line in lines if line]
    return texts


@pytest.fixture(scope="module")
def learnt(real_texts):
    """A vocabulary of some of them."""
    pytest.importorskip("tokenizers")
    layer = WordPieceVectorizer(max_len=10**6)
    layer.adapt(real_texts[::10])
    return layer


@pytest.mark.slow
def test_ids_of_real_texts_are_those_of_the_package_tokenizers(real_texts, learnt):
    theirs = peer(learnt.get_vocabulary(), lowercase=True)
    for start in range(0, len(real_texts), 1000):
        batch = real_texts[start : start + 1000]
        assert learnt.token_ids(as_texts(batch)).to_list() == theirs(batch), start


@pytest.mark.slow
def test_ids_of_real_texts_are_those_of_keras_hub(real_texts, learnt):
    """Once that is done which it does and BERT does not.

    It folds full-width and other compatible forms, and ends a word at a control
    character, which BERT takes out.
    """
    pytest.importorskip("tensorflow_text")
    keras_hub = pytest.importorskip("keras_hub")
    theirs = keras_hub.tokenizers.WordPieceTokenizer(
        vocabulary=learnt.get_vocabulary(),
        lowercase=True,
        strip_accents=True,
        split_on_cjk=True,
        dtype="int32",
    )
    texts = real_texts[::4]
    for start in range(0, len(texts), 256):
        batch = [
            "".join(
                " " if unicodedata.category(c) in ("Cc", "Cf") else c
                for c in unicodedata.normalize("NFKC", text.casefold())
            )
            for text in texts[start : start + 256]
        ]
        found = learnt.token_ids(as_texts(batch)).to_list()
        assert found == [list(map(int, row)) for row in theirs(batch)], start


# --- pieces


def pieces(layer, *texts):
    vocabulary = layer.get_vocabulary()
    return [[vocabulary[i] for i in row if i] for row in layer(texts).numpy()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unlikely", ["un", "##like", "##ly"]),
        ("wood wooden woody", ["wood", "wood", "##en", "wood", "##y"]),
        ("dreadful", ["dre", "##adful"]),  # longest first: "dre", not "d" and "##dre"
        ("ddreadful", ["d", "##dre", "##adful"]),
        ("likely", ["[UNK]"]),  # "##like" begins no word
        ("un unq x#", ["un", "[UNK]", "x", "#"]),
        ("##like", ["#", "#", "[UNK]"]),
        ("фильм ФИЛ", ["фил", "##ьм", "фил"]),
        ("είναι", ["[UNK]"]),  # its accent is gone, and the piece's is not
        ("한 é ÉÉ", ["ᄒ", "##ᅡ", "##ᆫ", "e", "e", "##e"]),
        ("好看", ["好", "看"]),  # an ideograph is a word: never "##看"
        ("👍👍", ["👍", "##👍"]),
        ("a" * 100, ["a", *["##a"] * 99]),
        ("a" * 101 + " b", ["[UNK]", "b"]),
        ("\U0001f44d" + "\U0001f44d" * 99, ["👍", *["##👍"] * 99]),
        ("é" * 100, ["e", *["##e"] * 99]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_pieces(vectorizer, text, expected):
    assert pieces(vectorizer, text) == [expected]


def test_tokens_are_what_the_ids_stand_for(vectorizer):
    found = vectorizer.tokens(["Unlike wood, Q!", ""])
    assert found == [["un", "##like", "wood", ",", "[UNK]", "!"], []]


def test_ids(vectorizer):
    ids = vectorizer(["Unlikely, UNLIKELY", "unheard", ""])
    un, like, ly, comma = map(VOCABULARY.index, ["un", "##like", "##ly", ","])
    assert ids.dtype == tf.int32
    np.testing.assert_array_equal(
        ids,
        [[un, like, ly, comma, un, like, ly], [1, *[0] * 6], [0] * 7],
    )
    assert vectorizer(["", " "]).shape == (2, 1)
    assert vectorizer([]).shape == (0, 1)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("truncation", "kept"),
    [("head", "abcde"), ("tail", "cdei."), ("head_tail", "abci.")],
)
def test_truncation_counts_pieces_and_special_tokens(truncation, kept, special):
    layer = WordPieceVectorizer(
        vocabulary=VOCABULARY,
        max_len=5 + 2 * special,
        truncation=truncation,
        add_special_tokens=special,
    )
    found = pieces(layer, "abcdei.", "ab", "")
    for row, text in zip(found, (kept, "ab", ""), strict=True):
        if special:
            assert (row[0], row[-1]) == ("[CLS]", "[SEP]")
            row = row[1:-1]
        assert "".join(piece.removeprefix("##") for piece in row) == text
    widest = layer(["", "a"]).shape[1]
    assert widest == 1 + 2 * special


def test_the_same_ids_in_a_data_set_a_function_and_a_functional_model(vectorizer):
    texts = ["unlikely wooden", "", "好看 фильм", "a" * 101]
    expected = vectorizer(texts)
    (mapped,) = tf.data.Dataset.from_tensor_slices(texts).batch(4).map(vectorizer)
    np.testing.assert_array_equal(mapped, expected)
    text = keras.Input((), dtype="string")
    model = keras.Model(text, vectorizer(text))
    np.testing.assert_array_equal(
        model.predict(tf.constant(texts), verbose=0), expected
    )
    for text, row in zip(texts, expected.numpy(), strict=True):
        alone = vectorizer([text]).numpy()[0]
        np.testing.assert_array_equal(row[: len(alone)], alone)
        assert not row[len(alone) :].any()


# --- vocabulary


@pytest.fixture(scope="module")
def adapted():
    pytest.importorskip("tokenizers")
    layer = WordPieceVectorizer(vocab_size=120)
    layer.adapt(CORPUS * 2)
    return layer


def test_a_learnt_vocabulary_holds_characters_and_what_was_seen_often(adapted):
    vocabulary = adapted.get_vocabulary()
    characters = sorted(set("".join(CORPUS).lower()) - {" "})
    assert vocabulary[: 4 + len(characters)] == [*SPECIAL, *characters]
    assert adapted.vocab_size == len(vocabulary) == len(set(vocabulary)) <= 120
    found = pieces(adapted, *CORPUS)
    assert " ".join(found[1]) == "it was dull . it was long , long , long ."
    assert not any("[UNK]" in row for row in found)


def test_a_small_vocabulary_knows_the_commonest_characters():
    pytest.importorskip("tokenizers")
    layer = WordPieceVectorizer(vocab_size=8)
    layer.adapt(["aaab bba c", "ab d"])
    assert layer.get_vocabulary() == [*SPECIAL, "a", "b", "##a", "##b"]
    assert pieces(layer, "abc ba") == [["[UNK]", "b", "##a"]]


def test_adapt_says_how_to_install_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ValueError, match=r"pip install 'residual_keras\[subwords\]'"):
        WordPieceVectorizer().adapt(CORPUS)


def test_a_vocabulary_from_a_file(tmp_path):
    path = tmp_path / "vocab.txt"
    lines = [
        "[PAD]",
        "[unused0]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "##b",
        "\x85",
    ]
    for end in ("\n", "\r\n"):
        path.write_bytes("".join(line + end for line in lines).encode())
        layer = WordPieceVectorizer.from_file(path, max_len=7, add_special_tokens=True)
        assert layer.get_vocabulary() == lines
        assert (layer.vocab_size, layer.max_len) == (9, 7)
        np.testing.assert_array_equal(layer(["ab c"]), [[3, 6, 7, 2, 4]])


@pytest.mark.parametrize(
    "content", [b"[PAD]\n[UNK]\n\xff", b"[PAD]\n[UNK]\n\na", b"", b"a\n", None]
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="vocab"):
        WordPieceVectorizer.from_file(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocab_size": 5}, "vocab_size=5"),
        ({"max_len": 2, "add_special_tokens": True}, "at least 3.*max_len=2"),
        ({"truncation": "middle"}, "head_tail.*truncation='middle'"),
        ({"lowercase": "no"}, "lowercase='no'"),
        ({"add_special_tokens": 1}, "add_special_tokens=1"),
        ({"vocabulary": ["", "[UNK]", "a"]}, r"must begin with '\[PAD\]'"),
        ({"vocabulary": ["[PAD]", "a"]}, r"hold \['\[PAD\]', '\[UNK\]'\]"),
        (
            {"vocabulary": ["[PAD]", "[UNK]"], "add_special_tokens": True},
            r"hold .*'\[CLS\]', '\[SEP\]'",
        ),
        ({"vocabulary": ["[PAD]", "[UNK]", 3]}, "strings only"),
        ({"vocabulary": ["[PAD]", "[UNK]", "a", "a"]}, "twice.*'a'"),
        ({"vocabulary": SPECIAL * 2, "vocab_size": 6}, "twice"),
        ({"vocabulary": [*SPECIAL, *"abc"], "vocab_size": 6}, "vocab_size=6"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        WordPieceVectorizer(**arguments)


def test_the_layer_asks_for_a_vocabulary_and_for_texts(vectorizer):
    with pytest.raises(ValueError, match="WordPieceVectorizer .* has no vocabulary"):
        WordPieceVectorizer()(["a"])
    with pytest.raises(ValueError, match="WordPieceVectorizer takes raw texts"):
        vectorizer(keras.Input((4,), dtype="int32"))


def test_config_round_trip():
    layer = WordPieceVectorizer(
        max_len=7,
        truncation="tail",
        vocabulary=VOCABULARY,
        lowercase=False,
        add_special_tokens=True,
        name="text",
    )
    config = json.loads(json.dumps(layer.get_config()))
    copy = WordPieceVectorizer.from_config(config)
    assert copy.get_config() == layer.get_config()
    np.testing.assert_array_equal(copy(CORPUS), layer(CORPUS))


# --- the model around it, and another process

SENTENCES = [*CORPUS, "", "ÉTÉ фильм 한 👩\u200d🚀 <br />", "a" * 101, "[SEP] unlikely"]

# The served model first, with nothing but TensorFlow; then Keras' own format.
OTHER_PROCESS = """
import json, sys
import tensorflow as tf

folder, sentences, corpus = sys.argv[1], *map(json.loads, sys.argv[2:])
served = tf.saved_model.load(folder + "/served/1")
answer = served.signatures["serving_default"](text=tf.constant(sentences))
found = {"served": answer["probabilities"].numpy().tolist()}
found["imported"] = "residual_keras" in sys.modules

import residual_keras

model = residual_keras.load_model(folder + "/model.keras")
found["restored"] = model.predict(sentences).tolist()
found["config"] = model.vectorizer.get_config()
if corpus:
    model.vectorizer.adapt(corpus)
    found["learnt"] = model.vectorizer.get_vocabulary()
print(json.dumps(found))
"""


def test_a_text_classifier_is_served_and_loaded_by_another_process(
    vectorizer, tmp_path, new_process
):
    keras.utils.set_random_seed(7)
    layer = WordPieceVectorizer(
        vocab_size=90, max_len=16, vocabulary=VOCABULARY, add_special_tokens=True
    )
    classifier = build_classifier(
        layer.vocab_size, 2, max_len=16, num_layers=1, embed_dim=8, num_heads=2
    )
    with pytest.raises(ValueError, match="vectorizer with max_len=9999"):
        TextClassifier(classifier, vectorizer, ["bad", "good"])
    model = TextClassifier(classifier, layer, ["bad", "good"])
    expected = model.predict(SENTENCES)
    assert len(np.unique(expected[:, 0])) == len(SENTENCES)
    model.save(tmp_path / "model.keras")
    export_saved_model(model, tmp_path / "served")
    corpus = CORPUS * 2 if importable("tokenizers") else []
    found = new_process(
        OTHER_PROCESS, tmp_path, json.dumps(SENTENCES), json.dumps(corpus)
    )
    assert found["imported"] is False
    np.testing.assert_allclose(found["served"], expected, atol=1e-6)
    np.testing.assert_allclose(found["restored"], expected, atol=1e-6)
    assert found["config"] == layer.get_config()
    if corpus:  # the same vocabulary from the same texts, in any process
        layer.adapt(corpus)
        assert found["learnt"] == layer.get_vocabulary()


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def test_a_recipe_names_its_tokenizer():
    from residual_keras import Recipe, building
    from residual_keras.data import load

    data = load("reviews(depth=1, train_size=20, validation_size=8, test_size=8)")
    sizes = {"num_layers": 1, "embed_dim": 8, "num_heads": 2, "vocab_size": 99}
    with pytest.raises(ValueError, match="Did you mean 'wordpiece'"):
        building.build(Recipe(tokenizer="wordpieces", **sizes), data)
    assert building.build(Recipe(**sizes), data).vectorizer.get_vocabulary()[0] == ""
    pytest.importorskip("tokenizers")
    model = building.build(Recipe(tokenizer="wordpiece", **sizes), data)
    assert isinstance(model.vectorizer, WordPieceVectorizer)
    assert model.vectorizer.truncation == "head_tail"
    assert model.predict(["the plot was superb"]).shape == (1, 2)
