"""The front door: any way to name a solver, every answer checked, every option known."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pkgutil
import re
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.formulations.sia_and_synergy.sia import build_sia_program
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.objective import fitness, utility_table
from goodalloc.solvers.certificates.solve import certify, solve
from goodalloc.solvers.interface import base
from goodalloc.solvers.interface.base import SOLVERS, call_solver, find_solver, solver_names
from goodalloc.solvers.interface.result import (
    Answer,
    Evidence,
    Incumbent,
    Limit,
    SolveError,
    Status,
)
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable

INSTANCE = Instance(Cluster.uniform(2, 2), (Job("one", age=1e5), Job("two", age=1e5)), name="pair")


@pytest.fixture(autouse=True)
def _utilities() -> None:
    """Without compiling."""
    utility_table(INSTANCE)


def one_each(instance: Instance) -> Allocation:
    """A solver that knows nothing of stop, seed and start: one GPU for every job."""
    return Allocation.from_matrix(np.eye(instance.num_jobs, instance.cluster.num_nodes))


def test_a_name_a_path_and_a_function_are_the_same() -> None:
    """Three ways to say greedy."""
    from goodalloc.solvers.heuristics.greedy import solve_greedy

    path = SOLVERS["greedy"]
    results = [solve(INSTANCE, solver) for solver in ("greedy", path, solve_greedy)]
    assert [result.solver for result in results] == ["greedy", path, "solve_greedy"]
    assert results[0].allocation == results[1].allocation == results[2].allocation


def test_the_exact_solver_is_the_default() -> None:
    """Proven optimal, by a name of its own."""
    result = solve(INSTANCE)
    assert (result.solver, result.status, result.instance) == ("highs", Status.OPTIMAL, "pair")
    assert result.gap <= 1e-9
    assert result.raise_for_status() is result


def test_entry_points_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution's solver, by the name that it registered."""
    point = EntryPoint("mine", f"{__name__}:one_each", base.ENTRY_POINT_GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: one_each)

    def registered(group: str, name: str | None = None) -> list[EntryPoint]:
        assert group == base.ENTRY_POINT_GROUP
        return [point] if name in (None, "mine") else []

    monkeypatch.setattr(base, "entry_points", registered)
    assert find_solver("mine") is one_each
    assert solver_names() == (*SOLVERS, "mine")
    assert solve(INSTANCE, "mine").allocation == one_each(INSTANCE)
    assert find_solver("greedy").__name__ == "solve_greedy"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("magic", r"Solver 'magic' is unknown; expected one of highs, .*package\.module:function"),
        ("no.such.module:solve", "'no.such.module:solve' cannot be loaded"),
        ("math:no_such_function", "'math:no_such_function' cannot be loaded"),
        ("math:pi", "'math:pi' is a float; expected a function"),
        (":solve", "':solve' cannot be loaded"),
    ],
)
def test_unknown_solvers_are_refused(name: str, words: str) -> None:
    """One sentence that names it."""
    with pytest.raises(ValueError, match=words):
        solve(INSTANCE, name)


def test_stop_seed_and_start_reach_a_solver_that_takes_them() -> None:
    """All three, or those it cares for, or none; any option if it takes any."""
    seen: dict[str, Any] = {}

    def takes_all(instance: Instance, **options: Any) -> Allocation:
        seen.update(options)
        return one_each(instance)

    def takes_seed(instance: Instance, seed: int) -> Allocation:
        seen["only_seed"] = seed
        return one_each(instance)

    start, stop = one_each(INSTANCE), Stop(seconds=5.0)
    solve(INSTANCE, takes_all, stop=stop, seed=7, start=start, strength=11)
    assert seen == {"stop": stop, "seed": 7, "start": start, "strength": 11}
    assert solve(INSTANCE, takes_seed, seed=3).seed == 3
    assert seen["only_seed"] == 3
    assert solve(INSTANCE, one_each, stop=stop, start=start).status is Status.FEASIBLE


@pytest.mark.parametrize(
    ("solver", "option", "words"),
    [
        ("highs", "leximax", r"Option 'leximax' is unknown to solver 'highs'; expected .*leximin"),
        ("greedy", "leximin", "Option 'leximin' is unknown to solver 'greedy'; expected none"),
        (one_each, "speed", "Option 'speed' is unknown to solver 'one_each'; expected none"),
        (SOLVERS["knapsack"], "fast", "Option 'fast' .*solve_knapsack'; expected one of exact"),
    ],
)
def test_options_that_a_solver_does_not_take_are_refused(
    solver: Any, option: str, words: str
) -> None:
    """One sentence that names the option and the solver."""
    options: dict[str, Any] = {option: True}
    with pytest.raises(ValueError, match=words):
        solve(INSTANCE, solver, **options)


