"""Benchmark of the decisions of a day: 2,000 jobs on 1,000 GPUs, a decision a minute.

Run as ``python -m goodalloc.experiments.benchmarks.day [--jobs N] [--nodes N] [--seeds N]
[--out FILE]``. The day is a drawn workload that Pollux decides exactly, every round to proven
optimality, through the simulator; every row is one decision, with its wall and processor seconds
and whether one price proved it (`solvers/exact/by_price.py`). What is compiled is compiled before
the first row. Rounds of a day differ little from one to the next; nothing is kept between them, so
that every decision is that of the round alone.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.benchmarks.measurements import ended_by_control_c, peak_gib
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.plots import plot_scaling, save
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round

#: Limit of one decision in seconds, far above what any takes.
LIMIT = 60.0
#: Width of a class of active jobs in the picture.
CLASS = 20


@dataclass
class Clocked:
    """Policy whose last decision is timed, by the processor."""

    policy: Policy
    processor_seconds: float = field(default=0.0, init=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes of the policy."""
        return self.policy.batch_sizes

    def decide(self, round_: Round) -> Decision:
        """Return the decision of the policy, and keep its processor seconds."""
        begin = time.process_time()
        decision = self.policy.decide(round_)
        self.processor_seconds = time.process_time() - begin
        return decision


def decisions(seed: int, jobs: int, nodes: int, gpus: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every decision of a day.

    Parameters
    ----------
    seed
        Seed of the workload.
    jobs
        Jobs that are submitted.
    nodes, gpus
        Nodes, and GPUs of each.
    """
    policy = Clocked(make_policy("pollux", PolicyOptions(seconds=LIMIT)))
    setting = Setting(Cluster.uniform(nodes, gpus))
    workload = draw_workload(seed, jobs=jobs)
    simulator = Simulator(workload, applications_of(None), policy, setting)
    while not simulator.finished:
        record = simulator.step()
        if record is None:
            continue
        current = record.decision.placements
        yield {
            "size": f"{jobs}x{nodes}x{gpus}",
            "seed": seed,
            "time": record.round_.time,
            "active_jobs": len(record.round_.jobs),
            "running_jobs": len(current),
            "gpus_used": sum(count for row in current.values() for _, count in row),
            "seconds": record.seconds,
            "processor_seconds": policy.processor_seconds,
            "by_price": int(record.decision.bound_source != "pattern program"),
            "peak_gib": peak_gib(),
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the CSV and a picture, and print how long decisions take."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_day")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=250)
    parser.add_argument("--gpus", type=int, default=4, help="of every node")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/bench_day.csv"))
    arguments = parser.parse_args(argv)
    size = arguments.nodes, arguments.gpus
    for _ in decisions(0, min(arguments.jobs, 20), *size):  # compiles
        pass
    rows: list[dict[str, Any]] = []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="") as file:
        writer: csv.DictWriter[str] | None = None
        for seed in range(arguments.seeds):
            for row in decisions(seed, arguments.jobs, *size):
                if writer is None:
                    writer = csv.DictWriter(file, list(row))
                    writer.writeheader()
                writer.writerow(row)
                file.flush()
                rows.append(row)
    _summarise(rows)
    picture = arguments.out.with_suffix(".png")
    save(plot_scaling(_curves(rows)), picture)
    sys.stdout.write(f"written: {arguments.out}, {picture}\n")
    return 0


def _curves(rows: list[dict[str, Any]]) -> dict[str, dict[int, list[float]]]:
    """Return seconds by road and number of active jobs, in classes of `CLASS`."""
    curves: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        curve = curves.setdefault("by price" if row["by_price"] else "by programs", {})
        jobs = CLASS * round(row["active_jobs"] / CLASS) or CLASS // 2
        curve.setdefault(jobs, []).append(row["seconds"])
    return curves


def _summarise(rows: list[dict[str, Any]]) -> None:
    """Print the distribution of seconds by road."""
    columns = ("road", "decisions", "median s", "90 % s", "worst s", "processor s in all")
    sys.stdout.write(" ".join(f"{name:>12}" for name in columns) + "\n")
    for name, roads in (("by price", (1,)), ("by programs", (0,)), ("all", (0, 1))):
        group = [row for row in rows if row["by_price"] in roads]
        if not group:
            continue
        seconds = sorted(row["seconds"] for row in group)
        processor = sum(row["processor_seconds"] for row in group)
        sys.stdout.write(
            f"{name:>12} {len(group):>12} {statistics.median(seconds):>12.3f} "
            f"{seconds[int(0.9 * (len(seconds) - 1))]:>12.3f} {seconds[-1]:>12.3f} "
            f"{processor:>12.1f}\n"
        )


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
