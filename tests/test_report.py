"""The report: true, complete, safe to open, and readable in a real browser."""

import copy
import hashlib
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import reference
from promises import changed, plain

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, compose, load, plan
from lumberjack.anatomy import NOTHING
from lumberjack.guarantee import DOMAIN_INFERRED, SEEDED
from lumberjack.legend import LITTLE, Entry
from lumberjack.page import render
from lumberjack.planning import plan_heavy_hitters
from lumberjack.report import NOT_COVERED, Part, describe

DOMAIN = Domain(
    {
        "age": (0, 100),
        "city": [f"city number {i}" for i in range(60)],
        "since": (pd.Timestamp("2020-01-01"), pd.Timestamp("2024-01-01")),
        "member": [False, True],
    }
)


def table(n=4000):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, n),
            "city": rng.choice(DOMAIN["city"].categories, n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1400, n), "D"),
            "member": rng.random(n) < 0.5,
        }
    )
    return frame, (frame["age"] > 50) ^ frame["member"]


def fitted(cls=LumberjackClassifier, **settings):
    X, y = table()
    given = {"classes": [False, True]} if cls is LumberjackClassifier else {"y_bounds": (0, 1)}
    model = cls(4.0, **{"n_estimators": 6, "domain": DOMAIN, **given, **settings})
    return model.fit(X, y if cls is LumberjackClassifier else y.astype(float))


MODELS = {
    "fitted": lambda: fitted(),
    "counts": lambda: fitted(leaf="counts"),
    "regression": lambda: fitted(LumberjackRegressor),
    "means": lambda: fitted(LumberjackRegressor, splits="random"),
    "paper": lambda: fitted(leaf="exponential", splits="random", accounting="paper"),
    "caveats": lambda: fitted(domain=Domain.infer(table()[0]), random_state=0, rows_per_person=3),
    "learned": lambda: fitted(domain=None, classes=None),
    "learned regression": lambda: fitted(LumberjackRegressor, domain=None, y_bounds=None),
    "stump": lambda: fitted(leaf="counts", threshold=1e6, n_estimators=1),
}


@pytest.fixture(scope="module")
def models():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: make() for name, make in MODELS.items()}


# What it says


@pytest.mark.parametrize("name", MODELS)
def test_text_and_page_say_the_same(models, name):
    model = models[name]
    text, page = model.privacy_report(), Page(render(describe(model)))
    assert repr(text) == str(text)  # a notebook shows lines, not \n
    g = model.guarantee_
    for number in (g.epsilon, g.delta):
        assert f"{number:g}" in text
        assert f"{number:g}" in page.text
    numbers = [getattr(e, "threshold", getattr(e, "exponent", None)) or e.noise for e in g.events]
    assert len(numbers) > 1
    priced = [f"{number:.6g}" for number in numbers]
    for said in (g.theorem, *priced, f"{g.verify():.8g}", *NOT_COVERED, *model.domain_):
        assert said in text
        assert said in page.text
    assert g.assumptions
    for assumption in g.assumptions:
        assert assumption in text
        assert assumption in page.text
    for caveat in g.caveats:
        assert f"CAVEAT: {caveat}" in text
        assert caveat in page.red
    assert ("No caveats." in text) == ("No caveats." in page.text) == (not g.caveats)


def test_a_report_shows_numbers_that_can_be_checked(models):
    model = models["counts"]
    found = describe(model)
    g = model.guarantee_
    (cuts,) = g.events_for("cuts")
    spent = np.array(
        [
            2 * 5 * (cuts.exponent / 2) ** 2,  # two numbers, five levels of medians
            g.queries_per_record / g.threshold_noise**2,
            g.choices_per_record * (g.choice_exponent * g.choice_range / 2) ** 2,
            g.counts_per_record / g.leaf_noise**2,
        ]
    )
    assert [part.share for part in found.budget] == pytest.approx(list(spent / spent.sum()))
    assert [part.share for part in found.budget] == pytest.approx([0.05, 0.3325, 0.285, 0.3325])
    assert sum(part.share for part in found.failure) == pytest.approx(1)
    assert found.leaves == tuple(len(values) for values in model.forest_.values)
    assert found.sizes == tuple(np.concatenate(model.forest_.values).sum(axis=1))
    assert found.size_noise == pytest.approx(g.leaf_noise * 2**0.5)
    assert {part.name for part in found.importance[:2]} == {"age", "member"}
    assert found.to_dict()["guarantee"]["epsilon"] == 4.0
    assert "98.2%" in found.in_words()[1]  # e^4 / (1 + e^4)


