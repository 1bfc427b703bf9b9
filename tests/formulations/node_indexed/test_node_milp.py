"""The node-indexed program: its solutions are the feasible allocations, with the right cost."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

from goodalloc.formulations.basics.extreme_cost import program_fitness
from goodalloc.formulations.basics.power_mean_cost import AtMost, power_cost
from goodalloc.formulations.node_indexed.node_milp import (
    IDLE,
    KEEP,
    ONE_NODE,
    SEVERAL_NODES,
    NodeChoice,
    build_node_milp,
    decode,
    node_choices,
)
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.gpu_sharing import pack_shares
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.objective import utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact import pyomo_solver
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.exact.pyomo_solver import export_pyomo, find_pyomo_solver, solve_pyomo
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def fix_allocation(model: Any, instance: Instance, allocation: Allocation) -> float:
    """Set all variables to what an allocation means; returns the largest violation of a row."""
    unchanged = allocation.unchanged(instance.current)
    matrix = allocation.matrix()
    for choice in model.choices:
        model.take[choice].set_value(0)
    for job in range(instance.num_jobs):
        held, nodes = int(matrix[job].sum()), int(np.count_nonzero(matrix[job]))
        keeps = bool(unchanged[job]) and held > 0
        kind = KEEP if keeps else IDLE if not held else SEVERAL_NODES if nodes > 1 else ONE_NODE
        mode = int(instance.first_mode[job] + allocation.mode[job])
        choice = NodeChoice(job, kind, held, mode)
        if choice not in model.choices:
            return math.inf
        model.take[choice].set_value(1)
        for node in range(instance.cluster.num_nodes):
            placed = 0 if keeps else int(matrix[job, node])
            if placed and not instance.mode_nodes[mode, node]:
                return math.inf
            for row in model.modes_of[job]:
                if not model.replicas[row, node].fixed:
                    model.replicas[row, node].set_value(placed if row == mode else 0)
            model.touches[job, node].set_value(int(placed > 0))
            if instance.rules.interference_avoidance:
                model.distributed[job, node].set_value(int(placed > 0 and nodes > 1))
    if instance.shares_gpus:
        fix_shares(model, instance, allocation)
    rows = model.component_data_objects(pyo.Constraint, active=True)
    slacks = [(row.lslack(), row.uslack()) for row in rows]
    return max((-min(pair) for pair in slacks), default=0.0)


def fix_shares(model: Any, instance: Instance, allocation: Allocation) -> None:
    """Put the replicas that share GPUs onto them; those that fit on none all on the first."""
    share = instance.mode_share
    for variable in (*model.part.values(), *model.opened.values()):
        variable.set_value(0)
    matrix = allocation.matrix()
    for node, gpus in enumerate(instance.cluster.node_gpus.tolist()):
        held = {
            int(instance.first_mode[job] + allocation.mode[job]): int(matrix[job, node])
            for job in range(instance.num_jobs)
        }
        shared = {mode: count for mode, count in held.items() if 0 < share[mode] < 1}
        parts = [share[mode] for mode, count in shared.items() for _ in range(count)]
        packed = pack_shares(parts, gpus) or ((tuple(parts),) if gpus else ())
        for gpu, carried in enumerate(packed):
            model.opened[node, gpu].set_value(int(len(carried) > 0))
            for part in carried:
                mode = next(m for m in shared if share[m] == part and shared[m] > 0)
                shared[mode] -= 1
                slot = model.part[mode, node, gpu]
                slot.set_value(slot.value + 1)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("draw", [random_instance, random_mode_instance, random_share_instance])
def test_feasible_allocations_satisfy_the_rows_and_cost_what_they_should(
    seed: int, draw: Callable[[int, float], Instance]
) -> None:
    """Each feasible allocation is a solution; its cost gives back its utilities."""
    instance = draw(seed, -1.0)
    model, found = build_node_milp(instance), enumerate_allocations(instance)
    generator = np.random.default_rng(seed)
    for index in generator.integers(len(found.row), size=5).tolist():
        allocation = found.allocation(index)
        assert fix_allocation(model, instance, allocation) <= 1e-9
        assert decode(model, instance) == allocation
        cost = float(power_cost(utilities(instance, allocation), -1.0).sum())
        assert pyo.value(model.total_cost) == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("draw", [random_instance, random_mode_instance, random_share_instance])
def test_infeasible_allocations_break_a_row(
    seed: int, draw: Callable[[int, float], Instance]
) -> None:
    """A matrix that the checker refuses is no solution of the program."""
    instance = draw(seed, -1.0)
    model = build_node_milp(instance)
    generator = np.random.default_rng(seed)
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    for _ in range(40):
        most = np.maximum.reduceat(instance.most_on_node, instance.first_mode, axis=0)
        matrix = generator.integers(0, most + 1, size=shape)
        modes = [generator.integers(max(len(job.modes), 1)) for job in instance.jobs]
        allocation = Allocation.from_matrix(
            matrix * (generator.random(shape) < 0.5), np.array(modes)
        )
        broken = fix_allocation(model, instance, allocation) > 1e-9
        assert broken == bool(violations(instance, allocation))


def test_choices_follow_the_rules_on_single_jobs() -> None:
    """Sizes of nodes, limits of the job, pinning and the node limit show in the choices."""
    jobs = (
        Job("free", min_replicas=2, max_replicas=3),
        Job("pinned", placement=((0, 1),), preemptible=False),
        Job("wide", placement=((0, 1), (1, 1)), max_replicas=1),
    )
    instance = Instance(Cluster.uniform(2, 2), jobs, Rules(max_nodes_per_job=2))
    expected = {
        (0, IDLE, 0, 0),
        (0, ONE_NODE, 2, 0),
        (0, SEVERAL_NODES, 2, 0),
        (0, SEVERAL_NODES, 3, 0),
        (1, KEEP, 1, 1),
        (2, IDLE, 0, 2),
        (2, ONE_NODE, 1, 2),
    }
    assert set(node_choices(instance)) == expected
    narrow = instance.replace(rules=Rules(max_nodes_per_job=1))
    assert set(node_choices(narrow)) == {c for c in expected if c[1] != SEVERAL_NODES}


def test_limits_and_forbidden_choices_are_obeyed() -> None:
    """At most one job below the best, and no starved job at all: the program says no or obeys."""
    instance = random_instance(8, -1.0)
    solver = find_pyomo_solver("highs")
    best = max(node_choices(instance).values())
    model = build_node_milp(instance, limits=(AtMost(0, math.nextafter(best, math.inf)),))
    results = solver.solve(model, load_solutions=False)
    assert results.solver.termination_condition == pyo.TerminationCondition.infeasible
    model = build_node_milp(instance, forbidden=lambda u: u > instance.rules.floor)
    assert all(model.utility[c] <= instance.rules.floor for c in model.choices)


def test_infinite_powers_need_a_cost() -> None:
    """The minimum is no sum of costs; the sentence says so."""
    with pytest.raises(ValueError, match="expected a finite number"):
        build_node_milp(random_instance(0, -math.inf))


def test_unknown_solvers_are_refused_in_one_sentence() -> None:
    """Whether Pyomo has never heard of it or it is not installed."""
    for name in ("no_such_solver", "gurobi_that_is_not_here"):
        with pytest.raises(ValueError, match=f"Solver '{name}' is not available to Pyomo"):
            solve_pyomo(random_instance(0), solver_name=name)


def test_the_other_interface_to_highs_agrees() -> None:
    """Any solver that Pyomo finds will do."""
    instance = random_instance(4, -1.0)
    one, other = solve_pyomo(instance), solve_pyomo(instance, solver_name="appsi_highs")
    assert one.bound == pytest.approx(other.bound, rel=1e-8)


def test_time_limit_leaves_a_valid_bound() -> None:
    """No time at all: no allocation, but the start and a bound that holds."""
    instance = Instance(Cluster.uniform(2, 2), (Job("one", age=1e4), Job("two", age=1e4)))
    start = Allocation.empty(2, 2)
    answer = solve_pyomo(instance, stop=Stop(seconds=1e-9), start=start)
    optimum = solve_pyomo(instance)
    assert answer.allocation == start
    assert answer.limit == "time"
    assert not answer.proven
    assert answer.bound >= optimum.bound * (1 - 1e-9)


def test_a_round_too_large_for_the_time_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand jobs on 256 nodes in a second: nothing is built; a message with the size."""
    monkeypatch.setattr(pyomo_solver, "build_node_milp", None)
    instance = Instance(Cluster.uniform(256, 4), tuple(Job(f"job{i}") for i in range(1000)))
    answer = solve_pyomo(instance, stop=Stop(seconds=1.0))
    assert (answer.allocation, answer.limit) == (None, "time")
    assert "1000 jobs in 1000 modes on 256 nodes are too many" in answer.message
    assert "in 1 s: it takes 61 s at least" in answer.message


