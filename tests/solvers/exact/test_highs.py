"""The exact solver: every power, limits that hold, and whatever it has when it is stopped."""

from __future__ import annotations

import itertools
import math
import threading
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
import pytest

from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.basics.program import Program
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, utilities, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import enumerate_allocations, solve_brute_force
from goodalloc.solvers.exact.highs import solve_highs
from goodalloc.solvers.heuristics.greedy import solve_greedy
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp import highs_program
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.random_instances import random_instance

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from goodalloc.solvers.interface.result import Answer


def full_round(jobs: int = 40, nodes: int = 16, power: float = -1.0) -> Instance:
    """A round of many jobs that run, with utilities worked out without compiling."""
    instance = generate(3, jobs, nodes, state="settled", rules=Rules(power=power))
    utility_table(instance)
    return instance


def optimum_of(instance: Instance) -> float:
    """Fitness of a proven optimum."""
    answer = solve_highs(instance, break_ties=False)
    assert answer.allocation is not None
    assert answer.proven
    return fitness(instance, answer.allocation)


def check_stopped(instance: Instance, answer: Answer, optimum: float) -> None:
    """Stopped early: a feasible allocation no better than the optimum, and a bound no worse."""
    assert answer.allocation is not None
    assert violations(instance, answer.allocation) == ()
    assert fitness(instance, answer.allocation) <= optimum * (1 + 1e-9)
    assert optimum * (1 - 1e-12) <= answer.bound < math.inf
    assert answer.history[-1].fitness == fitness(instance, answer.allocation)


@pytest.mark.parametrize(
    "power", [-100.0, -10.0, -2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 10.0, math.inf, -math.inf]
)
def test_every_power_is_solved_to_proven_optimality(power: float) -> None:
    """Against the enumeration, with a bound that meets it."""
    for seed in range(60_000, 60_005):
        instance = random_instance(seed, power)
        best = solve_brute_force(instance).bound
        for by_price in (True, False):
            answer = solve_highs(instance, by_price=by_price)
            assert answer.allocation is not None
            assert violations(instance, answer.allocation) == ()
            assert fitness(instance, answer.allocation) == pytest.approx(best, rel=1e-9)
            assert answer.proven
            assert answer.limit is None
            assert answer.bound_source in ("knapsack", "pattern program")[not by_price :]
        assert best * (1 - 1e-12) <= answer.bound <= best * (1 + 2e-9)


def exact_sum(reached: np.ndarray, power: int) -> Decimal:
    """Sum of the terms to 80 digits."""
    with localcontext() as context:
        context.prec = 80
        return sum((Decimal(value) ** power for value in reached.tolist()), Decimal(0))


@pytest.mark.parametrize("power", [-5, -10, -30])
def test_jobs_beside_starved_ones_are_solved_exactly(power: int) -> None:
    """In float64 the starved jobs drown the others; to 80 digits the result is optimal too."""
    speedups = [(0.2, 0.3), (0.8, 1.5), (1.0, 1.1), (0.5, 1.9), (0.6, 0.7), (0.3, 0.31)]
    jobs = tuple(Job(f"job{i}", SpeedupTable(pair, ()), age=1e6) for i, pair in enumerate(speedups))
    rules = Rules(power=float(power), speedup_scale="job")
    instance = Instance(Cluster.uniform(2, 2), jobs, rules)
    answer = solve_highs(instance)
    assert answer.allocation is not None
    reached = utilities(instance, answer.allocation)
    assert np.count_nonzero(reached == rules.floor) == 2
    found = np.unique(enumerate_allocations(instance).utility, axis=0)
    least = min(exact_sum(row, power) for row in found)
    starved = 2 * exact_sum(np.array([rules.floor]), power)
    others = exact_sum(reached, power) - starved
    assert float((others - (least - starved)) / (least - starved)) < 1e-6


@pytest.mark.parametrize("power", [300.0, 2e4, 1e6])
def test_what_is_out_of_reach_is_ruled_out_at_great_powers(power: float) -> None:
    """Pinned jobs leave no node whole, without which a job is worth a ninth of what it could be."""
    pinned = [
        Job(f"pinned{node}", SpeedupTable((1.0,), ()), placement=((node, 1),), preemptible=False)
        for node in (0, 1)
    ]
    hungry = Job("hungry", SpeedupTable((1.0, 90.0), (0.0, 10.0)), age=1e4)
    instance = Instance(Cluster.uniform(2, 2), (*pinned, hungry), Rules(power=power))
    answer = solve_highs(instance)
    assert answer.proven
    assert answer.bound == pytest.approx(solve_brute_force(instance).bound, rel=2e-9)


def test_leximin_is_that_of_the_enumeration() -> None:
    """Sorted utilities are the lexicographically greatest of all allocations."""
    for seed in range(61_000, 61_012):
        instance = random_instance(seed, -math.inf)
        best = max(sorted(row) for row in enumerate_allocations(instance).utility.tolist())
        answer = solve_highs(instance, leximin=True)
        assert answer.allocation is not None
        assert sorted(utilities(instance, answer.allocation).tolist()) == pytest.approx(best)


