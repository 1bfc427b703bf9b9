"""Seeded generator of instances: the paper's mix of applications at any size and load.

Jobs follow Pollux's published simulator (OSDI'21 artifact): the applications and
their shares, and what the scheduler knows of a job: its age, its restarts, its progress, and that
it may hold at most twice the GPUs it ever ran on. What the workloads do not tell (ages, restarts)
is drawn from simple distributions named below. Equal arguments give equal instances, to the byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.rounds.drawn_jobs import (
    PROGRESS_STEPS,
    STATE_SHAPES,
    application_mix,
    check_arguments,
    draw_demand,
    draw_jobs,
    most_replicas,
    place_jobs,
)
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.rounds.drawn_jobs import JobDraws, State
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Indices


def generate(
    seed: int,
    jobs: int | None = None,
    nodes: int = 16,
    gpus_per_node: int = 4,
    *,
    cluster: Cluster | None = None,
    load: float | None = None,
    state: State = "cold",
    rules: Rules | None = None,
    mix: Mapping[str, float] | None = None,
    name: str | None = None,
) -> Instance:
    """Draw an instance.

    Parameters
    ----------
    seed
        Seed of all draws.
    jobs
        Number of jobs; None to let `load` decide.
    nodes, gpus_per_node
        A cluster of equal nodes.
    cluster
        Any other cluster, in place of the two.
    load
        GPUs that the jobs ask for over GPUs of the cluster, when `jobs` is None; 1 by default.
    state
        ``"cold"``: nothing is placed; ``"running"``: a plain packing of what fits; ``"disturbed"``:
        the same after a fifth of the nodes was emptied and new jobs came; ``"settled"``: old jobs,
        all placed as far as the GPUs go, few new ones.
    rules
        Rules of the instance; the default ones if None.
    mix
        Weight of every application; the shares of the paper if None.
    name
        Name of the instance; made of the arguments if None.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `load` <= 0, `state` or an application of `mix` is unknown, or
        both `jobs` and `load` are given.

    Examples
    --------
    >>> from goodalloc.data import generate
    >>> instance = generate(seed=0, jobs=8, nodes=2, gpus_per_node=4)
    >>> instance.num_jobs, instance.cluster.num_gpus
    (8, 8)
    >>> instance == generate(seed=0, jobs=8, nodes=2, gpus_per_node=4)
    True
    """
    check_arguments(seed, jobs, load, state)
    rules = rules or Rules()
    cluster = cluster or Cluster.uniform(nodes, gpus_per_node)
    applications, weights = application_mix(mix)
    random = np.random.default_rng(seed)
    application, requested = draw_demand(
        random, jobs, load, cluster.num_gpus, applications, weights
    )
    draws = draw_jobs(random, application, requested, STATE_SHAPES[state])
    most = most_replicas(draws, applications)
    placed = place_jobs(random, draws, most, cluster, rules, state)
    if name is None:
        sizes = "+".join(f"{group.nodes}x{group.gpus}" for group in cluster.groups)
        name = f"{state}-{application.size}-jobs-{sizes}-seed-{seed}"
    return Instance(cluster, _jobs(draws, most, placed, applications), rules, name)


def _jobs(
    draws: JobDraws, most: Indices, placed: Allocation, applications: tuple[str, ...]
) -> tuple[Job, ...]:
    """Return the jobs, oldest first, with one goodput model for every application and step."""
    service = np.round(draws.service_share * draws.age * np.minimum(draws.requested, most))
    columns = zip(
        draws.application.tolist(),
        draws.age.tolist(),
        draws.restarts.tolist(),
        draws.progress_step.tolist(),
        draws.largest_run.tolist(),
        most.tolist(),
        service.tolist(),
        placed.placements(),
        strict=True,
    )
    models, jobs = {}, []
    for index, (kind, age, restarts, step, ran, limit, attained, placement) in enumerate(columns):
        key = (kind, step)
        if ran and key not in models:
            models[key] = load_profile(applications[kind]).goodput_model(step / PROGRESS_STEPS)
        job = Job(
            name=f"{applications[kind]}-{index}",
            model=models[key] if ran else None,
            age=age,
            restarts=restarts,
            placement=placement,
            max_replicas=limit,
            attained_service=attained if ran else 0.0,
            application=applications[kind],
        )
        jobs.append(job)
    return tuple(jobs)
