"""Throw mutated model files at ``load``: each must be refused with a ValueError, or be a valid model.

    python tests/hostile/models.py 100000 [seed]

Half of the mutants are re-signed, so that they get past the digest to the checks behind it. Whatever is
accepted must predict, verify and be described, all of it soon.
"""

import copy
import hashlib
import json
import random
import signal
import struct
import sys
import tempfile
import tracemalloc
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lumberjack import load
from lumberjack.guarantee import BOUNDS_INFERRED, CLASSES_INFERRED, DOMAIN_INFERRED, NOT_PROVED
from lumberjack.kinds import MISSING, OTHER, Categorical, Cuts
from lumberjack.page import render
from lumberjack.report import describe

GOLDEN = Path(__file__).parents[1] / "golden"
BASES = sorted(GOLDEN.glob("*.lumberjack"))
START, DIGEST = 24, 32
REPEATED = ("epsilon", "delta", "rows_per_person", "n_estimators", "max_depth", "structure_share")
SECONDS = 10  # limit for any small file
ALWAYS = 33 * 2**20  # what the format's page allows besides ten times the file

NASTY = [
    None, True, False, 0, -1, 1, 2, 255, 2**31, 2**32, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308,
    5e-324, "", "x", "<f8", "|O", "../../etc/passwd", "\ud800", "\x00", "__class__", "A" * 300, [], {},
    [[]], [0, 1], [None], {"x": 1}, [2**40, 2**40], ["a", "b"], [True, False], "classifier", "regressor",
    "object", "mean", "paper", "joint", "person", "exponential", "majority", "counts", "fitted",
    "fitted-mean", "none", "sizes", "pairs", "clips",
]  # fmt: skip


def sign(body):
    return body + hashlib.sha256(body).digest()


def take_apart(data):
    length = struct.unpack_from("<I", data, 20)[0]
    return json.loads(data[START : START + length]), data[START + length : -DIGEST]


def put_together(header, arrays, version=None):
    if version is None:
        promise = header.get("guarantee") if isinstance(header, dict) else None
        events = promise.get("events") if isinstance(promise, dict) else None
        text, curves = json.dumps(events), '"calibration"' in json.dumps(header.get("arrays"))
        version = 6 if not curves else 5 if '"sizes"' in text else 4
        version = 2 if events is None else version if '"use"' in text else 3
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return sign(struct.pack("<16sII", b"lumberjack model", version, len(text)) + text + arrays)


def flip(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8, 64])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def overwrite(data, rng):
    at, size = rng.randrange(len(data)), rng.choice([1, 2, 4, 8, 100])
    byte = rng.choice([b"\x00", b"\xff", b"\x7f", b"[", b'"', b"9"])
    return (data[:at] + byte * size + data[at + size :])[: len(data)]


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def remove(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 2, 16, 500]) :]


