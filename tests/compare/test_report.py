"""The page: sound HTML that needs no network and leaves nothing out."""

import html.parser
import math
import re

import pytest

from residual_keras.compare.plan import grid
from residual_keras.compare.plots import looks
from residual_keras.compare.report import page
from residual_keras.compare.results import Study, read

SCHEMES = [
    "pre_ln",
    "attention_residual(fusion_init='identity')",
    "hyper_connections(streams=2)",
    "none",
]


class Checker(html.parser.HTMLParser):
    """Keeps tags, ids, links and text; fails where a tag is closed that is not open."""

    VOID = ("meta", "path", "use", "rect", "line", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text = [], [], [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open += [tag] * (tag not in self.VOID)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "src", "xlink:href"):
                self.links.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def study(tmp_path, recipe, pretend):
    runs = grid(tmp_path, recipe, SCHEMES, [2, 5], [0, 1])
    for run in runs:
        if run.recipe.residual != "none":
            pretend(run, 0.8 + 0.01 * run.recipe.seed)
        elif run.recipe.seed:
            pretend(run, 0.6, "diverged", losses=(math.nan, math.nan))
        else:
            run.end("failed", message="ValueError: a <script>alert(1)</script> & more")
    return Study([read(run) for run in runs], "pre_ln")


def test_the_page_is_sound_and_whole(study, recipe):
    text = page(study, recipe)
    assert text == page(study, recipe), "the same each time"
    assert re.search(r"<text[^>]*>none</text>", text), "letters stay letters"
    found = Checker(text)
    assert found.open == []
    assert len(set(found.ids)) == len(found.ids), "figures do not share ids"
    assert all(link.startswith("#") for link in found.links), "no network"
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert "script" not in found.tags and "link" not in found.tags
    assert found.tags.count("svg") == 8, "2 over depth, 2 losses a depth, 2 gradients"
    for scheme in SCHEMES:
        assert found.text.count(scheme) >= 3, "in the answer or table, and in figures"
    assert "a <script>alert(1)</script> & more" in found.text
    assert "a loss was no finite number" in found.text
    assert "data='reviews(depth=0)'" in found.text


def test_nothing_reached_is_a_page_too(tmp_path, recipe):
    runs = grid(tmp_path, recipe, SCHEMES, [2], [0])
    found = Checker(page(Study([read(run) for run in runs], "pre_ln"), recipe))
    assert found.open == [] and "svg" not in found.tags
    assert found.text.count("give the command again") == 4


def test_a_gradient_of_zero_is_left_out_without_a_warning(tmp_path, recipe, pretend):
    runs = grid(tmp_path, recipe, ["pre_ln", "rezero"], [2], [0])
    zeros = {"initial": [0.0, 0.0], "final": [1e-9, 1e-3]}
    for run in runs:
        pretend(run, gradients=zeros)
    text = page(Study([read(run) for run in runs], "pre_ln"), recipe)
    assert "after training" in text and "before training" not in text


def test_every_scheme_is_drawn_in_its_own_way(tmp_path, recipe):
    from residual_keras.residuals import SCHEMES as every

    runs = grid(tmp_path, recipe, list(every), [2], [0])
    drawn = looks(Study([read(run) for run in runs], "pre_ln"))
    ways = [(w["color"], w["linestyle"], w["marker"]) for w in drawn.values()]
    assert len(set(ways)) == len(every) > 30
    assert len({way[1:] for way in ways}) == len(every), "in black and white too"
