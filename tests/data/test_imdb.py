import gzip
import http.server
import io
import os
import pathlib
import random
import socket
import subprocess
import sys
import tarfile
import threading
import time

import numpy as np
import pytest

from residual_keras.data import imdb

COUNT = 30  # reviews of each label in each part


def review(part, label, number):
    word = {"neg": "dull", "pos": "fine"}[label]
    return f"Évening {number} of the {part}:\u2028a {word} film.<br />So \x85 {word}."


def unlabelled(number):
    """Some of the reviews without a label stand among the others, too."""
    part = {0: "test", 1: "train"}.get(number)
    return review(part, "pos", number) if part else f"Something else, {number}."


def files():
    """Our own reviews under the names of the archive, in no order."""
    found = {}
    for part in ("train", "test"):
        found[f"aclImdb/{part}/urls_pos.txt"] = "not a review"
        for label, rating in (("neg", 2), ("pos", 9)):
            for number in range(COUNT):
                name = f"aclImdb/{part}/{label}/{number}_{rating}.txt"
                found[name] = review(part, label, number) + "\n"
    for number in range(COUNT):
        found[f"aclImdb/train/unsup/{number}_0.txt"] = unlabelled(number) + "\n"
    names = list(found)
    random.Random(0).shuffle(names)
    return {name: found[name].encode("utf-8") for name in names}


def make_archive(path, contents):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def make_tree(folder, contents):
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def prepare(data_dir):
    """What a finished download of tensorflow-datasets leaves behind."""
    import tensorflow_datasets as tfds

    def rows(part):
        for number in range(COUNT):
            for label, name in enumerate(("neg", "pos")):
                text = review(part, name, number)
                yield 2 * number + label, {"text": text, "label": label}

    features = {
        "text": tfds.features.Text(),
        "label": tfds.features.ClassLabel(names=["neg", "pos"]),
    }
    rest = [(n, {"text": unlabelled(n), "label": -1}) for n in range(COUNT)]
    tfds.dataset_builders.AdhocBuilder(
        name="imdb_reviews",
        config="plain_text",
        version="1.0.0",
        features=tfds.features.FeaturesDict(features),
        split_datasets={
            **{part: rows(part) for part in ("train", "test")},
            "unsupervised": rest,
        },
        data_dir=data_dir,
    ).download_and_prepare()


def pairs(*splits):
    return {
        (text, label)
        for split in splits
        for text, label in zip(split.texts, split.labels.tolist(), strict=True)
    }


def expected(part):
    return {
        (review(part, name, number), label)
        for number in range(COUNT)
        for label, name in enumerate(("neg", "pos"))
    }


def check(data):
    assert data.name == "imdb"
    assert data.label_names == ("neg", "pos")
    assert pairs(data.train, data.validation) == expected("train")
    assert pairs(data.test) == expected("test")
    assert len(data.test) == 2 * COUNT
    assert np.bincount(data.validation.labels).tolist() == [3, 3]
    assert len(data.train) == 2 * COUNT - 6


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    prepare(folder)
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    return make_archive(folder / "aclImdb_v1.tar.gz", files())


def test_prepared_by_tensorflow_datasets(prepared):
    data = imdb.load(prepared)
    check(data)
    again = imdb.load(str(prepared), download=True)
    assert again.train.texts == data.train.texts
    other = imdb.load(prepared, seed=1, validation=0.5)
    assert other.test.texts == data.test.texts
    assert len(other.validation) == COUNT


def test_default_folder_of_tensorflow_datasets(prepared):
    code = "from residual_keras.data import imdb; print(len(imdb.load().test))"
    env = {**os.environ, "TFDS_DATA_DIR": str(prepared)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True
    )
    assert int(run.stdout) == 2 * COUNT


def test_archive_or_its_folder(archive):
    data = imdb.load(archive)
    check(data)
    assert imdb.load(archive.parent).train.texts == data.train.texts


def test_tree_or_its_parent_reads_as_the_archive(archive, tmp_path):
    make_tree(tmp_path, files())
    data = imdb.load(tmp_path)
    check(data)
    for other in (imdb.load(tmp_path / "aclImdb"), imdb.load(archive)):
        assert other.train.texts == data.train.texts
        assert other.test.texts == data.test.texts
    (tmp_path / "aclImdb").rename(tmp_path / "renamed")
    assert imdb.load(tmp_path / "renamed").test.texts == data.test.texts


@pytest.mark.parametrize("form", ["prepared", "archive", "tree"])
def test_the_reviews_to_pretrain_on_are_none_to_measure_on(
    form, prepared, archive, tmp_path
):
    places = {"prepared": prepared, "archive": archive, "tree": tmp_path}
    if form == "tree":
        make_tree(tmp_path, files())
    path = places[form]
    for options in ({}, {"seed": 1, "validation": 0.5}):
        texts = imdb.load_unlabelled(path, **options)
        data = imdb.load(path, **options)
        barred = {*data.validation.texts, *data.test.texts}
        assert not barred & set(texts), "nor those that stand among them once more"
        everything = {*data.train.texts, *map(unlabelled, range(COUNT))}
        assert set(texts) == everything - barred
        assert len(texts) >= len(everything) - 2


def test_data_prepared_without_the_reviews_to_pretrain_on_is_named(
    prepared, monkeypatch
):
    monkeypatch.setitem(imdb._FOLDERS, "more", ("train/more",))
    with pytest.raises(ValueError, match="without more. Prepare them again"):
        imdb.load_unlabelled(prepared)


