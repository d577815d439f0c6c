"""Tables with one value that does not belong: refused as a whole or read, and never quoted.

Errors, with their tracebacks, and warnings go into logs, so they name no value, row or count.
"""

import datetime as dt
import traceback
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lumberjack import Domain, LumberjackClassifier, LumberjackRegressor, heavy_hitters, plan
from lumberjack.guarantee import DOMAIN_INFERRED
from lumberjack.kinds import CELLS, MISSING, OTHER

ROWS = 1237
SECRET = "HIV-8417"
SECRETS = ("HIV", "8417", "1237", "1,237")
DAYS = (dt.date(2020, 1, 1), dt.date(2030, 1, 1))

STRANGE = {
    "text": SECRET,
    "bytes": SECRET.encode(),
    "list": [SECRET, 8417],
    "dict": {SECRET: 8417},
    "tuple": (SECRET,),
    "complex": 8417j,
    "400 digits": 8417 * 10**396,
    "5000 digits": -8417 * 10**4996,
    "signalling": Decimal("sNaN8417"),
    "decimal": Decimal("8417e500"),
    "infinite": -np.inf,
    "early": dt.date(1, 8, 4).replace(day=17),
    "aware": dt.datetime(8417, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-14))),
    "time": dt.time(8, 41, 7),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "array": np.array([8417.0, 1.0]),
    "set": {SECRET},
}
COLUMNS = {
    "number": ((0, 10), 5),
    "date": (DAYS, dt.date(2025, 5, 5)),
    "category": (["a", "b"], "a"),
    "code": (Domain.categorical([1, 2, 3]), 2),
    "flag": (Domain.categorical([False, True]), True),
}