@pytest.mark.parametrize("draw", [random_mode_instance, random_share_instance])
def test_a_solver_that_does_not_know_modes_names_those_that_do(
    draw: Callable[[int, float], Instance],
) -> None:
    """All that the sentence names decide such a round, and all that do are named."""
    others = {name for name in SOLVERS if name.startswith("synergy")} | {"genetic", "pods", "sia"}
    for seed in range(3):
        instance, knows, sentences = draw(seed, -1.0), set(), set()
        for name in set(SOLVERS) - others:
            try:
                assert solve(instance, name, stop=Stop(seconds=20.0)).allocation is not None
                knows.add(name)
            except ValueError as error:
                sentences.add(str(error).split("; expected ")[1])
        (sentence,) = sentences
        named = set(re.findall(r"[a-z_]+", sentence.removesuffix(" and, for pods, pods.")))
        assert named & (set(SOLVERS) - others) == knows


def test_a_function_that_takes_no_instance_is_refused() -> None:
    """Neither `dict` nor a function of nothing is a solver."""
    others: tuple[Any, ...] = (dict, lambda: None)
    for function in others:
        with pytest.raises(ValueError, match="is no function of one argument or more"):
            solve(INSTANCE, function)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"instance": "tiny-cold"}, "Instance: got 'tiny-cold'; expected an Instance, as load_ben"),
        ({"instance": None}, "Instance: got null; expected an Instance"),
        ({"stop": 2.0}, "Stop: got 2.0; expected a Stop, as Stop\\(seconds=2.0\\)"),
        ({"seed": -1}, "Seed is -1; expected an integer of at least 0"),
        ({"seed": 0.5}, "Seed is 0.5; expected an integer of at least 0"),
    ],
)
def test_arguments_of_another_type_are_refused(arguments: dict[str, Any], words: str) -> None:
    """With what was expected in their place."""
    every: dict[str, Any] = {"instance": INSTANCE, **arguments}
    with pytest.raises(ValueError, match=words):
        solve(**every)


def test_a_program_of_numbers_that_are_not_finite_is_an_outcome() -> None:
    """A solver whose program is refused leaves a message, and the front door a bound."""

    def overflows(instance: Instance) -> Allocation:
        build_sia_program(np.array([0]), np.array([np.nan]), np.ones((1, 1), int), np.ones(1, int))
        return one_each(instance)

    result = solve(INSTANCE, overflows)
    assert (result.allocation, result.status) == (None, Status.UNKNOWN)
    assert result.message == "Program: a cost is nan; expected a finite number."
    assert result.bound == knapsack_bound(INSTANCE)


@pytest.mark.parametrize("gap", [1e-9, 0.5])
@pytest.mark.parametrize(
    "solver", ["highs", "pyomo", "convex", "knapsack", "greedy", "local_search"]
)
def test_powers_of_any_size_bring_an_answer(solver: str, gap: float) -> None:
    """No number overflows on the way, with jobs that have modes where the solver knows them."""
    knows_modes = solver in ("highs", "pyomo", "greedy")
    seeds = range(1 if solver == "pyomo" else 3)
    for power, seed in itertools.product((-1e6, -1e3, 1e3, 1e6), seeds):
        instances = [random_instance(seed, power)]
        instances += [random_mode_instance(seed, power)] if knows_modes else []
        for instance in instances:
            result = solve(instance, solver, stop=Stop(seconds=10.0, gap=gap))
            assert math.isfinite(result.bound)
            if solver == "convex" and power > 1:
                assert "not concave" in result.message
            else:
                assert 0 < result.fitness <= result.bound * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["answer", "allocation", "matrix", "list", "nothing"])
def test_every_kind_of_reply_becomes_an_answer(kind: str) -> None:
    """An answer as it is, an allocation, a matrix, a list of lists, or None."""
    allocation = one_each(INSTANCE)
    reply = {
        "answer": Answer(allocation),
        "allocation": allocation,
        "matrix": allocation.matrix(),
        "list": allocation.matrix().tolist(),
        "nothing": None,
    }[kind]
    answer = call_solver(lambda instance: reply, INSTANCE, {})
    assert answer == Answer(None if kind == "nothing" else allocation)


