"""Synergy's two programs: golden values, the chain of bounds, and brute force on tiny rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds.synergy import PUBLISHED_GPUS, Server, synergy_round
from goodalloc.formulations.sia_and_synergy.synergy import (
    build_choice_program,
    every_choice,
    required_choices,
    with_idling,
)
from goodalloc.formulations.sia_and_synergy.synergy_demands import synergy_modes
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.mode import NO_MODE
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.round.synergy_objective import FLOOR
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.sia_and_synergy.synergy_opt import (
    integer_optimum,
    linear_optimum,
    place_modes,
    solve_synergy_opt,
)
from tests.support.policies.synergy import ROUNDS, RULES, equipped, nodes, outcome
from tests.support.random_instances import random_instance, random_mode_instance

if TYPE_CHECKING:
    from goodalloc.formulations.sia_and_synergy.synergy import ModeChoices

#: Servers to the total throughput of 8 one-GPU jobs a server, drawn evenly from the published
#: profiles with seed 0: integer and linear first program, solved by HiGHS in SciPy.
GOLDEN = {1: (9.66, 9.66), 4: (37.6, 37.615), 16: (159.89, 159.89), 64: (652.83, 652.83)}


def total(instance: Instance, mean: float) -> float:
    """Total throughput that a mean utility stands for."""
    return (mean - FLOOR) * instance.num_jobs


def published(instance: Instance) -> ModeChoices:
    """The published choices."""
    return required_choices(instance, synergy_modes(instance))


@pytest.mark.parametrize("servers", list(GOLDEN))
def test_the_first_program_gives_the_golden_values(servers: int) -> None:
    """To the digits that are known, and the proportional allocation is worth one a job."""
    instance = synergy_round(0, servers)
    integer, linear = GOLDEN[servers]
    found = integer_optimum(instance, published(instance))
    assert found.bound == pytest.approx(found.value, abs=1e-8)
    assert total(instance, found.value) == pytest.approx(integer, abs=5e-6)
    assert total(instance, linear_optimum(instance, published(instance))) == pytest.approx(
        linear, abs=5e-4
    )
    share = find_solver("synergy_proportional")(instance).allocation
    assert total(instance, fitness(instance, share)) == pytest.approx(8.0 * servers, rel=1e-12)


@settings(max_examples=40)
@given(instance=ROUNDS)
def test_linear_is_no_less_than_integer_than_tune_than_proportional(instance: Instance) -> None:
    """On rounds whose jobs all run, no slower than proportionally: TUNE's are such."""
    linear = linear_optimum(instance, published(instance))
    integer = integer_optimum(instance, published(instance))
    tuned = fitness(instance, find_solver("synergy_tune")(instance).allocation)
    share = fitness(instance, find_solver("synergy_proportional")(instance).allocation)
    assert linear >= integer.value - 1e-7
    assert integer.value >= tuned - 1e-7
    assert tuned >= share - 1e-12
    best = integer_optimum(instance, every_choice(instance))
    assert best.bound >= integer.value - 1e-7


@settings(max_examples=15)
@given(instance=ROUNDS)
def test_opt_is_feasible_and_its_bound_holds(instance: Instance) -> None:
    """The bound is no less than what any of the published policies reaches."""
    answer = solve_synergy_opt(instance)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()
    policies = ("synergy_tune", "synergy_proportional", "synergy_greedy")
    values = [fitness(instance, find_solver(name)(instance).allocation) for name in policies]
    mine = fitness(instance, answer.allocation)
    assert answer.bound >= max(*values, mine) - 1e-7
    assert mine >= values[0] - 1e-7  # TUNE is what it falls back on


def test_it_may_pay_to_leave_a_job_idle_which_the_published_program_does_not() -> None:
    """Two jobs must share four cores: alone the first is worth more than both together."""
    jobs = (equipped("first", 1, (2.0, 1.0), (4.0, 3.0)), equipped("second", 1, (2.0, 1.0)))
    instance = Instance(nodes(1, 2, 4.0), jobs, RULES)
    floor = instance.rules.floor
    both = integer_optimum(instance, published(instance))
    best = integer_optimum(instance, every_choice(instance))
    assert both.value == pytest.approx(1.0 + floor, rel=1e-7)
    assert best.value == pytest.approx(1.5 + floor, rel=1e-7)
    answer = solve_synergy_opt(instance)
    assert outcome(instance, "synergy_greedy") == {"first": ("4", ((0, 1),))}
    assert answer.bound == pytest.approx(1.5 + floor, rel=1e-6)
    assert answer.allocation is not None
    assert answer.allocation.job_replicas.tolist() == [1, 1]


