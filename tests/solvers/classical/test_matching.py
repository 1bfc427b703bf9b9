"""AlloX: the matching against brute force, a mixed-integer program, a linear one and its proof."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.formulations.classical.allox import (
    build_matching,
    build_pairs,
    place_costs,
    places_of,
    schedule_of_pairs,
)
from goodalloc.models.classical.unrelated_machines import (
    MachineSchedule,
    UnrelatedMachines,
    completion_times,
    schedule_violations,
    total_completion,
)
from goodalloc.solvers.classical.matching import (
    bound_at,
    least_total_completion,
    longest_waiting,
    match_jobs,
    start_now,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation


def tiny(seed: int, most_jobs: int = 4) -> UnrelatedMachines:
    """A few jobs on up to three machines, with ties, busy machines, and types that some avoid."""
    random = np.random.default_rng(seed)
    jobs, types = int(random.integers(1, most_jobs + 1)), int(random.integers(1, 4))
    kinds = random.integers(0, types, random.integers(1, 4))
    times = random.integers(1, 9, (jobs, types)).astype(float)
    times[random.random(times.shape) < 0.2] = np.inf
    times[~np.isfinite(times[:, kinds]).any(axis=1), kinds[0]] = 5.0
    ready = np.floor(random.uniform(-6.0, 6.0, kinds.size)).clip(0.0)
    return UnrelatedMachines(times, kinds, ready, random.random(jobs))


def cheapest(problem: UnrelatedMachines) -> float:
    """The least total over every machine for every job, the shortest first on each."""
    times, least = problem.machine_times, np.inf
    jobs = range(problem.num_jobs)
    for machines in itertools.product(range(problem.num_machines), repeat=problem.num_jobs):
        now, total = problem.ready.tolist(), float(problem.waited.sum())
        for job in sorted(jobs, key=lambda job: times[job, machines[job]]):
            now[machines[job]] += times[job, machines[job]]
            total += now[machines[job]]
        least = min(least, total)
    return float(least)


def test_the_matching_is_the_best_of_all_schedules_and_proves_it() -> None:
    """On 1,000 tiny problems, re-priced by the checker, with a gap of nothing."""
    for seed in range(1000):
        problem = tiny(seed)
        found = least_total_completion(problem)
        assert found.total == pytest.approx(cheapest(problem), rel=1e-12), seed
        assert found.total == total_completion(problem, found.schedule)
        assert found.gap <= 1e-12


def test_shortest_first_is_the_best_order_on_a_machine() -> None:
    """What brute force takes for granted: no order of the jobs is cheaper."""
    for seed in range(30):
        problem = tiny(seed, 3)
        jobs, machines = range(problem.num_jobs), range(problem.num_machines)
        least = np.inf
        for order in itertools.permutations(jobs):
            for chosen in itertools.product(machines, repeat=len(order)):
                before = [sum(chosen[k] == chosen[i] for k in range(i)) for i in jobs]
                machine, position = np.empty((2, len(order)), dtype=np.int64)
                machine[list(order)], position[list(order)] = chosen, before
                schedule = MachineSchedule(machine, position)
                if not schedule_violations(problem, schedule):
                    least = min(least, total_completion(problem, schedule))
        assert least == pytest.approx(cheapest(problem))


def test_the_program_without_places_has_the_same_optimum() -> None:
    """A mixed-integer program that knows pairs of jobs and no positions; its schedule is priced."""
    for seed in range(60):
        problem = tiny(seed, 6)
        outcome = run_mixed_integer(build_pairs(problem), Watch(Stop()), gap=1e-6)
        found = least_total_completion(problem)
        assert outcome.finished
        assert outcome.values is not None
        assert outcome.objective == pytest.approx(found.total, rel=1e-6)
        schedule = schedule_of_pairs(problem, outcome.values)
        assert total_completion(problem, schedule) == pytest.approx(found.total)


def drawn(seed: int, jobs: int = 40) -> UnrelatedMachines:
    """Jobs on two types with seven machines, some of which are busy."""
    random = np.random.default_rng(seed)
    slow = random.lognormal(0.0, 1.5, jobs)
    times = np.column_stack([slow, slow / np.exp(random.uniform(0.0, np.log(30.0), jobs))])
    kinds, ready = np.array([0] * 4 + [1] * 3), random.random(7) * random.integers(0, 2, 7)
    return UnrelatedMachines(times, kinds, ready, random.random(jobs))


def test_the_linear_program_has_integral_vertices_and_the_same_optimum() -> None:
    """Forty jobs: HiGHS's value, its vertex, and its prices as a proof of ours."""
    for seed in range(5):
        problem = drawn(seed)
        program = build_matching(problem)
        outcome = run_relaxation(program, np.ones(program.num_columns, dtype=bool), Watch(Stop()))
        assert outcome.values is not None
        assert outcome.objective == pytest.approx(least_total_completion(problem).total, rel=1e-9)
        assert np.abs(outcome.values - np.rint(outcome.values)).max() <= 1e-9