def test_a_solver_may_return_the_result_of_another() -> None:
    """Its allocation is checked anew, and its bound is the caller's claim."""
    result = solve(INSTANCE, lambda instance: solve(instance, "greedy"))
    assert result.allocation == solve(INSTANCE, "greedy").allocation
    assert result.claimed_bound == solve(INSTANCE, "greedy").bound


@pytest.mark.parametrize("reply", [3, "matrix", {"one": 1}, object()])
def test_a_reply_that_is_no_allocation_is_refused(reply: Any) -> None:
    """In one sentence that names the solver and the type."""
    with pytest.raises(ValueError, match=rf"^Solver 'mine' returned a {type(reply).__name__}; "):
        call_solver(lambda instance: reply, INSTANCE, {}, name="mine")


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[3, 0], [0, 1]], "infeasible allocation refused: Node 'node-0' holds 3 replicas"),
        ([[1, 1], [2, 2]], r"infeasible allocation refused: .* \(and \d more\)"),
        ([[1, 0, 0], [0, 1, 0]], "infeasible allocation refused: .* 2 jobs by 3 nodes"),
        ([[1, 0]], "infeasible allocation refused: .* 1 jobs by 2 nodes"),
    ],
)
def test_infeasible_answers_are_dropped_and_said(matrix: list[list[int]], words: str) -> None:
    """No allocation, no fitness, a bound all the same, and a message."""
    result = solve(INSTANCE, lambda instance: Allocation.from_matrix(matrix))
    assert result.allocation is None
    assert math.isnan(result.fitness)
    assert math.isnan(result.gap)
    assert result.status is Status.INFEASIBLE
    assert result.bound == knapsack_bound(INSTANCE)
    with pytest.raises(ValueError, match=words):
        raise ValueError(result.message)
    with pytest.raises(SolveError, match=words):
        result.raise_for_status()


def test_an_answer_has_its_allocation_or_says_why_not() -> None:
    """Heuristics that always find one can so be built upon."""
    assert Answer(one_each(INSTANCE)).require_allocation() == one_each(INSTANCE)
    with pytest.raises(SolveError, match="no allocation: too late"):
        Answer(None, message="too late").require_allocation()


def test_fitness_is_recomputed_and_a_bound_is_found() -> None:
    """A solver without a bound is given the knapsack's, or the one that is known."""
    result = solve(INSTANCE, one_each)
    assert result.fitness == fitness(INSTANCE, one_each(INSTANCE))
    assert (result.bound, result.bound_source) == (knapsack_bound(INSTANCE), "knapsack")
    assert result.status is Status.FEASIBLE
    given = solve(INSTANCE, one_each, bound=2.5)
    assert (given.bound, given.bound_source, given.evidence) == (2.5, "given", Evidence.GIVEN)
    answer = Answer(one_each(INSTANCE), 0.9, "mine")
    kept = certify(INSTANCE, answer, "mine", trusted=True, bound=2.5)
    assert (kept.bound, kept.bound_source, kept.evidence) == (0.9, "mine", Evidence.SOLVER)


@pytest.mark.parametrize(("gap", "status"), [(0.2, Status.OPTIMAL), (0.01, Status.FEASIBLE)])
def test_status_goes_by_the_gap_that_was_asked_for(gap: float, status: Status) -> None:
    """Ten per cent below the bound is optimal to a gap of 0.2, and not to one of 0.01."""
    allocation = one_each(INSTANCE)
    bound = fitness(INSTANCE, allocation) / 0.9
    result = certify(INSTANCE, Answer(allocation, bound), "mine", trusted=True, gap=gap)
    assert result.status is status
    assert result.gap == pytest.approx(0.1)
    given = solve(INSTANCE, lambda instance: allocation, bound=bound, stop=Stop(gap=gap))
    assert (given.status, given.gap) == (status, result.gap)


def test_a_gap_of_rounding_is_proof_enough() -> None:
    """Asked for a gap of 0, the exact solver still proves what float64 can tell."""
    for seed in range(91_000, 91_010):
        assert solve(random_instance(seed), stop=Stop(gap=0.0)).status is Status.OPTIMAL
    allocation = one_each(INSTANCE)
    value = fitness(INSTANCE, allocation)
    for excess, status in ((1e-15, Status.OPTIMAL), (1e-11, Status.FEASIBLE)):
        answer = Answer(allocation, value * (1 + excess))
        assert certify(INSTANCE, answer, "mine", trusted=True, gap=0.0).status is status