def test_a_queue_too_long_for_the_gpus_runs_in_its_order() -> None:
    """Jobs take part that fit; the rest stands idle, as in the published simulator."""
    jobs = tuple(
        equipped(name, gpus, (1.0, 1.0)) for name, gpus in (("a", 3), ("b", 2), ("c", 1), ("d", 1))
    )
    found = integer_optimum(
        Instance(nodes(1), jobs, RULES), published(Instance(nodes(1), jobs, RULES))
    )
    assert found.gpus is not None
    assert found.gpus.tolist() == [3, 0, 1, 0]


def test_where_not_all_can_run_jobs_may_stand_idle() -> None:
    """A pinned job holds the cores, so the required choices have no solution."""
    pinned = equipped("pinned", 1, (10.0, 1.0), placement=((0, 1),), mode="10", preemptible=False)
    instance = Instance(nodes(1), (pinned, equipped("late", 1, (3.0, 1.0))), RULES)
    assert integer_optimum(instance, published(instance)).mode is None
    assert linear_optimum(instance, published(instance)) == -math.inf
    idling = with_idling(instance, published(instance))
    found = integer_optimum(instance, idling)
    assert found.gpus is not None
    assert found.gpus.tolist() == [1, 0]
    assert outcome_of(instance) == {"pinned": ((0, 1),)}


def outcome_of(instance: Instance) -> dict[str, tuple[tuple[int, int], ...]]:
    """Where OPT places the jobs that run."""
    answer = solve_synergy_opt(instance)
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()
    rows = zip(instance.jobs, answer.allocation.placements(), strict=True)
    return {job.name: row for job, row in rows if row}


def test_the_second_program_splits_as_little_as_may_be() -> None:
    """Best fit leaves two halves for the last job; no job needs to be split."""
    jobs = tuple(equipped(f"job{i}", gpus, (1.0, 1.0)) for i, gpus in enumerate((4, 3, 3, 2, 2, 2)))
    cluster = nodes(2, 8, 24.0)
    placed = outcome_of(Instance(cluster, jobs, RULES))
    assert all(len(row) == 1 for row in placed.values())
    jobs = tuple(equipped(f"job{i}", 3, (1.0, 1.0)) for i in range(4))
    split = outcome_of(Instance(nodes(3), jobs, RULES))
    assert (len(split), sum(len(row) for row in split.values())) == (4, 6)
    most = {
        limit: {
            len(row)
            for row in outcome_of(
                Instance(nodes(3), jobs, RULES.replace(max_nodes_per_job=limit))
            ).values()
        }
        for limit in (1, 2)
    }
    assert most == {1: {1}, 2: {1, 2}}


def test_jobs_that_must_be_split_avoid_each_other() -> None:
    """With interference avoidance a node holds one distributed job at most."""
    jobs = tuple(equipped(name, 6, (1.0, 1.0)) for name in "ab")
    for count, run in ((3, 1), (4, 2)):
        rules = RULES.replace(interference_avoidance=True)
        assert len(outcome_of(Instance(nodes(count), jobs, rules))) == run


def placeable(instance: Instance, wanted: np.ndarray) -> int | None:
    """Fewest nodes, added up over the jobs, on which all run in these modes, by enumeration."""
    found = enumerate_allocations(instance)
    gpus = synergy_modes(instance).gpus
    best = None
    for index in range(len(found.row)):
        allocation = found.allocation(index)
        rows = instance.first_mode + allocation.mode
        asked = np.where(wanted == NO_MODE, 0, gpus)
        same = np.array_equal(allocation.job_replicas, asked)
        if same and (rows == wanted)[wanted != NO_MODE].all():
            nodes_used = int(allocation.job_nodes.sum())
            best = nodes_used if best is None else min(best, nodes_used)
    return best


def tiny_round(seed: int) -> Instance:
    """One to three rigid jobs of up to three GPUs on two or three small servers."""
    random = np.random.default_rng(seed)
    groups = tuple(
        NodeGroup(
            f"node{i}",
            1,
            int(random.integers(1, 4)),
            resources=(("cpu", float(random.integers(2, 7))),),
        )
        for i in range(int(random.integers(2, 4)))
    )
    jobs = []
    for index in range(int(random.integers(1, 4))):
        cpus = np.sort(
            random.choice(np.arange(1, 5), size=int(random.integers(1, 3)), replace=False)
        )
        speeds = np.sort(random.uniform(0.5, 3.0, size=cpus.size))
        points = tuple(zip(cpus.tolist(), speeds.tolist(), strict=True))
        jobs.append(equipped(f"job{index}", int(random.integers(1, 4)), *points))
    rules = RULES.replace(
        interference_avoidance=bool(random.random() < 0.4),
        max_nodes_per_job=int(random.integers(1, 4)),
    )
    return Instance(Cluster(groups), tuple(jobs), rules, f"tiny-{seed}")


