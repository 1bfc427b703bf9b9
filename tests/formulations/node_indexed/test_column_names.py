"""Solutions of exported programs, read back by the names of the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import highspy
import pytest

from goodalloc.data.files.instance import write_instance
from goodalloc.experiments.cli.main import main
from goodalloc.formulations.node_indexed.column_names import decode_columns
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.certificates.solve import solve
from tests.support.random_instances import random_instance, random_mode_instance

if TYPE_CHECKING:
    from pathlib import Path

PAIR = Instance(Cluster.uniform(2, 4), (Job("a"), Job("b")))


def solved(path: Path) -> dict[str, float]:
    """The columns of a file at its optimum."""
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.readModel(str(path))
    solver.run()
    values = solver.getSolution().col_value
    return dict(zip(solver.getLp().col_names_, values, strict=True))


@pytest.mark.parametrize("ending", [".mps", ".lp"])
@pytest.mark.parametrize("draw", [random_instance, random_mode_instance])
@pytest.mark.parametrize("seed", range(4))
def test_an_exported_optimum_is_read_back(
    tmp_path: Path, draw: Any, seed: int, ending: str
) -> None:
    """The allocation breaks no rule and is worth as much as that of our own solver."""
    instance = draw(seed)
    write_instance(instance, tmp_path / "round.json")
    target = tmp_path / f"round{ending}"
    arguments = ["export", str(tmp_path / "round.json"), "--to", str(target)]
    assert main([*arguments, "--formulation", "node"]) == 0
    allocation = decode_columns(instance, solved(target))
    assert not violations(instance, allocation)
    best = solve(instance, "highs").fitness
    assert fitness(instance, allocation) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"choice_0_idle_0": 1.0}, "Job 'b' takes no choice"),
        ({"choice_0_idle_0": 1.0, "choice_0_one_node_1": 1.0}, "are both taken"),
        ({"choice_7_idle_0": 1.0}, "Column 'choice_7_idle_0'"),
        ({"local_0_one_node_1_7": 1.0}, "Column 'local_0_one_node_1_7'"),
        ({}, "Job 'a' takes no choice"),
    ],
)
def test_no_solution_is_refused(values: dict[str, float], sentence: str) -> None:
    """With a sentence that names the job or the column."""
    with pytest.raises(ValueError, match="expected") as caught:
        decode_columns(PAIR, values)
    assert sentence in str(caught.value)
