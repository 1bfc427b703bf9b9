"""Tiny random rounds on trees in which every rule turns up, small enough to enumerate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.solvers.exact.brute_force import count_matrices

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement

POWERS = (-1.0, -1.0, -1.0, 1.0, 0.0, 2.0, -10.0, math.inf, -math.inf)

#: Most allocation matrices of a round.
MOST_MATRICES = 20_000


def tiny_round(seed: int, *, avoidance: bool = True, power: float | None = None) -> TopologyRound:
    """A random round of 1 to 4 jobs on 2 to 6 nodes of 1 to 4 GPUs, under up to two levels.

    Parameters
    ----------
    seed
        Decides everything else.
    avoidance
        Whether interference is avoided.
    power
        The power of the mean; drawn from `POWERS` if None.
    """
    random = np.random.default_rng([seed, 25])
    while True:
        nodes = int(random.integers(2, 7))
        sizes = random.integers(1, 5 if nodes < 4 else 3, size=nodes)
        if random.random() < 0.4:
            sizes[:] = sizes[0]
        cluster = Cluster(
            tuple(NodeGroup(f"n{v}", 1, gpus) for v, gpus in enumerate(sizes.tolist()))
        )
        rules = Rules(
            power=float(random.choice(POWERS)) if power is None else power,
            floor=float(random.choice([1e-3, 0.05])),
            restart_delay=float(random.choice([0.0, 30.0, 300.0])),
            max_nodes_per_job=int(random.choice([1, 2, 3, 16], p=[0.1, 0.2, 0.2, 0.5])),
            interference_avoidance=avoidance,
        )
        jobs = _jobs(random, sizes)
        topology = _topology(random, nodes)
        names = (*topology.level_names, *[""] * 3)
        wishes = [tuple(random.choice(names, size=len(jobs)).tolist()) for _ in range(2)]
        try:
            instance = Instance(cluster, jobs, rules, f"tiny-tree-{seed}")
            if count_matrices(instance) > MOST_MATRICES:
                continue
            return TopologyRound(
                instance,
                topology,
                wishes[0] if random.random() < 0.5 else (),
                wishes[1] if random.random() < 0.5 else (),
                float(random.choice([0.5, 0.8])),
            )
        except ValueError:  # what runs is pinned and breaks a rule: draw again
            continue


def _topology(random: np.random.Generator, nodes: int) -> Topology:
    """A random partition of the nodes, and one of its parts; slowdowns, and limits of uplinks."""
    levels, domains = [], []
    below = np.arange(nodes)
    slowdown = float(random.choice([0.5, 1.0, 1.0]))
    for name in ("rack", "pod")[: int(random.choice([0, 1, 1, 2, 2]))]:
        parts = int(random.integers(1, max(int(below.max()), 1) + 1))
        parent = random.integers(parts, size=int(below.max()) + 1)
        below = np.unique(parent[below], return_inverse=True)[1]
        limit = int(random.integers(0, 3)) if random.random() < 0.4 else None
        levels.append(Level(name, slowdown, limit))
        domains.append(tuple(f"{name}-{domain}" for domain in below.tolist()))
        slowdown *= float(random.choice([1.0, 1.5, 4.0]))
    return Topology(tuple(levels), tuple(domains), slowdown)


def _jobs(random: np.random.Generator, sizes: np.ndarray) -> tuple[Job, ...]:
    """One to four jobs, some of which run; none takes GPUs that a node does not have."""
    free, jobs, spread = sizes.copy(), [], np.zeros(sizes.size, dtype=bool)
    for index in range(int(random.integers(1, 5))):
        most = int(random.integers(1, 7))
        least = int(random.integers(0, most + 1)) if random.random() < 0.3 else 0
        placement = _placement(random, free, spread) if random.random() < 0.5 else ()
        for node, gpus in placement:
            free[node] -= gpus
        if len(placement) > 1:
            spread[[node for node, _ in placement]] = True
        jobs.append(
            Job(
                f"job{index}",
                _table(random, most) if random.random() < 0.8 else None,
                age=float(random.choice([0.0, 100.0, 5000.0])),
                restarts=int(random.integers(0, 3)),
                placement=placement,
                min_replicas=least,
                max_replicas=most,
                preemptible=not placement or random.random() < 0.8,
            )
        )
    return tuple(jobs)


def _placement(random: np.random.Generator, free: np.ndarray, spread: np.ndarray) -> Placement:
    """GPUs on one or two random nodes, on which no other job is distributed if on two."""
    count = int(random.integers(1, 3))
    nodes = [v for v in random.permutation(free.size).tolist() if free[v] > 0][:count]
    if len(nodes) > 1 and spread[nodes].any():
        nodes = nodes[:1]
    return tuple((v, int(random.integers(1, free[v] + 1))) for v in sorted(nodes))


def _table(random: np.random.Generator, most: int) -> SpeedupTable:
    """Speedups that mostly rise, of which several nodes mostly have less."""
    one = np.cumsum(random.uniform(-0.1, 1.0, size=most) * random.choice([1.0, 0.3], size=most))
    one = np.maximum(one, 0.0) + 0.1
    several = one * random.uniform(0.3, 1.1, size=most)
    several[0] = 0.0
    return SpeedupTable(tuple(one.tolist()), tuple(several.tolist()))
