"""Exporting a round as a program: what its optimum says, whatever counts in the round."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import highspy
import pytest

from goodalloc.data.files.instance import write_instance
from goodalloc.data.rounds.benchmark_set import best_known_values
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.topology.topology_file import write_topology
from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.cli.main import main
from goodalloc.formulations.basics.extreme_cost import program_fitness
from goodalloc.formulations.exported.round_program import (
    CLAIMS,
    OF_TREES,
    build_program,
    build_tree_program,
)
from goodalloc.models.round.mode import Mode
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.topology.brute_force import topology_brute_force
from tests.support.random_instances import random_instance, random_mode_instance
from tests.support.small_rounds import tiny_tree

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance


def exported_fitness(instance: Instance, formulation: str) -> float:
    """What the optimum of a formulation is worth."""
    program, reference = build_program(instance, formulation)
    outcome = run_mixed_integer(program, Watch(Stop()), gap=1e-9)
    power = instance.rules.power
    return program_fitness(outcome.objective, instance.num_jobs, power, reference)


@pytest.mark.parametrize("power", [-math.inf, -1.0, 0.0, 1.0, math.inf])
@pytest.mark.parametrize("seed", range(10))
def test_the_node_indexed_program_is_exact_and_the_others_are_relaxations(
    seed: int, power: float
) -> None:
    """Of plain rounds and of rounds with modes, against the enumeration."""
    for instance in (random_instance(seed, power), random_mode_instance(seed, power)):
        if instance.shares_gpus:
            continue
        optimum = solve_brute_force(instance, break_ties=False).bound
        plain = [name for name in CLAIMS if name not in OF_TREES]
        for formulation in plain if instance.plain else ("aggregate", "node"):
            worth = exported_fitness(instance, formulation)
            assert worth >= optimum * (1 - 1e-6), formulation
            if formulation == "node":
                assert worth == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("power", [-math.inf, -1.0, 0.0, 1.0, math.inf])
@pytest.mark.parametrize("seed", range(6))
def test_pieces_of_a_round_on_a_tree_are_exact_and_domains_a_relaxation(
    seed: int, power: float
) -> None:
    """Against the enumeration."""
    round_ = tiny_tree(seed, power=power)
    _, optimum = topology_brute_force(round_)
    for formulation in OF_TREES:
        program, reference = build_tree_program(round_, formulation)
        outcome = run_mixed_integer(program, Watch(Stop()), gap=1e-9)
        jobs = round_.instance.num_jobs
        worth = program_fitness(outcome.objective, jobs, power, reference)
        assert worth >= optimum * (1 - 1e-6), formulation
        if formulation == "pieces":
            assert worth == pytest.approx(optimum, rel=1e-6)


def test_the_command_exports_a_round_on_a_tree_and_refuses_other_formulations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    round_ = generate_on_tree(0, nodes=16, load=0.5)
    write_instance(round_.instance, tmp_path / "round.json")
    write_topology(round_, tmp_path / "tree.json")
    command = ["export", str(tmp_path / "round.json"), "--to", str(tmp_path / "out.mps")]
    tree = ["--tree", str(tmp_path / "tree.json")]
    assert main([*command, *tree]) == 0
    assert "a relaxation by domains of the tree" in capsys.readouterr().out
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(tmp_path / "out.mps"))
    assert solver.run() == highspy.HighsStatus.kOk
    assert main([*command, *tree, "--formulation", "node"]) == 2
    assert "knows no tree; expected one of domains, pieces" in capsys.readouterr().err
    assert main([*command, "--formulation", "pieces"]) == 2
    assert "is of rounds on trees; expected a tree" in capsys.readouterr().err
    free = round_.instance.rules.replace(interference_avoidance=False)
    write_instance(round_.instance.replace(rules=free), tmp_path / "round.json")
    assert main([*command, *tree]) == 2
    assert "its rules do not avoid interference" in capsys.readouterr().err


def test_a_round_with_cores_is_exported_as_the_aggregate_by_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the result says so; the pattern program is refused in one sentence."""
    file, out = str(tmp_path / "round.json"), str(tmp_path / "round.lp")
    write_instance(equip(generate(1, 6, 2, 4), 1, cores=24), file)
    assert main(["export", file, "--to", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formulation"] == "aggregate"
    assert "capacity" in Path(out).read_text(encoding="utf-8")
    assert main(["export", file, "--to", out, "--formulation", "pattern"]) != 0
    assert "formulation 'pattern' knows only GPUs" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["lp", "mps"])
def test_the_worst_job_of_a_round_is_exported_and_what_the_objective_is_worth_is_said(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At p = -inf a program of its own; read back from the file it has the optimum."""
    out = tmp_path / f"model.{suffix}"
    command = ["export", "even-maxmin", "--to", str(out)]
    assert main(command) == 0
    assert "the fitness r exp(-z); r = " in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    reference = json.loads(capsys.readouterr().out)["reference"]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(out))
    solver.run()
    cost = solver.getInfo().objective_function_value
    known = best_known_values()["even-maxmin"].fitness
    assert reference * math.exp(-cost) == pytest.approx(known, rel=1e-6)


def test_utilities_of_any_size_are_told_apart() -> None:
    """Weights from 1e-9 to 1e9: the least utility is exact to many digits all the same."""
    for exponent in (-9, 0, 9):
        drawn = random_instance(11, -math.inf)
        jobs = tuple(
            job.replace(weight=job.weight * 10.0**exponent if job.weight < 1 else 10.0**exponent)
            for job in drawn.jobs
        )
        instance = drawn.replace(jobs=jobs, rules=drawn.rules.replace(floor=10.0 ** (exponent - 3)))
        optimum = solve_brute_force(instance, break_ties=False).bound
        assert exported_fitness(instance, "node") == pytest.approx(optimum, rel=1e-6)


def test_parts_of_gpus_are_refused() -> None:
    """No exported program knows them."""
    plain = generate(1, 4, 2, 4)
    half = plain.jobs[0].replace(model=None, modes=(Mode("half", None, gpu_share=0.5),))
    instance = plain.replace(jobs=(half, *plain.jobs[1:]))
    with pytest.raises(ValueError, match="take a part of a GPU; expected whole GPUs"):
        build_program(instance, "node")
