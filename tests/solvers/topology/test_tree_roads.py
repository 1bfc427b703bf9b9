"""Parts of the exact road on trees agree with brute force; placements are no better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.topology import generate_on_tree
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.topology import tree_roads
from goodalloc.solvers.topology.brute_force import topology_brute_force
from goodalloc.solvers.topology.exact_tree import flat_optimum, solve_tree
from goodalloc.solvers.topology.kueue_placement import ALGORITHMS, greedy_placement
from goodalloc.solvers.topology.tree_roads import (
    place_balanced,
    place_best_fit,
    place_least_free,
    solve_by_domain,
    solve_by_node,
    solve_merged,
)
from tests.support.few import few
from tests.support.small_rounds import tiny_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.topology import TopologyRound
    from goodalloc.solvers.interface.result import Result

#: Seeds of a test.
BATCH = 20


@pytest.mark.parametrize("road", [solve_by_node, solve_by_domain, solve_merged])
@pytest.mark.parametrize("first", few(range(0, 200, BATCH), 1))
def test_every_road_is_as_good_as_brute_force(
    first: int, road: Callable[[TopologyRound], Result]
) -> None:
    """On tiny trees of all kinds, for every power."""
    for seed in range(first, first + BATCH):
        round_ = tiny_tree(seed)
        _, best = topology_brute_force(round_)
        result = road(round_)
        assert result.status is Status.OPTIMAL, seed
        assert result.fitness == pytest.approx(best, rel=1e-8), seed
        assert best * (1 - 1e-8) <= result.bound <= best * (1 + 1e-8), seed


@pytest.mark.parametrize("place", [place_best_fit, place_least_free, place_balanced])
def test_placements_obey_the_tree_and_prove_nothing(place: Callable[..., Result]) -> None:
    """They are at most the optimum."""
    round_ = generate_on_tree(3, nodes=16, jobs=24, gangs=0.2, uplink_jobs=1)
    result = place(round_, stop=Stop(seconds=30.0))
    assert result.allocation is not None
    assert not topology_violations(round_, result.allocation)
    assert result.fitness <= solve_tree(round_).fitness * (1 + 1e-9)
    assert result.status is Status.FEASIBLE


def test_a_program_that_cannot_be_built_in_the_time_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By an estimate from the numbers of jobs and nodes."""
    monkeypatch.setattr(tree_roads, "NodeOracle", None)
    round_ = generate_on_tree(1, nodes=64, jobs=160)
    result = solve_by_node(round_, stop=Stop(seconds=1.0))
    assert (result.allocation, result.status) == (None, Status.UNKNOWN)


def test_where_gangs_must_fit_all_placements_are_tried_to_begin_with() -> None:
    """In a time that suffices for little else, none of them is better than the answer."""
    round_ = generate_on_tree(2, nodes=64, jobs=60, gangs=0.2, uplink_jobs=1)
    wanted = flat_optimum(round_, break_ties=False)
    assert wanted is not None
    placed = {name: greedy_placement(round_, wanted, name) for name in ALGORITHMS}
    values = {name: topology_fitness(round_, one) for name, one in placed.items()}
    assert max(values.values()) > values["best_fit"]
    found = solve_tree(round_, stop=Stop(seconds=5.0))
    assert found.fitness >= max(values.values()) * (1 - 1e-12)
