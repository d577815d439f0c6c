"""The report as one HTML page: no script, nothing from the network, readable on a phone and in the dark.

In: a ``Description``. Out: a page. Names in it come from a model file that anybody may have written, so
everything goes through ``escape``, and the page's own policy forbids scripts and outside content.
"""

from collections.abc import Iterable, Sequence
from html import escape as escape_tags

import numpy as np

from lumberjack.formula import by_hand
from lumberjack.legend import Entry, spread
from lumberjack.quoting import CONTROL
from lumberjack.report import NOT_COVERED, Description, Part
from lumberjack.units import several

__all__ = ["render"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #53606f; --paper: #ffffff; --card: #f4f6f9;
  --line: #c9d1db; --one: #0b5cad; --two: #b45309; --three: #6b7684; --four: #1a7f5a;
  --five: #8a3f8f; --six: #a3123f; --seven: #3f7d8c; --bad: #a30d0d;
  --bad-paper: #fdeceb; --good: #14602b; --good-paper: #e8f5ec; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf1; --soft: #a9b4c2; --paper: #12171e;
  --card: #1b222c; --line: #3a4553; --one: #6cb2ff; --two: #f0a860; --three: #8e9aa9; --four: #6fd3ab;
  --five: #d59ad9; --six: #ff8fa8; --seven: #8fc7d6; --bad: #ffaaa5;
  --bad-paper: #3a1614; --good: #8edba6; --good-paper: #12301c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: 1rem 1.1rem 3rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.6rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 0.5rem; border-bottom: 1px solid var(--line);
  padding-bottom: 0.2rem; }
p, li, td, th, code, figcaption { overflow-wrap: anywhere; }
.box { border-left: 0.35rem solid; border-radius: 0.3rem; padding: 0.7rem 1rem; margin: 1rem 0; }
.bad { border-color: var(--bad); background: var(--bad-paper); color: var(--bad); }
.good { border-color: var(--good); background: var(--good-paper); color: var(--good); }
.box p, .box ul { margin: 0.2rem 0; }
.soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.7rem 0.3rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
tbody th { font-weight: 500; width: 45%; }
.bars tbody th { width: 38%; }
.columns { list-style: none; padding: 0; margin: 0; }
.columns li { border-bottom: 1px solid var(--line); padding: 0.5rem 0; }
.columns path { stroke: var(--one); stroke-width: 1.2; }
.columns line { stroke: var(--line); }
.bars td:last-child, .bars th:last-child { width: 4.5rem; text-align: right; }
.bar { display: block; height: 0.8rem; margin-top: 0.35rem; background: var(--one);
  border-radius: 0.15rem; min-width: 1px; }
figure { margin: 0.8rem 0; }
figcaption { color: var(--soft); font-size: 0.95rem; }
svg { display: block; width: 100%; height: auto; max-width: 36rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 0.3rem; padding: 0.7rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85rem; }
code { font-size: 0.9em; }
summary { cursor: pointer; padding: 0.3rem 0; }
@media print { body { font-size: 10pt; } h2 { break-after: avoid; } }
"""

_COLOURS = tuple(f"var(--{name})" for name in ("one", "two", "three", "four", "five", "six", "seven"))
_WIDTH = 360  # of pictures, in units of about a pixel on a phone
_LETTER = 6.8  # about the width of one in a picture
_RANKED, _OPEN = 20, 50  # importances, and columns, that are shown unfolded


def render(report: Description) -> str:
    """Return the page as text."""
    g = report.guarantee
    sections = [
        ("The promise in words", _paragraphs(report.in_words())),
        ("The promise in numbers", _pairs(report.in_numbers(), "Numbers that the promise rests on")),
        ("What it assumes", _items(g.assumptions)),
        ("What it does not cover", _items(NOT_COVERED)),
        ("Where the budget went", _budget(report)),
        ("Noise against leaf sizes", _noise(report)),
        ("Which columns matter", _importance(report)),
        ("The released trees", _trees(report)),
        ("The columns", _columns(report)),
        ("How to verify", _verify(report)),
    ]
    body = "\n".join(f"<section><h2>{title}</h2>\n{html}</section>" for title, html in sections)
    title = f"Privacy report: {escape(report.promise)}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Privacy report of a Lumberjack {escape(report.estimator)}</h1>
<p><strong>{escape(report.promise)}.</strong>
<span class="soft">{escape(g.theorem)}.</span></p>
{_verdict(report)}
{body}
</main>
</body>
</html>
"""


def escape(text: str) -> str:
    """Text as a page shows it: neither tags nor control characters."""
    return escape_tags(text.translate(CONTROL))


