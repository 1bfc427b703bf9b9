"""Benchmark of proofs of GPU sharing, with jobs of which no two are alike.

Run as ``python -m goodalloc.experiments.benchmarks.sharing [--jobs 512] [--draws 8]``. Pairs of
jobs (`solvers/shared_gpus/pairing.py`) are decided by the fast method and as one whole program;
half as many guests go to an eighth as many hosts (`solvers/shared_gpus/guests.py`). Jobs have 1 to
8 GPUs, keep them busy for 20 to 100 % of the time and take 10 to 90 % of their memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.benchmarks.measurements import ended_by_control_c
from goodalloc.formulations.shared_gpus.gandiva import build_pairing_program
from goodalloc.models.shared_gpus.hosted_jobs import Guests
from goodalloc.models.shared_gpus.pairing import Pairing
from goodalloc.models.shared_gpus.shared_speed import FAIR, GUARANTEED, GpuUse
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from goodalloc.solvers.shared_gpus.guests import best_hosts
from goodalloc.solvers.shared_gpus.pairing import best_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

#: GPUs of a job, drawn evenly.
GPUS = (1, 1, 2, 4, 8)

#: Limits of every solve.
STOP = Stop(seconds=60.0)


def draw_uses(seed: int, jobs: int) -> tuple[list[int], list[GpuUse]]:
    """Draw numbers of GPUs of jobs, and their loads on them."""
    random = np.random.default_rng(seed)
    busy, memory = random.uniform(0.2, 1.0, jobs), random.uniform(0.1, 0.9, jobs)
    uses = [GpuUse(*use) for use in zip(busy.tolist(), memory.tolist(), strict=True)]
    return random.choice(GPUS, jobs).tolist(), uses


def draw_guests(seed: int, guests: int, hosts: int) -> Guests:
    """Draw guests and hosts among such jobs."""
    gpus, uses = draw_uses(seed, guests + hosts)
    rate = [
        [
            GUARANTEED.guest_rate(host, guest) if GUARANTEED.fits(host, guest) else -np.inf
            for host in uses[guests:]
        ]
        for guest in uses[:guests]
    ]
    return Guests(np.array(gpus[:guests]), np.array(gpus[guests:]), np.array(rate))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per draw."""
    parser = argparse.ArgumentParser(description=__doc__, prog="bench_sharing")
    parser.add_argument("--jobs", type=int, default=512)
    parser.add_argument("--draws", type=int, default=8)
    arguments = parser.parse_args(argv)
    sys.stdout.write("draw  pairs: gain      gap      s | whole: gain     s | guests: gap     s\n")
    for seed in range(arguments.draws):
        problem = Pairing.of(*draw_uses(seed, arguments.jobs), FAIR)
        pairs = best_pairs(problem, stop=STOP)
        program, begin = build_pairing_program(problem).program, time.perf_counter()
        whole = 0.0
        if program is not None:
            whole = -run_mixed_integer(program, Watch(STOP), gap=STOP.gap * pairs.total).objective
        seconds = time.perf_counter() - begin
        few = max(arguments.jobs // 8, 1)
        guests = best_hosts(draw_guests(seed, 4 * few, few), stop=STOP)
        sys.stdout.write(
            f"{seed:>4} {pairs.total:>12.6f} {pairs.gap:>8.1e} {pairs.seconds:>6.2f} | "
            f"{whole:>11.6f} {seconds:>5.1f} | {guests.gap:>11.1e} {guests.seconds:>5.1f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(ended_by_control_c(main))
