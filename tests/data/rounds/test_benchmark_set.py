"""The instances that ship: complete, small, as generated, with best known values that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.data.files.instance import instance_text, write_instance
from goodalloc.data.rounds.benchmark_set import (
    BENCHMARKS,
    benchmark_names,
    best_known_values,
    find_instance,
    instance_folder,
    load_benchmark,
)
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.gap.make_benchmark_set import better, write_instances
from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result import Result, Status

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", benchmark_names())
def test_a_shipped_instance_is_what_the_generator_gives(name: str) -> None:
    """The file is, byte for byte, what its arguments generate, and its placements are feasible."""
    instance = load_benchmark(name)
    assert instance.name == name
    assert violations(instance, instance.current) == ()
    text = (instance_folder() / f"{name}.json").read_text(encoding="utf-8")
    assert text == instance_text(generate(**BENCHMARKS[name], name=name))


def test_the_set_is_small() -> None:
    """All files together stay below six megabytes."""
    sizes = [len(path.read_bytes()) for path in instance_folder().iterdir()]
    assert sum(sizes) < 6e6


def test_the_set_covers_states_loads_and_nodes() -> None:
    """Every state, under- and overload, nodes of 4, 8, and mixed sizes."""
    instances = [load_benchmark(name) for name in benchmark_names()]
    assert {b.get("state", "cold") for b in BENCHMARKS.values()} == {
        "cold",
        "running",
        "disturbed",
        "settled",
    }
    jobs_per_gpu = [i.num_jobs / i.cluster.num_gpus for i in instances]
    assert min(jobs_per_gpu) < 0.2
    assert max(jobs_per_gpu) > 2
    sizes = {tuple(sorted(set(i.cluster.node_gpus.tolist()))) for i in instances}
    assert {(4,), (8,), (2, 4, 8)} <= sizes
    assert max(i.num_jobs for i in instances) == 500


def test_best_known_values_are_complete_and_consistent() -> None:
    """Every instance has one; no fitness exceeds its bound, and the gap is the distance."""
    values = best_known_values()
    assert tuple(values) == benchmark_names()
    for value in values.values():
        assert 0 < value.fitness <= value.bound * (1 + 1e-9)
        assert value.gap == pytest.approx(1 - value.fitness / value.bound, abs=1e-9)


@pytest.mark.parametrize("name", ["tiny-cold", "tiny-disturbed", "small-running"])
def test_a_best_known_value_is_found_again(name: str) -> None:
    """The exact solver reaches the stored fitness."""
    result = solve(load_benchmark(name))
    assert result.fitness == pytest.approx(best_known_values()[name].fitness, rel=1e-8)


def test_an_instance_is_found_by_name_or_file(tmp_path: Path) -> None:
    """A name that ships, or a path."""
    instance = find_instance("tiny-cold")
    write_instance(instance, tmp_path / "copy.json")
    assert find_instance(str(tmp_path / "copy.json")) == instance


def test_a_better_value_replaces_a_known_one() -> None:
    """Fitness only rises, the bound only falls."""
    low = Result("a", "x", None, 0.5, 0.9, "", Status.FEASIBLE)
    high = Result("b", "x", None, 0.7, 1.0, "", Status.FEASIBLE)
    value = better(better(None, low), high)
    assert (value.fitness, value.bound, value.solver) == (0.7, 0.9, "b")
    assert better(value, low).fitness == 0.7


def test_instances_that_change_lose_their_best_known_value(tmp_path: Path) -> None:
    """A value is kept only while its instance stays the same."""
    write_instances(tmp_path)
    table = tmp_path / "best_known.csv"
    row = "{},0.1,0.2,0.5,highs,0\n"
    table.write_text(table.read_text() + row.format("tiny-cold") + row.format("over-cold"))
    (tmp_path / "over-cold.json").write_text("{}")
    write_instances(tmp_path)
    assert "tiny-cold" in table.read_text()
    assert "over-cold" not in table.read_text()
