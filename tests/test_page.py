"""The report as a page: nothing in it runs, and no name breaks out of the text."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain, LumberjackClassifier
from lumberjack.legend import Entry
from lumberjack.page import escape, render
from lumberjack.report import Part, describe

NAME = "<script>alert(1)</script>&\"'\x1b"


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.text, self.folded = [], [], [], []

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
        if "details" in self.open and "summary" not in self.open:
            self.folded.append(data)


@pytest.fixture(scope="module")
def page():
    domain = Domain({NAME: (0, 1), "city": ["Bonn", NAME]})
    rows = [[0.3, "Bonn"], [0.7, NAME]] * 200
    settings = {
        "domain": domain,
        "classes": ["no", NAME],
        "n_estimators": 2,
        "splits": "random",
        "leaf": "counts",
    }
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


# Pictures of cuts


@pytest.fixture(scope="module")
def learned():
    """Nothing declared: numbers, dates and categories, one of them with a hostile name and values."""
    rng, n = np.random.default_rng(0), 3000
    frame = pd.DataFrame(
        {
            NAME: rng.normal(0, 1, n),
            "since": pd.Timestamp("2001-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "city": rng.choice(["Bonn", NAME], n),
        }
    )
    model = LumberjackClassifier(8.0, n_estimators=2).fit(frame, np.where(frame[NAME] > 0, "no", NAME))
    return describe(model)


def reading(report):
    reader, html = Reader(), render(report)
    reader.feed(html)
    assert reader.open == []
    ids = [of["id"] for _, of in reader.tags if "id" in of]
    assert len(set(ids)) == len(ids)
    return reader, html


def pictures(html):
    found = re.findall(r'<svg role="img" aria-labelledby="(\w+) (\w+)".*?</svg>', html, re.DOTALL)
    return found, re.findall(r'<path d="([^"]*)"', html)


def test_each_number_has_a_picture_with_a_tick_for_each_cut(learned):
    reader, html = reading(learned)
    named, paths = pictures(html)
    cuts = [entry.cuts for entry in learned.columns if entry.cuts]
    assert [len(c) for c in cuts] == [31, 31]
    assert [path.count("M") for path in paths] == [31, 31]
    for path in paths:
        places = [float(x) for x in re.findall(r"M([\d.]+) ", path)]
        assert places == sorted(places)
        assert (min(places), max(places)) == (2, 358)
    ids = [of["id"] for _, of in reader.tags if "id" in of]
    assert sorted(ids) == sorted(name for pair in named for name in pair)
    assert len(ids) == 4
    assert html.count("<desc") == html.count("<title") - 1 == 2  # one title is the page's


def test_the_budget_names_the_steps(learned):
    said = "".join(reading(learned)[0].text)
    assert "fit of columns, 20 steps: 16.9%" in said
    assert "fit of columns and pairs, 60 steps: 67.6%" in said
    assert "Cells of columns by their noisy size" in said
    assert "the log odds of" in said


def test_dates_and_origins_are_in_words(learned):
    said = "".join(reading(learned)[0].text)
    since = next(entry for entry in learned.columns if entry.name == "since")
    for text in (str(np.datetime64(int(cut), "s"))[:10] for cut in (since.cuts[0], since.cuts[-1])):
        assert text in said
    for entry in (*learned.columns, learned.target):
        assert entry.origin == "learned"
        assert f"learned ({entry.share:.1%} of the budget)" in said


def test_names_and_categories_of_columns_are_text(learned):
    reader, html = reading(learned)
    said = "".join(reader.text)
    assert said.count("<script>alert(1)</script>&") >= 4  # column, title, category, class
    assert not {"script"} & {tag for tag, _ in reader.tags}
    assert "\x1b" not in html


@pytest.mark.parametrize(("n", "shown"), [(45, 45), (1000, 50)])
def test_many_columns_stay_readable(learned, n, shown):
    """The first ones are open, the others are one click away; every column is on the page once."""
    cuts = tuple(np.sort(np.random.default_rng(0).normal(0, 1, 31)).tolist())
    columns = tuple(Entry(f"column {i}.", "number", "learned", 1e-4, cuts) for i in range(n))
    parts = tuple(Part(entry.name, 1 / n) for entry in columns)
    reader, html = reading(dataclasses.replace(learned, columns=columns, importance=parts))
    folded, said = "".join(reader.folded), "".join(reader.text)
    for i in range(n):
        assert said.count(f"column {i}.") == 3  # importance, its own entry, and the title of its picture
        assert folded.count(f"column {i}.") == (i >= 20) + 2 * (i >= shown)
    assert len(pictures(html)[1]) == n
    assert len(html) < 40_000 + 2500 * n


def test_extreme_and_single_cuts_are_drawn(learned):
    wild = Entry("a", "number", "learned", 0.1, (-3e38, 1.0, 2.0, 3.0, float("inf")))
    single = Entry("b", "date", "learned", 0.1, (1e9,))
    report = dataclasses.replace(learned, columns=(wild, single))
    assert re.findall(r'<path d="([^"]*)"', render(report))[1] == "M180.0 3v14"
    assert "nan" not in "".join(pictures(render(report))[1])
    said = "".join(reading(report)[0].text)
    assert "inf" in said
    assert "2001-09-09" in said
