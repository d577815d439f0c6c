"""The report as a page: nothing in it runs, and no name breaks out of the text."""

from html.parser import HTMLParser

import pytest

from lumberjack import Domain, LumberjackClassifier
from lumberjack.page import escape, render
from lumberjack.report import describe

NAME = "<script>alert(1)</script>&\"'\x1b"


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "hr", "rect", "line", "path", "circle", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page():
    domain = Domain({NAME: (0, 1), "city": ["Bonn", NAME]})
    rows = [[0.3, "Bonn"], [0.7, NAME]] * 200
    settings = {"domain": domain, "classes": ["no", NAME], "n_estimators": 2, "splits": "random"}
    model = LumberjackClassifier(8.0, max_depth=5, **settings).fit(rows, ["no", NAME] * 200)
    reader = Reader()
    reader.feed(render(describe(model)))
    return reader


def test_every_tag_is_closed(page):
    assert page.open == []


def test_nothing_runs_and_nothing_is_fetched(page):
    for tag, attributes in page.tags:
        assert tag not in ("script", "iframe", "link", "object", "img")
        assert not any(name.startswith("on") or name in ("src", "action") for name in attributes)
        assert "javascript:" not in attributes.get("href", "")


def test_names_are_text(page):
    said = "".join(page.text)
    assert "<script>alert(1)</script>&" in said
    assert "\x1b" not in said


def test_escaped_text():
    assert escape("<a&b>") == "&lt;a&amp;b&gt;"
