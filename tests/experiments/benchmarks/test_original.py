"""The benchmark beside the original algorithm, on a stand-in for the artifact of Pollux."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.benchmarks.original import (
    Artifact,
    generated_round,
    main,
    original_decisions,
)
from goodalloc.experiments.benchmarks.original_driver import Speedup
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, speedup_table

if TYPE_CHECKING:
    from pathlib import Path

# Scales speedups as the artifact does, checks what it is told, and gives one GPU to every job.
ONE_GPU_EACH = """
import numpy as np

class PolluxPolicy:
    def optimize(self, jobs, nodes, base_allocations, node_template):
        for job in jobs.values():
            speedup = job.speedup_fn
            assert job.resources == {"nvidia.com/gpu": 1} and job.preemptible
            assert job.creation_timestamp == -job.age and job.min_replicas <= job.max_replicas
            before = speedup(np.array([1, 2]), np.array([1, 2]))
            speedup._base_goodput = speedup._goodput_fn.optimize(
                num_nodes=1, num_replicas=2, max_batch_size=speedup._max_batch_size,
                atomic_bsz_range=speedup._atomic_bsz_range, accumulation=speedup._accumulation,
            )[0]
            assert (speedup(np.array([1, 2]), np.array([1, 2])) == before).all()
        free = [key for key, node in nodes.items() for _ in range(node.resources["nvidia.com/gpu"])]
        served = sorted(jobs, key=lambda job: jobs[job].attained_service)
        return {job: [node] for job, node in zip(served, free)}, len(nodes)
"""

KEEP = """
class PolluxPolicy:
    def optimize(self, jobs, nodes, base_allocations, node_template):
        return base_allocations, len(nodes)
"""

ALL_ON_ONE_NODE = """
class PolluxPolicy:
    def optimize(self, jobs, nodes, base_allocations, node_template):
        return {job: [0] for job in jobs}, len(nodes)
"""

OLD_LIBRARY = "import a_library_that_is_not_there\n"


def stand_in(folder: Path, code: str) -> Path:
    """A folder that looks like the artifact."""
    (folder / "simulator").mkdir()
    (folder / "simulator" / "pollux.py").write_text(code, encoding="utf-8")
    return folder


def test_every_run_is_priced_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has a row for every round, algorithm and seed; the rest agrees with it."""
    artifact, out = stand_in(tmp_path, ONE_GPU_EACH), tmp_path / "out"
    arguments = [
        "--artifact",
        str(artifact),
        "--python",
        sys.executable,
        "--rounds",
        "6x2-cold",
        "--seeds",
        "2",
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    rows = list(csv.DictReader((out / "originals.csv").read_text().splitlines()))
    assert [(row["round"], row["who"], row["seed"]) for row in rows] == [
        ("6x2-cold", who, seed) for who in ("original", "ours") for seed in "01"
    ]
    instance = generated_round("6x2-cold", 0)
    service = np.array([job.attained_service for job in instance.jobs])
    replicas = np.zeros((6, 2), dtype=int)
    replicas[np.argsort(service, kind="stable"), [0, 0, 0, 0, 1, 1]] = 1
    expected = fitness(instance, Allocation.from_matrix(replicas))
    assert [float(row["fitness"]) for row in rows[:2]] == pytest.approx([expected] * 2, rel=1e-5)
    assert all(0 <= float(row["gap"]) < 1 for row in rows)
    assert all(float(row["processor_seconds"]) >= 0 for row in rows)
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["round", "runs"]
    assert line.split()[:2] == ["6x2-cold", "2"]
    assert (out / "originals.png").read_bytes().startswith(b"\x89PNG")


def test_placements_reach_the_other_interpreter_and_come_back(tmp_path: Path) -> None:
    """A policy that changes nothing returns the current placements of every seed's round."""
    instance = generated_round("12x4-disturbed", 3)
    assert instance.current.job_replicas.any()
    artifact = Artifact.find(stand_in(tmp_path, KEEP), sys.executable)
    decisions = original_decisions(instance, artifact, 2)
    assert decisions.replicas.tolist() == [instance.current.matrix().tolist()] * 2
    assert decisions.processor_seconds.shape == (2,)
    assert not violations(instance, Allocation.from_matrix(decisions.replicas[0]))


def test_speedups_are_those_of_the_table() -> None:
    """One node or several, any number of GPUs, and what is more than the table holds."""
    for table in speedup_table(generated_round("5x2-cold", 0)):
        most = table.shape[-1] - 1
        nodes, replicas = np.array([0, 1, 2, 3, 1]), np.array([0, 1, 2, most, most + 5])
        expected = [0.0, table[0, 1], table[1, 2], table[1, most], table[0, most]]
        assert Speedup(table)(nodes, replicas).tolist() == expected


@pytest.mark.parametrize(
    ("code", "changes", "sentence"),
    [
        (None, {}, "holds no simulator/pollux.py; expected a clone of github.com/petuum/adaptdl"),
        (KEEP, {"--python": "no-such-python"}, "--python is 'no-such-python'; expected a Python"),
        (KEEP, {"--rounds": "40-cold"}, "--rounds names '40-cold'; expected jobs x nodes - state"),
        (KEEP, {"--rounds": "4x2-warm"}, "the state one of cold, running, disturbed, settled."),
        (KEEP, {"--seeds": "0"}, "argument --seeds: got '0'; expected a whole number"),
        (OLD_LIBRARY, {}, "No module named 'a_library_that_is_not_there'); expected a Python with"),
        (ALL_ON_ONE_NODE, {}, "6x2-cold, original, seed 0: the decision is wrong. Node"),
    ],
)
def test_bad_input_is_one_sentence(
    code: str | None,
    changes: dict[str, str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever is missing or wrong, the program says so on one line and ends with code 2."""
    artifact = tmp_path if code is None else stand_in(tmp_path, code)
    options = {
        "--artifact": str(artifact),
        "--python": sys.executable,
        "--rounds": "6x2-cold",
        "--seeds": "1",
        "--out": str(tmp_path / "out"),
    }
    words = [word for pair in (options | changes).items() for word in pair]
    assert main(words) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("bench_original: error: ")
    assert sentence in last