def test_reviews_stand_in_the_order_of_their_numbers(archive):
    texts = imdb.load(archive).test.texts
    words = {"neg": "dull", "pos": "fine"}
    assert texts == [review("test", name, i) for i in range(COUNT) for name in words]


@pytest.mark.parametrize("folder", ["train/pos", "test/neg"])
def test_incomplete_tree_names_the_missing_folder(tmp_path, folder):
    kept = {n: c for n, c in files().items() if f"/{folder}/" not in n}
    make_tree(tmp_path, kept)
    message = f"aclImdb, which has none in {folder}"
    with pytest.raises(ValueError, match=message):
        imdb.load(tmp_path)
    (tmp_path / "aclImdb" / folder).mkdir()
    with pytest.raises(ValueError, match=message):
        imdb.load(tmp_path)


def test_empty_tree(tmp_path):
    (tmp_path / "aclImdb").mkdir()
    with pytest.raises(ValueError, match="none in train/neg"):
        imdb.load(tmp_path)


def damaged(whole, how):
    middle = len(whole) // 2
    if how == "cut off":
        return whole[:middle]
    if how == "one bit flipped":
        return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    if how == "wrong checksum":
        return whole[:-8] + b"\0\0\0\0" + whole[-4:]
    if how == "no tar":
        return gzip.compress(b"A sentence is no archive. " * 100)
    return {"no gzip": b"A sentence is no archive.", "empty": b""}[how]


@pytest.mark.parametrize(
    "how",
    ["cut off", "one bit flipped", "wrong checksum", "no tar", "no gzip", "empty"],
)
def test_damaged_archive_is_named(archive, tmp_path, how):
    path = tmp_path / "aclImdb_v1.tar.gz"
    path.write_bytes(damaged(archive.read_bytes(), how))
    with pytest.raises(ValueError, match=r"aclImdb_v1\.tar\.gz, which") as error:
        imdb.load(path)
    assert "\n" not in str(error.value)


def test_archive_of_something_else(tmp_path):
    path = make_archive(tmp_path / "photos.tar.gz", {"photos/cat.txt": b"a cat"})
    with pytest.raises(ValueError, match=r"photos\.tar\.gz, which has none in train"):
        imdb.load(path)


def test_review_that_is_not_utf8(tmp_path):
    contents = {**files(), "aclImdb/test/pos/3_9.txt": b"caf\xe9"}
    with pytest.raises(ValueError, match="UTF-8.*test/pos/3_9.txt in .*aclImdb"):
        imdb.load(make_tree(tmp_path, contents))


@pytest.mark.parametrize("name", ["", "missing"])
def test_nothing_there(tmp_path, name):
    with pytest.raises(ValueError, match="No IMDB reviews found") as error:
        imdb.load(tmp_path / name)
    message = str(error.value)
    assert "\n" not in message
    assert str(tmp_path / name) in message
    for advice in ("--download", "the path of the archive", '"reviews"'):
        assert advice in message


@pytest.fixture
def serve(monkeypatch):
    """Point tensorflow-datasets at one archive on a local port."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download import checksums
    from tensorflow_datasets.datasets.imdb_reviews import imdb_reviews_dataset_builder

    def point(port, path=None):
        url = f"http://127.0.0.1:{port}/aclImdb_v1.tar.gz"
        info = {url: checksums.compute_url_info(path)} if path else {url: None}
        monkeypatch.setattr(imdb_reviews_dataset_builder, "_DOWNLOAD_URL", url)
        builder_class = type(tfds.builder("imdb_reviews"))
        monkeypatch.setattr(builder_class, "url_infos", info)

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return point


def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def check_fails_fast(tmp_path, host):
    start = time.monotonic()
    with pytest.raises(ValueError, match=f"needs a network.*{host}") as error:
        imdb.load(tmp_path, download=True)
    assert time.monotonic() - start < 5
    assert "\n" not in str(error.value)


def test_download_without_a_network(serve, tmp_path):
    port = closed_port()
    serve(port)
    check_fails_fast(tmp_path, f"127.0.0.1:{port}")


def test_download_while_names_are_not_resolved(serve, tmp_path, monkeypatch):
    serve(closed_port())
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: [][: released.wait(30)])
    monkeypatch.setattr(imdb, "_PROBE_SECONDS", 0.5)
    check_fails_fast(tmp_path, "127.0.0.1")
    released.set()


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_download_through_a_proxy_asks_the_proxy(serve, tmp_path, monkeypatch, scheme):
    port = closed_port()
    monkeypatch.setattr(imdb, "_PROBE_SECONDS", 2.0)
    serve(9)
    monkeypatch.setenv("http_proxy", f"{scheme}127.0.0.2:{port}")
    monkeypatch.setenv("no_proxy", "")
    check_fails_fast(tmp_path, f"127.0.0.2:{port}")


def test_download(serve, tmp_path, archive):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=archive.parent)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        serve(server.server_port, archive)
        check(imdb.load(tmp_path / "new", download=True))
        server.shutdown()
    check(imdb.load(tmp_path / "new"))


@pytest.mark.slow
def test_real_reviews(tmp_path):
    root = os.environ.get("RESIDUAL_KERAS_DATA")
    if not root:
        pytest.skip("RESIDUAL_KERAS_DATA is not set")
    script = pathlib.Path(root) / "prepare_tfds_imdb.py"
    subprocess.run([sys.executable, script, tmp_path, "200"], check=True)
    data = imdb.load(tmp_path)
    assert (len(data.train), len(data.validation), len(data.test)) == (180, 20, 200)
    assert np.bincount(data.test.labels).tolist() == [100, 100]
