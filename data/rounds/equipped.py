"""Seeded rounds in which CPU cores and memory count: any round, equipped.

Every job gets a mode for each number of cores, and each amount of memory, that a replica may have
beside its GPU (and keeps one for every type of GPU, where it has several). How fast it is in a mode
follows from its input pipeline (`models/goodput/input_pipeline.py`), drawn for every job: how many
cores a GPU needs to be kept busy, how much memory the data take, how slow storage is. Equal
arguments give equal instances, to the byte.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.mode import Mode, resources
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.round.cluster import NodeGroup
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.job import Job
    from goodalloc.models.round.mode import JobModel

#: Cores per GPU that a job may have, and that its GPU may need to be kept busy.
CORES = tuple(range(1, 13))

#: Memory per GPU that a job may have, over the node's per GPU, and that its data may take.
MEMORY_SHARES = (0.25, 0.5, 1.0, 1.5)
DATA_SHARES = (0.5, 1.0, 1.5, 2.0)

#: Greatest factor by which storage is slower than the GPU.
SLOWEST_STORAGE = 3.0


def equip(
    instance: Instance,
    seed: int,
    *,
    cores: Sequence[float] | float = 48,
    memory: Sequence[float] | float | None = None,
) -> Instance:
    """Give the nodes of a round cores and memory, and its jobs modes that use them.

    A job that runs has a GPU's share of its node, which always fits.

    Parameters
    ----------
    instance
        A round of jobs with goodput models (or none, where they never ran), plain or on several
        types of GPU.
    seed
        Seed of the input pipelines.
    cores
        Cores of a node, for every group or for each.
    memory
        Memory of a node in GB, likewise; None where memory does not count.

    Raises
    ------
    ValueError
        If an argument is out of range, a job's model is a table of speedups, or a node has fewer
        cores than GPUs.

    Examples
    --------
    >>> from goodalloc.data.rounds import equip, generate
    >>> instance = equip(generate(0, jobs=4, nodes=2), 0, cores=16.0)
    >>> instance.cluster.groups[0].resources
    (('cpu', 16.0),)
    """
    require_count("Equipment: seed", seed, minimum=0)
    groups = instance.cluster.groups
    of_cores = _each("cores", cores, groups)
    of_memory = None if memory is None else _each("memory", memory, groups)
    equipped = []
    for index, group in enumerate(groups):
        amounts = {"cpu": of_cores[index]}
        if of_memory is not None:
            amounts["memory"] = of_memory[index]
        if of_cores[index] < group.gpus:
            raise ValueError(
                f"Equipment: node group '{group.name}' has {of_cores[index]:g} cores for "
                f"{group.gpus} GPUs; expected at least one for each."
            )
        equipped.append(replace(group, resources=resources(amounts)))
    share = min(int(c // g.gpus) for c, g in zip(of_cores, groups, strict=True))
    memory_share = (
        None
        if of_memory is None
        else min(m / g.gpus for m, g in zip(of_memory, groups, strict=True))
    )
    random = np.random.default_rng([seed, 2])
    pipelines: dict[tuple[JobModel, InputPipeline, int, float], JobModel] = {}
    jobs = [_equipped(job, random, share, memory_share, pipelines) for job in instance.jobs]
    named = f"{instance.name}-cpu" + ("" if memory is None else "-memory")
    return instance.replace(cluster=Cluster(tuple(equipped)), jobs=tuple(jobs), name=named)


def _each(
    name: str, amounts: Sequence[float] | float, groups: tuple[NodeGroup, ...]
) -> list[float]:
    """Return an amount for every group."""
    given = [amounts] * len(groups) if isinstance(amounts, int | float) else list(amounts)
    if len(given) != len(groups):
        raise ValueError(
            f"Equipment: {name} has {len(given)} values; expected one, or {len(groups)}."
        )
    for group, amount in zip(groups, given, strict=True):
        require_number(f"Equipment: {name} of '{group.name}'", amount, minimum=0.0, strict=True)
    return [float(amount) for amount in given]


def _equipped(
    job: Job,
    random: np.random.Generator,
    share: int,
    memory_share: float | None,
    known: dict[tuple[JobModel, InputPipeline, int, float], JobModel],
) -> Job:
    """Return the job with a mode for every combination of resources; equal models are shared."""
    busy, storage = int(random.integers(1, 13)), float(random.uniform(1.0, SLOWEST_STORAGE))
    data = float(random.choice(DATA_SHARES)) * (memory_share or 1.0)
    amounts = [0.0] if memory_share is None else [part * memory_share for part in MEMORY_SHARES]
    bases = [mode.model for mode in job.modes] or [job.model]
    models: list[GoodputModel | None] = []
    for base in bases:
        if base is not None and not isinstance(base, GoodputModel):
            raise ValueError(
                f"Job '{job.name}': its model is of type {type(base).__name__}; "
                "expected a goodput model, which knows of an input pipeline."
            )
        models.append(base)
    # what an example costs before it reaches a GPU does not depend on the GPU
    fastest = min((float(m.throughput.beta_grad) for m in models if m is not None), default=1.0)
    pipeline = InputPipeline(
        busy * fastest, storage * fastest if memory_share is not None else 0.0, data
    )
    modes = []
    for mode, base in zip(job.all_modes, models, strict=True):
        for cores in CORES:
            for memory in amounts:
                key = (base, pipeline, cores, memory)
                if key not in known:
                    known[key] = base and base._replace(
                        throughput=bounded_by_input(base.throughput, pipeline, cores, memory)
                    )
                taken = {"cpu": float(cores)} | ({"memory": memory} if memory else {})
                name = mode_name(mode.gpu_type, cores, memory)
                modes.append(Mode(name, known[key], mode.gpu_type, resources(taken)))
    if not job.placement:
        return job.replace(model=None, modes=tuple(modes))
    runs = job.all_modes[job.mode_index].gpu_type
    running = mode_name(runs, min(share, CORES[-1]), memory_share or 0.0)
    return job.replace(model=None, modes=tuple(modes), mode=running)


def mode_name(gpu_type: str, cores: int, memory: float = 0.0) -> str:
    """Return the name of a mode: ``a100-6-64`` runs on A100 with 6 cores and 64 GB per GPU.

    Examples
    --------
    >>> from goodalloc.data.rounds import mode_name
    >>> mode_name("a100", 6, 64.0)
    'a100-6-64'
    """
    parts = [gpu_type] if gpu_type else []
    return "-".join([*parts, f"{cores}", *([f"{memory:g}"] if memory else [])])