def test_compiling_is_counted_apart() -> None:
    """Seconds are those of the solver without it."""

    def compiles(instance: Instance) -> Answer:
        return Answer(one_each(instance), compile_seconds=1e6)

    result = solve(INSTANCE, compiles)
    assert result.compile_seconds == 1e6
    assert result.solve_seconds == pytest.approx(-1e6, rel=1e-3)


INTERRUPTS = [
    ("greedy", "goodalloc.solvers.heuristics.greedy.BestSteps.of", 5),
    ("local_search", "goodalloc.solvers.heuristics.greedy.BestSteps.of", 5),
    ("local_search", "goodalloc.solvers.heuristics.occupancy.Occupancy.reseat", 3),
    ("knapsack", "goodalloc.solvers.heuristics.knapsack.knapsack_bound", 0),
    ("pyomo", "goodalloc.solvers.exact.pyomo_solver.build_node_milp", 0),
    ("pyomo", "goodalloc.solvers.exact.pyomo_solver.violations", 1),
]


@pytest.mark.parametrize(("solver", "place", "calls"), INTERRUPTS)
def test_ctrl_c_leaves_the_best_so_far(
    solver: str, place: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raised at some call deep inside; a start, where the solver takes one, is never lost."""
    instance = generate(3, 12, nodes=4, state="running")
    left = iter(range(calls))
    path, _, name = place.rpartition(".")
    owner = pkgutil.resolve_name(path)
    original = getattr(owner, name)

    def interrupt(*arguments: Any, **options: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, interrupt)
    result = solve(instance, solver, start=instance.current if solver == "pyomo" else None)
    assert result.limit is Limit.INTERRUPTED
    assert result.status is Status.FEASIBLE
    if solver != "knapsack":
        assert result.fitness >= fitness(instance, instance.current) * (1 - 1e-12)


def test_what_the_solver_counts_is_passed_on() -> None:
    """Limit, history, iterations, building time and message stand in the result."""
    best = (Incumbent(0.5, 1, 0.05),)
    answer = Answer(
        one_each(INSTANCE), 1.0, "mine", False, Limit.ITERATIONS, best, 17, 0.25, 0.0, "well done"
    )
    result = solve(INSTANCE, lambda instance: answer)
    assert result.limit is Limit.ITERATIONS
    assert result.history == best
    assert (result.iterations, result.build_seconds, result.message) == (17, 0.25, "well done")
    assert result.solve_seconds >= 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.fitness = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("gap", [0.1, 1e-9])
def test_exact_results_are_optimal_to_the_gap_asked_for(gap: float) -> None:
    """The solver and the certificate mean the same gap."""
    for seed in range(91_000, 91_010):
        result = solve(random_instance(seed), stop=Stop(gap=gap))
        assert result.status is Status.OPTIMAL
        assert result.gap <= gap


def test_a_bound_below_the_allocation_is_refuted() -> None:
    """Whoever states it, its solver or the caller, it gives way to the knapsack's."""
    instance = random_instance(3)
    found = solve(instance, "highs")
    wrong = found.fitness / 2
    stated = certify(instance, Answer(found.allocation, wrong, "program"), "ours", trusted=True)
    given = solve(instance, lambda instance: found.allocation, bound=wrong)
    ignored = solve(instance, "highs", bound=wrong)
    for result, source in ((stated, "program"), (given, "given")):
        assert result.bound == knapsack_bound(instance)
        assert (result.bound_source, result.evidence) == ("knapsack", Evidence.SOLVER)
        assert f"bound ({source}) {wrong:.12g} refuted: the allocation is worth" in result.message
    assert (ignored.bound, ignored.status) == (found.bound, Status.OPTIMAL)
    assert "bound (given)" in ignored.message


@pytest.mark.parametrize("bound", [math.nan, -1.0, "0.5", True])
def test_a_given_bound_that_is_no_number_is_refused(bound: Any) -> None:
    """Before anything is solved; infinity is none."""
    with pytest.raises(ValueError, match=r"Bound is .*; expected a number of at least 0"):
        solve(INSTANCE, one_each, bound=bound)
    assert solve(INSTANCE, one_each, bound=math.inf).bound_source == "knapsack"
