"""Malformed CSV and Parquet: every command ends with 0, 2 or 3, in one line that quotes no cell."""

import datetime as dt
import decimal
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lumberjack import cli

TOKENS = [
    b'"', b'""', b",", b",,", b"\n", b"\r", b"\r\n", b"\n\n\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\x1c", b"\x0c", "\u2028".encode(), b"\xc3", b"NA", b"nan", b"-inf", b"1e999", b"9" * 400, b"0x10",
    b"2026-13-45", b"1_000", b"true", b"=1+1", b";", b"\t", b"'", b"zqx" * 70_000, b"\x1a", b"\\", b" ",
    b'"' + b"zqx" * 180_000, b"zqx\nzqx",
]  # fmt: skip


def flip(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 4, 64])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def flip_end(data, rng):
    """The footer of Parquet is where the lengths and types are."""
    return data[:-900] + flip(data[-900:], rng)


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def remove(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 2, 16, 500]) :]


def insert(data, rng):
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.choice([0, len(data), rng.randrange(len(data)), rng.randrange(min(80, len(data)))])
        data = data[:at] + rng.choice(TOKENS) + data[at:]
    return data


def repeat(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at : at + rng.choice([1, 7, 300])] * rng.choice([2, 50]) + data[at:]


def overwrite(data, rng):
    at = rng.randrange(len(data))
    return (
        data[:at]
        + rng.choice([b"\x00", b"\xff", b"\x7f", b"9"]) * rng.choice([1, 4, 100])
        + data[at + 1 :]
    )


def commands(work, data, out, rng):
    """Each command that reads tables, in turn."""
    train = ["train", data, "--target", "back", "--domain", work.path("domain.json"), "--epsilon", "4"]
    train += ["--trees", "2", "--depth", "5", "-o", out]
    undeclared = [word for word in train if word not in ("--domain", work.path("domain.json"))]
    model = work.path("model.lumberjack")
    locate = rng.choice([[], ["--locate"]]) if data.endswith(".csv") else []
    ending = rng.choice([".csv", ".parquet"])
    return rng.choice(
        [
            [*train, *locate],
            [*train, "--person", "who", "--rows-per-person", "2"],
            [*train, "--bounds", "0:1"],
            [*undeclared, *locate],
            [*undeclared, "--task", "regression"],
            ["predict", model, data, "--proba", "--keep", "who", "-o", out + ending, *locate],
            ["predict", model, data, "--keep", "back", "-o", out + ending],
            ["evaluate", model, data, "--target", "back", *locate],
            ["evaluate", model, data, "--target", "back", "--epsilon", "1", "--json"],
            ["domain", data, "--no-ask", "-o", out],
            ["domain", data, "--from-data", "--target", "back", "-o", out],
            ["heavy-hitters", data, "--column", "who", "--epsilon", "1", "--height", "2"],
            ["heavy-hitters", data, "--column", "city", "--epsilon", "1", "--height", "2"],
        ]
    )


def check(line, work, capsys):
    capsys.readouterr()
    code = cli.main(line)
    said = capsys.readouterr().err
    errors = [text for text in said.splitlines() if text.startswith("Error:")]
    assert code in (0, 2, 3), (code, said, line)
    assert len(errors) == (code != 0), said
    assert "Traceback" not in said
    assert not any(work.secret in text for text in errors), said


def attack(name, mutators, work, tmp_path, capsys):
    original = (work.folder / name).read_bytes()
    for seed in range(work.rounds or 60):
        rng = random.Random(f"{name} {seed}")
        mutant = original
        for _ in range(rng.choice([1, 1, 2])):
            mutant = rng.choice(mutators)(mutant, rng) or b"\n"
        path = tmp_path / name
        path.write_bytes(mutant)
        before = sorted(tmp_path.iterdir())
        line = commands(work, str(path), str(tmp_path / f"out-{seed}"), rng)
        check(line, work, capsys)
        for new in set(tmp_path.iterdir()) - set(before):
            assert new.name.startswith("out-")
            assert new.stat().st_size
            new.unlink()


def test_mutated_csv(work, tmp_path, capsys):
    attack("data.csv", [flip, cut, remove, insert, insert, repeat, overwrite], work, tmp_path, capsys)


def test_mutated_parquet(work, tmp_path, capsys):
    attack(
        "data.parquet",
        [flip, flip_end, flip_end, cut, remove, repeat, overwrite],
        work,
        tmp_path,
        capsys,
    )


SECRET_BYTES = pa.array([b"zqx\xff", b"\xff"], pa.binary())
COLUMNS = {
    "list": pa.array([["zqx"], None]),
    "struct": pa.array([{"zqx": 1}, None]),
    "map": pa.array([[("zqx", 1)], None], pa.map_(pa.string(), pa.int64())),
    "list of a dictionary": pa.array([["zqx"], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "nothing": pa.nulls(2),
    "bytes": pa.array([b"zqx", None]),
    "text that is not UTF-8": SECRET_BYTES.view(pa.string()),
    "large text": pa.array(["zqx", None], pa.large_string()),
    "categories": pa.array(["zqx", None]).dictionary_encode(),
    "dates": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "days out of range": pa.array([2**31 - 1, -(2**31)], pa.date32()),
    "times out of range": pa.array([2**63 - 1, -(2**63)], pa.timestamp("s")),
    "nanoseconds": pa.array([2**63 - 1, None], pa.timestamp("ns", "Europe/Berlin")),
    "time of day": pa.array([dt.time(12), None]),
    "invalid time zone": pa.array([0, None], pa.timestamp("us", "Zqx/Zqx")),
    "duration": pa.array([2**63 - 1, None], pa.duration("ns")),
    "decimal": pa.array([decimal.Decimal(10) ** 37, None], pa.decimal128(38, 0)),
    "half floats": pa.array(np.array([np.nan, np.inf], dtype=np.float16)),
    "not a number": pa.array([float("nan"), 1e308]),
    "truth": pa.array([True, None]),
    "whole numbers": pa.array([2**64 - 1, None], pa.uint64()),
}  # fmt: skip


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("place", ["who", "age", "city", "day", "back"])
def test_every_type_in_every_place(work, tmp_path, capsys, kind, place):
    fine = {
        "who": pa.array(["zqx-1", "zqx-2"]),
        "age": pa.array([1.0, 2.0]),
        "city": pa.array(["zqxa", None]),
        "day": pa.array([dt.datetime(2026, 1, 31), None]),
        "back": pa.array(["zqxno", "zqxyes"]),
    }
    path = tmp_path / "data.parquet"
    try:
        pq.write_table(pa.table({**fine, place: COLUMNS[kind]}), path)
    except pa.ArrowException as error:
        pytest.skip(f"this version of pyarrow cannot write it: {type(error).__name__}")
    for seed in range((work.rounds and 40) or 4):
        out = str(tmp_path / f"out-{seed}")
        check(commands(work, str(path), out, random.Random(f"{kind} {place} {seed}")), work, capsys)
