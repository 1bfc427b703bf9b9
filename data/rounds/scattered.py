"""Seeded rounds on fragmented clusters: jobs that run, of which some have just ended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.instance import Instance
from goodalloc.models.support.validation import require_number


def generate_scattered(
    seed: int, jobs: int, nodes: int, gpus_per_node: int, *, ended: float = 0.35
) -> Instance:
    """Return a round of which a share of the running jobs has ended, so that free GPUs lie about.

    Parameters
    ----------
    seed
        Seed.
    jobs, nodes, gpus_per_node
        As of `goodalloc.data.generate`, with jobs that run.
    ended
        Share of the jobs that have ended, from 0 to 1.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_scattered
    >>> instance = generate_scattered(0, jobs=40, nodes=16, gpus_per_node=4)
    >>> bool(0 < instance.current.replicas.sum() < instance.cluster.num_gpus)
    True
    """
    require_number("Share of ended jobs", ended, minimum=0.0)
    if ended > 1.0:
        raise ValueError(f"Share of ended jobs is {ended:g}; expected at most 1.")
    full = generate(seed=seed, jobs=jobs, nodes=nodes, gpus_per_node=gpus_per_node, state="running")
    stays = np.random.default_rng(seed).random(full.num_jobs) >= ended
    kept = tuple(
        job if stay else replace(job, placement=())
        for job, stay in zip(full.jobs, stays.tolist(), strict=True)
    )
    return Instance(full.cluster, kept, full.rules, f"scattered-{nodes}x{gpus_per_node}-{seed}")