def _verdict(report: Description) -> str:
    g = report.guarantee
    said = f"δ recomputed from the numbers below: {report.recomputed:.8g}, promised {g.delta:g}."
    kept = "The numbers keep the promise." if report.holds else "The numbers do not keep the promise."
    boxes = [_box("good" if report.holds else "bad", kept, f" {said}")]
    if g.weaknesses:
        boxes.append(_box("bad", "Numbers that promise next to nothing.", "", _items(g.weaknesses)))
    if report.nothing:
        boxes.append(_box("bad", report.nothing, f" {report.guarantee.way_out}"))
    if g.caveats:
        title = "Caveats: what breaks or weakens the promise."
        boxes.append(_box("bad", title, "", _items(g.caveats)))
    else:
        boxes.append(_box("good", "No caveats."))
    return "\n".join(boxes)


def _box(kind: str, title: str, text: str = "", html: str = "") -> str:
    return f'<div class="box {kind}"><p><strong>{title}</strong>{escape(text)}</p>{html}</div>'


def _budget(report: Description) -> str:
    unit = (
        "ε"
        if report.guarantee.accounting == "paper"
        else "μ², in which the prices of noisy counts add up,"
    )
    said = f"Shares of {unit} that each part of the release used."
    html = _stack(report.budget, said)
    if report.failure:
        html += _stack(report.failure, "What δ, the chance that the promise fails, consists of.")
    return html


def _stack(parts: Sequence[Part], caption: str) -> str:
    """One bar of several colours, with a legend."""
    whole = sum(max(part.share, 0.0) for part in parts) or 1.0
    bars, legend, start = [], [], 0.0
    for i, part in enumerate(parts):
        width = _WIDTH * max(part.share, 0.0) / whole
        colour = _COLOURS[i % len(_COLOURS)]
        bars.append(_bar(start, 0, width, 26, colour))
        y = 46 + 18 * i
        legend.append(
            _bar(0, y - 9, 10, 10, colour) + _label(16, y, f"{part.name}: {part.share:.1%}", "start")
        )
        start += width
    alt = caption + " " + "; ".join(f"{part.name} {part.share:.1%}" for part in parts)
    return _figure(alt, 34 + 18 * len(parts), "".join(bars + legend), caption)


