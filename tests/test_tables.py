"""CSV and Parquet files, chunk by chunk."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa

from lumberjack import Domain, tables
from lumberjack.reading import Source


def test_csv_and_parquet_and_frames_are_encoded_alike(tmp_path, monkeypatch):
    frame = pd.DataFrame(
        {
            "x": [1.5, None, -3.0, 1e9, 0.0, 2.25],
            "s": ["a", 'b\n"c"', None, "?", "a", "ü,v"],
            "i": [1, 2, 3, 4, 1, 2],
            "b": [True, False, True, None, False, True],
            "when": [
                None if day is None else pd.Timestamp(day)
                for day in (
                    "2020-01-01",
                    "2020-06-01 12:30",
                    None,
                    "1999-01-01",
                    "2021-01-01",
                    "2020-01-02",
                )
            ],
        }
    )
    domain = Domain(
        {
            "when": Domain.numeric(pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")),
            "x": (0, 10),
            "s": Domain.categorical(["a", "b\n\"c\"", "ü,v"], missing=True),
            "i": Domain.categorical([1, 2, 3]),
            "b": Domain.categorical([False, True], missing=True),
        }
    )  # fmt: skip
    frame = pd.concat([frame] * 40, ignore_index=True)
    expected = domain.encode(frame)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "semi.csv", index=False, sep=";", encoding="utf-8-sig")
    frame.to_parquet(tmp_path / "t.parquet")
    for block, rows in ((None, None), (512, 7)):
        if block:
            monkeypatch.setattr(tables, "_BLOCK", block)
            monkeypatch.setattr(tables, "_ROWS", rows)
        for table in (
            tables.Table(tmp_path / "t.csv"),
            tables.Table(tmp_path / "semi.csv", ";"),
            tables.Table(tmp_path / "t.parquet"),
        ):
            seen = []
            found, extra = Source(table, domain).read({}, seen.append)
            np.testing.assert_array_equal(found.codes, expected)
            assert extra == {}
            assert seen == sorted(seen)
            assert 0.99 < seen[-1] <= 1
            assert len(seen) > (5 if block else 0)


def test_blank_lines_need_no_room(tmp_path):
    domain = Domain({f"c{i}": (0, 1) for i in range(50)})
    head = ",".join(domain.names)
    row = ",".join(["0.5"] * 50)
    (tmp_path / "t.csv").write_text(f"{head}\n" + f"{row}\n" * 9 + "\n" * 1_000_000 + f"{row}\n")
    tracemalloc.start()
    try:
        found, _ = Source(tables.Table(tmp_path / "t.csv"), domain).read({})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.codes.shape == (10, 50)
    assert found.codes.base is None  # no view of something larger
    assert peak < 2**22  # 200 MB, if each line had room for a row


def test_text_of_a_csv_file_is_never_all_in_memory(tmp_path, monkeypatch):
    """Arrow holds some chunks that it read ahead, and Python the codes and one chunk."""
    n = 80_000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(n), "s": rng.choice(["left", "right"], n), "text": "x" * 60})
    frame.to_csv(tmp_path / "t.csv", index=False)
    size = (tmp_path / "t.csv").stat().st_size
    monkeypatch.setattr(tables, "_BLOCK", 2**16)
    domain = Domain({"x": (0, 1), "s": ["left", "right"]})
    frame[:10].to_csv(tmp_path / "few.csv", index=False)
    Source(tables.Table(tmp_path / "few.csv"), domain).read({})  # imports and compiles
    before, held = pa.total_allocated_bytes(), []
    tracemalloc.start()
    try:
        found, _ = Source(tables.Table(tmp_path / "t.csv"), domain).read(
            {}, lambda _: held.append(pa.total_allocated_bytes() - before)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 100 * 2**16
    assert max(held) < 64 * 2**16  # 32 chunks ahead, as text and as columns
    assert peak < found.codes.nbytes + 2**20
