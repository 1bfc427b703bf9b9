"""Small rounds of every kind, 3 to 8 jobs on 2 to 4 nodes: too many allocations to enumerate.

And `tiny_tree`, rounds on trees that are small enough to enumerate.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.rounds.awkward import awkward_round
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.synergy import PUBLISHED_GPUS, synergy_round
from goodalloc.data.rounds.typed import generate_typed
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import SIA, Rules
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.solvers.exact.brute_force import count_matrices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.data.rounds.typed import TypedState
    from goodalloc.models.round.allocation import Placement

POWERS = (-math.inf, -10.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, math.inf)
STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")
TYPED_STATES: tuple[TypedState, ...] = ("cold", "running")


def gpu_round(seed: int) -> Instance:
    """GPUs are all that counts; some jobs run and some of those are pinned."""
    random, jobs, nodes, rules = _drawn(seed)
    gpus, state = int(random.choice([2, 4, 6])), STATES[seed % 4]
    drawn = generate(seed, jobs, nodes, gpus, state=state, rules=rules)
    return _with_pinned(random, drawn)


def mode_round(seed: int) -> Instance:
    """Types of GPU, cores and memory: equipped, typed, awkward and Synergy's rounds in turn."""
    random, jobs, nodes, rules = _drawn(seed)
    kind = seed % 4
    if kind == 0:
        plain = generate(
            seed, min(jobs, 6), min(nodes, 3), 4, state=STATES[seed // 4 % 4], rules=rules
        )
        return _with_pinned(random, equip(plain, seed, cores=12.0, memory=64.0))
    if kind == 1:
        state = TYPED_STATES[seed // 4 % 2]
        return generate_typed(seed, jobs, cluster=_typed(random), state=state, rules=rules)
    if kind == 2:
        return awkward_round(seed, min(jobs, 5), min(nodes, 3), rules=rules)
    drawn = synergy_round(seed, nodes, jobs, gpus=PUBLISHED_GPUS)
    return drawn.replace(rules=drawn.rules.replace(power=rules.power))


def share_round(seed: int) -> Instance:
    """Whole GPUs, parts of them and none, on nodes with cores."""
    random, jobs, nodes, rules = _drawn(seed)
    groups = tuple(
        NodeGroup(
            f"group{index}",
            1,
            int(random.integers(1, 4)),
            str(random.choice(["a100", "t4"])),
            resources({"cpu": float(random.integers(4, 13))}),
        )
        for index in range(nodes)
    )
    cluster = Cluster(groups)
    drawn = tuple(_shared(random, index, cluster) for index in range(jobs))
    return Instance(cluster, drawn, rules, f"shares-{seed}")


def sia_round(seed: int) -> Instance:
    """Sia's objective and penalty, at other powers too, on two or three types of GPU."""
    random, jobs, _, rules = _drawn(seed)
    state = TYPED_STATES[seed % 2]
    sia = SIA.replace(power=rules.power, interference_avoidance=rules.interference_avoidance)
    return generate_typed(seed, jobs, cluster=_typed(random), state=state, rules=sia)


KINDS: Mapping[str, Callable[[int], Instance]] = MappingProxyType(
    {"gpus": gpu_round, "modes": mode_round, "shares": share_round, "sia": sia_round}
)


def _drawn(seed: int) -> tuple[np.random.Generator, int, int, Rules]:
    """The generator, jobs, nodes and rules of a seed; the powers take turns."""
    random = np.random.default_rng([seed, 7])
    rules = Rules(
        power=POWERS[seed % len(POWERS)],
        max_nodes_per_job=int(random.choice([1, 2, 16])),
        interference_avoidance=bool(random.random() < 0.5),
        floor=float(random.choice([1e-3, 0.1])),
    )
    return random, int(random.integers(3, 9)), int(random.integers(2, 5)), rules


def _typed(random: np.random.Generator) -> Cluster:
    """Two or three groups of a node or two, each of its own type."""
    kinds = random.permutation(["t4", "a100", "rtx2080ti"])[: random.integers(2, 4)].tolist()
    return Cluster(
        tuple(
            NodeGroup(kind, 2 if len(kinds) == 2 and random.random() < 0.5 else 1, 4, kind)
            for kind in kinds
        )
    )


def _with_pinned(random: np.random.Generator, instance: Instance) -> Instance:
    """The same with about a quarter of the jobs not preemptible, where the rules allow it."""
    fixed = random.random(instance.num_jobs) < 0.25
    jobs = tuple(
        job.replace(preemptible=not pinned)
        for job, pinned in zip(instance.jobs, fixed.tolist(), strict=True)
    )
    try:
        return instance.replace(jobs=jobs)
    except ValueError:  # two distributed ones share a node, or one spans too many
        return instance


def _shared(random: np.random.Generator, index: int, cluster: Cluster) -> Job:
    """A job with up to three modes, of which most take a part of a GPU."""
    modes = []
    for number in range(int(random.integers(1, 4))):
        share = float(random.choice([0.0, 0.25, 0.3, 0.5, 0.6, 1.0]))
        speed = np.cumsum(random.uniform(0.1, 1.0, 4)) * max(share, 0.2)
        model = SpeedupTable(tuple(speed.tolist()), tuple((0.8 * speed).tolist()))
        kind = str(random.choice(["", *cluster.gpu_types]))
        cores = resources({"cpu": float(random.choice([0.5, 1.0, 2.0]))})
        modes.append(Mode(f"mode{number}", model, kind, cores, share))
    node, first = int(random.integers(cluster.num_nodes)), modes[0]
    fits = cluster.groups[node].most_replicas(first) > 0
    runs = fits and node == index  # at most one on a node
    return Job(
        f"job{index}",
        age=float(random.choice([0.0, 300.0, 1e4])),
        restarts=int(random.integers(3)),
        placement=((node, 1),) if runs else (),
        mode=first.name if runs else "",
        modes=tuple(modes),
        preemptible=bool(random.random() < 0.5),
        min_replicas=0 if runs else int(random.choice([0, 0, 2])),
        max_replicas=4,
        weight=float(random.choice([1.0, 3.0])),
    )


TREE_POWERS = (-1.0, -1.0, -1.0, 1.0, 0.0, 2.0, -10.0, math.inf, -math.inf)

#: Most allocation matrices of a round.
MOST_MATRICES = 20_000


def tiny_tree(seed: int, *, avoidance: bool = True, power: float | None = None) -> TopologyRound:
    """A random round of 1 to 4 jobs on 2 to 6 nodes of 1 to 4 GPUs, under up to two levels.

    Parameters
    ----------
    seed
        Decides everything else.
    avoidance
        Whether interference is avoided.
    power
        The power of the mean; drawn from `TREE_POWERS` if None.
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
            power=float(random.choice(TREE_POWERS)) if power is None else power,
            floor=float(random.choice([1e-3, 0.05])),
            restart_delay=float(random.choice([0.0, 30.0, 300.0])),
            max_nodes_per_job=int(random.choice([1, 2, 3, 16], p=[0.1, 0.2, 0.2, 0.5])),
            interference_avoidance=avoidance,
        )
        jobs = _tree_jobs(random, sizes)
        topology = _tree(random, nodes)
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


def _tree(random: np.random.Generator, nodes: int) -> Topology:
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


def _tree_jobs(random: np.random.Generator, sizes: np.ndarray) -> tuple[Job, ...]:
    """One to four jobs, some of which run; none takes GPUs that a node does not have."""
    free, jobs, spread = sizes.copy(), [], np.zeros(sizes.size, dtype=bool)
    for index in range(int(random.integers(1, 5))):
        most = int(random.integers(1, 7))
        least = int(random.integers(0, most + 1)) if random.random() < 0.3 else 0
        placement = _tree_placement(random, free, spread) if random.random() < 0.5 else ()
        for node, gpus in placement:
            free[node] -= gpus
        if len(placement) > 1:
            spread[[node for node, _ in placement]] = True
        jobs.append(
            Job(
                f"job{index}",
                _tree_table(random, most) if random.random() < 0.8 else None,
                age=float(random.choice([0.0, 100.0, 5000.0])),
                restarts=int(random.integers(0, 3)),
                placement=placement,
                min_replicas=least,
                max_replicas=most,
                preemptible=not placement or random.random() < 0.8,
            )
        )
    return tuple(jobs)


def _tree_placement(random: np.random.Generator, free: np.ndarray, spread: np.ndarray) -> Placement:
    """GPUs on one or two random nodes, on which no other job is distributed if on two."""
    count = int(random.integers(1, 3))
    nodes = [v for v in random.permutation(free.size).tolist() if free[v] > 0][:count]
    if len(nodes) > 1 and spread[nodes].any():
        nodes = nodes[:1]
    return tuple((v, int(random.integers(1, free[v] + 1))) for v in sorted(nodes))


def _tree_table(random: np.random.Generator, most: int) -> SpeedupTable:
    """Speedups that mostly rise, of which several nodes mostly have less."""
    one = np.cumsum(random.uniform(-0.1, 1.0, size=most) * random.choice([1.0, 0.3], size=most))
    one = np.maximum(one, 0.0) + 0.1
    several = one * random.uniform(0.3, 1.1, size=most)
    several[0] = 0.0
    return SpeedupTable(tuple(one.tolist()), tuple(several.tolist()))