def with_one(strange, usual, length=ROWS):
    cells = [usual] * length
    cells[length // 2] = strange
    return cells


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


CONTAINERS = {
    "rows": lambda cells: [[cell, 1.0] for cell in cells],
    "array": lambda cells: np.stack([objects(cells), objects([1.0] * len(cells))], axis=1),
    "dict": lambda cells: {"c": cells, "d": [1.0] * len(cells)},
    "masked": lambda cells: np.ma.MaskedArray(CONTAINERS["array"](cells)),
    "pandas": lambda cells: pd.DataFrame({"c": objects(cells), "d": 1.0}),
    "numbered": lambda cells: pd.DataFrame({0: objects(cells), 1: 1.0}),
    "polars": lambda cells: pl.DataFrame(
        {"c": pl.Series(cells, dtype=pl.Object), "d": [1.0] * len(cells)}
    ),
    "lazy": lambda cells: CONTAINERS["polars"](cells).lazy(),
    "arrow": lambda cells: pa.table({"c": pa.array(cells), "d": [1.0] * len(cells)}),
}


def check(action, *, may_work=True):
    """Run it: only a TypeError or a ValueError may come out, without a secret, and no other warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            action()
            said = ""
            assert may_work
        except (TypeError, ValueError) as error:
            lines = traceback.format_exception(error)
            said = "".join(line for line in lines if not line.lstrip().startswith("File"))
    said += "".join(str(warning.message) for warning in caught)
    found = [secret for secret in SECRETS if secret in said]
    assert not found, said


def quick(domain, **kwargs):
    return LumberjackClassifier(domain=domain, classes=[0, 1], n_estimators=1, **kwargs)


@pytest.mark.parametrize("kind", [*COLUMNS, "inferred"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_strange_cell(container, kind):
    declared, usual = COLUMNS.get(kind, (None, 5.0))
    y = [0, 1] * (ROWS // 2) + [0]
    for strange in STRANGE.values():
        try:
            X = CONTAINERS[container](with_one(strange, usual))
        except Exception:
            continue
        domain = None if declared is None else {"c": declared, "d": (0, 2)}
        check(lambda X=X, domain=domain: quick(domain).fit(X, y))


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_strange_cell_in_predict(kind):
    declared, usual = COLUMNS[kind]
    domain = Domain({"c": declared, "d": (0, 2)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = quick(domain).fit([[usual, 1.0]] * 10, [0, 1] * 5)
    for strange in STRANGE.values():
        check(lambda strange=strange: model.predict([[c, 1.0] for c in with_one(strange, usual)]))


DATES = [2**31 - 1, -(2**31), 2932897, 0]


@pytest.mark.parametrize("domain", [{"t": DAYS}, {"t": ["a", "b"]}, None], ids=str)
def test_dates_that_python_does_not_know(domain):
    """Arrow and polars count days, and reach further than calendars."""
    for day in DATES:
        days = pa.array([day, 18262], pa.int32()).cast(pa.date32())
        millis = pa.array([day * 86_400_000, 1_577_836_800_000]).cast(pa.timestamp("ms"))
        for column in (days, millis):
            for table in (pa.table({"t": column}), pl.from_arrow(pa.table({"t": column}))):
                check(lambda table=table: quick(domain).fit(table, [0, 1]))


def test_late_dates_are_clipped_and_not_quoted():
    """Arrow refuses to round integers beyond 2^53 and quotes them: 9999-12-31 in microseconds is one."""
    domain = Domain({"t": DAYS})
    late = [dt.datetime(9999, 12, 31, 11, 22, 33), dt.datetime(1, 1, 1), None]
    table = pa.table({"t": pa.array(late, pa.timestamp("us"))})
    expected = [[CELLS - 1], [0], [MISSING]]
    for frame in (table, table.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(table)):
        np.testing.assert_array_equal(domain.encode(frame), expected)
        check(lambda frame=frame: Domain.infer(frame))


def test_large_integers_are_rounded_and_not_quoted():
    domain = Domain({"a": (0, 2**60)})
    values = [8417, 2**60 + 8417, None]
    table = pa.table({"a": pa.array(values, pa.int64())})
    expected = domain.encode(objects(values)[:, None])
    for frame in (table, table.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(table)):
        np.testing.assert_array_equal(domain.encode(frame), expected)
    codes = Domain({"a": Domain.categorical([8417])}).encode(table)
    np.testing.assert_array_equal(codes, [[0], [OTHER], [OTHER]])


@pytest.mark.parametrize("X", [5, None, [], [1, 2, 3], np.arange(3), "text"], ids=str)
def test_domain_refuses_what_is_not_a_table(X):
    check(lambda: Domain.infer(X), may_work=False)
    check(lambda: Domain({"a": (0, 1)}).encode(X), may_work=False)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_numbers_beyond_floats_are_refused_as_parameters(number):
    for action in (
        lambda: plan(number),
        lambda: plan(1.0, number),
        lambda: plan(1.0, n_estimators=number),
        lambda: plan(1.0, threshold=number),
        lambda: plan(1.0, structure_share=number),
        lambda: Domain({"a": (0, number)}),
        lambda: LumberjackRegressor(y_bounds=(0, number)).plan(),
        lambda: quick(None, n_jobs=number).plan(),
        lambda: heavy_hitters([], epsilon=number, delta=1e-6),
    ):
        check(action, may_work=False)


def test_a_repaired_column_leaves_the_others_inferred():
    X = np.column_stack([np.linspace(-8417, 8417, 50), np.linspace(0, 1, 50)])
    with pytest.warns(UserWarning, match="inferred"):
        found = Domain.infer(X)
    repaired = Domain({**{name: found[name] for name in found}, "x1": (-1, 3)})
    assert repaired.inferred
    assert not Domain({**dict.fromkeys(found, (-1, 1))}).inferred
    with pytest.warns(UserWarning, match="domain inferred from the data"):
        model = quick({"x0": found["x0"], "x1": (0, 1)}).fit(X, [0, 1] * 25)
    assert DOMAIN_INFERRED in model.guarantee_.caveats


def test_dates_are_read_alike_whatever_holds_them():
    domain = Domain({"t": DAYS})
    when = [dt.datetime(2020, 1, 1), dt.datetime(2024, 2, 29, 12, 30, 1, 250_000), None]
    frame = pd.DataFrame({"t": pd.Series(when, dtype="datetime64[us]")})
    expected = domain.encode(objects(when)[:, None])
    for table in (frame, frame.to_numpy(), pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(domain.encode(table), expected)
    aware = frame["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo").to_frame()
    np.testing.assert_array_equal(domain.encode(aware), expected)
    days = pd.DataFrame({"t": [dt.date(2025, 5, 5), None]})
    for table in (days, pl.from_pandas(days), pa.Table.from_pandas(days)):
        np.testing.assert_array_equal(
            domain.encode(table), domain.encode(np.array([["2025-05-05"], ["NaT"]], "M8[D]"))
        )


@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"], None], ids=str)
def test_a_strange_label(classes):
    usual = classes[0] if classes else 0
    model = quick({"a": (0, 1)}).set_params(classes=classes)
    for strange in STRANGE.values():
        cells = with_one(strange, usual)
        containers = [list, objects, lambda v: pd.Series(objects(v)), lambda v: objects(v)[:, None]]
        for make in containers:
            y = make(cells)
            check(lambda y=y: model.fit([[0.5]] * ROWS, y))
    for ragged in ([[0], [1, 0]] * 2, [0, [1]] * 2, np.zeros((ROWS, 2)), 8417, SECRET, {SECRET: 1}):
        check(lambda y=ragged: model.fit([[0.5]] * ROWS, y), may_work=False)


@pytest.mark.parametrize("bounds", [(0, 1), None], ids=str)
def test_a_strange_number_to_predict(bounds):
    model = LumberjackRegressor(domain={"a": (0, 1)}, y_bounds=bounds, n_estimators=1)
    for name, strange in STRANGE.items():
        for make in (list, objects, lambda v: pd.Series(objects(v))):
            y = make(with_one(strange, 0.5))
            check(lambda y=y: model.fit([[0.5]] * ROWS, y), may_work=name in ("array",))


@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"], None], ids=str)
def test_a_strange_truth_in_score(classes):
    """scikit-learn would quote labels and numbers of rows; with None for classes: of a regressor."""
    number = LumberjackRegressor(domain={"a": (0, 1)}, y_bounds=(0, 1), n_estimators=1)
    model = quick({"a": (0, 1)}).set_params(classes=classes) if classes else number
    usual = (classes or [0, 1])[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit([[0.5]] * 10, (classes or [0, 1]) * 5)
    for strange in STRANGE.values():
        for make in (list, objects, lambda v: pd.Series(objects(v))):
            y = make(with_one(strange, usual))
            check(lambda y=y: model.score([[0.5]] * ROWS, y))
    for wrong in ([usual] * 8417, 8417, SECRET, None, [[8417], [1, 2]], np.zeros((ROWS, 2))):
        check(lambda y=wrong: model.score([[0.5]] * ROWS, y), may_work=False)
    y = [usual] * ROWS
    check(lambda: model.score([[0.5]] * ROWS, y, sample_weight=[1.0] * 8417), may_work=False)
    check(lambda: model.score([[0.5]] * ROWS, y, sample_weight=[SECRET] * ROWS), may_work=False)
    assert model.score([[0.5]] * 4, [usual] * 4, [1, 2, 3, 4]) in (0.0, 1.0)


def test_a_strange_person():
    model = quick({"a": (0, 1)})
    for strange in [*STRANGE.values(), "", b"", None, np.nan]:
        for make in (list, objects, lambda v: pd.Series(objects(v))):
            people = make(with_one(strange, "p"))
            check(lambda ids=people: model.fit([[0.5]] * ROWS, [0] * ROWS, person_ids=ids))
    for missing in (None, np.nan, "", "NA", b"", b"NA", b" null ", pd.NA, pd.NaT, Decimal("sNaN")):
        other = b"p" if isinstance(missing, bytes) else "p"
        with pytest.raises(ValueError, match=r"person_ids .* missing"):
            model.fit([[0.5]] * 3, [0, 1, 0], person_ids=[other, missing, other])
    for single in (SECRET, 8417, {SECRET: 1}, iter([1, 2])):
        with pytest.raises(TypeError, match="person_ids must hold one id for each row"):
            model.fit([[0.5]] * 3, [0, 1, 0], person_ids=single)


@pytest.mark.parametrize(
    "X",
    [
        {"age": [34], "dx": ["HIV-8417"]},
        [[1, 2], [8417]],
        [[[SECRET]]],
        np.full((ROWS, 1), 8417j),
        pd.DataFrame({0: [8417j] * ROWS}),
        pd.DataFrame(index=range(ROWS)),
        np.empty((ROWS, 0)),
        np.full((ROWS, 1), 8417),
        pd.DataFrame([[8417, 1]] * 3, columns=["a", "a"]),
        pl.DataFrame({"a": [8417] * ROWS}).lazy(),
        np.array([(8417, SECRET)], dtype=[("a", "i8"), ("b", "U9")]),
        8417,
        SECRET,
        {SECRET},
        iter([[8417]]),
        None,
    ],
    ids=lambda X: type(X).__name__,
)
def test_a_strange_table(X):
    check(lambda: quick({"a": (0, 1), "b": ["x", "y"]}).fit(X, [0, 1]), may_work=False)


BROKEN = {
    "text that is not UTF-8": pa.array([SECRET.encode() + b"\xff"] * 2).view(pa.string()),
    "no such time zone": pa.array([8417] * 2, pa.timestamp("us", SECRET)),
    "dates beyond calendars": pa.array([2**62, 8417], pa.date64()),
    "times beyond calendars": pa.array([2**62, 8417], pa.timestamp("s")),
    "durations": pa.array([2**63 - 1, 8417], pa.duration("s")),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([8417]), pa.array([SECRET])],
    ),
    "list": pa.array([[SECRET]] * 2),
    "dictionary": pa.array([SECRET] * 2).dictionary_encode(),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_arrow_values_that_cannot_be_read(kind):
    array = BROKEN[kind]
    forms = [array, pa.chunked_array([array]), pd.Series(pd.arrays.ArrowExtensionArray(array))]
    for values in forms:
        for table in ({"c": values}, {0: values}):
            X = pd.DataFrame(table) if isinstance(values, pd.Series) else pa.table({"c": values})
            for declared in [declared for declared, _ in COLUMNS.values()] + [None]:
                domain = None if declared is None else {str(name): declared for name in table}
                check(lambda X=X, domain=domain: quick(domain).fit(X, [0, 1]))
        for classes in ([0, 1], None):
            model = quick({"a": (0, 1)}).set_params(classes=classes)
            check(lambda y=values, model=model: model.fit([[0.5]] * 2, y))
        check(lambda y=values: LumberjackRegressor(domain={"a": (0, 1)}).fit([[0.5]] * 2, y))
        check(lambda ids=values: quick({"a": (0, 1)}).fit([[0.5]] * 2, [0, 1], person_ids=ids))
        check(lambda paths=values: heavy_hitters(paths, height=1, epsilon=1, delta=1e-6, sep="/"))


def test_a_frame_that_offers_its_schema_only():
    batch = pa.record_batch({"a": pa.array([8417.0, 1.0])})
    for domain in (None, {"a": (0, 1)}):
        with pytest.raises(TypeError, match="got a RecordBatch"):
            quick(domain).fit(batch, [0, 1])


def test_masked_values_are_missing():
    masked = np.ma.MaskedArray([[1.0], [8417.0], [4.0]], mask=[[False], [True], [False]])
    with pytest.warns(UserWarning, match="caveat"):
        model = LumberjackClassifier.paper(1.0, classes=[0, 1]).fit(masked, [0, 1, 1])
    assert model.domain_["x0"] == Domain.numeric(1, 4)
    np.testing.assert_array_equal(model.apply(masked), model.apply([[1.0], [None], [4.0]]))


def test_a_strange_path():
    for strange in STRANGE.values():
        paths = with_one((strange,), ("a",))
        check(lambda paths=paths: heavy_hitters(paths, height=1, epsilon=1, delta=1e-6))
        paths = with_one(strange, "a")
        check(lambda paths=paths: heavy_hitters(paths, height=1, epsilon=1, delta=1e-6, sep="/"))
