"""The README's code runs, in the order in which it stands."""

import pathlib
import re

README = pathlib.Path(__file__).parent.parent / "README.md"


def blocks(language):
    text = README.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_python_runs(tmp_path, monkeypatch):
    from residual_keras import residuals

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(residuals.base, "SCHEMES", dict(residuals.SCHEMES))
    found = {"__name__": "readme"}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), found)  # noqa: S102
    assert found["y"].shape == (32, 64, 128)
    assert found["scores"].shape == (32, 8, 64, 64)
    assert found["answer"]["label"].numpy()[0] in (b"positive", b"negative")


def test_the_commands_have_the_options_that_are_shown():
    from residual_keras import cli

    shown = "\n".join(blocks("bash"))
    commands = re.findall(r"residual-keras (.+?)(?: +#.*)?$", shown, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        words = [w.strip('"') for w in re.findall(r'"[^"]*"|\S+', command)]
        cli.parser().parse_args(words)  # exits where a word is wrong


def test_every_scheme_stands_in_the_table():
    from residual_keras import residuals

    text = README.read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]+\|( `\".+\"`) \|$", text, re.MULTILINE)
    names = re.findall(r'`"(\w+)"`', "".join(rows))
    ours = {n for n, c in residuals.SCHEMES.items() if "residual_keras" in c.__module__}
    assert sorted(names) == sorted(ours)
