"""Benchmark of sharing units: the greedy of SLAQ, exactly, and by dynamic programming alone.

Run as ``python -m goodalloc.experiments.benchmarks.unit_shares [--sizes 100x1000,…] [--out FILE]``.
The gains are those of drawn jobs at drawn stages of their training (`data/classical/loss_jobs.py`),
by their true losses; with ``machines`` they are not concave. *exactly* first excludes choices by a
bound; *plain* is the dynamic program alone, for sizes up to `MOST_PLAIN` jobs × units.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.classical.loss_jobs import draw_loss_jobs
from goodalloc.experiments.benchmarks.measurements import Table, ended_by_control_c
from goodalloc.models.classical.unit_gains import one_each, unit_violations
from goodalloc.solvers.classical.unit_shares import gain_bound, share_exactly, share_greedily

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.classical.unit_gains import UnitGains
    from goodalloc.solvers.classical.unit_shares import Shares

#: Jobs x units.
SIZES = "100x1000,1000x1000,100x10000,1000x10000,1000x16000"

#: Seconds between decisions, as in SLAQ's evaluation.
INTERVAL = 3.0

#: Most jobs times units for which the dynamic program is run alone.
MOST_PLAIN = 1_000_000


class Row(NamedTuple):
    """Row of one instance; times in seconds, NaN for methods that were not run."""

    size: str
    machines: bool
    seed: int
    greedy_seconds: float
    exact_seconds: float
    plain_seconds: float
    greedy_gap: float
    bound_gap: float


def instance(jobs: int, units: int, seed: int, *, machines: bool) -> UnitGains:
    """Draw the gains of units to jobs at random stages of their training.

    Parameters
    ----------
    jobs, units, seed
        Number of jobs and of units, and seed of the draws.
    machines
        Whether exchange between machines takes time.
    """
    random = np.random.default_rng([seed, 7])
    amounts = np.arange(units + 1.0)
    rows = []
    for job in draw_loss_jobs(seed, jobs, machines=machines, noise=0.0):
        done = random.uniform(0.0, job.iterations)
        after = np.minimum(done + INTERVAL * job.rate(amounts), job.iterations)
        steps = np.arange(len(job.left))
        loss = np.interp(after, steps, job.left)
        rows.append((loss[0] - loss) / (job.left[0] - job.left[1]))
    return one_each(np.stack(rows), units)


def measure(size: str, seed: int, *, machines: bool) -> Row:
    """Solve an instance by all methods and return its row; all answers are checked."""
    jobs, units = (int(part) for part in size.split("x"))
    problem = instance(jobs, units, seed, machines=machines)
    greedy, exact = share_greedily(problem), share_exactly(problem)
    plain = share_exactly(problem, prune=False) if jobs * units <= MOST_PLAIN else None
    for found in (greedy, exact, *([plain] if plain else [])):
        _require_sound(problem, found, exact.total)
    return Row(
        size=size,
        machines=machines,
        seed=seed,
        greedy_seconds=greedy.seconds,
        exact_seconds=exact.seconds,
        plain_seconds=plain.seconds if plain else float("nan"),
        greedy_gap=1.0 - greedy.total / exact.total,
        bound_gap=1.0 - exact.total / gain_bound(problem),
    )


def _require_sound(problem: UnitGains, found: Shares, best: float) -> None:
    """Refuse an allocation that the checker refuses, or that exceeds the exact total."""
    broken = unit_violations(problem, found.amounts, found.total)
    if found.total > best * (1.0 + 1e-9):
        broken.append(f"Total is {found.total:.10g}; the exact one is {best:.10g}.")
    if broken:
        raise RuntimeError(broken[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the CSV, and print medians and largest gaps by size."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_unit_shares")
    parser.add_argument("--sizes", default=SIZES, help="jobs x units, by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/bench_unit_shares.csv"))
    arguments = parser.parse_args(argv)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    table: Table[Row] = Table(arguments.out, Row._fields)
    for size in arguments.sizes.split(","):
        for machines in (False, True):
            for seed in range(arguments.seeds):
                table.add(measure(size, seed, machines=machines))
    _summarise(table.rows)
    sys.stdout.write(f"written: {arguments.out}\n")
    return 0


def _summarise(rows: Sequence[Row]) -> None:
    """Print medians and largest gaps by size."""
    columns = (
        ("size", 11),
        ("machines", 8),
        ("greedy s", 9),
        ("exact s", 9),
        ("plain s", 9),
        ("greedy gap", 10),
        ("bound gap", 10),
    )
    sys.stdout.write(" ".join(f"{name:>{width}}" for name, width in columns) + "\n")
    for key in dict.fromkeys((row.size, row.machines) for row in rows):
        group = [row for row in rows if (row.size, row.machines) == key]
        seconds = [
            statistics.median(times) for times in zip(*(row[3:6] for row in group), strict=True)
        ]
        sys.stdout.write(
            f"{key[0]:>11} {'yes' if key[1] else 'no':>8} "
            + " ".join(f"{value:>9.3f}" for value in seconds)
            + f" {max(row.greedy_gap for row in group):>10.1e}"
            + f" {max(row.bound_gap for row in group):>10.1e}\n"
        )


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
