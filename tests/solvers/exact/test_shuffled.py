"""Tests of exact decisions in an order of jobs and nodes that is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.shuffled import solve_shuffled

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import State


@pytest.mark.parametrize("state", ["cold", "disturbed", "settled"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_changes_no_optimum(state: State, seed: int) -> None:
    """The allocation obeys the rules, and is as good as the one in the instance's own order."""
    instance = generate(seed=seed, jobs=12, nodes=5, state=state)
    shuffled = solve(instance, solve_shuffled, seed=seed)
    assert shuffled.allocation is not None
    assert violations(instance, shuffled.allocation) == ()
    assert shuffled.fitness == pytest.approx(solve(instance, "highs").fitness, rel=1e-9)


def test_the_same_seed_gives_the_same_allocation_and_others_give_others() -> None:
    """With equal jobs there are many optima."""
    instance = generate(seed=0, jobs=9, nodes=4, state="cold")
    equal = tuple(replace(instance.jobs[0], name=job.name) for job in instance.jobs)
    instance = replace(instance, jobs=equal)
    found = [
        solve_shuffled(instance, seed=seed).require_allocation().matrix() for seed in (1, 1, 2)
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_running_jobs_keep_their_placement_where_they_may() -> None:
    """The rule among equal optima keeps what runs, in any order of the nodes."""
    instance = generate(seed=3, jobs=8, nodes=4, state="settled")
    settled = solve(instance, "highs").allocation
    assert settled is not None
    jobs = tuple(
        replace(job, placement=placement)
        for job, placement in zip(instance.jobs, settled.placements(), strict=True)
    )
    instance = replace(instance, jobs=jobs)
    again = solve_shuffled(instance, seed=5).require_allocation()
    assert again == settled