def test_leximin_is_refused_at_other_powers() -> None:
    """It refines the minimum only."""
    with pytest.raises(ValueError, match=r"leximin is true at power -1; expected power -inf"):
        solve_highs(random_instance(0, -1.0), leximin=True)


@pytest.mark.parametrize("seconds", [1e-9, 0.02, 0.3])
def test_time_limit_leaves_the_best_so_far_with_a_bound(seconds: float) -> None:
    """However little time there is, the answer holds."""
    instance = full_round(120, 40)
    optimum = optimum_of(instance)
    answer = solve_highs(instance, stop=Stop(seconds=seconds), by_price=False)
    check_stopped(instance, answer, optimum)
    assert answer.limit is (None if answer.proven else Limit.TIME)
    assert seconds > 0.01 or answer.limit is Limit.TIME


@pytest.mark.parametrize("power", [-10.0, 0.0, math.inf, -math.inf])
def test_time_limit_holds_at_every_power(power: float) -> None:
    """Without time: a fallback and a bound."""
    instance = full_round(power=power)
    optimum = optimum_of(instance)
    answer = solve_highs(instance, stop=Stop(seconds=1e-9), by_price=False)
    check_stopped(instance, answer, optimum)
    assert answer.limit is (None if answer.proven else Limit.TIME)


def test_leximin_cut_short_says_so() -> None:
    """The least utility may be proved by then; the limit tells that the other ranks are not."""
    instance = full_round(power=-math.inf)
    answer = solve_highs(instance, stop=Stop(seconds=1e-9), leximin=True)
    check_stopped(instance, answer, optimum_of(instance))
    assert answer.limit is Limit.TIME


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Make HiGHS ignore its limits, from its `runs`-th run on, until the test has ended."""
    run, count, ended = highspy.Highs.run, iter(range(10**6)), threading.Event()

    def hang(runs: int) -> None:
        def slow(solver: Any) -> Any:
            if next(count) >= runs:
                ended.wait(60.0)
            return run(solver)

        monkeypatch.setattr(highspy.Highs, "run", slow)

    yield hang
    ended.set()


@pytest.mark.parametrize("runs", [0, 1])
def test_time_limit_holds_even_if_highs_overruns(runs: int, hang: Callable[[int], None]) -> None:
    """A HiGHS that does not return, in the relaxation or later, is left behind."""
    instance = full_round()
    optimum = optimum_of(instance)
    hang(runs)
    answer = solve_highs(instance, stop=Stop(seconds=0.4), by_price=False)
    check_stopped(instance, answer, optimum)
    assert answer.limit is (None if answer.proven else Limit.TIME)


def test_ctrl_c_leaves_the_best_so_far_with_a_bound(
    monkeypatch: pytest.MonkeyPatch, hang: Callable[[int], None]
) -> None:
    """Raised where the main thread waits for HiGHS."""
    instance = full_round()
    optimum = optimum_of(instance)
    hang(0)
    join, pressed = threading.Thread.join, iter([False, True])

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if next(pressed, False):
            raise KeyboardInterrupt
        join(thread, timeout)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupted)
        answer = solve_highs(instance, by_price=False)
    check_stopped(instance, answer, optimum)
    assert answer.limit is Limit.INTERRUPTED


@pytest.mark.parametrize("place", ["build_patterns", "decide", "pack"])
def test_ctrl_c_between_runs_leaves_the_best_so_far(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised while a program is built or a solution unpacked."""
    instance = full_round()
    optimum = optimum_of(instance)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"goodalloc.solvers.exact.pattern_oracle.{place}", interrupt)
    answer = solve_highs(instance, by_price=False)
    check_stopped(instance, answer, optimum)
    assert answer.limit is Limit.INTERRUPTED


def test_ctrl_c_in_the_tie_break_keeps_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proved is proved."""
    instance = full_round()

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goodalloc.solvers.exact.highs.canonical", interrupt)
    answer = solve_highs(instance)
    assert answer.proven
    assert answer.limit is None


SIGNAL = """
import os, signal, threading, time
import highspy
from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.objective import utility_table
from goodalloc.solvers.certificates.solve import solve

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
instance = generate(3, 40, 16, state="settled")
utility_table(instance)
signals = [threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))]  # one Ctrl-C, not two

def hang(solver):
    while signals:
        signals.pop().start()
    time.sleep(60)

