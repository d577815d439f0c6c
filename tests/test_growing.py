"""A tree while it grows: nodes, their room and their rows."""

import numpy as np

from lumberjack import Domain
from lumberjack.growing import add_children, find_room, plant, reserve, starts
from lumberjack.structure import LEFT, NO_SPLIT, RIGHT, Features, child_key

FEATURES = Features.of(Domain({"x": (0, 1), "c": ["a", "b", "c"]}))


def grown():
    """10 rows: 4 left of x at cell 7; of the 6 on the right, 6 left of c = 1 and none right."""
    nodes, size = plant(np.uint64(5), 10), 1
    nodes.feature[0], nodes.cut[0] = 0, 7
    nodes, size = add_children(nodes, size, 0, 4, False)
    nodes.feature[2], nodes.cut[2] = 1, 1
    return add_children(nodes, size, 2, 0, False)


def test_children_share_out_the_rows_and_empty_ones_are_not_made():
    nodes, size = grown()
    assert size == 4
    assert nodes.up[:4].tolist() == [-1, 0, 0, 2]
    assert nodes.side[1:4].tolist() == [LEFT, RIGHT, RIGHT]
    assert nodes.level[:4].tolist() == [0, 1, 1, 2]
    assert nodes.n_rows[:4].tolist() == [10, 4, 6, 6]
    assert nodes.start[:4].tolist() == [0, 0, 4, 4]
    assert nodes.feature[:4].tolist() == [0, NO_SPLIT, 1, NO_SPLIT]
    assert nodes.key[3] == child_key(nodes.key[2], RIGHT)


def test_empty_children_are_made_where_asked_for():
    nodes, size = add_children(plant(np.uint64(5), 10), 1, 0, 0, True)
    assert nodes.n_rows[:size].tolist() == [10, 0, 10]


def test_rows_start_after_those_of_the_left_sibling():
    nodes, size = grown()
    np.testing.assert_array_equal(starts(nodes, nodes.n_rows[:size]), nodes.start[:size])


def test_room_is_what_the_splits_above_leave():
    nodes, _ = grown()
    top = int(FEATURES.sizes[0]) - 1
    rooms = [find_room(nodes, node, FEATURES) for node in range(4)]
    assert [(int(r.first[0]), int(r.last[0])) for r in rooms] == [(0, top), (0, 7), (8, top), (8, top)]
    assert [int(r.last[1]) for r in rooms] == [3, 3, 3, 2]  # categories not used above


def test_more_room_keeps_what_is_there():
    nodes, size = grown()
    longer = reserve(nodes, size, 1000)
    assert len(longer.key) >= size + 1000
    for old, new in zip(nodes, longer, strict=True):
        np.testing.assert_array_equal(old[:size], new[:size])
        assert old.dtype == new.dtype
