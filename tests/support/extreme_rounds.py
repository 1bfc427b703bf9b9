"""Tiny rounds of extremes: floors from 1e-9 to 1e6, weights from 1e-9 to 1e9, any power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import Rules

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement


def extreme_round(seed: int) -> Instance:
    """One to five jobs on up to three nodes, at most five GPUs; every third with types and cores.

    Parameters
    ----------
    seed
        Decides everything.
    """
    random = np.random.default_rng([seed, 8])
    cluster = _cluster(random, equipped=seed % 3 == 0)
    rules = _rules(random)
    spread = float(random.choice([0.0, 1.0, 9.0]))
    free = cluster.node_gpus.copy()
    jobs = []
    for index in range(int(random.integers(1, 4 if seed % 3 == 0 else 6))):
        job = _job(random, index, cluster, 10.0 ** random.uniform(-spread, spread))
        jobs.append(_placed(random, job, cluster, free))
    name = f"extreme-{seed}"
    for given in (jobs, [job.replace(placement=(), mode="") for job in jobs]):
        try:
            return Instance(cluster, tuple(given), rules, name)
        except ValueError:  # what runs takes too much, or breaks a rule where it is pinned
            continue
    raise AssertionError(f"round {seed} cannot be drawn")


def _power(random: np.random.Generator) -> float:
    """Infinite, 0, usual, or of any size between 1e-9 and 1e6."""
    kind = random.integers(6)
    if kind == 0:
        return float(random.choice([-math.inf, math.inf, 0.0, 1e-9, -1e-9, 1e6, -1e6]))
    if kind == 1:
        return float(random.choice([-10.0, -1.0, -0.5, 0.5, 1.0, 2.0]))
    size = random.uniform(-9.0, 6.0) if kind < 4 else random.uniform(-1.0, 3.0)
    return float(random.choice([-1.0, 1.0]) * min(max(10.0**size, 1e-9), 1e6))


def _rules(random: np.random.Generator) -> Rules:
    """Every rule on or off; what idles may be worth something else than the floor."""
    floor = float(random.choice([10.0 ** random.uniform(-9.0, 6.0), 1e-3, 1e-9, 1e6]))
    idle = 10.0 ** random.uniform(-9.0, 6.0) if random.random() < 0.2 else None
    return Rules(
        power=_power(random),
        floor=0.0 if idle and random.random() < 0.5 else floor,
        idle_utility=idle,
        restart_delay=float(random.choice([0.0, 30.0])),
        max_nodes_per_job=int(random.choice([1, 2, 16])),
        interference_avoidance=bool(random.random() < 0.5),
        fair_share=("one_node", "one_gpu")[int(random.integers(2))],
        speedup_scale=("node", "job")[int(random.integers(2))],
        restart_penalty=("all", "running")[int(random.integers(2))],
    )


def _cluster(random: np.random.Generator, *, equipped: bool) -> Cluster:
    """Up to three nodes and five GPUs; equipped: of up to two types, with cores."""
    sizes = ((1,), (2,), (4,), (1, 1), (2, 1), (2, 2), (3, 2), (1, 1, 1), (2, 1, 1), (2, 2, 1))
    groups = []
    for index, gpus in enumerate(sizes[int(random.integers(len(sizes)))]):
        kind = str(random.choice(["a100", "t4"])) if equipped else ""
        cores = resources({"cpu": float(random.integers(1, 7))}) if equipped else ()
        groups.append(NodeGroup(f"group{index}", 1, gpus, kind, cores))
    return Cluster(tuple(groups))


def _job(random: np.random.Generator, index: int, cluster: Cluster, weight: float) -> Job:
    """A job by tables of speedups, of modes where there are cores."""
    least = int(random.choice([0, 0, 0, 1, 2]))
    modes = tuple(
        Mode(
            f"mode{number}",
            _table(random),
            str(random.choice(["", *cluster.gpu_types])),
            resources({"cpu": float(random.choice([0.5, 1.0, 2.0]))}),
        )
        for number in range(int(random.integers(1, 3)) if cluster.resource_names else 0)
    )
    return Job(
        f"job{index}",
        None if modes or random.random() < 0.1 else _table(random),
        age=float(random.choice([0.0, 20.0, 1e3, 1e7])),
        restarts=int(random.choice([0, 1, 5])),
        min_replicas=least,
        max_replicas=least + int(random.choice([1, 2, 5])),
        preemptible=bool(random.random() < 0.7),
        modes=modes,
        weight=min(max(weight, 1e-9), 1e9),
    )


def _table(random: np.random.Generator) -> SpeedupTable:
    """Speedups of any shape, now and then of any size, nearly equal, or none."""
    size = float(random.choice([1.0, 1.0, 10.0 ** random.uniform(-6.0, 6.0)]))
    local, spread = random.uniform(0.0, 3.0, 4) * size, random.uniform(0.0, 3.0, 5) * size
    shape = random.integers(4)
    if shape == 0:
        local, spread = np.cumsum(local), 0.9 * np.cumsum(spread)
    elif shape == 1:
        apart = 10.0 ** random.uniform(-12.0, -3.0)
        local = local[0] * (1.0 + apart * random.integers(0, 3, 4))
        spread = local[0] * (1.0 + apart * random.integers(0, 3, 5))
    elif shape == 2:
        local[random.integers(4)] = 0.0
    return SpeedupTable(tuple(local.tolist()), tuple(spread.tolist()))


def _placed(random: np.random.Generator, job: Job, cluster: Cluster, free: np.ndarray) -> Job:
    """The job, which may run on some of the free GPUs; they are taken off."""
    if random.random() < 0.5:
        return job
    placement: Placement = tuple(
        (node, int(random.integers(1, gpus + 1)))
        for node, gpus in enumerate(free.tolist())
        if gpus and random.random() < 0.5
    )
    if not placement:
        return job
    for node, count in placement:
        free[node] -= count
    mode = str(random.choice([mode.name for mode in job.modes])) if job.modes else ""
    return job.replace(placement=placement, mode=mode)