def test_any_prices_give_a_bound() -> None:
    """Below the optimum, whatever the prices of at most nothing are."""
    random = np.random.default_rng(0)
    for seed in range(50):
        problem = tiny(seed)
        cost = place_costs(problem, places_of(problem))
        total = least_total_completion(problem).total - problem.waited.sum()
        for _ in range(5):
            prices = -5.0 * random.random(cost.shape[1:])
            assert bound_at(cost, prices) <= total + 1e-9


def test_places_that_are_left_out_are_in_no_optimum() -> None:
    """With every machine as many places as jobs, the matching is no better."""
    for seed in range(200):
        problem = tiny(seed, 5)
        assert len(places_of(problem).machine) <= problem.num_jobs * problem.num_machines
        # a type of machine for every machine: then nothing is left out
        apart = UnrelatedMachines(
            problem.machine_times, np.arange(problem.num_machines), problem.ready, problem.waited
        )
        assert len(places_of(apart).machine) == problem.num_jobs * problem.num_machines
        ours, theirs = (total_completion(p, match_jobs(p)) for p in (problem, apart))
        assert ours == pytest.approx(theirs)


@settings(max_examples=50)
@given(st.integers(0, 10_000), st.floats(0.1, 10.0))
def test_permuting_jobs_and_scaling_seconds_change_nothing_else(seed: int, scale: float) -> None:
    """The total is permutation-free and homogeneous; on one machine the shortest goes first."""
    problem = drawn(seed, 8)
    order = np.random.default_rng(seed).permutation(8)
    total = total_completion(problem, match_jobs(problem))
    permuted = problem.of(order)
    assert total_completion(permuted, match_jobs(permuted)) == pytest.approx(total)
    scaled = UnrelatedMachines(
        problem.times * scale, problem.machine_type, problem.ready * scale, problem.waited * scale
    )
    assert total_completion(scaled, match_jobs(scaled)) == pytest.approx(scale * total)
    alone = problem.of(np.arange(8), np.array([0]))
    position = match_jobs(alone).position
    assert np.array_equal(np.argsort(position), np.argsort(alone.times[:, 0]))


def test_a_job_waits_for_the_machine_that_suits_it() -> None:
    """Thirty seconds on the free processor, one on the GPU that is free after two."""
    problem = UnrelatedMachines(
        np.array([[30.0, 1.0]]), np.array([0, 1]), np.array([0.0, 2.0]), np.zeros(1)
    )
    assert start_now(problem) == ()
    assert start_now(problem, busy=False) == ((0, 0),)
    both = UnrelatedMachines(
        np.array([[30.0, 1.0], [4.0, 3.0]]), np.array([0, 1]), np.zeros(2), np.zeros(2)
    )
    assert start_now(both) == ((0, 1), (1, 0))


def test_only_those_that_waited_longest_take_part() -> None:
    """By share, though no fewer than there are free machines; ties go to the first."""
    waited = np.array([5.0, 9.0, 0.0, 9.0, 1.0])
    assert longest_waiting(waited, 1.0, 1).tolist() == [0, 1, 2, 3, 4]
    assert longest_waiting(waited, 0.2, 1).tolist() == [1]
    assert longest_waiting(waited, 0.21, 1).tolist() == [1, 3]
    assert longest_waiting(waited, 0.0, 3).tolist() == [0, 1, 3]
    times = np.array([[9.0], [1.0]])
    old_first = UnrelatedMachines(times, np.array([0]), np.zeros(1), np.array([8.0, 0.0]))
    assert start_now(old_first) == ((1, 0),)
    assert start_now(old_first, alpha=0.5) == ((0, 0),)
    with pytest.raises(ValueError, match=r"alpha is 1\.5; expected a number from 0 to 1"):
        start_now(old_first, alpha=1.5)