def test_a_program_that_takes_longer_than_expected_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While it is built, and before it is handed over."""
    monkeypatch.setattr(pyomo_solver, "LATE", 0.1)
    instance = Instance(Cluster.uniform(2, 2), (Job("one", age=1e4), Job("two", age=1e4)))
    for seconds in (5.0, 0.3):

        def slow(*arguments: Any, seconds: float = seconds, **options: Any) -> Any:
            time.sleep(seconds)
            return build_node_milp(*arguments, **options)

        monkeypatch.setattr(pyomo_solver, "build_node_milp", slow)
        answer = solve_pyomo(instance, stop=Stop(seconds=0.5))
        assert (answer.allocation, answer.limit) == (None, "time")
        assert "could not be built and handed over to highs in time" in answer.message


@pytest.mark.parametrize("power", [-math.inf, -1.0, math.inf])
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_exported_programs_have_the_same_optimum(tmp_path: Path, suffix: str, power: float) -> None:
    """The file, read by another program, has the optimum's cost."""
    instance = random_instance(9, power)
    path = tmp_path / f"program{suffix}"
    export_pyomo(instance, path)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    solver.run()
    cost = solver.getInfo().objective_function_value
    optimum = solve_pyomo(instance).bound
    worth = program_fitness(cost, instance.num_jobs, power, 1.0)
    assert worth == pytest.approx(optimum, rel=1e-6)
    assert "take" in path.read_text(encoding="utf-8")


def test_export_refuses_other_files(tmp_path: Path) -> None:
    """Only .mps and .lp, and only where a file can be."""
    instance = random_instance(9, -1.0)
    with pytest.raises(ValueError, match=r"expected a name that ends in \.mps or \.lp"):
        export_pyomo(instance, tmp_path / "program.txt")
    with pytest.raises(ValueError, match=r"cannot be written"):
        export_pyomo(instance, tmp_path / "missing" / "program.lp")


def test_rows_of_resources_and_limits_are_named_by_what_they_bound() -> None:
    """A row that bounds nothing is left out and leaves the others' names alone."""
    instance = random_mode_instance(3)
    limits = (AtMost(0, -1.0), AtMost(instance.num_jobs, math.inf))
    model = build_node_milp(instance, limits=limits)
    assert list(model.limits) == [1]
    num_resources = instance.cluster.node_resources.shape[1]
    pairs = [(r, v) for r in range(num_resources) for v in range(instance.cluster.num_nodes)]
    assert list(model.resource_capacity) == [
        (r, v) for r, v in pairs if (instance.mode_resources[:, r] > 0).any()
    ]
