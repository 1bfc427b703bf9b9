"""Small rounds of every kind, 3 to 8 jobs on 2 to 4 nodes: too many allocations to enumerate."""

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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.data.rounds.typed import TypedState

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
