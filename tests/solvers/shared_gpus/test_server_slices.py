"""Homes on servers by affinity and height, turns there, and what is done with idle GPUs."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.solvers.shared_gpus.idle_gpus import gather, grow, idle_gpus
from goodalloc.solvers.shared_gpus.server_slices import find_home, serve_at_home, size_of

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement

Servers = list[int]

servers = st.lists(st.integers(1, 8), min_size=1, max_size=5)
sizes = st.lists(st.integers(1, 12), max_size=8)


def homes_of(node_gpus: Servers, wanted: list[int]) -> dict[str, Placement]:
    """Homes of jobs that come one after the other, but for those that are too large."""
    homes: dict[str, Placement] = {}
    for index, size in enumerate(wanted):
        if size <= sum(node_gpus):
            homes[f"job-{index}"] = find_home(node_gpus, homes.values(), size)
    return homes


@pytest.mark.parametrize(
    ("homes", "wanted", "expected"),
    [
        ([((0, 1),)], 1, ((0, 1),)),  # (a) of its affinity, though others are empty
        ([((0, 1),)], 2, ((1, 2),)),  # (b) without any
        ([((0, 1),), ((1, 3),)], 2, ((0, 2),)),  # (c) any that has room
        ([((0, 1),), ((1, 3),)], 4, ((0, 3), (1, 1))),  # (c) several that have room together
        ([((0, 4),), ((1, 3),)], 3, ((1, 3),)),  # (d) as high as the other with fewer GPUs
        ([((0, 4),), ((1, 4),), ((1, 1),)], 2, ((0, 2),)),  # (d) the lower one
        ([((0, 4),)], 6, ((1, 4), (0, 2))),  # (d) the lowest ones together
    ],
)
def test_homes_are_found_in_the_published_order(
    homes: list[Placement], wanted: int, expected: Placement
) -> None:
    """On two servers of four GPUs."""
    assert find_home([4, 4], homes, wanted) == expected


@given(servers, sizes, st.integers(1, 12))
@settings(max_examples=300)
def test_a_home_is_a_placement_where_nobody_is_or_else_of_least_height(
    node_gpus: Servers, others: list[int], wanted: int
) -> None:
    """It shares GPUs only if too few are free, and then no server that could hold it is lower."""
    homes = homes_of(node_gpus, others).values()
    if wanted > sum(node_gpus):
        return
    home = find_home(node_gpus, homes, wanted)
    load = sum((Counter(dict(other)) for other in homes), Counter[int]())
    free = [max(gpus - load[node], 0) for node, gpus in enumerate(node_gpus)]
    assert size_of(home) == wanted
    assert len(dict(home)) == len(home)
    assert all(0 < gpus <= node_gpus[node] for node, gpus in home)
    if sum(free) >= wanted:
        assert all(gpus <= free[node] for node, gpus in home)
        assert len(home) == 1 or wanted > max(free)
    elif len(home) == 1:
        able = [node for node, gpus in enumerate(node_gpus) if gpus >= wanted]
        heights = {node: math.ceil(load[node] / node_gpus[node]) for node in able}
        assert heights[home[0][0]] == min(heights.values())


@given(servers, sizes, st.booleans())
@settings(max_examples=200)
def test_nobody_waits_for_gpus_that_are_idle_unless_he_may_not_move(
    node_gpus: Servers, wanted: list[int], move: bool
) -> None:
    """Nothing is used twice, the first in order runs at home, and who stays does so at home."""
    homes = homes_of(node_gpus, wanted)
    running = serve_at_home(node_gpus, homes, move=move)
    idle = idle_gpus(node_gpus, running)
    assert min(idle.values()) >= 0
    for name in list(homes)[:1]:
        assert running[name] == homes[name]
    for name, home in homes.items():
        if name not in running:
            full = [node for node, gpus in home if idle[node] < gpus]
            assert full, "its home is in use"
            assert not move or idle.total() < size_of(home)
        else:
            assert size_of(running[name]) == size_of(home)
            assert move or running[name] == home


@given(servers, sizes, st.integers(1, 20))
@settings(max_examples=200)
def test_jobs_grow_on_their_own_servers_until_nobody_can(
    node_gpus: Servers, wanted: list[int], most: int
) -> None:
    """Nobody loses, nobody exceeds his limit, and GPUs stay idle only beside who may have none."""
    before = serve_at_home(node_gpus, homes_of(node_gpus, wanted), move=True)
    limits = dict.fromkeys(list(before)[::2], most)
    after = grow(node_gpus, before, limits)
    idle = idle_gpus(node_gpus, after)
    assert min(idle.values()) >= 0
    for name, placement in before.items():
        had, has = dict(placement), dict(after[name])
        assert had.keys() == has.keys()
        assert all(has[node] >= gpus for node, gpus in placement)
        size = size_of(after[name])
        assert size <= max(limits.get(name, 0), size_of(placement))
        assert size >= limits.get(name, 0) or not any(idle[node] for node in has)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=5), st.data())
@settings(max_examples=100)
def test_on_one_server_nobody_shrinks_when_more_is_idle(
    jobs: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Neither with a larger server nor when a job is gone."""
    asked = {f"job-{index}": size for index, (size, _) in enumerate(jobs)}
    most = {f"job-{index}": limit for index, (_, limit) in enumerate(jobs)}
    gpus = sum(asked.values()) + data.draw(st.integers(0, 6))
    placements: dict[str, Placement] = {name: ((0, size),) for name, size in asked.items()}
    before = grow([gpus], placements, most)
    larger = grow([gpus + data.draw(st.integers(0, 4))], placements, most)
    gone = data.draw(st.sampled_from(list(placements)))
    left = {name: placement for name, placement in placements.items() if name != gone}
    fewer = grow([gpus], left, most)
    assert all(size_of(larger[name]) >= size_of(before[name]) for name in placements)
    assert all(size_of(fewer[name]) >= size_of(before[name]) for name in left)


@given(servers, sizes)
@settings(max_examples=100)
def test_who_gathers_is_on_one_server_and_nobody_else_moves(
    node_gpus: Servers, wanted: list[int]
) -> None:
    """No GPU is used twice."""
    before = serve_at_home(node_gpus, homes_of(node_gpus, wanted), move=True)
    after = gather(node_gpus, before)
    assert min(idle_gpus(node_gpus, after).values()) >= 0
    for name, placement in before.items():
        assert size_of(after[name]) == size_of(placement)
        assert after[name] == placement or (len(placement) > 1 and len(after[name]) == 1)
