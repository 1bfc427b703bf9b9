"""Tiny random instances in which every rule and every kind of job turns up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.objective import mode_utilities, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.exact.brute_force import count_matrices

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.mode import JobModel, Resources

POWERS = (1.0, 0.0, 0.5, 2.0, -1.0, -1.0, -2.0, -10.0, math.inf, -math.inf)

#: Most allocation matrices of a random instance, so that enumerating them takes a moment at most.
MOST_MATRICES = 60_000


def random_instance(seed: int, power: float | None = None) -> Instance:
    """A random round of 1 to 4 jobs on 1 to 3 nodes of 1 to 4 GPUs, small enough to enumerate.

    Rules are on or off at random; some jobs run, and what runs may have become impossible (too many
    GPUs, too many nodes) unless it is pinned. The utilities are worked out without compiling.

    Parameters
    ----------
    seed
        Decides everything.
    power
        The power of the mean; drawn from `POWERS` if None.
    """
    generator = np.random.default_rng(seed)
    while True:
        cluster = _cluster(generator)
        rules = _rules(generator, power)
        jobs = _jobs(generator, cluster)
        try:
            instance = Instance(cluster, jobs, rules, name=f"random-{seed}")
        except ValueError:  # a pinned job breaks a rule where it sits: let all jobs move
            free = tuple(job.replace(preemptible=True) for job in jobs)
            instance = Instance(cluster, free, rules, name=f"random-{seed}")
        if count_matrices(instance) <= MOST_MATRICES:
            utility_table(instance)
            return instance


def random_mode_instance(seed: int, power: float | None = None) -> Instance:
    """A random round in which some jobs have modes: types of GPU, cores, memory.

    Parameters
    ----------
    seed, power
        As in `random_instance`.
    """
    generator = np.random.default_rng([seed, 1])
    while True:
        cluster = _mixed_cluster(generator)
        jobs = tuple(_with_modes(generator, job, cluster) for job in _jobs(generator, cluster)[:3])
        rules = _rules(generator, power)
        for given in (jobs, tuple(job.replace(placement=(), mode="") for job in jobs)):
            try:
                instance = Instance(cluster, given, rules, name=f"modes-{seed}")
            except ValueError:  # what runs takes too much, or breaks a rule where it is pinned
                continue
            if not instance.plain and count_matrices(instance) <= MOST_MATRICES:
                mode_utilities(instance)
                return instance


#: Parts of a GPU: none, some that fill one GPU together and some that do not, the whole.
SHARES = (0.0, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7, 1.0, 1.0)


def random_share_instance(seed: int, power: float | None = None) -> Instance:
    """A random round in which replicas share GPUs or need none, and nodes may have none.

    Parameters
    ----------
    seed, power
        As in `random_instance`.
    """
    generator = np.random.default_rng([seed, 2])
    while True:
        cluster = _with_bare_nodes(generator, _mixed_cluster(generator))
        jobs = tuple(
            _with_shares(generator, _with_modes(generator, job, cluster))
            for job in _jobs(generator, cluster)[:3]
        )
        rules = _rules(generator, power)
        for given in (jobs, tuple(job.replace(placement=(), mode="") for job in jobs)):
            try:
                instance = Instance(cluster, given, rules, name=f"shares-{seed}")
            except ValueError:  # as above
                continue
            if instance.shares_gpus and count_matrices(instance) <= MOST_MATRICES:
                mode_utilities(instance)
                return instance


def random_pod_instance(seed: int) -> Instance:
    """A random batch of one-node jobs at p = 1, some of them equal, on nodes some of which are.

    Parameters
    ----------
    seed
        Decides everything.
    """
    generator = np.random.default_rng([seed, 3])
    while True:
        cluster = _with_bare_nodes(generator, _mixed_cluster(generator))
        if generator.random() < 0.5:
            first = cluster.groups[0]
            cluster = Cluster((replace(first, nodes=2), *cluster.groups[1:2]))
        drawn = [
            _with_shares(generator, _with_modes(generator, job, cluster)).replace(
                placement=(), mode=""
            )
            for job in _jobs(generator, cluster)
        ]
        copied = generator.integers(len(drawn), size=generator.integers(2, 5)).tolist()
        jobs = tuple(drawn[at].replace(name=f"pod{n}") for n, at in enumerate(copied))
        rules = _rules(generator, 1.0).replace(max_nodes_per_job=1)
        instance = Instance(cluster, jobs, rules, name=f"pods-{seed}")
        if count_matrices(instance) <= MOST_MATRICES:
            mode_utilities(instance)
            return instance


def renamed(instance: Instance, types: dict[str, str], names: dict[str, str]) -> Instance:
    """The same round with other names for types of GPU and resources."""

    def named(amounts: Resources) -> Resources:
        return resources({names[name]: amount for name, amount in amounts})

    groups = tuple(
        replace(g, gpu_type=types[g.gpu_type], resources=named(g.resources))
        for g in instance.cluster.groups
    )
    jobs = tuple(
        job.replace(
            modes=tuple(
                replace(m, gpu_type=types[m.gpu_type], resources=named(m.resources))
                for m in job.modes
            )
        )
        for job in instance.jobs
    )
    return Instance(Cluster(groups), jobs, instance.rules)


def _with_bare_nodes(generator: np.random.Generator, cluster: Cluster) -> Cluster:
    """The cluster, some of whose nodes may have lost their GPUs, but not all."""
    first, *others = cluster.groups
    bare = [generator.random() < 0.25 for _ in others]
    return Cluster(
        (
            first,
            *(
                replace(g, gpus=0, gpu_type="") if b else g
                for g, b in zip(others, bare, strict=True)
            ),
        )
    )


def _with_shares(generator: np.random.Generator, job: Job) -> Job:
    """The job, whose modes may take parts of a GPU."""
    modes = []
    for mode in job.modes:
        share = float(generator.choice(SHARES))
        bare = share == 0 and not mode.resources
        modes.append(replace(mode, gpu_share=0.5 if bare else share))
    return job.replace(modes=tuple(modes))


def _mixed_cluster(generator: np.random.Generator) -> Cluster:
    """Up to three nodes with or without cores and memory, of up to two types of GPU."""
    groups = []
    for index in range(int(generator.choice([1, 2, 2, 3]))):
        gpus = int(generator.integers(1, 4))
        amounts = {"cpu": float(generator.integers(1, 9)), "memory": generator.uniform(0.0, 3.0)}
        if generator.random() < 0.2:
            del amounts["memory"]
        kind = str(generator.choice(["", "a100", "t4"]))
        groups.append(NodeGroup(f"group{index}", 1, gpus, kind, resources(amounts)))
    return Cluster(tuple(groups))


def _with_modes(generator: np.random.Generator, job: Job, cluster: Cluster) -> Job:
    """The job with up to three modes, in one of which it runs if it does."""
    names, types = cluster.resource_names, sorted({*cluster.node_types, ""})
    modes = []
    for index in range(int(generator.integers(0, 4))):
        amounts = {
            name: float(generator.choice([0.5, 1.0, 2.0]))
            for name in names
            if generator.random() < 0.6
        }
        kind = str(generator.choice(types)) if generator.random() < 0.6 else ""
        modes.append(Mode(f"mode{index}", _model(generator), kind, resources(amounts)))
    if not modes:
        return job
    mode = str(generator.choice([mode.name for mode in modes])) if job.placement else ""
    return job.replace(model=None, modes=tuple(modes), mode=mode)


def _cluster(generator: np.random.Generator) -> Cluster:
    """Up to three nodes, equal or not."""
    if generator.random() < 0.3:
        return Cluster.uniform(int(generator.integers(1, 4)), int(generator.integers(1, 5)))
    sizes = generator.integers(1, 5, size=generator.choice([1, 2, 2, 3, 3])).tolist()
    return Cluster(tuple(NodeGroup(f"group{i}", 1, size) for i, size in enumerate(sizes)))


def _rules(generator: np.random.Generator, power: float | None) -> Rules:
    """Every rule on or off."""
    return Rules(
        power=float(generator.choice(POWERS)) if power is None else power,
        floor=float(generator.choice([1e-3, 1e-3, 0.1, 1.0])),
        restart_delay=float(generator.choice([0.0, 30.0, 300.0])),
        max_nodes_per_job=int(generator.choice([1, 2, 2, 3, 3, 16])),
        interference_avoidance=bool(generator.random() < 0.6),
        fair_share=("one_node", "packed", "one_gpu")[int(generator.integers(3))],
        speedup_scale=("node", "job")[int(generator.integers(2))],
    )


def _jobs(generator: np.random.Generator, cluster: Cluster) -> tuple[Job, ...]:
    """Up to four jobs; about half of them run."""
    free = cluster.node_gpus.copy()
    jobs = []
    for index in range(int(generator.choice([1, 2, 3, 3, 4, 4]))):
        placement = _placement(generator, free)
        least = int(generator.choice([0, 0, 0, 1, 2, 3]))
        jobs.append(
            Job(
                name=f"job{index}",
                model=_model(generator),
                age=float(generator.choice([0.0, 1.0, 200.0, 1e3, 3e3, 1e4, 1e5])),
                restarts=int(generator.choice([0, 0, 1, 2, 40])),
                placement=placement,
                min_replicas=least,
                max_replicas=least + int(generator.choice([1, 3, 8, 61])),
                preemptible=bool(generator.random() < 0.75),
                attained_service=float(generator.uniform(0.0, 1e4)),
                weight=float(generator.choice([1.0, 1.0, 0.3, 4.0])),
            )
        )
    return tuple(jobs)


def _placement(generator: np.random.Generator, free: np.ndarray) -> Placement:
    """Some of the free GPUs, or none; they are taken off."""
    if generator.random() < 0.5:
        return ()
    taken = np.zeros_like(free)
    for node in range(free.size):
        if generator.random() < 0.5:
            taken[node] = generator.integers(0, free[node] + 1)
    free -= taken
    return tuple((node, count) for node, count in enumerate(taken.tolist()) if count > 0)


def _model(generator: np.random.Generator) -> JobModel:
    """A job that never ran, one with made-up speedups, monotone or not, or a goodput model."""
    draw = generator.random()
    if draw < 0.15:
        return None
    if draw < 0.35:
        local = generator.uniform(0.0, 3.0, size=generator.integers(1, 9))
        spread = generator.uniform(0.0, 3.0, size=generator.integers(0, 9))
        return SpeedupTable(tuple(local.tolist()), tuple(spread.tolist()))
    if draw < 0.5:
        exponent, loss = generator.uniform(0.3, 1.1), generator.uniform(0.4, 1.0)
        speedups = np.arange(1, 13) ** exponent
        return SpeedupTable(tuple(speedups.tolist()), tuple((loss * speedups).tolist()))
    initial = int(generator.choice([1, 32, 128]))
    return GoodputModel(
        ThroughputParameters(
            alpha_grad=generator.uniform(0.01, 0.5),
            beta_grad=generator.uniform(1e-4, 1e-2),
            alpha_local=generator.uniform(0.0, 0.2),
            beta_local=generator.uniform(0.0, 0.05),
            alpha_node=generator.uniform(0.0, 0.6),
            beta_node=generator.uniform(0.0, 0.1),
            gamma=generator.uniform(1.0, 5.0),
        ),
        GradientStatistics(generator.uniform(1e-3, 1.0), generator.uniform(1e-3, 10.0)),
        BatchLimits(
            initial=initial,
            maximum=initial * int(generator.choice([1, 4, 64])),
            atomic_minimum=max(initial // int(generator.choice([1, 4, 32])), 1),
            atomic_maximum=int(generator.choice([initial, 2 * initial])),
            accumulation=bool(generator.random() < 0.7),
        ),
    )


def tight_instance(seed: int) -> Instance:
    """Nodes whose cores are, but for a part in a hundred million or less, a sum of what jobs take.

    The checker grants a part in a billion, so that some sums fit and others do not.
    """
    random = np.random.default_rng([seed, 6])
    amounts = np.array([1.0, 2.0, 3.0, 40.0, 63.0, 61.0])
    missing = np.array([0.0, 5e-10, 9e-10, 9.9e-10] if seed % 2 else [3e-9, 2e-8])
    groups = []
    for node in range(2):
        cores = float(random.choice(amounts, 2).sum()) * (1.0 - float(random.choice(missing)))
        groups.append(NodeGroup(f"node{node}", 1, 3, "", resources({"cpu": cores})))
    jobs = []
    for index in range(4):
        taken = sorted(set(random.choice(amounts, 2).tolist()))
        modes = []
        for cores in taken:
            speedups = np.cumsum(random.uniform(0.3, 1.0, 2)) * cores**0.3
            model = SpeedupTable(tuple(speedups.tolist()), ())
            modes.append(Mode(f"cores{cores:g}", model, "", resources({"cpu": cores})))
        jobs.append(Job(f"job{index}", age=1e4, modes=tuple(modes), max_replicas=2))
    rules = Rules(max_nodes_per_job=1)
    return Instance(Cluster(tuple(groups)), tuple(jobs), rules, name=f"tight-{seed}")
