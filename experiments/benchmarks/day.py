"""Benchmark of decisions in a replay of a day on a large cluster, exactly and by one price.

Run as ``python -m goodalloc.experiments.benchmarks.day [--sizes 2000x250x4] [--seeds 3]``; a size
is jobs x nodes x GPUs per node. The workload of a day is replayed under `pollux` and under
`pollux-priced`, without proofs of the gaps; seconds of a decision are those of the clock, from the
jobs as the simulator has them to their placements.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from goodalloc.data.workloads.generator import PUBLISHED_JOBS, draw_workload
from goodalloc.experiments.benchmarks.measurements import ended_by_control_c, write_measurements
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Compared policies, by the prefix of their columns.
POLICIES = {"exact": "pollux", "priced": "pollux-priced"}


class Replayed(NamedTuple):
    """Numbers of one replay.

    Attributes
    ----------
    decisions
        Number of decisions.
    median_ms, worst_ms
        Milliseconds of a decision.
    seconds
        Seconds of the whole replay.
    hours
        Average completion time.
    restarts
        Restarts of a job.
    """

    decisions: int
    median_ms: float
    worst_ms: float
    seconds: float
    hours: float
    restarts: float


def replay(policy: str, jobs: int, cluster: Cluster, seed: int) -> Replayed:
    """Replay a drawn day under a policy, and return its numbers."""
    workload = draw_workload(seed, load=jobs / PUBLISHED_JOBS)
    with tempfile.TemporaryDirectory() as folder:
        task = ReplayTask(Path(folder), policy, workload, Setting(cluster), gaps=False)
        task.run()
        milliseconds = 1000.0 * pd.read_csv(task.folder / "timing.csv").decision_seconds
        told = summarise(policy, task.folder)
    return Replayed(
        len(milliseconds),
        float(milliseconds.median()),
        float(milliseconds.max()),
        told["replay_seconds"],
        told["average_jct_hours"],
        told["restarts_per_job"],
    )


def measure(size: str, seed: int) -> dict[str, str | float]:
    """Replay a day under each of `POLICIES`, and return a row of the table."""
    jobs, nodes, gpus = map(int, size.split("x"))
    row: dict[str, str | float] = {"size": size, "seed": seed}
    for prefix, policy in POLICIES.items():
        found = replay(policy, jobs, Cluster.uniform(nodes, gpus), seed)
        row |= {f"{prefix}_{name}": value for name, value in found._asdict().items()}
    row["change_percent"] = 100.0 * (float(row["priced_hours"]) / float(row["exact_hours"]) - 1.0)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_day")
    parser.add_argument("--sizes", default="2000x250x4", help="jobs x nodes x GPUs, by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="CSV file; standard output if not given")
    arguments = parser.parse_args(argv)
    sizes, seeds = arguments.sizes.split(","), range(arguments.seeds)
    rows = [measure(size, seed) for size in sizes for seed in seeds]
    write_measurements(tuple(rows[0]), [tuple(row.values()) for row in rows], arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
