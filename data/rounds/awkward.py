"""Seeded rounds whose pieces do not fill the nodes, so that totals of resources mislead.

On nodes of 8 GPUs and 48 cores, either all jobs want exactly 3, 5 or 6 GPUs, or a replica has 9,
10, 13, 17 or 25 cores, just over a sixth, a fifth, a fourth, a third or a half of a node. What the
cluster has in all would serve more of them than its nodes can hold. Equal arguments give equal
instances.
"""

from __future__ import annotations

import numpy as np

from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import require_count

GPUS, CORES = 8, 48
AWKWARD_GPUS = (3, 5, 5, 6)
AWKWARD_CORES = (9, 10, 13, 17, 25)

#: Old enough for a restart to cost nothing that counts, in seconds.
AGE = 1e7


def awkward_round(seed: int, jobs: int, nodes: int, *, rules: Rules | None = None) -> Instance:
    """Draw such a round; even seeds are awkward in GPUs, odd ones in cores.

    Parameters
    ----------
    seed, jobs, nodes
        Seed of all draws, number of jobs, number of nodes.
    rules
        Rules of the instance; by default jobs stay on one node and the rest is usual.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.rounds import awkward_round
    >>> awkward_round(0, jobs=6, nodes=2).num_jobs
    6
    """
    require_count("Awkward round: seed", seed, minimum=0)
    require_count("Awkward round: jobs", jobs, minimum=1, maximum=1_000_000)
    require_count("Awkward round: nodes", nodes, minimum=1, maximum=1_000_000)
    random = np.random.default_rng([seed, 3])
    drawn = tuple(_job(random, index, by_gpus=seed % 2 == 0) for index in range(jobs))
    group = NodeGroup("node", nodes, GPUS, resources=resources({"cpu": CORES}))
    rules = rules or Rules(max_nodes_per_job=1, speedup_scale="job")
    return Instance(Cluster((group,)), drawn, rules, f"awkward-{jobs}-jobs-{nodes}-seed-{seed}")


def _job(random: np.random.Generator, index: int, *, by_gpus: bool) -> Job:
    """Return a job of speedup ``K^a min(1, c / need)^0.8``."""
    power, need = float(random.uniform(0.6, 1.0)), int(random.integers(1, 13 if by_gpus else 26))
    wanted = int(random.choice(AWKWARD_GPUS))
    fewest, most = (wanted, wanted) if by_gpus else (1, 3)
    modes = []
    for cores in range(1, 9) if by_gpus else AWKWARD_CORES:
        busy = min(1.0, cores / need) ** 0.8
        speeds = tuple(
            float(gpus**power * busy) if gpus >= fewest else 0.0 for gpus in range(1, most + 1)
        )
        modes.append(
            Mode(f"{cores}", SpeedupTable(speeds, ()), resources=resources({"cpu": cores}))
        )
    return Job(f"job-{index}", modes=tuple(modes), min_replicas=fewest, max_replicas=most, age=AGE)
