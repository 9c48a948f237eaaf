"""What is read of the schemes' docstrings, and the page that is made of it."""

import pathlib
import re
import runpy
import types

import pytest

from residual_keras import catalogue, residuals
from residual_keras.residuals import SCHEMES, Residual, register

ROOT = pathlib.Path(__file__).parent.parent
# What tests register themselves is not on the page.
OURS = [scheme for scheme in catalogue.schemes() if scheme.kind != catalogue.OWN]


@pytest.fixture(scope="module")
def docs():
    """The module docs/make_schemes.py."""
    return types.SimpleNamespace(**runpy.run_path(ROOT / "docs" / "make_schemes.py"))


# Our own schemes


def test_every_scheme_has_its_place_among_the_kinds():
    modules = {cls.__module__ for cls in SCHEMES.values()}
    modules = {m for m in modules if m.startswith(residuals.__name__)}
    assert {m.rpartition(".")[2] for m in modules} == set(catalogue.KINDS)
    homes = [SCHEMES[s.name].__module__.rpartition(".")[2] for s in OURS]
    assert list(dict.fromkeys(homes)) == list(catalogue.KINDS)


@pytest.mark.parametrize("scheme", OURS, ids=lambda scheme: scheme.name)
def test_every_scheme_says_all_that_a_reader_asks(scheme):
    assert "<-" in scheme.equation or "=" in scheme.equation
    assert scheme.about and scheme.when and scheme.when_not
    # An arXiv id, the title of what is not there, or the word that there is no paper.
    assert re.search(r'arXiv:\d{4}\.\d{4,5}\b|"[^"]+"|\bno paper\b', scheme.source)
    assert set(scheme.meanings) == set(scheme.options), "Args: has every option"
    assert re.fullmatch(
        r"(one tensor|two tensors|several streams|what was written before)\b.*",
        scheme.kind,
    )


# A user's


def test_a_scheme_of_ones_own_in_six_lines(registry):
    @register("half")
    class Half(Residual):
        """x <- x + f(x) / 2"""

        def write(self, state, update, i):
            return state + 0.5 * update

    scheme = catalogue.schemes()[-1]
    assert scheme == catalogue.describe("half")
    assert (scheme.spec, scheme.state, scheme.equation) == (
        "half",
        "its own",
        "x <- x + f(x) / 2",
    )
    assert str(scheme) == "half\n\n    x <- x + f(x) / 2\n\nState: its own."
    assert "\n\nState: its own\n  half  x <- x + f(x) / 2" in catalogue.table(
        catalogue.schemes()
    )


def test_a_scheme_that_says_nothing(registry):
    @register("silent")
    class Silent(Residual):
        def __init__(self, num_sublayers, share, gain=0.5, **kwargs):
            super().__init__(num_sublayers, **kwargs)

    scheme = catalogue.describe("silent")
    assert scheme.spec == "silent(share=..., gain=0.5)"
    assert scheme.equation == scheme.about == scheme.when == scheme.source == ""
    assert "It has no docstring." in str(scheme)
    assert "silent" in catalogue.table([scheme])


def test_the_parts_of_a_docstring(registry):
    @register("wordy")
    class Wordy(Residual):
        """x <- a x + f(x)
        + b.

        a is the gain; see:

            a = 2

        It adds a weight a sublayer.

        When: stacks of few blocks, as a
        baseline. Or not.

        When not: others.

        Source: Nobody 2031, arXiv:3101.00001,
        section 2.

        Args:
            num_sublayers: n.
            a: the gain, "one" or
                more.
            **kwargs: of `Residual`.

        Raises:
            ValueError: never.
        """

        def __init__(self, num_sublayers, a="one", **kwargs):
            super().__init__(num_sublayers, **kwargs)

    scheme = catalogue.describe("wordy")
    assert scheme.equation == "x <- a x + f(x) + b."
    assert scheme.about == (
        "a is the gain; see:\n\n    a = 2\n\nIt adds a weight a sublayer."
    )
    assert scheme.when == "stacks of few blocks, as a baseline. Or not."
    assert scheme.in_short == "stacks of few blocks"
    assert scheme.when_not == "others."
    assert scheme.source == "Nobody 2031, arXiv:3101.00001, section 2."
    assert scheme.options == {"a": "one"}
    assert scheme.meanings == {"a": 'the gain, "one" or more.'}
    said = str(scheme)
    assert said.startswith(
        "wordy(a='one')\n\n    x <- a x + f(x) + b.\n\na is the gain"
    )
    assert said.endswith("Options:\n    a='one'  the gain, \"one\" or more.")


