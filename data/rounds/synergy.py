"""Seeded rounds of Synergy (OSDI'22): rigid jobs that share the CPU and memory of their servers.

The GPUs of each job are fixed; a scheduler decides where, and with how many cores and how much
memory beside each. A job's modes are the points (c, m) of the profiled grid at which it is at least
as fast as on the GPU-proportional share of a server, leaving out those that another point beats
with no more of anything, for nobody ever needs them. A mode's speedup is Synergy's normalised
throughput,

    W_j(c, m) = throughput with c cores and m GB a GPU / the best within the proportional share,

so that a job of many GPUs weighs no more than one of a single GPU. The rules make the objective its
mean: p = 1, nothing is scaled, moving is free, and a job may span any servers at no loss of speed,
as in the published simulator. FITNESS = floor + (sum of W over the jobs that run) / jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.rounds.sensitivity import CLASSES, load_sensitivity, sensitivity_names
from goodalloc.models.round.cluster import MOST_GPUS, Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.synergy_objective import synergy_rules
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from goodalloc.data.rounds.sensitivity import Sensitivity
    from goodalloc.models.support.array_types import Floats


#: Most jobs of a round.
MOST_JOBS = 1_000_000

#: Every job has one GPU.
ONE_GPU: Mapping[int, float] = MappingProxyType({1: 1.0})

#: How often the published simulator asks for how many GPUs.
PUBLISHED_GPUS: Mapping[int, float] = MappingProxyType({1: 0.70, 2: 0.10, 4: 0.15, 8: 0.05})


@dataclass(frozen=True, slots=True)
class Server:
    """Server: GPUs, cores and GB of memory; the published one by default.

    Raises
    ------
    ValueError
        If an amount is not a number of at least 0.
    """

    gpus: int = 8
    cpus: float = 24.0
    memory: float = 500.0

    def __post_init__(self) -> None:
        require_count("Server: gpus", self.gpus, minimum=1, maximum=MOST_GPUS)
        require_number("Server: cpus", self.cpus, minimum=0.0, strict=True)
        require_number("Server: memory", self.memory, minimum=0.0, strict=True)


#: The published one.
SERVER = Server()


def synergy_round(
    seed: int,
    servers: int = 4,
    jobs: int | None = None,
    *,
    load: float | None = None,
    split: tuple[float, float, float] | None = None,
    gpus: Mapping[int, float] = ONE_GPU,
    server: Server = SERVER,
    name: str | None = None,
) -> Instance:
    """Draw a round.

    Parameters
    ----------
    seed
        Seed of all draws.
    servers, server
        Number of servers, and resources of each.
    jobs
        Number of jobs; None to take, of a queue drawn, the jobs that still fit as `load` says.
    load
        GPUs of the jobs over GPUs of the cluster, at most, when `jobs` is None; 1 by default.
    split
        Weight of image, language and speech, as (20, 70, 10); None to draw evenly from all models.
    gpus
        Weight of every number of GPUs that a job may have.
    name
        Name of the instance; made of the arguments if None.

    Raises
    ------
    ValueError
        If an argument is out of range, or both `jobs` and `load` are given.

    Examples
    --------
    >>> from goodalloc.data.rounds import synergy_round
    >>> instance = synergy_round(0, servers=1, jobs=4)
    >>> instance.num_jobs, instance.cluster.num_gpus
    (4, 8)
    """
    require_count("Synergy round: seed", seed, minimum=0)
    require_count("Synergy round: servers", servers, minimum=1, maximum=MOST_JOBS)
    names, random = sensitivity_names(), np.random.default_rng(seed)
    budget = _budget(jobs, load, servers * server.gpus)
    chances, sizes = _model_chances(names, split), _sizes(gpus, budget if jobs is None else None)
    count = budget if jobs is None else jobs
    drawn = random.choice(len(names), count, p=chances)
    held = random.choice(np.array(list(sizes), dtype=np.int64), count, p=list(sizes.values()))
    chosen = np.arange(count) if jobs is not None else _fitting(held, budget)
    modes: dict[tuple[int, int], tuple[Mode, ...]] = {}
    found = []
    for index, (model, size) in enumerate(
        zip(drawn[chosen].tolist(), held[chosen].tolist(), strict=True)
    ):
        key = (model, size)
        if key not in modes:
            modes[key] = job_modes(load_sensitivity(names[model]), size, server)
        found.append(
            Job(
                f"{names[model]}-{index}",
                min_replicas=size,
                max_replicas=size,
                application=names[model],
                modes=modes[key],
            )
        )
    amounts = resources({"cpu": server.cpus, "memory": server.memory})
    cluster = Cluster((NodeGroup("server", servers, server.gpus, resources=amounts),))
    name = name or f"synergy-{len(found)}-jobs-{servers}x{server.gpus}-seed-{seed}"
    return Instance(cluster, tuple(found), synergy_rules(servers), name)


def job_modes(model: Sensitivity, gpus: int, server: Server = SERVER) -> tuple[Mode, ...]:
    """Return the modes of a job of `gpus` GPUs on such servers, fewest cores first.

    Raises
    ------
    ValueError
        If the proportional share of a server is below the least that was profiled.
    """
    throughput = model.throughput
    within = np.ix_(
        model.cpus <= server.cpus / server.gpus, model.memory <= server.memory / server.gpus
    )
    if not throughput[within].size:
        raise ValueError(
            f"Server: a GPU's share is {server.cpus / server.gpus:g} cores and "
            f"{server.memory / server.gpus:g} GB; expected at least {model.cpus[0]:g} and "
            f"{model.memory[0]:g}, the least that was profiled."
        )
    relative = throughput / throughput[within].max()
    before = np.pad(relative, ((1, 0), (1, 0)))  # with one point less of cores, or of memory
    needed = (relative > before[:-1, 1:]) & (relative > before[1:, :-1]) & (relative >= 1.0)
    modes = []
    for row, column in np.argwhere(needed).tolist():
        cpus, memory, speed = model.cpus[row], model.memory[column], float(relative[row, column])
        speeds = (*[0.0] * (gpus - 1), speed)
        amounts = resources({"cpu": cpus, "memory": memory})
        table = SpeedupTable(speeds, speeds if gpus > 1 else ())
        modes.append(Mode(f"{cpus:g}-cores-{memory:g}-gb", table, resources=amounts))
    return tuple(modes)


def _budget(jobs: int | None, load: float | None, gpus: int) -> int:
    """Return the GPUs that the drawn jobs may have together."""
    if jobs is not None:
        require_count("Synergy round: jobs", jobs, minimum=1, maximum=MOST_JOBS)
        if load is not None:
            raise ValueError(
                f"Synergy round: jobs is {jobs} and load is {load}; expected one of them."
            )
    load = 1.0 if load is None else load
    require_number("Synergy round: load", load, minimum=0.0, strict=True)
    if load * gpus >= MOST_JOBS + 1:
        raise ValueError(
            f"Synergy round: load {load:g} on {gpus} GPUs; expected at most {MOST_JOBS} GPUs."
        )
    return max(int(load * gpus), 1)


def _sizes(gpus: Mapping[int, float], most: int | None) -> dict[int, float]:
    """Return the probability of every number of GPUs up to the largest."""
    for size, weight in gpus.items():
        require_count("Synergy round: GPUs of a job", size, minimum=1)
        require_number(f"Synergy round: weight of {size} GPUs", weight, minimum=0.0)
    kept = {size: weight for size, weight in gpus.items() if most is None or size <= most}
    total = sum(kept.values())
    if total <= 0:
        limit = "" if most is None else f" of at most {most} GPUs, which is all there are"
        raise ValueError(
            f"Synergy round: GPUs of jobs are {dict(gpus)}; expected a weight above 0{limit}."
        )
    return {size: weight / total for size, weight in kept.items()}


def _model_chances(
    names: tuple[str, ...], split: tuple[float, float, float] | None
) -> Floats | None:
    """Return the probability of every model, None where all are equal."""
    if split is None:
        return None
    if len(split) != len(CLASSES):
        raise ValueError(
            f"Synergy round: split is {split}; expected a weight for each of {', '.join(CLASSES)}."
        )
    for kind, weight in zip(CLASSES, split, strict=True):
        require_number(f"Synergy round: weight of {kind}", weight, minimum=0.0)
    if sum(split) <= 0:
        raise ValueError(f"Synergy round: split is {split}; expected a weight above 0.")
    kinds = [load_sensitivity(name).kind for name in names]
    chance = [split[CLASSES.index(kind)] / kinds.count(kind) for kind in kinds]
    return np.array(chance) / sum(chance)


def _fitting(held: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Return the jobs, in order, that fit into the GPUs that those before them leave."""
    chosen, left = [], budget
    for job, size in enumerate(held.tolist()):
        if size <= left:
            chosen.append(job)
            left -= size
    return np.array(chosen, dtype=np.int64)
