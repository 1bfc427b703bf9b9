"""Packing pods: the relaxations bound the optimum, patterns reach it, and what is claimed holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.pods.generator import arrivals, draw_machines, draw_pods
from goodalloc.data.pods.openb import gpus_allocated, pods_instance
from goodalloc.formulations.pods.gpu_fillings import fillings
from goodalloc.formulations.pods.packing import (
    build_packing,
    class_program,
    dual_bound,
    node_program,
    pattern_program,
    price_bound,
)
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.pods.patterns import patterns_of
from goodalloc.solvers.pods.solver import solve_pods
from tests.support.agreement import reordered
from tests.support.few import few
from tests.support.random_instances import random_pod_instance


def check_pods(seed: int) -> bool:
    """Feasible, bounded, equal to the enumeration where optimality is claimed; returns whether."""
    instance = random_pod_instance(seed)
    optimum = solve_brute_force(instance, break_ties=False).bound
    result = solve(instance, "pods")
    assert result.allocation is not None, result.message
    assert not violations(instance, result.allocation)
    assert not result.message, instance.name
    assert result.bound >= optimum * (1 - 1e-12), instance.name
    assert result.fitness <= optimum * (1 + 1e-12), instance.name
    if result.status is Status.OPTIMAL:
        assert result.fitness == pytest.approx(optimum, rel=1e-8), instance.name
    return result.status is Status.OPTIMAL


def test_what_is_claimed_holds_on_tiny_batches() -> None:
    """Against the enumeration of all allocations; all are proven optimal."""
    proven = sum(check_pods(seed) for seed in range(30))
    assert proven == 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, 300))
def test_what_is_claimed_holds_on_thousands(first: int) -> None:
    """3,000 more of them."""
    assert sum(check_pods(seed) for seed in range(first, first + 300)) == 300


@pytest.mark.parametrize("seed", range(30))
def test_relaxations_bound_the_optimum(seed: int) -> None:
    """By classes; by patterns at any prices; patterns of all nodes' optimum reach the optimum."""
    instance = random_pod_instance(seed)
    answer = solve_brute_force(instance, break_ties=False)
    assert answer.allocation is not None
    packing, watch = build_packing(instance), Watch(Stop())
    optimum = (answer.bound - instance.rules.floor) * instance.num_jobs
    slack = 1e-9 * instance.num_jobs * answer.bound
    program = class_program(packing)
    if program.num_columns:
        relaxed = run_relaxation(program, np.ones(program.num_columns, dtype=bool), watch)
        assert relaxed.duals is not None
        bound = -dual_bound(program, relaxed.duals)
        assert optimum <= bound + slack
        assert bound == pytest.approx(-relaxed.objective, rel=1e-7, abs=1e-7)
    patterns = list(dict.fromkeys(patterns_of(packing, instance, answer.allocation)))
    master = pattern_program(packing, patterns).program
    chosen = run_mixed_integer(master, watch, gap=1e-9)
    assert -chosen.objective == pytest.approx(optimum, rel=1e-7, abs=1e-7)
    prices = np.random.default_rng(seed).uniform(0.0, 2.0, size=len(packing.options))
    worth = np.zeros(len(packing.classes))
    for index in range(worth.size):
        node, paying = node_program(packing, index, prices)
        if paying.size:
            worth[index] = -run_mixed_integer(node, watch, gap=1e-9).bound
    assert optimum <= price_bound(packing, prices, worth) + slack


@given(
    st.lists(st.sampled_from([0.7, 0.6, 0.5, 0.45, 0.35, 0.3, 0.2]), min_size=1, unique=True),
    st.data(),
)
def test_fillings_are_the_largest_sets_that_fit(sizes: list[float], data: st.DataObject) -> None:
    """Each fits on one GPU, takes no further part, and comes once; any set that fits is in one."""
    sizes = sorted(sizes, reverse=True)
    counts = [data.draw(st.integers(1, 4)) for _ in sizes]
    found = fillings(tuple(sizes), tuple(counts))
    assert found is not None
    assert len(set(found)) == len(found)
    for one in found:
        used = math.fsum(n * s for n, s in zip(one, sizes, strict=True))
        assert used <= 1 + 1e-9
        for number, count, size in zip(one, counts, sizes, strict=True):
            assert number == count or used + size > 1 + 1e-9
    drawn = [data.draw(st.integers(0, count)) for count in counts]
    if math.fsum(n * s for n, s in zip(drawn, sizes, strict=True)) <= 1 + 1e-9 and any(drawn):
        assert any(all(n <= m for n, m in zip(drawn, one, strict=True)) for one in found)


