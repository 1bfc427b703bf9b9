"""Seeded rounds on clusters of several types of GPU, in which every job may run on any of them.

The jobs are those of `data/rounds/generator.py` for a cluster of these sizes; each has a mode for
every type there is, with the throughput fitted on that type (`data/applications/gpu_types.py`). A
job that never ran has no model on any type. Equal arguments give equal instances, to the byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.data.applications.gpu_types import gpu_types, load_type_profile
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.packing import pack
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.mode import Mode
from goodalloc.models.round.rules import SIA
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.job import Job
    from goodalloc.models.round.rules import Rules

#: What went before: nothing runs yet, or jobs run.
TypedState = Literal["cold", "running"]


def sia_cluster(scale: int = 1) -> Cluster:
    """Return the cluster of Sia's simulator, 64 GPUs of three types, `scale` times.

    Six nodes of 4 T4, two of 8 A100 and three of 8 RTX 2080 Ti.

    Raises
    ------
    ValueError
        If the scale is no positive integer.

    Examples
    --------
    >>> from goodalloc.data.rounds import sia_cluster
    >>> sia_cluster().num_gpus, sia_cluster().gpu_types
    (64, ('a100', 'rtx2080ti', 't4'))
    """
    require_count("Cluster of Sia: scale", scale, minimum=1, maximum=100_000)
    return Cluster(
        (
            NodeGroup("aws", 6 * scale, 4, "t4"),
            NodeGroup("dgx", 2 * scale, 8, "a100"),
            NodeGroup("rtx", 3 * scale, 8, "rtx2080ti"),
        )
    )


def generate_typed(
    seed: int,
    jobs: int | None = None,
    *,
    cluster: Cluster | None = None,
    load: float | None = None,
    state: TypedState = "cold",
    rules: Rules = SIA,
    name: str | None = None,
) -> Instance:
    """Draw a round in which every job has a mode for every type of GPU.

    Parameters
    ----------
    seed, jobs, load, name
        As in `goodalloc.data.rounds.generator.generate`.
    cluster
        Groups of nodes of types that there are profiles for; Sia's if None.
    state
        ``"cold"``: nothing is placed; ``"running"``: each job that ran before is assigned to a
        type, drawn by the GPUs there are, and those of a type are packed plainly.
    rules
        Rules of the instance.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_typed, sia_cluster
    >>> instance = generate_typed(0, 4, cluster=sia_cluster())
    >>> [mode.name for mode in instance.jobs[0].modes]
    ['a100', 'rtx2080ti', 't4']
    """
    require_choice("Generator: state", state, get_args(TypedState))
    cluster = cluster or sia_cluster()
    for group in cluster.groups:
        if group.gpu_type not in gpu_types():
            raise ValueError(
                f"Generator: node group '{group.name}' has GPUs of type '{group.gpu_type}'; "
                f"expected one of {', '.join(gpu_types())}."
            )
    plain = generate(seed, jobs, cluster=cluster, load=load, rules=rules, name=name)
    models: dict[tuple[str, str, GoodputModel], GoodputModel] = {}
    typed = [_with_modes(job, cluster.gpu_types, models) for job in plain.jobs]
    if state == "running":
        typed = _placed(typed, cluster, rules, np.random.default_rng([seed, 1]))
    sizes = "+".join(f"{group.nodes}x{group.gpus}{group.gpu_type}" for group in cluster.groups)
    named = name or f"{state}-{len(typed)}-jobs-{sizes}-seed-{seed}"
    return Instance(cluster, tuple(typed), rules, named)


def _with_modes(
    job: Job, types: tuple[str, ...], models: dict[tuple[str, str, GoodputModel], GoodputModel]
) -> Job:
    """Return the job with a mode for every type; equal jobs share their models."""
    if not isinstance(job.model, GoodputModel):
        return job.replace(modes=tuple(Mode(name, None, name) for name in types))
    modes = []
    for name in types:
        key = (job.application, name, job.model)
        if key not in models:
            profile = load_type_profile(job.application, name)
            models[key] = GoodputModel(profile.throughput, job.model.gradient, profile.batch)
        modes.append(Mode(name, models[key], name))
    return job.replace(model=None, modes=tuple(modes))


def _placed(
    jobs: list[Job], cluster: Cluster, rules: Rules, random: np.random.Generator
) -> list[Job]:
    """Return the jobs as running where a simple packing of every type places them."""
    gpus = np.array([group.nodes * group.gpus for group in cluster.groups])
    ran = np.array([job.modes[0].model is not None for job in jobs])
    most = np.array([job.max_replicas for job in jobs])
    drawn = random.choice(gpus.size, size=len(jobs), p=gpus / gpus.sum())
    rows: list[Placement] = [()] * len(jobs)
    first = 0
    for index, group in enumerate(cluster.groups):
        here = ran & (drawn == index)
        wanted = np.where(here, np.maximum(most // 2, 1), 0)
        held = pack(wanted, np.where(here, most, 0), Cluster((group,)), rules)
        for job in np.flatnonzero(held.job_replicas).tolist():
            rows[job] = tuple((first + node, count) for node, count in held.placement(job))
        first += group.nodes
    groups = [cluster.groups[index].gpu_type for index in drawn]
    return [
        job.replace(placement=row, mode=group if row else "")
        for job, row, group in zip(jobs, rows, groups, strict=True)
    ]
