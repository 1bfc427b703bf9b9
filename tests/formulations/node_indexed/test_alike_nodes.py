"""Alike nodes told apart: fewer solutions, the same optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.formulations.node_indexed.alike_nodes import job_ranks, node_numbers, told_apart
from goodalloc.formulations.node_indexed.node_program import build_node_program, decode_nodes
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.random_instances import random_mode_instance
from tests.support.small_rounds import mode_round

#: Seconds within which the round that took minutes is decided: several times what it takes.
SOON = 60.0


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_the_optimum_is_the_same_at_random_costs(first: int) -> None:
    """Small rounds of every kind, some with jobs that run: equal optima, and the rules hold."""
    barred = 0
    for seed in range(first, first + 20):
        instance = random_mode_instance(seed) if seed % 2 else mode_round(seed)
        choices = enumerate_mode_choices(instance)
        cost = np.random.default_rng(seed).uniform(0.0, 10.0, len(choices))
        built = build_node_program(instance, choices, cost)
        program = told_apart(instance, built)
        barred += int(np.count_nonzero(program.upper < built.program.upper))
        all_of_them, apart = (
            run_mixed_integer(one, Watch(Stop()), gap=0.0) for one in (built.program, program)
        )
        assert apart.values is not None
        assert apart.objective == pytest.approx(all_of_them.objective, rel=1e-6, abs=1e-6)
        assert not violations(instance, decode_nodes(instance, built, apart.values))
    assert barred > 0


def test_nodes_are_numbered_by_kind_and_jobs_ranked_by_size() -> None:
    """Nobody runs on four equal nodes; then somebody does on the first."""
    instance = generate(0, 4, 4, 8)
    assert node_numbers(instance).tolist() == [0, 1, 2, 3]
    jobs = (instance.jobs[0].replace(placement=((0, 1),)), *instance.jobs[1:])
    assert node_numbers(instance.replace(jobs=jobs)).tolist() == [0, 0, 1, 2]
    choices = enumerate_mode_choices(instance)
    one = choices.where(choices.of(Kind.ONE_NODE))
    largest = [int(one.replicas[one.job == job].max()) for job in range(4)]
    ranked = np.argsort(job_ranks(instance, choices))
    assert [largest[job] for job in ranked.tolist()] == sorted(largest, reverse=True)


@pytest.mark.slow
def test_a_round_whose_nodes_are_all_alike_is_decided_soon() -> None:
    """The ties of the least utility: jobs that nearly fill eight equal nodes, and do not fit."""
    drawn = generate(0, 20, 8, 8, rules=Rules(power=-math.inf))
    instance = equip(drawn, 0, cores=48.0, memory=512.0)
    result = solve(instance, stop=Stop(seconds=SOON))
    assert result.status is Status.OPTIMAL
    assert result.limit is None