def test_too_many_fillings_are_added_up_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is weaker and holds; patterns that do not fit lose pods."""
    monkeypatch.setattr("goodalloc.formulations.pods.gpu_fillings.MOST_FILLINGS", 0)
    fillings.cache_clear()
    try:
        for seed in range(30):
            check_pods(seed)
    finally:
        fillings.cache_clear()


def test_parts_of_gpus_are_packed_where_adding_them_up_would_not_do() -> None:
    """Three parts of 0.6 on two GPUs: two run, and that is proven."""
    mode = Mode("part", SpeedupTable((0.6,), ()), gpu_share=0.6)
    jobs = tuple(Job(f"pod{i}", modes=(mode,), max_replicas=1) for i in range(3))
    rules = Rules(power=1.0, restart_delay=0.0, speedup_scale="job", fair_share="one_gpu")
    instance = Instance(Cluster((NodeGroup("node", 1, 2),)), jobs, rules)
    result = solve(instance, "pods")
    assert result.status is Status.OPTIMAL
    assert gpus_allocated(instance, result.fitness) == pytest.approx(1.2)


def test_the_order_of_jobs_and_nodes_does_not_matter() -> None:
    """Renumbering leaves what is proven where it was."""
    for seed in range(20):
        instance = random_pod_instance(seed)
        one, other = solve(instance, "pods"), solve(reordered(instance), "pods")
        if one.status is other.status is Status.OPTIMAL:
            assert one.fitness == pytest.approx(other.fitness, rel=1e-8)


@pytest.mark.parametrize("nodes", few([8, 16, 30], 1))
def test_many_nodes_are_packed_nearly_provably(nodes: int) -> None:
    """A batch for 110 % of the GPUs: within a hundredth of the bound, above both heuristics."""
    machines = draw_machines(nodes)
    gpus = sum(machine.gpus for machine in machines)
    pods = arrivals(draw_pods(2), 2, 1.1 * gpus)
    instance = pods_instance(machines, pods, "drawn")
    result = solve(instance, "pods", stop=Stop(gap=4e-3))
    assert result.gap < 1e-2
    for name in ("best_fit", "fgd"):
        assert solve(instance, name, bound=result.bound).fitness <= result.fitness
    again = solve(instance, "pods", stop=Stop(gap=4e-3))
    assert again.allocation == result.allocation


def test_no_time_leaves_a_feasible_answer() -> None:
    """Whatever the heuristics had by then, and no bound that was not proven."""
    instance = random_pod_instance(1)
    answer = solve_pods(instance, stop=Stop(seconds=1e-9))
    assert answer.limit == "time"
    assert answer.allocation is not None
    assert not violations(instance, answer.allocation)
    assert answer.bound >= solve_brute_force(instance).bound * (1 - 1e-12)


@pytest.mark.parametrize(
    ("rules", "job", "words"),
    [
        (Rules(), Job("a"), "power is -1; .* expected 1"),
        (Rules(power=1.0), Job("a", placement=((0, 1),)), "Job 'a': runs already"),
        (Rules(power=1.0), Job("a"), "Job 'a': may span 16 nodes"),
    ],
)
def test_other_rounds_are_refused(rules: Rules, job: Job, words: str) -> None:
    """In one sentence that says what is expected."""
    with pytest.raises(ValueError, match=words):
        solve(Instance(Cluster.uniform(2, 2), (job,), rules), "pods")


def test_plain_jobs_are_pods_too() -> None:
    """Whole GPUs, no modes: the optimum of one-node jobs."""
    jobs = tuple(
        Job(f"job{k}", SpeedupTable(tuple(np.arange(1, 5) ** (0.5 + 0.1 * k)), ()), max_replicas=4)
        for k in range(4)
    )
    rules = Rules(power=1.0, restart_delay=0.0, max_nodes_per_job=1)
    instance = Instance(Cluster.uniform(2, 4), jobs, rules)
    result = solve(instance, "pods")
    optimum = solve_brute_force(instance).bound
    assert result.status is Status.OPTIMAL
    assert result.fitness == pytest.approx(optimum, rel=1e-8)
    assert result.bound >= optimum * (1 - 1e-12)