WORDS_OF_PRUNING = (
    "threshold of",
    "trees, levels",
    "leaf sizes with",
    "pruning",
    "structure",
    "calibration",
    "choice of splits",
    "at most 100",
    "impurity",
)


@pytest.mark.parametrize("name", ["fitted", "regression", "learned", "learned regression"])
def test_a_report_of_fitted_leaves_says_what_was_released(models, name):
    """The budget by the shares of the plan: 5, 19 and 76 % of what is left, of numbers after 2 %."""
    model = models[name]
    found = describe(model)
    text, page = found.text(), Page(render(found)).text
    number = "regression" in name
    learned = {"cuts of numbers": 0.05}
    learned |= {"categories of columns": 0.05, "classes": 0.01} if "learned" in name else {}
    learned.pop("classes" if number else "", None)
    learned |= {"place and scale of the target": 0.05} if number else {}
    left = (1 - sum(learned.values())) * (0.98 if number else 1)
    clips = {"clips of residuals": left / 0.98 * 0.02} if number else {}
    assert {part.name: part.share for part in found.budget} == pytest.approx(
        {
            **learned,
            **clips,
            "sizes of cells of columns": 0.05 * left,
            "fit of columns, 20 steps": 0.19 * left,
            "fit of columns and pairs, 60 steps": 0.76 * left,
        },
        rel=1e-6,
    )
    pairs = len(model.forest_.trees) - 1 - 4
    assert pairs > 0
    for said in (text, page):
        assert f"4 trees of one column and {pairs} of a pair of columns, and a single leaf" in said
        assert "in 20 steps on columns and 60 on columns and pairs" in said
        assert ("clipped at 2 limits that were chosen privately" in said) == number
        assert "how much the weights of its leaves vary over rows" in said or said is text
        for word in WORDS_OF_PRUNING:
            assert word not in said.partition("The whole record as JSON")[0]
    if number:
        target = model.targets_
        half, centre = (target.high - target.low) / 2, (target.high + target.low) / 2
        place, unit = map(float, re.search(r"prediction is (.*) \+ (.*) times the score", text).groups())
        assert (place, unit) == pytest.approx((centre, half), rel=1e-2, abs=1e-2)
        assert ("clipped to 0 to 1" in text) == (name == "regression")
        assert ("predictions from 0 to 1, declared" in page) == (name == "regression")
    else:
        assert "the log odds of True against False" in text


def test_sizes_of_fitted_leaves_are_those_of_counted_cells(models):
    """A row is in a cell of each column: all 4 share the price of one, so noise is twice as large."""
    model = models["fitted"]
    found, trees = describe(model), model.forest_.trees
    cells = sum(tree.n_leaves for tree in trees[1:5])
    assert len(found.sizes) == cells
    assert sum(found.sizes) == pytest.approx(4 * 4000, rel=0.05)
    assert found.size_noise == pytest.approx(2 * model.guarantee_.event("sizes").noise)
    assert "Half of the cells of columns hold more than" in found.text()
    assert "Cells of columns by their noisy size" in Page(render(found)).text


def test_what_weights_mean_gives_the_predictions(models):
    """The log odds of the second class; a tree says the same of all rows in a leaf."""
    model = models["fitted"]
    X, _ = table(200)
    leaves = model.apply(X)
    score = sum(v[leaves[:, i], 1] for i, v in enumerate(model.forest_.values))
    odds = np.exp(score)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], odds / (1 + odds), rtol=1e-9)
    assert np.exp(0.7) == pytest.approx(2, rel=0.01)  # "each 0.7 more doubles the odds"
    regressor = models["learned regression"]
    leaves = regressor.apply(X)
    score = sum(v[leaves[:, i], 1] for i, v in enumerate(regressor.forest_.values))
    target = regressor.targets_
    expected = (target.high + target.low) / 2 + (target.high - target.low) / 2 * score
    np.testing.assert_allclose(regressor.predict(X), np.clip(expected, target.low, target.high))


def test_three_classes_have_a_weight_each():
    X, y = table(3000)
    model = LumberjackClassifier(4.0, domain=DOMAIN, classes=[0, 1, 2]).fit(X, y.astype(int))
    said = describe(model).text()
    assert "A leaf has a weight for each class." in said
    leaves = model.apply(X)
    score = sum(v[leaves[:, i], 1:] for i, v in enumerate(model.forest_.values))
    chances = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), chances, rtol=1e-9)


