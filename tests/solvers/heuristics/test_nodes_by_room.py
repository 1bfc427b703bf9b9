"""Nodes by room, against a plain search through all nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.solvers.heuristics.nodes_by_room import ABSENT, NodesByRoom
from goodalloc.solvers.heuristics.occupancy import Occupancy
from tests.support.random_instances import random_instance

LEVELS = st.lists(st.integers(ABSENT, 6), min_size=1, max_size=9)


def plain_room(levels: list[int], most_nodes: int, enough: int) -> int:
    """The same by sorting."""
    room = sorted((level for level in levels if level > 0), reverse=True)[:most_nodes]
    return min(sum(room), enough) if len(room) > 1 else 0


def plain_several(levels: list[int], replicas: int, most_nodes: int) -> dict[int, int]:
    """The same by a sorted list of nodes."""
    usable = [node for node, level in enumerate(levels) if level > 0]
    usable = sorted(usable, key=lambda node: (-levels[node], node))[:most_nodes]
    found: dict[int, int] = {}
    for place, first in enumerate(usable):
        left = replicas - sum(found.values())
        if found and levels[first] >= left:
            enough = [node for node in usable[place:] if levels[node] >= left]
            found[min(enough, key=lambda node: (levels[node], node))] = left
            break
        found[first] = min(levels[first], left - 1) if not found else levels[first]
        if left == found[first]:
            break
    return found


def after_moves(
    levels: list[int], moves: list[tuple[int, int]], most_nodes: int = 99, enough: int = 99
) -> tuple[list[int], NodesByRoom]:
    """Levels after moves, by both."""
    start = [max(levels), *levels]  # a first node that keeps the highest level known
    nodes = NodesByRoom(np.array(start), most_nodes, enough)
    for node, level in moves:
        place, bounded = node % len(start), min(level, max(levels))
        start[place] = bounded
        nodes.move(place, bounded)
    return start, nodes


MOVES = st.lists(st.tuples(st.integers(0, 9), st.integers(ABSENT, 6)), max_size=30)


@given(levels=LEVELS, moves=MOVES, most_nodes=st.integers(1, 9), enough=st.integers(0, 40))
def test_room_is_that_of_the_nodes_with_most(
    levels: list[int], moves: list[tuple[int, int]], most_nodes: int, enough: int
) -> None:
    levels, nodes = after_moves(levels, moves, most_nodes, enough)
    assert nodes.room() == plain_room(levels, most_nodes, enough)
    assert nodes.most == max(*levels, 0)


@given(levels=LEVELS, moves=MOVES, changes=MOVES, most_nodes=st.integers(1, 9))
def test_room_with_changes_is_that_after_them(
    levels: list[int],
    moves: list[tuple[int, int]],
    changes: list[tuple[int, int]],
    most_nodes: int,
) -> None:
    levels, nodes = after_moves(levels, moves, most_nodes)
    greatest = max(0, *levels, *(level for _, level in moves))
    distinct = {node % len(levels): min(level, greatest) for node, level in changes}
    distinct = {node: level for node, level in distinct.items() if level <= max(0, *levels)}
    before = nodes.room()
    assert nodes.room(list(distinct.items())) == plain_room(
        [distinct.get(node, level) for node, level in enumerate(levels)], most_nodes, 99
    )
    assert nodes.room() == before


@given(levels=LEVELS, moves=MOVES, replicas=st.integers(0, 6))
def test_the_tightest_is_the_first_with_fewest(
    levels: list[int], moves: list[tuple[int, int]], replicas: int
) -> None:
    levels, nodes = after_moves(levels, moves)
    enough = [node for node, level in enumerate(levels) if level >= replicas]
    if enough:
        assert nodes.tightest(replicas) == min(enough, key=lambda node: (levels[node], node))


@given(levels=LEVELS, moves=MOVES, most_nodes=st.integers(2, 9), data=st.data())
def test_several_nodes_are_those_of_the_sorted_list(
    levels: list[int], moves: list[tuple[int, int]], most_nodes: int, data: st.DataObject
) -> None:
    levels, nodes = after_moves(levels, moves, most_nodes)
    room = nodes.room()
    if room < 2:
        return
    for replicas in data.draw(st.lists(st.integers(2, room), min_size=1, max_size=3)):
        found = nodes.several(replicas)
        assert found == plain_several(levels, replicas, most_nodes)
        assert sum(found.values()) == replicas


@pytest.mark.parametrize("seed", range(40))
def test_limits_of_a_job_are_those_without_its_row(seed: int) -> None:
    instance = random_instance(seed, power=-1.0)
    occupancy = Occupancy(instance, [job.placement for job in instance.jobs])
    for job in range(instance.num_jobs):
        limits, row = occupancy.limits(job), occupancy.clear(job)
        usable = occupancy.free[(occupancy.distributed == 0) | (not occupancy.exclusive)]
        room = plain_room(usable.tolist(), occupancy.max_nodes, occupancy.width - 1)
        assert limits == (min(int(occupancy.free.max()), occupancy.width - 1), room)
        occupancy.put(job, row)