def test_the_second_program_is_exact() -> None:
    """Against every allocation: it places whatever can be placed, on the fewest nodes."""
    seen = {True: 0, False: 0}
    for seed in range(150):
        instance = tiny_round(seed)
        modes = synergy_modes(instance)
        wanted = np.where(modes.gpus > 0, modes.ideal, NO_MODE)
        least = placeable(instance, wanted)
        seen[least is not None] += 1
        found = place_modes(instance, modes, wanted)
        assert violations(instance, found) == ()
        rows = instance.first_mode + found.mode
        whole = np.array_equal(found.job_replicas, np.where(wanted == NO_MODE, 0, modes.gpus))
        whole = whole and bool((rows == wanted)[wanted != NO_MODE].all())
        assert whole == (least is not None)
        if least is not None:
            assert int(found.job_nodes.sum()) == least
    assert min(seen.values()) > 10


def check_bound(seed: int) -> None:
    """The bound of OPT holds, whatever the rules; for p <= 1 it is the relaxation's."""
    for draw in (random_instance, random_mode_instance):
        instance = draw(seed)
        best = solve_brute_force(instance, break_ties=False).bound
        answer = solve_synergy_opt(instance)
        assert answer.allocation is not None
        assert violations(instance, answer.allocation) == ()
        assert answer.bound >= best * (1 - 1e-9)
        assert (answer.bound == math.inf) == (instance.rules.power > 1.0)


def check_on_one_server(seed: int) -> None:
    """On one server the first program is the round itself: with every choice it is exact."""
    random = np.random.default_rng(seed)
    instance = synergy_round(
        seed,
        1,
        jobs=int(random.integers(1, 4)),
        gpus={1: 0.6, 2: 0.4},
        server=Server(int(random.integers(2, 5)), 12.0, 250.0),
    )
    best = solve_brute_force(instance, break_ties=False).bound
    found = integer_optimum(instance, every_choice(instance))
    assert found.value == pytest.approx(best, rel=1e-7)
    assert found.bound == pytest.approx(best, rel=1e-7)
    required = integer_optimum(instance, published(instance))
    allocations = enumerate_allocations(instance)
    table, modes = mode_utilities(instance).moved, synergy_modes(instance)
    taking = published(instance)
    runs = np.isin(np.arange(instance.num_jobs), taking.job[taking.gpus > 0])
    least = np.where(runs, table[modes.proportional, 0, modes.gpus], instance.rules.floor)
    above = (allocations.utility >= least - 1e-12).all(axis=1)
    above &= (allocations.utility[:, ~runs] <= instance.rules.floor).all(axis=1)
    expected = allocations.utility[above].mean(axis=1).max()
    assert required.value == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_the_bound_of_opt_holds_on_any_round(first: int) -> None:
    """Against every allocation of tiny rounds with and without modes."""
    for seed in range(first, first + 20):
        check_bound(seed)


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_the_first_program_is_exact_on_one_server(first: int) -> None:
    """Against every allocation, with and without the requirement."""
    for seed in range(first, first + 20):
        check_on_one_server(seed)


@pytest.mark.slow
def test_the_programs_agree_with_every_allocation_of_a_thousand_rounds() -> None:
    """As the two tests above, and more of them."""
    for seed in range(1_000, 2_000):
        check_bound(seed)
        check_on_one_server(seed)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_the_jobs_does_not_change_the_value(seed: int) -> None:
    """Of a full round, where all jobs take part."""
    instance = synergy_round(seed, 2, gpus=PUBLISHED_GPUS)
    order = np.random.default_rng(seed).permutation(instance.num_jobs)
    shuffled = instance.replace(jobs=tuple(instance.jobs[index] for index in order))
    values = [integer_optimum(one, published(one)).value for one in (instance, shuffled)]
    assert values[0] == pytest.approx(values[1], rel=1e-8)


def test_the_first_program_of_512_jobs_is_solved_within_a_second() -> None:
    """On 64 servers; it is decided in hundredths of one."""
    instance = synergy_round(0, 64)
    watch = Watch(Stop(seconds=1.0))
    found = integer_optimum(instance, published(instance), watch)
    assert watch.limit is None
    assert found.bound == pytest.approx(found.value, abs=1e-8)


def test_opt_stops_in_time_with_tunes_allocation() -> None:
    """With no time at all the answer is TUNE's and says that time ran out."""
    instance = synergy_round(0, 16)
    answer = solve_synergy_opt(instance, stop=Stop(seconds=1e-9))
    assert answer.limit is Limit.TIME
    assert answer.allocation == find_solver("synergy_tune")(instance).allocation
    assert solve(instance, "synergy_opt", stop=Stop(seconds=1e-9)).bound < math.inf


def test_the_program_names_its_columns() -> None:
    """Job, row of the mode, GPUs."""
    instance = synergy_round(0, 1)
    choices = published(instance)
    program = build_choice_program(instance, choices, 1.0)
    family = program.column_names[0]
    assert (family.name, family.size) == ("choice", choices.job.size)
    assert family.label(0) == f"{choices.job[0]}_{choices.mode[0]}_{choices.gpus[0]}"
    assert [row.name for row in program.row_names] == ["job", "capacity"]