def test_inferred_parts_are_red(models):
    page = Page(render(describe(models["caveats"])))
    assert DOMAIN_INFERRED in page.red
    assert SEEDED in page.red
    assert "read off the data" in page.red
    assert "person with up to 3 rows" in page.text


def test_a_promise_that_does_not_hold_is_red(models):
    model = models["counts"]
    wrong = changed(model.guarantee_, leaf_noise=1.0)
    liar = copy.copy(model)
    liar.released_ = replace(model.released_, guarantee=wrong)
    found = describe(liar)
    assert not found.holds
    assert "DOES NOT HOLD" in found.text()
    assert "do not keep the promise" in Page(render(found)).red


def test_numbers_that_promise_next_to_nothing_are_red(models):
    """A factor of e^30 = 1e13 for anything, a chance of 5 % that all is revealed."""
    weak = replace(models["counts"].guarantee_, epsilon=30.0, delta=0.05)
    found = replace(describe(models["counts"]), guarantee=weak)
    for said in ("epsilon = 30 is almost no protection", "1.1e+13", "delta = 0.05 is almost no"):
        assert said in found.text()
        assert said in Page(render(found)).red
    assert "almost no protection" not in models["counts"].privacy_report()


def test_the_file_is_named_by_its_fingerprint(models, tmp_path):
    models["counts"].save(tmp_path / "m")
    digest = hashlib.sha256((tmp_path / "m").read_bytes()).hexdigest()
    found = describe(load(tmp_path / "m"), digest)
    assert digest in found.text()
    assert digest in render(found)
    assert render(found) == render(describe(load(tmp_path / "m"), digest))  # no date, no chance