highspy.Highs.run = hang
result = solve(instance)
print(result.limit, result.status, result.gap < 0.5)
"""


def test_a_real_ctrl_c_is_obeyed(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """A signal to the process while HiGHS does not return."""
    done = run_python("-c", SIGNAL, cwd=tmp_path)
    assert done.stdout.split() == ["interrupted", "feasible", "True"], done.stderr


def test_start_is_what_is_returned_at_worst() -> None:
    """An optimal start survives a limit of no time; an infeasible one is not looked at."""
    instance = full_round()
    answer = solve_highs(instance)
    assert answer.allocation is not None
    greedy = solve_greedy(instance).allocation
    assert greedy is not None
    assert fitness(instance, greedy) < fitness(instance, answer.allocation) * (1 - 1e-9)
    late = solve_highs(instance, stop=Stop(seconds=1e-9), start=answer.allocation)
    assert late.allocation == answer.allocation
    full = np.full((instance.num_jobs, instance.cluster.num_nodes), 4)
    infeasible = Allocation.from_matrix(full)
    late = solve_highs(instance, stop=Stop(seconds=1e-9), start=infeasible)
    check_stopped(instance, late, fitness(instance, answer.allocation))


@pytest.mark.parametrize("gap", [0.2, 1e-3, 1e-9])
def test_gap_is_honoured(gap: float) -> None:
    """The answer is within the gap of its bound, and its bound holds, for every power."""
    for seed in range(62_000, 62_010):
        power = (None, -10.0, -0.5, 0.0, 2.0)[seed % 5]
        instance = random_instance(seed)
        if power is not None:
            instance = instance.replace(rules=instance.rules.replace(power=power))
        best = solve_brute_force(instance).bound
        answer = solve_highs(instance, stop=Stop(gap=gap))
        assert answer.allocation is not None
        assert answer.proven
        value = fitness(instance, answer.allocation)
        assert value <= best * (1 + 1e-12)
        assert best * (1 - 1e-12) <= answer.bound
        assert answer.bound - value <= gap * answer.bound


def test_a_round_where_everyone_is_pinned_is_solved() -> None:
    """There is nothing to decide, and that is the answer."""
    jobs = (
        Job("one", placement=((0, 1), (1, 2)), preemptible=False),
        Job("two", placement=((0, 1),), preemptible=False),
    )
    instance = Instance(Cluster.uniform(2, 2), jobs)
    answer = solve_highs(instance)
    assert answer.allocation == instance.current
    assert answer.proven


def test_a_round_in_which_nobody_can_run_is_solved() -> None:
    """Jobs that need more GPUs than there are stay idle, and that is optimal."""
    jobs = tuple(Job(f"job{i}", min_replicas=9, max_replicas=9) for i in range(3))
    instance = Instance(Cluster.uniform(2, 4), jobs)
    answer = solve_highs(instance)
    assert answer.allocation == Allocation.empty(3, 2)
    assert answer.proven
    assert answer.bound == pytest.approx(instance.rules.floor)


@pytest.fixture
def presolving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of any size are presolved where a solver asks for it."""
    monkeypatch.setattr(highs_program, "WORTH_PRESOLVING", 0)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.usefixtures("presolving")
def test_presolved_rounds_are_solved_to_their_optimum(seed: int) -> None:
    """What the programs find with presolve is what trying all allocations finds."""
    instance = random_instance(seed, power=(-1.0, 1.0, 0.0, -10.0, -math.inf)[seed % 5])
    answer = solve_highs(instance, by_price=False, break_ties=False)
    best = solve_brute_force(instance).bound
    assert answer.allocation is not None
    assert fitness(instance, answer.allocation) == pytest.approx(best, rel=2e-9)
    assert answer.bound == pytest.approx(best, rel=2e-9)


@pytest.mark.parametrize("presolve", [False, True])
@pytest.mark.usefixtures("presolving")
def test_a_program_that_presolve_spoils_is_solved_to_its_optimum(presolve: bool) -> None:
    """HiGHS with all of presolve calls -1.103 optimal; trying all points finds -1.38."""
    infinity = np.inf
    program = Program(
        cost=np.array([-0.524, -0.563, -0.286, -0.595, -0.044, 0.933, -0.178, 0.0, 0.0]),
        lower=np.zeros(9),
        upper=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0]),
        integer=np.ones(9, dtype=bool),
        row_lower=np.array([1, 1, 1, 1, -infinity, -infinity, 0, -3, 0, 0, 0, 0, -infinity]),
        row_upper=np.array([1, 1, 1, 1, 0, 3, *[infinity] * 6, 0]),
        starts=np.array([0, 1, 3, 7, 8, 9, 10, 12, 15, 19]),
        index=np.array([0, 0, 7, 0, 10, 11, 12, 1, 2, 3, 3, 7, 5, 7, 9, 9, 10, 11, 12]),
        value=np.array([1.0, 1, -1, 1, -2, -2, -2, 1, 1, 1, 1, -1, 1, -1, 1, -1, 1, 1, 1]),
    )
    matrix = np.zeros((13, 9))
    matrix[program.index, np.repeat(np.arange(9), np.diff(program.starts))] = program.value
    points = np.array(list(itertools.product(*(range(int(most) + 1) for most in program.upper))))
    rows = points @ matrix.T
    allowed = ((rows >= program.row_lower) & (rows <= program.row_upper)).all(axis=1)
    best = float((points[allowed] @ program.cost).min())
    outcome = run_mixed_integer(program, Watch(Stop()), gap=1e-9, presolve=presolve)
    assert best == pytest.approx(-1.38)
    assert outcome.objective == pytest.approx(best, abs=1e-9)
    assert outcome.bound <= best + 1e-9
