"""Files as encoded tables: types as pandas reads them, and labels over all chunks."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lumberjack import Domain, tables
from lumberjack.kinds import MISSING, values_at
from lumberjack.reading import Source, as_read
from lumberjack.tables import Table

TEXTS = {
    "whole": ["1", "-2", "+3", "007"],
    "decimal": ["1.5", ".5", "2.", "1e3"],
    "infinite": ["inf", "1", "-inf", "1e999"],
    "padded": [" 1", "2", " 3", "4"],
    "gaps": ["", "NA", "3", "nan"],
    "nothing": ["", "NA", "null", "None"],
    "flags": ["True", "false", "TRUE", "False"],
    "flags and gaps": ["true", "", "false", "NA"],
    "flags and more": ["true", "false", "maybe", "true"],
    "flags and numbers": ["true", "1", "0", "false"],
    "words": ["a", "b", "a", ""],
    "almost numbers": ["1", "2", "3", "x"],
    "thousands": ["1_000", "2", "3", "4"],
    "hexadecimal": ["0x10", "2", "3", "4"],
    "comma": ["1,5", "2", "3", "4"],
    "day": ["2026-01-31", "2026-02-01", "", "2026-02-03"],
}  # fmt: skip


@pytest.mark.parametrize("block", [2**19, 16])
def test_types_of_csv_are_those_that_pandas_reads(tmp_path, monkeypatch, block):
    monkeypatch.setattr(tables, "_BLOCK", 256 if block == 16 else block)
    frame = pd.DataFrame(TEXTS)
    frame.to_csv(tmp_path / "t.csv", index=False)
    read = pd.read_csv(tmp_path / "t.csv")
    table = tables.Table(tmp_path / "t.csv")
    expected = {name: "numeric" if read[name].dtype.kind in "if" else "text" for name in frame}
    expected.update({name: "boolean" for name in frame if is_boolean(read[name])})
    assert table.read_types(list(frame)) == expected
    assert set(expected.values()) == {"numeric", "boolean", "text"}
    found, _ = Source(table, as_read(table, None, list(frame), expected), expected).read({})
    given = Domain(dict(zip(found.domain, found.domain.kinds, strict=True))).read(read)
    np.testing.assert_array_equal(found.codes, given.codes)
    assert found.labels == given.labels


def is_boolean(column):
    return {type(value) for value in column.dropna().tolist()} == {bool}


def test_labels_are_those_of_the_whole_column_whatever_the_chunks(tmp_path, monkeypatch):
    """Values appear in other orders in other chunks; places are those among all, sorted."""
    rng = np.random.default_rng(0)
    values = [f"v{i}" for i in rng.permutation(400)] * 2 + ["", "NA"]
    pd.DataFrame({"c": values, "n": 1}).to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(tables, "_BLOCK", 256)
    table = tables.Table(tmp_path / "t.csv")
    found, _ = Source(table, Domain({"c": Domain.categorical()})).read({})
    order = sorted(set(values) - {"", "NA"})
    assert found.labels == {"c": tuple(order)}
    assert [order[i] if i < 400 else "" for i in found.codes[:, 0].tolist()] == [*values[:800], "", ""]


def test_a_date_that_python_does_not_know_changes_no_other_row(tmp_path):
    """The first of these is between two numbers of the grid, just below the middle of them."""
    column = pa.array([9_800_001_023_999_999, 86_400 * 365 * 12_000 * 10**6], pa.timestamp("us"))
    domain = Domain({"when": Domain.numeric(temporal=True)})
    codes = []
    for rows in (column[:1], column):
        pq.write_table(pa.table({"when": rows}), tmp_path / "dates.parquet")
        codes.append(Source(Table(tmp_path / "dates.parquet"), domain).read({})[0].codes[0, 0])
    assert codes[0] == codes[1]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "days"])
def test_dates_of_years_that_python_does_not_know(tmp_path, unit, zone):
    """Years before 1 and after 9999, as seconds since 1970."""
    when = [0, 86_400 * 365 * 12_000, None, -86_400 * 365 * 5_000, 86_400 * 365 * 100]
    if unit == "days":
        column = pa.array([None if t is None else t // 86_400 for t in when], pa.date32())
    else:
        steps = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
        column = pa.array([None if t is None else t * steps for t in when], pa.timestamp(unit, zone))
    pq.write_table(pa.table({"when": column}), tmp_path / "dates.parquet")
    domain = Domain({"when": Domain.numeric(temporal=True)})
    encoded, _ = Source(Table(tmp_path / "dates.parquet"), domain).read({})
    expected = np.array([np.nan if t is None else t for t in when], dtype=np.float32)
    found = encoded.codes[:, 0]
    np.testing.assert_array_equal(found == MISSING, np.isnan(expected))
    np.testing.assert_array_equal(values_at(found[found != MISSING]), expected[~np.isnan(expected)])
