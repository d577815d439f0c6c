"""Mutated model files, a short run of what ``make fuzz`` does for long."""

import os

import numpy as np
import pandas as pd
import pytest
from hostile import models

from lumberjack import load
from lumberjack.guarantee import BOUNDS_INFERRED, CLASSES_INFERRED, DOMAIN_INFERRED, NOT_PROVED

ROUNDS = max(2000, int(os.environ.get("LUMBERJACK_FUZZ", "0")))


def test_mutated_files():
    reasons = models.fuzz(ROUNDS, seed=20260101)
    assert sum(reasons.values()) == ROUNDS
    assert len(reasons) > 40  # mutants reach checks of every kind
    assert any("contradicts itself" in str(why) for why in reasons)
    assert ROUNDS / 100 < reasons[None] < ROUNDS / 5


@pytest.fixture(params=[1, 2, 3])
def originals(request):
    """A golden classifier and regressor, as (header, arrays) that a test may change."""
    paths = [
        models.GOLDEN / f"{kind}-v{request.param}.lumberjack" for kind in ("classifier", "regressor")
    ]
    return {path.stem[:-3]: models.take_apart(path.read_bytes()) for path in paths}


def opened(header, arrays, tmp_path):
    path = tmp_path / "some.lumberjack"
    path.write_bytes(models.put_together(header, arrays))
    return load(path)


EVENT_CUT = "guarantee.events.0.cut"  # where files of version 3 have it