def repeat(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + data[at : at + rng.choice([1, 4, 64, 4000])] * rng.choice([2, 3, 50]) + data[at:]


def append(data, rng):
    return data + rng.randbytes(rng.choice([1, 8, 4096]))


def splice(data, rng):
    other = rng.choice(BASES).read_bytes()
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def places(value, above=()):
    """Every place in a JSON value that can be replaced, as (container, key)."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def meddle(data, rng):
    """Change the header's JSON, not its bytes."""
    header, arrays = take_apart(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        container, key = rng.choice(list(places(header)))
        action = rng.randrange(6)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, list):
            container.insert(key, copy.deepcopy(rng.choice(NASTY)))
        elif action == 2 and isinstance(container, dict):
            container[rng.choice(["x", "inferred", "threshold", ""])] = copy.deepcopy(rng.choice(NASTY))
        elif action == 3 and isinstance(container[key], list):
            container[key] = container[key] * rng.choice([0, 2, 200])
        elif action == 4 and isinstance(container[key], int | float):
            container[key] += rng.choice([-1, 1, 1000, 2**31])
        else:
            container[key] = copy.deepcopy(rng.choice(NASTY))
        if not header:
            break
    return put_together(header, arrays, rng.choice([None] * 30 + [0, 2, 3, 2**32 - 1]))


def lie(data, rng):
    """Change numbers of the guarantee, where they are not repeated in the parameters, and of ranges."""
    header, arrays = take_apart(data)
    promise = header["guarantee"]
    priced = [
        (container, name)
        for container in promise.get("events", [promise])
        for name, number in container.items()
        if isinstance(number, int | float) and name not in REPEATED
    ]
    for container, name in rng.sample(priced, rng.choice([1, 1, 2])):
        number = rng.choice([0, -1, 1, 5e-324, 1e308, 0.5, 2**62, 10**9, 4000, 1e15, 20.0])
        whole = isinstance(container[name], int) and abs(number) < 2**63
        container[name] = int(number) if whole else number
    if "events" in promise and rng.random() < 0.2:
        promise["events"] *= rng.choice([0, 2, 5, 3000])
    ranges = [c for c in header["domain"]["columns"] if "low" in c]
    if ranges and rng.random() < 0.5:
        column = rng.choice(ranges)
        column["low"], column["high"] = rng.choice(
            [(-1e307, 1e307), (0.0, 0.0), (1e17, 1e18), (5e-324, 1.0)]
        )
    for name in ("epsilon", "delta"):
        if rng.random() < 0.2:
            value = rng.choice([0.0, -1.0, 1e-300, 1e300, 2.0, 710.0, 1e6])
            promise[name] = header["parameters"][name] = value
    if rng.random() < 0.3:
        arrays = claim_paper(header, arrays)
    return put_together(header, arrays)


def claim_paper(header, arrays):
    """Say that the paper's theorem prices it: nothing may be left that only the joint bound knows."""
    promise = header["guarantee"]
    promise.update(accounting="paper", caveats=[NOT_PROVED])
    if "events" in promise:
        kept = ("structure", "leaves")
        released = [event for event in promise["events"] if event["kind"] != "choices"]
        released = [event for event in released if event.get("use", "leaves") in kept]
        promise["events"] = released[: 3 if header["estimator"] == "regressor" else 2]
    else:
        free = {
            "guided_levels": 0,
            "choices_per_record": 0,
            "choice_exponent": None,
            "choice_range": None,
        }
        promise.update(free)
    header["parameters"].update(accounting="paper", splits="random")
    name, kind, shape = header["arrays"][-1]
    if name != "calibration":
        return arrays
    header["arrays"].pop()
    return arrays[: -int(np.prod(shape)) * np.dtype(kind).itemsize]


def contradict(data, rng):
    """Change one of two facts that must agree; an accepted file must be consistent."""
    header, arrays = take_apart(data)
    parameters, promise = header["parameters"], header["guarantee"]
    classes = header["classes"]
    changes = [
        (parameters, "domain", rng.choice([False, None, "x", 1])),
        (parameters, "epsilon", 0.1),
        (parameters, "splits", rng.choice(["guided", "random", "x"])),
        (parameters, "threshold", rng.choice([1.0, 0.0, 1e9])),
        (parameters, "rows_per_person", 2),
        (promise, "rows_per_person", 2),
        (promise, "unit", "person"),
        (promise, "accounting", "paper"),
        (promise, "cut", 3),
        (promise, "caveats", rng.choice([["no caveats"], ["\x1b[2J"], [""], [NOT_PROVED] * 2])),
        (header["domain"], "inferred", True),
        (header, "columns", rng.choice([None, [], ["age"]])),
    ]
    if classes:
        changes += [
            (parameters, "classes", rng.choice([None, [], ["x"], classes["labels"][1:], [0, 1]])),
            (parameters, "class_weight", rng.choice([[["x", 1.0]], [[[], 1]], [["nie", 1]] * 2])),
            (classes, "labels", rng.choice([["a", "b", "c"], classes["labels"][:1]])),
        ]
    else:
        changes += [
            (parameters, "y_bounds", rng.choice([None, [0, 1], [1, 0], [0, 100, 5]])),
            (header, "bounds", rng.choice([None, [5.0, 5.0], [0.0, 99.0]])),
        ]
    for container, key, value in rng.sample(changes, rng.choice([1, 1, 2])):
        container[key] = value
    return put_together(header, arrays)


def relearn(data, rng):
    """Change what was learned: cuts, flags, and what the record says of them."""
    header, arrays = take_apart(data)
    promise, columns = header["guarantee"], header["domain"]["columns"]
    for _ in range(rng.choice([1, 1, 2])):
        cut = [c for c in columns if c.get("cuts")]
        column, action = rng.choice(columns), rng.randrange(6)
        if action == 0 and cut:
            cuts = rng.choice(cut)["cuts"]
            place = rng.randrange(len(cuts))
            cuts[place] = rng.choice([*cuts[:2], 0, -1, 2**31, 2**32 - 1, 2**32, 1.0, True, None, "1"])
        elif action == 1 and cut:
            column = rng.choice(cut)
            cuts = column["cuts"]
            column["cuts"] = rng.choice([cuts[::-1], cuts * 2, cuts[1:], [], [*cuts, 2**30]])
        elif action == 2:
            column["learned"] = not column.get("learned", False)
        elif action == 3:
            column.pop(rng.choice(["cuts", "categories", "learned", "low"]), None)
        elif action == 4:
            name = rng.choice(["numbers_learned", "categories_learned", "cut_levels"])
            promise[name] = rng.choice([0, 1, 2, 5, 10**9, -1, promise.get(name, 0) + 1])
        elif "events" in promise:
            used = ("categories", "classes", "cuts", "scale", "clips")
            event = rng.choice([e for e in promise["events"] if e.get("use") in used] or [{}])
            if event and rng.random() < 0.5:
                promise["events"].remove(event)
            event["use"] = rng.choice(used)
    return put_together(header, arrays)


def graft(data, rng):
    """Change numbers inside the arrays: branches up, sideways and out of the tree, odd leaf values."""
    header, arrays = take_apart(data)
    arrays = bytearray(arrays)
    place = 0
    where = []
    for name, kind, shape in header["arrays"]:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        where.append((name, np.dtype(kind), place, size))
        place += size
    for _ in range(rng.choice([1, 1, 2, 5])):
        _, kind, first, size = rng.choice(where)
        at = first + kind.itemsize * rng.randrange(size // kind.itemsize)
        number = rng.choice([-1, 0, 1, 2, 3, 100, -2, 32767, -32768, rng.randrange(200)])
        arrays[at : at + kind.itemsize] = np.array([number]).astype(kind).tobytes()
    return put_together(header, bytes(arrays))


def replant(data, rng):
    """Move, drop and repeat whole trees, or change sizes and weights of leaves a little."""
    header, raw = take_apart(data)
    arrays, place = {}, 0
    for name, kind, shape in header["arrays"]:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        arrays[name] = np.frombuffer(raw[place : place + size], kind).reshape(shape).copy()
        place += size
    nodes = np.cumsum([0, *arrays["nodes"]])
    leaves = [int(np.sum(arrays["feature"][:end] < 0)) for end in nodes]
    order = list(range(len(arrays["nodes"])))
    action = rng.randrange(5)
    if action == 0:
        rng.shuffle(order)
    elif action == 1:
        order = order[: rng.randrange(1, len(order) + 1)]
    elif action == 2:
        order.insert(rng.randrange(len(order)), rng.choice(order))
    elif action == 3:
        values = arrays["values"] = arrays["values"].astype("<f8")
        step = rng.choice([2.0**-16, -(2.0**-16), 2.0**-17, 1.0, -1.0, 1e-12, 40.0, 2.0**60])
        values[rng.randrange(len(values)), rng.randrange(values.shape[1])] += step
    else:
        del order[rng.randrange(len(order))]
    for name in ("feature", "cut", "missing_left", "left"):
        parts = [arrays[name][nodes[t] : nodes[t + 1]] for t in order]
        arrays[name] = np.concatenate([arrays[name][:0], *parts])
    parts = [arrays["values"][leaves[t] : leaves[t + 1]] for t in order]
    arrays["values"] = np.concatenate([arrays["values"][:0], *parts])
    arrays["nodes"] = arrays["nodes"][order]
    header["arrays"] = [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]
    if "fitted" not in header["guarantee"]["leaf"] and rng.random() < 0.5:
        header["guarantee"]["n_estimators"] = header["parameters"]["n_estimators"] = len(order)
    return put_together(header, b"".join(a.tobytes() for a in arrays.values()))


RAW = [flip, overwrite, cut, remove, repeat, append, splice]


def mutate(data, rng):
    """A mutant, and whether its digest is still wrong."""
    if rng.random() < 0.5:
        meddlers = [meddle, meddle, graft, graft, lie, lie, contradict, relearn, replant]
        return rng.choice(meddlers)(data, rng), False
    mutant = rng.choice(RAW)(data, rng)
    if rng.random() < 0.4 and len(mutant) > DIGEST:
        return sign(mutant[:-DIGEST]), False
    return mutant, True


def probe(model):
    """Use an accepted model: every row must find its leaf, and saving must work."""
    rows = np.empty((3, model.n_features_in_), dtype=object)
    rows[1], rows[2] = None, 1
    for j, name in enumerate(model.released_.names):
        kind = model.domain_[name]
        rows[0, j] = next(iter(getattr(kind, "categories", ())), None)
        if getattr(kind, "temporal", False):
            rows[2, j] = None
    with np.errstate(all="ignore"):
        model.predict(rows)
    leaves = model.apply(rows)
    assert all((leaves[:, t] < tree.n_leaves).all() for t, tree in enumerate(model.forest_.trees))
    repr(model.guarantee_), str(model.guarantee_), model.get_params()
    found = describe(model)  # a guarantee may be absurd and still be well-formed: its report says so
    assert 0 <= found.recomputed <= 1
    assert "\x1b" not in found.text()
    assert render(found)


def check_agreement(model):
    """What a file says in two places must be the same in both."""
    caveats, parameters = model.guarantee_.caveats, model.get_params()
    assert DOMAIN_INFERRED in caveats or not model.domain_.inferred
    assert NOT_PROVED in caveats or model.guarantee_.accounting == "joint"
    if hasattr(model, "classes_"):
        labels, weights = parameters["classes"], parameters["class_weight"]
        unpaid = model.guarantee_.event("classes") is None
        assert labels is not None or CLASSES_INFERRED in caveats or not unpaid
        assert labels is None or (set(labels) == set(model.classes_) and unpaid)
        weighed = set(weights) if isinstance(weights, dict) else set()
        assert labels is None or weighed <= set(model.classes_)
    else:
        bounds, targets = parameters["y_bounds"], model.targets_
        unpaid = model.guarantee_.event("scale") is None
        assert bounds is not None or BOUNDS_INFERRED in caveats or not unpaid
        if model.guarantee_.fits_leaves:
            assert (targets.limits, unpaid) == (bounds, False)
        else:
            assert bounds is None or (bounds == (targets.low, targets.high) and unpaid)
            assert targets.limits is None
    assert model.guarantee_.fits_leaves == (model.released_.target.leaves.holds == "weights")
    if model.guarantee_.fits_leaves:
        check_terms(model)
    known = model.domain_.known
    for kind, paid in ((Cuts, "numbers_learned"), (Categorical, "categories_learned")):
        found = sum(isinstance(k, kind) and k.learned for k in known)
        assert found == getattr(model.guarantee_, paid)
    for name, kind in zip(model.domain_, known, strict=True):
        if isinstance(kind, Cuts):
            assert list(kind.edges) == sorted(kind.edges)
            assert not kind.grid.is_bounded or name in parameters["domain"]  # no fit learns a range


def check_terms(model):
    """Fitted leaves: the base, a leaf for each cell of each column, pairs, and proper weights."""
    forest, columns = model.forest_, model.domain_.known
    base, single = forest.trees[0], forest.trees[1 : 1 + len(columns)]
    pairs = [tree.columns for tree in forest.trees[1 + len(columns) :]]
    assert base.n_leaves == 1
    assert [tree.columns for tree in single] == [(j,) for j in range(len(columns))]
    for j, (kind, tree) in enumerate(zip(columns, single, strict=True)):
        codes = np.zeros((kind.size + 1, len(columns)), dtype=np.uint32)
        rest = OTHER if isinstance(kind, Categorical) else MISSING
        codes[:, j] = [*range(kind.size), rest]
        assert tree.apply(codes, forest.categorical).tolist() == list(range(kind.size + 1))
    chosen = {column for pair in pairs for column in pair}
    assert len(chosen) <= model.n_estimators
    assert len(set(pairs)) == len(pairs) == len(chosen) * (len(chosen) - 1) // 2
    assert all(len(pair) == 2 for pair in pairs)
    for values in forest.values:
        sizes, weights = values[:, 0], values[:, 1:]
        assert (sizes >= 0).all()
        assert abs(sizes.sum() / forest.values[0][0, 0] - 1) < 1e-6
        assert (np.abs(weights) <= 30).all()
        assert (weights * 65536 % 1 == 0).all()
    assert 0.999 < sum(model.released_.importances().values()) < 1.001 or model.released_.learned_nothing


@contextmanager
def alarm():
    """End the process, which pytest reports, when something takes too long."""
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def attack(data, path):
    """What ``load`` made of some bytes: the reason why it refused them, or None."""
    path.write_bytes(data)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with alarm():
            model, reason = load(path), None
    except ValueError as error:
        model, reason = None, str(error).replace(str(path), "")
        assert reason, "a refusal without a reason"
    finally:
        taken = tracemalloc.get_traced_memory()[1] - before
    assert taken <= 10 * len(data) + ALWAYS, f"{taken} bytes of memory for a file of {len(data)}"
    if model is not None:
        with alarm():
            probe(model)
        check_agreement(model)
    return reason


def fuzz(rounds, seed, report=None):
    """Attack with a number of mutants; returns how often each reason was given."""
    rng = random.Random(seed)
    originals = [path.read_bytes() for path in BASES]
    reasons = Counter()
    tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "mutant.lumberjack")
            for i in range(rounds):
                base = rng.choice(originals)
                mutant, unsigned = mutate(base, rng)
                try:
                    reason = attack(mutant, path)
                    assert not (unsigned and mutant not in originals and reason is None), "not refused"
                except BaseException:
                    kept = Path(tempfile.gettempdir(), f"lumberjack-mutant-{seed}-{i}")
                    kept.write_bytes(mutant)
                    print(f"mutant {i} of seed {seed} broke something; kept as {kept}", file=sys.stderr)
                    raise
                reasons[reason] += 1
                if report and (i + 1) % report == 0:
                    print(f"{i + 1:,} files", flush=True)
    finally:
        tracemalloc.stop()
    return reasons


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    found = fuzz(number, int(sys.argv[2]) if len(sys.argv) > 2 else 0, report=10_000)
    print(f"{sum(found.values()):,} mutated files: {found[None]:,} were valid models, the rest refused:")
    for why, times in found.most_common():
        if why is not None:
            print(f"  {times:7,}  {why[:110]}")
