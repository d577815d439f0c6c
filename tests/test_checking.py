"""Shares of values outside a domain, against counts by hand."""

import datetime as dt
import math
import re

import numpy as np
import pandas as pd
import pytest

from lumberjack import Domain
from lumberjack.checking import EYES_ONLY, Check
from lumberjack.kinds import Categorical, Cuts, Numeric
from lumberjack.values import Column

DOMAIN = Domain(
    {
        "age": (0, 100),
        "ward": ["A", "B"],
        "zip": Domain.categorical([1, 2], missing=True),
        "day": (dt.date(2020, 1, 1), dt.date(2021, 1, 1)),
        "free": Domain.numeric(),
        "open": Domain.categorical(),
    }
)
ROWS = {
    "age": [0.0, 100.0, -0.5, math.inf, None],
    "ward": ["A", "B", "C", "", None],
    "zip": [1.0, 2.0, 3.0, 1.5, None],
    "day": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), dt.date(2019, 12, 31), None, None],
    "free": [1e300, -math.inf, 0.0, None, None],
    "open": ["x", None, None, None, "y"],
    "surplus": [1, 2, 3, 4, 5],
}
OUTSIDE = {"age": 2, "ward": 2, "zip": 2, "day": 1, "free": 0, "open": 0}  # of five
ABSENT = {"age": 1, "ward": 1, "zip": 1, "day": 2, "free": 2, "open": 3}


def test_shares_are_those_counted_by_hand(frame):
    found = DOMAIN.check(frame(ROWS)).shares
    assert {name: round(share.outside * 5) for name, share in found.items()} == OUTSIDE
    assert {name: round(share.missing * 5) for name, share in found.items()} == ABSENT


def test_parts_add_up():
    frame = pd.DataFrame(ROWS)
    check = Check()
    for part in (frame[:1], frame[1:4], frame[4:]):
        for name in DOMAIN:
            check.add(name, DOMAIN[name], Column(part[name].to_numpy(dtype=object)))
    assert check.shares == DOMAIN.check(frame).shares


def test_distinct_values_count_as_often_as_they_occur():
    check = Check()
    place = np.array([0, 0, 1, 2, 0, 1, 1, 1])
    check.add("ward", DOMAIN["ward"], Column(np.array(["A", "?", None], dtype=object)), place)
    assert check.shares["ward"] == (4 / 8, 1 / 8)


@pytest.mark.parametrize("kind", [Numeric(0, 9), Cuts(Numeric(0, 9), (5,)), Categorical((3,))])
def test_no_rows_have_no_shares_outside(kind):
    check = Check()
    check.add("c", kind, Column(np.empty(0)))
    assert check.shares["c"] == (0, 0)


def test_a_table_that_lacks_columns_is_refused():
    with pytest.raises(ValueError, match="lacks columns of the domain: day"):
        DOMAIN.check(pd.DataFrame(ROWS).drop(columns="day"))


def test_text_names_its_reader_and_no_count():
    rows = pd.DataFrame({"ward": ["A"] * 1999 + ["?"]})
    check = Domain({"ward": ["A", "B"]}).check(rows)
    assert str(check).startswith(EYES_ONLY)
    assert "< 0.1 %" in str(check)
    assert not re.search("2000|2,000|1999", str(check))
    assert check.summary() == "outside: 'ward' < 0.1 %"
    assert DOMAIN.check(pd.DataFrame(ROWS)).summary() == (
        "outside: 'age' 40.0 %, 'ward' 40.0 %, 'zip' 40.0 %, 'day' 20.0 %; missing: 'open' 60.0 %, "
        "'day' 40.0 %, 'free' 40.0 %, 'age' 20.0 %, 'ward' 20.0 %, 'zip' 20.0 %"
    )
    many = pd.DataFrame({f"c{i}": [2.0, 0.5] for i in range(13)})
    summary = Domain(dict.fromkeys(many, (0, 1))).check(many).summary()
    assert summary.endswith("'c9' 50.0 % and 3 more columns")