# Each names two places of a file that can contradict each other.
CONTRADICTIONS = {
    "domain inferred, no caveat": ("classifier", {"domain.inferred": True}, "caveats lack 'domain inf"),
    "no domain, not inferred": (
        "classifier",
        {"parameters.domain": False},
        "neither given, learned nor inferred",
    ),
    "domain is a word": ("classifier", {"parameters.domain": "given"}, "not a plain value"),
    "no classes, no caveat": ("classifier", {"parameters.classes": None}, "lack 'classes inferred"),
    "other classes": ("classifier", {"parameters.classes": ["a", "b", "c"]}, "classes are not those"),
    "fewer classes": ("classifier", {"parameters.classes": ["nie"]}, "classes are not those"),
    "no bounds, no caveat": ("regressor", {"parameters.y_bounds": None}, "lack 'y_bounds inferred"),
    "other bounds": ("regressor", {"parameters.y_bounds": [0, 99]}, "bounds are not those"),
    "other target": ("regressor", {"bounds": [0.0, 99.0]}, "bounds are not those"),
    "weights": ("classifier", {"parameters.class_weight": [["none", 2]]}, "class_weight has other"),
    "weights twice": ("classifier", {"parameters.class_weight": [["nie", 2], ["nie", 3]]}, "label once"),
    "rows of a row": (
        "classifier",
        {"parameters.rows_per_person": 3, "guarantee.rows_per_person": 3},
        "a row is not a person's rows",
    ),
    "rows": ("classifier", {"parameters.rows_per_person": 3}, "rows_per_person is not that"),
    "splits": ("regressor", {"parameters.splits": "other"}, "splits is not that"),
    "cut": ("classifier", {"guarantee.cut": 2}, "only a given threshold raises the cut"),
    "threshold": ("classifier", {"parameters.threshold": 7.0}, "threshold is not that"),
    "columns": ("classifier", {"columns": ["age", "city"]}, "columns are not those"),
    "a class and a number": ("classifier", {"bounds": [0.0, 1.0]}, "both a class and a number"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_file_that_contradicts_itself_is_refused(originals, tmp_path, name):
    kind, changes, why = CONTRADICTIONS[name]
    header, arrays = originals[kind]
    opened(header, arrays, tmp_path)
    flat = "events" not in header["guarantee"]
    for place, value in changes.items():
        *above, last = (place if flat else place.replace("guarantee.cut", EVENT_CUT)).split(".")
        container = header
        for key in above:
            container = container[int(key) if key.isdigit() else key]
        container[last] = value
    with pytest.raises(ValueError, match=why):
        opened(header, arrays, tmp_path)


def test_the_paper_s_theorem_has_a_caveat(originals, tmp_path):
    header, arrays = originals["classifier"]
    arrays = models.claim_paper(header, arrays)
    assert opened(header, arrays, tmp_path).guarantee_.caveats == (NOT_PROVED,)
    header["guarantee"]["caveats"] = []
    with pytest.raises(ValueError, match="caveats lack 'Theorem 1"):
        opened(header, arrays, tmp_path)


def test_a_file_with_all_required_caveats_is_accepted(originals, tmp_path):
    header, arrays = originals["classifier"]
    header["domain"]["inferred"], header["parameters"]["domain"] = True, False
    header["parameters"]["classes"] = None
    header["parameters"]["class_weight"] = [["nie", 2.0], ["rare", 9.0]]  # that the data did not have
    header["guarantee"]["caveats"] = [CLASSES_INFERRED, DOMAIN_INFERRED]
    assert opened(header, arrays, tmp_path).classes is None
    header, arrays = originals["regressor"]
    header["parameters"]["y_bounds"] = None
    header["guarantee"]["caveats"] = [BOUNDS_INFERRED]
    assert opened(header, arrays, tmp_path).y_bounds is None


def test_columns_of_which_the_type_names_all_values_need_no_caveat(originals, tmp_path):
    """``domain=None`` on booleans alone reads nothing off the data."""
    header, arrays = originals["classifier"]
    header["parameters"].update(domain=False, feature_weights=None)
    for column in header["domain"]["columns"]:
        name = column["name"]
        column.clear()
        column.update(name=name, type="categorical", categories=[False, True], missing=True)
    place = 0
    for name, kind, shape in header["arrays"]:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        if name == "cut":  # such a column is split at one of its values
            arrays = arrays[:place] + bytes(size) + arrays[place + size :]
        place += size
    assert opened(header, arrays, tmp_path).domain is None


def test_caveats_of_a_later_version_are_kept_and_shown(originals, tmp_path):
    header, arrays = originals["classifier"]
    header["guarantee"]["caveats"] = ["the moon was full"]
    model = opened(header, arrays, tmp_path)
    assert model.guarantee_.caveats == ("the moon was full",)
    assert "CAVEAT: the moon was full" in model.privacy_report()


@pytest.mark.parametrize("queries", [10**6, 10**9])
def test_a_small_hostile_file_is_verified_soon(originals, tmp_path, queries):
    header, arrays = originals["classifier"]
    arrays = models.claim_paper(header, arrays)
    promise = header["guarantee"]
    if "events" in promise:
        promise["events"][0]["count"] = queries
    else:
        promise["queries_per_record"] = queries
    with models.alarm():
        models.probe(opened(header, arrays, tmp_path))


LONG = "z" * 100_000 + "\x1b[2J"
LONG_CLAIMS = {
    "parameters": {LONG: 1},
    "parameters.feature_weights": [-1] * 20_000,
    "parameters.class_weight": LONG,
    "parameters.classes": [None] * 20_000,
    "guarantee.accounting": LONG,
    "guarantee.epsilon": 10**400,
}


@pytest.mark.parametrize("place", LONG_CLAIMS)
def test_a_refusal_quotes_little(originals, tmp_path, place):
    header, arrays = originals["classifier"]
    *above, last = place.split(".")
    container = header[above[0]] if above else header
    if isinstance(LONG_CLAIMS[place], dict):
        container[last].update(LONG_CLAIMS[place])
    else:
        container[last] = LONG_CLAIMS[place]
    with pytest.raises(ValueError, match="some") as caught:
        opened(header, arrays, tmp_path)
    said = str(caught.value).replace(str(tmp_path), "")
    assert len(said) < 200
    assert said.isprintable()


def test_columns_of_a_file_are_quoted_with_care(originals, tmp_path):
    header, arrays = originals["classifier"]
    added = [f"\x1b[2J{i}" + "z" * 3000 for i in range(500)]
    header["domain"]["columns"] += [
        {"name": n, "type": "numeric", "low": 0.0, "high": 1.0} for n in added
    ]
    if header["columns"]:
        header["columns"] += added
    model = opened(header, arrays, tmp_path)
    for action in (model.predict, model.domain_.encode):
        with pytest.raises(ValueError, match=r"domain|fit") as caught:
            action(pd.DataFrame({"other": [1]}))
        said = str(caught.value)
        assert len(said) < 1200
        assert "\x1b" not in said


# What was learned, by the golden files of version 4: "age" has a declared range, "ward" declared
# categories, "city" declared as open; nothing is known of the other columns, the classes or the target.


@pytest.fixture
def learned():
    """A golden classifier and regressor that learned what they could."""
    paths = {kind: models.GOLDEN / f"{kind}-v4.lumberjack" for kind in ("classifier", "regressor")}
    return {kind: models.take_apart(path.read_bytes()) for kind, path in paths.items()}


def column(header, name):
    return next(c for c in header["domain"]["columns"] if c["name"] == name)


def without(header, use):
    events = header["guarantee"]["events"]
    events[:] = [event for event in events if event["use"] != use]


def reverse_cuts(header):
    column(header, "pay")["cuts"].reverse()


def repeat_a_cut(header):
    cuts = column(header, "pay")["cuts"]
    cuts[3] = cuts[2]


def put_a_cut(place, name="age"):
    def change(header):
        cuts = column(header, name)["cuts"]
        cuts[0 if place is False or place <= 0 else -1] = place

    return change


def add_a_cut(header):
    cuts = column(header, "age")["cuts"]
    assert len(cuts) == 2**5 - 1
    cuts.append(cuts[-1] + 1)


def flag(name, learned):
    def change(header):
        if learned:
            column(header, name)["learned"] = True
        else:
            del column(header, name)["learned"]

    return change


def claim(name, value):
    return lambda header: header["guarantee"].update({name: value})


def give_what_was_learned(header):
    if header["classes"]:
        header["parameters"]["classes"] = header["classes"]["labels"]
    else:
        header["parameters"]["y_bounds"] = header["bounds"]


def declare(domain):
    return lambda header: header["parameters"].update(domain=domain)


LEARNED_LIES = {
    "a range that nobody declared": ("classifier", declare(None), "neither given, learned nor inferred"),
    "a range of no domain": ("classifier", declare(False), "neither given, learned nor inferred"),
    "cuts in reverse": ("classifier", reverse_cuts, "cuts must increase"),
    "a cut twice": ("classifier", repeat_a_cut, "cuts must increase"),
    "a cut below the range": ("classifier", put_a_cut(0), "inside their grid"),
    "a negative cut": ("classifier", put_a_cut(-7), "inside their grid"),
    "a cut above the range": ("classifier", put_a_cut(2**31), "inside their grid"),
    "a cut above infinity": ("classifier", put_a_cut(0xFF800001, "pay"), "inside their grid"),
    "a cut of half a place": ("classifier", put_a_cut(2.0**30 + 0.5), "places of cuts must be integers"),
    "a cut that is not a number": ("classifier", put_a_cut(False), "needs a list of cuts"),
    "more cuts than levels allow": ("classifier", add_a_cut, "neither given, learned nor"),
    "a wider range": ("classifier", lambda h: column(h, "age").update(high=200.0), "neither given"),
    "unlearned cuts": ("regressor", flag("pay", False), "neither given, learned nor inferred"),
    "unlearned open categories": ("classifier", flag("city", False), "neither given, learned nor"),
    "unlearned categories": ("classifier", flag("member", False), "that the guarantee prices"),
    "learned, but declared": ("classifier", flag("ward", True), "neither given, learned nor inferred"),
    "more numbers": ("classifier", claim("numbers_learned", 5), "that the guarantee prices"),
    "fewer categories": ("classifier", claim("categories_learned", 1), "that the guarantee prices"),
    "fewer levels": ("classifier", claim("cut_levels", 4), "neither given, learned nor inferred"),
    "unpaid cuts": ("classifier", lambda h: without(h, "cuts"), "numbers that no fit could have"),
    "unpaid categories": ("classifier", lambda h: without(h, "categories"), "no fit could have"),
    "unpaid classes": ("classifier", lambda h: without(h, "classes"), "lack 'classes inferred"),
    "unpaid scale": ("regressor", lambda h: without(h, "scale"), "caveats lack 'y_bounds inferred"),
    "classes given": ("classifier", give_what_was_learned, "classes are both given and learned"),
    "bounds given": ("regressor", give_what_was_learned, "bounds are both given and learned"),
}


@pytest.mark.parametrize("name", LEARNED_LIES)
def test_a_lie_about_what_was_learned_is_refused(learned, tmp_path, name):
    kind, change, why = LEARNED_LIES[name]
    header, arrays = learned[kind]
    opened(header, arrays, tmp_path)
    change(header)
    with pytest.raises(ValueError, match=why):
        opened(header, arrays, tmp_path)


def test_huge_cut_levels_are_verified_soon(learned, tmp_path):
    header, arrays = learned["classifier"]
    claim("cut_levels", 10**9)(header)
    with models.alarm():
        model = opened(header, arrays, tmp_path)
        models.probe(model)
    assert model.guarantee_.verify() == 1  # 20 choices pay for no 4 billion


def test_a_hundred_thousand_cuts_are_described_soon(learned, tmp_path):
    header, arrays = learned["classifier"]
    column(header, "age")["cuts"] = list(range(1, 200_001, 2))
    claim("cut_levels", 17)(header)
    with models.alarm():
        models.probe(opened(header, arrays, tmp_path))