def _figure(alt: str, height: float, drawing: str, caption: str) -> str:
    return (
        f'<figure><svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {_WIDTH} {height:g}">'
        f"{drawing}</svg><figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {where} fill="{colour}"/>'


def _label(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _noise(report: Description) -> str:
    said = report.noise_in_words()
    if not report.sizes or report.learned_nothing:
        return _paragraphs([said])
    sizes, noise = np.array(report.sizes), max(report.size_noise, 1e-9)
    # Powers of two of the noise: what lies left of 1 cannot be told from an empty leaf.
    edges = np.concatenate([[-np.inf], 2.0 ** np.arange(-1, 8), [np.inf]])
    share = np.histogram(sizes / noise, edges)[0] / len(sizes)
    names = ["< ½", "½", "1", "2", "4", "8", "16", "32", "64", "≥ 128"]
    step, tallest, height = _WIDTH / len(share), max(float(share.max()), 1e-9), 120
    drawing = []
    for i, (name, part) in enumerate(zip(names, share.tolist(), strict=True)):
        tall, x = height * part / tallest, i * step
        colour = _COLOURS[0] if i >= 3 else _COLOURS[1]
        drawing += [
            _bar(x + 2, 18 + height - tall, step - 4, tall, colour),
            _label(x + step / 2, 13 + height - tall, f"{part:.0%}"),
            _label(x + step / 2, 32 + height, name),
        ]
    alt = "Sizes in multiples of their noise: " + ", ".join(
        f"from {name}: {part:.0%}" for name, part in zip(names, share.tolist(), strict=True)
    )
    which, empty = ("Cells of columns", "cell") if report.fit else ("Leaves", "leaf")
    caption = (
        f"{which} by their noisy size, in multiples of the noise ({report.size_noise:,.1f} rows). Sizes "
        f"below 2 (orange) can hardly be told from an empty {empty}."
    )
    return _paragraphs([said]) + _figure(alt, height + 40, "".join(drawing), caption)


def _importance(report: Description) -> str:
    note = (
        f"Share of each column in {report.what_matters}, computed from released "
        "values alone: reading it costs no privacy, and noise limits it as it limits the model."
    )
    most = max((part.share for part in report.importance), default=0.0) or 1.0
    head = (
        '<tr><th scope="col">column</th><th scope="col">importance</th><th scope="col">share</th></tr>'
    )

    def table(parts: Sequence[Part]) -> str:
        rows = "".join(
            f'<tr><th scope="row">{escape(part.name)}</th><td><span class="bar" style="width:'
            f'{100 * part.share / most:.1f}%"></span></td><td>{part.share:.1%}</td></tr>'
            for part in parts
        )
        return f'<table class="bars"><thead>{head}</thead><tbody>{rows}</tbody></table>'

    first, others = report.importance[:_RANKED], report.importance[_RANKED:]
    return _paragraphs([note]) + table(first) + _folded(f"{len(others):,} more", table(others), others)


def _trees(report: Description) -> str:
    drawing, n = [], len(report.leaves)
    tallest, height = max(report.leaves), 90
    step = _WIDTH / n
    for i, leaves in enumerate(report.leaves):
        tall = height * leaves / tallest
        drawing.append(_bar(i * step, 16 + height - tall, max(step - 1, step / 2), tall, _COLOURS[0]))
    drawing.append(_label(0, 11, f"{tallest:,} leaves", "start"))
    alt = f"Leaves of each of the {n} trees: from {min(report.leaves):,} to {tallest:,}."
    picture = _figure(alt, height + 18, "".join(drawing), "Leaves of each tree, empty ones included.")
    return _paragraphs(report.trees_in_words()) + picture


def _columns(report: Description) -> str:
    html = _paragraphs(
        [
            "What columns and target may hold. All of it is in the model, and public with it: what is "
            "declared was known without the data, and what is learned was released with noise.",
            "A picture has a tick for each cut. About as many rows lie between two ticks as between two "
            "others, so ticks are close where values are frequent; where there are none, cuts are "
            "arbitrary. The scale is linear in the middle and logarithmic far from it.",
        ]
    )
    if report.domain.inferred:
        html += _box("bad", "The domain was read off the data, and is not private.")

    def listed(entries: Sequence[Entry], first: int) -> str:
        items = "".join(_entry(entry, f"c{first + i}") for i, entry in enumerate(entries))
        return f'<ul class="columns">{items}</ul>'

    html += listed([report.target], 0) + listed(report.columns[:_OPEN], 1)
    others = report.columns[_OPEN:]
    return html + _folded(f"{len(others):,} more columns", listed(others, 1 + _OPEN), others)


def _entry(entry: Entry, number: str) -> str:
    """A column or the target: what it is, a picture of its cuts, and its values."""
    html = f"<strong>{escape(entry.name)}</strong>: {escape(entry.facts())}"
    if entry.cuts:
        html += _strip(entry, number)
    values, short = ", ".join(entry.listed()), entry.short()
    if values != short:
        return f"<li>{html}<details><summary>{escape(short)}</summary>{escape(values)}</details></li>"
    return f"<li>{html}{f'<div>{escape(short)}</div>' if short else ''}</li>"


def _strip(entry: Entry, number: str) -> str:
    """A tick for each cut, with the lowest, the middle and the highest in words."""
    cuts, left, width = entry.cuts, 2.0, _WIDTH - 4.0
    x = left + width * spread(cuts)
    ticks = "".join(f"M{place:.1f} 3v14" for place in x.tolist())
    ranks = sorted({0, len(x) // 2, len(x) - 1})
    said = dict(zip(ranks, several([cuts[i] for i in ranks], entry.is_date), strict=True))
    room = [_LETTER * len(text) for text in said.values()]
    drawing = f'<line x1="0" y1="10" x2="{_WIDTH}" y2="10"/><path d="{ticks}"/>'
    drawing += _label(0, 31, said[0], "start")
    if len(ranks) > 1:
        drawing += _label(_WIDTH, 31, said[len(x) - 1], "end")
    if len(ranks) == 3 and room[0] + 6 < x[ranks[1]] - room[1] / 2 < _WIDTH - room[1] - room[2] - 6:
        drawing += _label(float(x[ranks[1]]), 31, said[ranks[1]])
    title, text = f"Cuts of {entry.name}", f"{entry.facts()}: {entry.short()}"
    return (
        f'<svg role="img" aria-labelledby="{number}t {number}d" viewBox="0 0 {_WIDTH} 36">'
        f'<title id="{number}t">{escape(title)}</title><desc id="{number}d">{escape(text)}</desc>'
        f"{drawing}</svg>"
    )


def _folded(title: str, html: str, parts: Sequence[object]) -> str:
    """HTML that opens on a click; nothing if it has no parts."""
    return f"<details><summary>{escape(title)}</summary>{html}</details>" if parts else ""


def _verify(report: Description) -> str:
    g = report.guarantee
    ways = "".join(
        f"<li>{escape(what)}<pre>{escape(how)}</pre></li>" for what, how in report.how_to_verify()
    )
    ways += f"<li>By hand; docs/guarantee.md has the proof.{_paragraphs(by_hand(g))}</li>"
    record = (
        f"<details><summary>The whole record as JSON</summary><pre>{escape(g.to_json())}</pre></details>"
    )
    return f"<ul>{ways}</ul>{record}"


def _paragraphs(texts: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def _items(texts: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def _pairs(rows: Iterable[tuple[str, str]], caption: str) -> str:
    listed = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows
    )
    return f'<table aria-label="{escape(caption)}"><tbody>{listed}</tbody></table>'