def test_nothing_starts_where_nothing_can() -> None:
    """All machines busy; or the free one is none for the job."""
    one = np.array([[1.0, np.inf]])
    busy = UnrelatedMachines(one, np.array([0, 1]), np.array([3.0, 0.0]), np.zeros(1))
    assert start_now(busy) == start_now(busy, busy=False) == ()
    nobody = UnrelatedMachines(one, np.array([0]), np.array([3.0]), np.zeros(1))
    assert start_now(nobody) == ()


def test_the_checker_prices_by_hand_and_refuses_what_is_no_schedule() -> None:
    """Two jobs on one machine that is free after two seconds, one on another."""
    problem = UnrelatedMachines(
        np.array([[3.0, np.inf], [1.0, 4.0], [np.inf, 2.0]]),
        np.array([0, 1]),
        np.array([2.0, 0.0]),
        np.array([0.0, 10.0, 0.0]),
    )
    schedule = MachineSchedule(np.array([0, 0, 1]), np.array([1, 0, 0]))
    assert completion_times(problem, schedule).tolist() == [6.0, 3.0, 2.0]
    assert total_completion(problem, schedule) == 21.0
    for machine, position, complaint in (
        ([0, 0, 0], [1, 0, 2], "Job 2 is on machine 0, where it cannot run"),
        ([0, 0, 2], [1, 0, 0], "Job 2 is on machine 2; expected 0 to 1"),
        ([0, 0, 1], [1, 1, 0], r"Machine 0: positions are \[1, 1\]; expected 0 to 1, each once"),
        ([0, 0], [1, 0], "The schedule has shapes"),
    ):
        wrong = MachineSchedule(np.array(machine), np.array(position))
        with pytest.raises(ValueError, match=complaint):
            completion_times(problem, wrong)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"times": np.empty((0, 2))}, r"times have shape \(0, 2\); expected jobs by types"),
        ({"times": np.ones(2)}, r"times have shape \(2,\)"),
        ({"times": np.array([[0.0, 1.0]])}, r"Job\[0, 0\]: time is 0.0; expected a number above 0"),
        ({"times": np.array([[np.nan, 1.0]])}, "time is nan"),
        ({"times": np.array([[-1.0, 1.0]])}, r"time is -1.0"),
        ({"times": np.full((1, 2), np.inf)}, r"Job\[0\]: least time is inf; expected a finite"),
        ({"times": [["a", "b"]]}, "times is"),
        ({"machine_type": np.array([], dtype=int)}, "machine_type is"),
        ({"machine_type": np.array([0.5])}, "machine_type is"),
        ({"machine_type": np.array([0, 2])}, r"Machine\[1\]: type is 2; expected 0 to 1"),
        ({"machine_type": np.array([-1, 0])}, r"Machine\[0\]: type is -1"),
        ({"ready": np.zeros(3)}, r"ready has shape \(3,\); expected \(2,\)"),
        ({"ready": np.array([0.0, np.nan])}, r"Machine\[1\]: ready is nan; expected finite"),
        ({"ready": np.array([-1.0, 0.0])}, r"Machine\[0\]: ready is -1.0"),
        ({"waited": np.array([np.inf])}, r"Job\[0\]: waited is inf"),
        ({"waited": np.zeros((1, 1))}, "waited has shape"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(changes: dict[str, Any], complaint: str) -> None:
    """In one sentence, with the item, its value and what was expected."""
    good: dict[str, Any] = {
        "times": np.ones((1, 2)),
        "machine_type": np.array([0, 1]),
        "ready": np.zeros(2),
        "waited": np.zeros(1),
    }
    with pytest.raises(ValueError, match=complaint):
        UnrelatedMachines(**{**good, **changes})


def test_of_places_that_cost_the_same_the_shortest_job_has_the_earliest() -> None:
    """On machines of one type that is the shortest first, on whichever is free first."""
    for seed in range(100):
        random = np.random.default_rng(seed)
        times, ready = random.random((9, 1)), random.random(4) * random.integers(0, 2)
        problem = UnrelatedMachines(times, np.zeros(4, dtype=int), ready, np.zeros(9))
        now, ends = ready.copy(), np.empty(9)
        for job in np.argsort(times[:, 0]):
            machine = int(np.argmin(now))
            ends[job] = now[machine] = now[machine] + times[job, 0]
        assert completion_times(problem, match_jobs(problem)).sum() <= ends.sum() + 1e-9
        if not ready.any():
            assert completion_times(problem, match_jobs(problem)) == pytest.approx(ends)