def test_a_name_that_nobody_has():
    with pytest.raises(ValueError, match="Did you mean 'pre_ln'"):
        catalogue.describe("pre-ln")


def test_the_table_fits_a_terminal():
    cut = catalogue.table(OURS, width=40).split("\n")
    whole = catalogue.table(OURS).split("\n")
    assert len(cut) == len(whole) and max(map(len, cut)) <= 40
    assert any(line.startswith("  attention_residual(...) ") for line in cut)
    for scheme in OURS:
        assert sum(line.startswith(f"  {scheme.spec} ") for line in whole) == 1


# The page


def test_the_page_is_up_to_date(docs):
    page = docs.page(OURS, docs.read(docs.FIGURES), docs.read(docs.DEPTHS))
    assert docs.PAGE.read_text(encoding="utf-8") == page, (
        "a docstring or benchmarks/schemes.csv has changed: python docs/make_schemes.py"
    )


def test_the_readme_is_up_to_date(docs):
    text = docs.README.read_text(encoding="utf-8")
    assert text == docs.readme(text, OURS), "run python docs/make_schemes.py"


def test_the_figures_are_those_of_schemes_that_exist(docs):
    for row in docs.read(docs.FIGURES) + docs.read(docs.DEPTHS):
        residuals.get(row["scheme"], num_sublayers=2)


@pytest.mark.parametrize("scheme", OURS, ids=lambda scheme: scheme.name)
def test_a_scheme_says_at_which_depth_it_does_not_learn(docs, scheme):
    """`24 blocks stay at 0.500`: the figures of benchmarks/depth.csv, and no others."""
    text = " ".join(SCHEMES[scheme.name].__doc__.split())
    said = re.findall(r"(\d+) blocks (?:stay at|reach) (0\.\d{3})", text)
    measured = {
        row["layers"]: row["accuracy"]
        for row in docs.read(docs.DEPTHS)
        if row["scheme"] == scheme.name
    }
    failed = [found for found in measured.items() if float(found[1]) < 0.8]
    assert set(said) <= set(measured.items())
    assert failed[:1] == said[:1], "at the first depth where it fails"


def test_costs_stand_against_pre_ln(docs):
    row = {
        "scheme": "pre_ln",
        "layers": "12",
        "batch": "32",
        "length": "256",
        "embed_dim": "128",
        "num_heads": "4",
        "ff_dim": "512",
        "cpu_ratio": "1.010",
        "cpu_low": "0.990",
        "cpu_high": "1.020",
        "weights": "1000000",
        "pre_ln_weights": "1000000",
        "versions": "Keras 3",
        "memory_ratio": "1.000",
    }
    fused = {
        **row,
        "scheme": "attention_residual(fusion_init='identity')",
        "weights": "2000000",
        "memory_ratio": "1.300",
    }
    depths = [
        {"scheme": "pre_ln", "layers": "24", "accuracy": "0.950"},
        {"scheme": "pre_ln", "layers": "48", "accuracy": "0.900"},
    ]
    page = docs.page(OURS, [fused, row], depths)
    assert "12 blocks on 32 x 256 tokens" in page and "its 1,000,000;" in page
    assert (
        "| [`pre_ln`](#pre_ln) | one tensor | `x <- x + f(LN(x)), and LN at the end of "
        "the stack.` | +0 | 1.010 (0.990 to 1.020) | 1.000 | 24: 0.950, 48: 0.900 |\n"
    ) in page
    assert "(#attention_residual) | one tensor |" in page
    assert " | not measured | not measured | not measured |\n| `attention_resid" in page
    assert (
        "'identity')` |  |  | +1,000,000 | 1.010 (0.990 to 1.020) | 1.300 | not" in page
    )


def test_markdown_reads_no_sign_as_its_own(docs):
    assert docs.prose("a * b <- ~c, `d * e`") == r"a \* b \<- \~c, `d * e`"
    assert docs.prose("so:\n\n    a * b\n\nc * d") == "so:\n\n    a * b\n\nc \\* d"
    assert docs.prose("arXiv:1706.03762, section 3") == (
        "[arXiv:1706.03762](https://arxiv.org/abs/1706.03762), section 3"
    )
    for scheme in OURS:
        row, *_ = docs.rows(scheme, [], [])
        assert len(re.findall(r"(?<!\\)\|", row)) == 8, row
