import keyword
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from residual_keras.spec import nearest, parse

identifiers = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]*", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)
literals = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=5,
)
options = st.dictionaries(identifiers, literals, max_size=4)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("pre_ln", ("pre_ln", {})),
        ("pre_ln()", ("pre_ln", {})),
        ("  pre_ln\n", ("pre_ln", {})),
        ("s(a=-1, b='x', c=[1, None])", ("s", {"a": -1, "b": "x", "c": [1, None]})),
    ],
)
def test_parse(spec, expected):
    assert parse(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "pre-ln",
        "pre_ln(",
        "pre_ln)",
        "None",
        "class",
        "3",
        "'pre_ln'",
        "residuals.pre_ln",
        "pre_ln, post_ln",
        "pre_ln; post_ln",
        "s(1)",
        "s(a)",
        "s(*[1])",
        "s(**{'a': 1})",
        "s(a=1)(b=2)",
        "s(a=1, a=2)",
        "s(a={[]: 1})",
        "s\0",
        "s(a=" + "-" * 100_000 + "1)",
        "s(a=" + "(" * 1_000 + "1" + ")" * 1_000 + ")",
        "-" * 100_000 + "1",
        None,
        3,
        b"pre_ln",
        ["pre_ln"],
        {"pre_ln": {}},
    ],
)
def test_refused(spec):
    with pytest.raises(ValueError, match=r"name\(option=value\).*Received: "):
        parse(spec)


@pytest.mark.parametrize(
    "code",
    [
        "open({path!r}, 'w')",
        "__import__('pathlib').Path({path!r}).touch()",
        "[open({path!r}, 'w') for _ in (1,)]",
        "(lambda: open({path!r}, 'w'))()",
        "f\"{{open({path!r}, 'w')}}\"",
        "(x := open({path!r}, 'w'))",
    ],
)
@pytest.mark.parametrize("form", ["{}", "s(a={})", "s({})", "s(**{})", "{}(a=1)"])
def test_code_is_refused_and_does_not_run(code, form, tmp_path):
    path = tmp_path / "written"
    with pytest.raises(ValueError, match="literal values"):
        parse(form.format(code.format(path=str(path))))
    assert not path.exists()


@given(identifiers, options)
def test_literal_options_come_back(name, options):
    written = ", ".join(f"{option}={value!r}" for option, value in options.items())
    assert parse(f"{name}({written})") == (name, options)


@settings(max_examples=300)
@given(
    st.text()
    | st.text(alphabet="ab_.,=()[]{}*+-'\"\\:0x1 \n#@")
    | st.builds("{}({}={})".format, identifiers, identifiers, st.text())
)
@example("a(b='\\d')")
@example("a(b=1if 1else 2)")
@example("\ud800")
@example("a(b=" + "9" * 5_000 + ")")
def test_anything_else_is_a_value_error(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, of escapes such as \d
        try:
            name, options = parse(spec)
        except ValueError as error:
            assert "Received" in str(error)
        else:
            assert name.isidentifier()
            assert all(option.isidentifier() for option in options)


def test_nearest_names_the_nearest_and_all():
    known = {"pre_ln": 1, "post_ln": 2, "none": 3}
    assert nearest("pre_lm", known) == (
        "Did you mean 'pre_ln'? Known: none, post_ln, pre_ln."
    )
    assert nearest("xyz", known) == "Known: none, post_ln, pre_ln."
    assert nearest(["pre_ln"], known).endswith("Known: none, post_ln, pre_ln.")
