"""Seeded rounds of jobs that train language models on whole nodes of two types of GPU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.plans.llm_steps import llm_step
from goodalloc.data.plans.shipped_llm import shipped_llm_fits
from goodalloc.models.plans.sharded_training import GPUS_PER_NODE
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from goodalloc.data.plans.shipped_llm import Fit

#: Sequences of a step: half a million to two million tokens.
BATCHES = (256, 512, 1024)

#: Types of the nodes.
TYPES = ("a100_80gb", "h100_80gb")

#: Most nodes of a job, as far as was measured.
MOST_NODES = 64

#: Seconds that a restart takes, and greatest age in hours.
RESTART_SECONDS, OLDEST_HOURS = 300.0, 24.0


def generate_llm_round(
    seed: int, jobs: int, a100_nodes: int = 16, h100_nodes: int = 16
) -> Instance:
    """Draw a round of trainings of language models.

    A job trains one of the shipped language models that fit into the cluster, each as likely as the
    other, with a fixed batch of 256, 512 or 1,024 sequences of 2,048 tokens, so that more GPUs
    shorten the step until each has one sequence. It takes whole nodes of one type, with the
    micro-batch of `llm_step`. Its speedup is relative to its speed on the fewest GPUs of the
    slowest type on which it fits. Its age is uniform up to a day, and no job runs yet. Its name
    tells model, batch and place, as "7b-512-3".

    Parameters
    ----------
    seed
        Seed of all random numbers.
    jobs
        Number of jobs.
    a100_nodes, h100_nodes
        Number of nodes of each type; a node has eight GPUs.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.plans import generate_llm_round
    >>> from goodalloc.solvers import solve
    >>> instance = generate_llm_round(seed=0, jobs=6, a100_nodes=4, h100_nodes=4)
    >>> str(solve(instance).status)
    'optimal'
    """
    require_count("Round: seed", seed, minimum=0)
    require_count("Round: jobs", jobs, minimum=1)
    nodes = dict(zip(TYPES, (a100_nodes, h100_nodes), strict=True))
    for gpu_type, count in nodes.items():
        require_count(f"Round: {gpu_type.partition('_')[0]}_nodes", count, minimum=1)
    random = np.random.default_rng(seed)
    most = {kind: GPUS_PER_NODE * min(count, MOST_NODES) for kind, count in nodes.items()}
    usable = {
        name: {kind: fit for kind, fit in found.items() if fit.gpus <= most.get(kind, 0)}
        for name, found in shipped_llm_fits().items()
    }
    names = sorted(name for name, found in usable.items() if found)
    drawn = []
    for index in range(jobs):
        name, batch = str(random.choice(names)), int(random.choice(BATCHES))
        drawn.append(
            Job(
                f"{name}-{batch}-{index}",
                age=float(random.uniform(0.0, OLDEST_HOURS * 3600.0)),
                modes=_modes(name, usable[name], most, batch),
                min_replicas=min(fit.gpus for fit in usable[name].values()),
                max_replicas=max(most[kind] for kind in usable[name]),
            )
        )
    groups = tuple(NodeGroup(kind, count, GPUS_PER_NODE, kind) for kind, count in nodes.items())
    rules = Rules(restart_delay=RESTART_SECONDS, speedup_scale="job")
    return Instance(Cluster(groups), tuple(drawn), rules, f"llm-{seed}-{jobs}")


def _modes(name: str, fits: dict[str, Fit], most: dict[str, int], batch: int) -> tuple[Mode, ...]:
    """Return a mode for every type on which the model fits."""
    slowest = max(llm_step(name, kind, fit.gpus, batch).seconds for kind, fit in fits.items())
    modes = []
    for kind, fit in fits.items():
        speeds = [0.0] * min(most[kind], GPUS_PER_NODE * math.ceil(batch / GPUS_PER_NODE))
        for gpus in range(GPUS_PER_NODE, len(speeds) + 1, GPUS_PER_NODE):
            if gpus >= fit.gpus:
                speeds[gpus - 1] = slowest / llm_step(name, kind, gpus, batch).seconds
        one_node = tuple(speeds[:GPUS_PER_NODE])
        several = (0.0,) * GPUS_PER_NODE + tuple(speeds[GPUS_PER_NODE:])
        modes.append(Mode(kind, SpeedupTable(one_node, several), kind))
    return tuple(modes)