def numbers_of(text):
    """Names and numbers: the text of a page has them as "name = number"."""
    found = re.findall(r"([^\s,(]+) = (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)
    return {name: float(value) for name, value in found}


def by_hand(text):
    """Delta from the text of a page alone, and how much of it a bound from above may add."""
    text = text[text.index("By hand;") : text.index("The whole record as JSON")]
    formula, listed = text.split("The events, in their order:")
    n = numbers_of(formula[formula.index("The numbers:") :])
    events = [
        (kind, numbers_of(said))
        for kind, said in re.findall(
            r"\d+\. (Threshold queries|Choices|Noisy sums) \([a-z ]+\): ([^\n]*)\.\n", listed
        )
    ]
    queries, choices, sums = (
        [of for name, of in events if name == kind]
        for kind in ("Threshold queries", "Choices", "Noisy sums")
    )
    assert len(events) == len(re.findall(r"\n\d+\. ", listed)) > 0
    r = int(n.get("r", 1))
    released = sum(e["k"] * e["B"] ** 2 / e["σ"] ** 2 for e in sums)
    if "√j/σ" in formula:
        rho = sum(e["N"] * (e["λ"] * e["w"]) ** 2 / 8 for e in choices) + released / 2
        (q,) = queries
        structure = reference.theorem1_delta(n["s"] * n["ε"], int(q["m"]), q["σ"], q["Δ"])
        return structure + reference.zcdp_delta((1 - n["s"]) * n["ε"], rho), 1e-9
    quiet = 1
    for q in queries:
        if "Δ" in q:
            quiet *= 1 - reference.cutoff_delta(int(q["m"]), q["σ"], q["Δ"], r)
            assert q["τ"] >= q["c"] + r + q["Δ"] - 1e-9
    assert ("Φ(Δ/σ)^m" in formula) == any("Δ" in q for q in queries)
    assert ("r²·(" in formula) == ("r" in n)
    mu = r * np.sqrt(sum(q["m"] / q["σ"] ** 2 for q in queries) + released)
    if "a is ε and ρ is" in formula and "E U" not in formula:
        rho = mu**2 / 2 + sum(e["N"] * (r * e["λ"] * e["w"]) ** 2 / 8 for e in choices)
        return reference.zcdp_delta(n["ε"], rho) + 1 - quiet, 1e-9
    if not choices:
        return reference.gaussian_delta(n["ε"], mu) + 1 - quiet, 1e-9
    ranges = [(int(e["N"]), (r if "r·λ·w" in formula else 1) * e["λ"] * e["w"]) for e in choices]
    # The two grids round ranges to multiples of one step in opposite directions.
    above = 0.02 if len({eta for _, eta in ranges}) == 1 else 0.08
    return reference.choices_delta(n["ε"], mu, ranges) + 1 - quiet, above


RECORDS = {
    "fitted": plan(1.0, 1e-6),
    "fitted, nothing learned": plain(1.0, 1e-6),
    "fitted persons": plan(2.0, 1e-5, columns=(4, 3), rows_per_person=4),
    "fitted regression": plan(0.5, 1e-6, leaf="fitted-mean"),
    "fitted regression of persons": plan(0.5, 1e-6, leaf="fitted-mean", columns=(0, 3), unit="person"),
    "guided": plan(1.0, 1e-6, leaf="counts"),
    "nothing learned": plain(1.0, 1e-6, leaf="counts"),
    "guided majority": plan(4.0, 1e-8, 10, 30, leaf="majority", columns=(0, 3), target=False),
    "guided regression": plan(0.5, 1e-6, 10, leaf="mean"),
    "guided persons": plan(2.0, 1e-5, 10, 4, leaf="counts", rows_per_person=4, threshold=900.0),
    "random": plan(1.0, 1e-6, splits="random"),
    "random majority": plan(1.0, 1e-6, 10, splits="random", leaf="majority"),
    "random regression": plan(1.0, 1e-6, 10, splits="random", leaf="mean"),
    "random persons": plan(1.0, 1e-6, 10, splits="random", rows_per_person=3),
    "paper": plan(1.0, 1e-6, 30, accounting="paper", leaf="exponential"),
    "paper counts": plan(0.5, 1e-6, 10, accounting="paper"),
    "paper regression": plan(0.5, 1e-6, 10, accounting="paper", leaf="mean"),
    "no leaves": plan_heavy_hitters(1.0, 1e-6, 32),
    "several": compose(
        [
            plan(1.0, 1e-6, leaf="counts"),
            plan(0.5, 1e-6, 10, leaf="mean"),
            plan_heavy_hitters(0.3, 1e-7, 9),
        ]
    ),
    "several, fitted": compose([plan(1.0, 1e-6), plan(0.5, 1e-6, 10, leaf="counts")]),
    "several persons": compose(
        [plan(1.0, rows_per_person=2), plan(0.4, rows_per_person=2, splits="random")]
    ),
    "several adaptive": compose(
        [plan(1.0, 1e-6, leaf="fitted-mean"), plan(0.5, 1e-6, 10, leaf="mean")], adaptive_budgets=True
    ),
    "no cut-off": plan_heavy_hitters(1.0, 1e-6, 4, method="gaussian", counts=True, dense_nodes=340),
}


@pytest.mark.parametrize("name", RECORDS)
def test_the_formula_of_a_page_gives_the_delta_of_the_page(models, name):
    promise = RECORDS[name]
    found = replace(describe(models["counts"]), guarantee=promise, recomputed=promise.verify())
    text = Page(render(found)).text
    said = float(re.search(r"numbers below: (\S+), promised", text)[1])
    delta, above = by_hand(text)
    assert float(delta) * (1 - 1e-4) <= said <= float(delta) * (1 + above) * (1 + 1e-7)
    if above < 0.01:
        assert said == pytest.approx(float(delta), rel=1e-7)


def test_a_model_that_learned_nothing_says_so(models):
    found = describe(models["stump"])
    text, page = found.text(), Page(render(found))
    rows = f"{models['stump'].guarantee_.suggested_rows:,}"
    for said in (NOTHING, f"at least {rows}), a larger epsilon, or fewer trees."):
        assert said in text
        assert said in page.red
    assert "of the leaves are larger" not in text + page.text  # no good news
    assert "of the leaves are larger" in models["counts"].privacy_report()
    assert NOTHING not in models["counts"].privacy_report()
    assert NOTHING not in Page(render(describe(models["counts"]))).text
    assert found.to_dict()["learned_nothing"] is True


@pytest.mark.parametrize("name", ["fitted", "regression", "learned", "learned regression"])
def test_a_fit_that_learned_next_to_nothing_says_so(models, name):
    """Its weights are made so small that predictions of all rows are nearly the same."""
    model = copy.copy(models[name])
    forest = model.forest_
    small = [
        np.column_stack([v[:, 0], v[:, 1:] * (0.01 if i else 1)]) for i, v in enumerate(forest.values)
    ]
    model.released_ = replace(model.released_, forest=replace(forest, values=tuple(small)))
    X, _ = table()
    if name in ("fitted", "learned"):
        odds = [
            np.log(m.predict_proba(X)[:, 1] / m.predict_proba(X)[:, 0]) for m in (model, models[name])
        ]
        assert odds[0].std() < 0.1 < odds[1].std()
    else:
        said = [m.predict(X) / m.targets_.scale for m in (model, models[name])]
        assert said[0].std() < 0.1 < said[1].std()
    found = describe(model)
    text, page = found.text(), Page(render(found))
    rows = f"{model.guarantee_.suggested_rows:,}"
    for said in (LITTLE, f"at least {rows}), a larger epsilon, or fewer columns."):
        assert said in text
        assert said in page.red
        assert said not in models[name].privacy_report()
    assert found.to_dict()["learned_little"] is True


def test_a_forest_of_single_leaves_has_no_sizes_to_compare(models):
    found = replace(describe(models["fitted"]), sizes=())
    assert "there are no leaf sizes to compare" in found.text()
    assert "nan" not in found.text() + Page(render(found)).text


# What it must not do


EVIL = "\x1b[2J\x9b31m\u202egood\u2066\x07\rNo caveats.\nNo caveats.\n\u2028No caveats."


def test_a_report_cannot_control_a_terminal(models):
    """An attacker may choose caveats, names of columns, categories and classes."""
    model = models["counts"]
    columns = (
        Entry(EVIL, "number", "learned", 0.1, (0.25, 0.5, 2.0)),
        Entry("b", "category", "learned", 0.1, (EVIL, "x" * 200)),
    )
    caveat = replace(model.guarantee_, caveats=(EVIL,))
    target = Entry("target", "class", "learned", 0.1, (EVIL,))
    found = replace(describe(model), guarantee=caveat, columns=columns, target=target)
    found = replace(found, importance=(Part(EVIL, 1.0),))
    text, html = found.text(), render(found)
    assert text.count("\ufffd") > 4 * 6
    for said in (text, html):
        assert not set("\x1b\x9b\u202e\u2066\x07\r\u2028") & set(said)
    assert "No caveats." not in text.splitlines()


class Page(HTMLParser):
    """Text of a page, what of it is in red boxes, its tags, and whether they close properly."""

    def __init__(self, html):
        super().__init__()
        self.text, self.red, self.tags, self.open, self.attributes = "", "", [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "rect", "link"):
            self.open.append((tag, dict(attrs).get("class", "")))

    def handle_endtag(self, tag):
        if tag not in ("rect",):
            assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if not any(tag == "style" for tag, _ in self.open):
            self.text += data
        if any("bad" in kind for _, kind in self.open):
            self.red += data


@pytest.mark.parametrize("name", MODELS)
def test_a_page_needs_nothing_and_runs_nothing(models, name):
    html = render(describe(models[name]))
    page = Page(html)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(page.tags)
    assert not re.search(r"https?:|url\(|@import|javascript:", html)
    assert not [key for key, _ in page.attributes if key.startswith("on") or key in ("src", "href")]
    assert page.tags.count("h1") == 1
    assert page.tags.count("h2") == 10


def test_hostile_names_stay_text():
    evil = '"><script>alert(1)</script><b onmouseover=alert(2) x="'
    X, y = table(2000)
    X = X.rename(columns={"age": evil})[[evil, "member"]]
    domain = Domain({evil: (0, 100), "member": [False, True]})
    labels = np.where(y, evil, "[red]fine[/red]")
    model = LumberjackClassifier(4.0, n_estimators=2, domain=domain, classes=[evil, "[red]fine[/red]"])
    page = Page(render(describe(model.fit(X, labels))))
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert evil in page.text
    assert "[red]fine[/red]" in page.text


# In a real browser


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        pytest.skip("no Chromium: apt install chromium")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("width", "scheme"), [(1100, "light"), (360, "dark"), (360, "light"), (1100, "dark")]
)
def test_in_a_browser(models, browser, tmp_path, name, width, scheme):
    """No error in the console, no sideways scrolling, and nothing that axe finds inaccessible."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    path = tmp_path / "report.html"
    path.write_text(render(describe(models[name])), "utf-8")
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=False
    )
    try:
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert said == []
        assert asked == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cut_off = """[...document.querySelectorAll('svg')].flatMap(svg => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(t => {
                const r = t.getBoundingClientRect();
                return r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1
                    || r.bottom > box.bottom + 1 || r.height < 10;
            }).map(t => t.textContent);
        })"""
        assert page.evaluate(cut_off) == []
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark == ("rgb(18, 23, 30)" if scheme == "dark" else "rgb(255, 255, 255)")
    finally:
        page.close()
    # axe is a script, which the page's own policy would not let run.
    page = browser.new_page(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    try:
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        found = axe.Axe().run(page)
        assert [v["id"] for v in found.response["violations"]] == []
        checked = {rule["id"] for rule in found.response["passes"]}
        assert {"color-contrast", "document-title", "svg-img-alt", "heading-order"} <= checked
    finally:
        page.close()
