"""Draws of jobs and of their present placements, for rounds of objects and of columns alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.data.rounds.packing import pack
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.job import MOST_REPLICAS
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.rules import Rules
    from goodalloc.models.support.array_types import Floats, Indices

#: What went before: nothing runs yet, jobs run since some time, nodes were just lost, or all is
#: settled.
State = Literal["cold", "running", "disturbed", "settled"]

#: GPUs that users ask for, and how often, by application: one GPU is by far the commonest.
REQUESTS: Mapping[str, Mapping[int, float]] = {
    "bert": {1: 0.70, 2: 0.15, 4: 0.10, 8: 0.05},
    "cifar10": {1: 0.80, 2: 0.10, 4: 0.07, 8: 0.03},
    "deepspeech2": {1: 0.65, 2: 0.15, 4: 0.12, 8: 0.08},
    "imagenet": {8: 0.60, 16: 0.30, 32: 0.10},
    "ncf": {1: 1.0},
    "yolov3": {1: 0.35, 2: 0.15, 4: 0.30, 8: 0.15, 16: 0.05},
}

#: What users of any other application ask for.
OTHER_REQUESTS: Mapping[int, float] = {1: 0.6, 2: 0.2, 4: 0.15, 8: 0.05}


#: Steps into which progress is divided: jobs at the same step share one goodput model.
PROGRESS_STEPS = 100


@dataclass(frozen=True, slots=True)
class StateShape:
    """State of a round: mean age (s), share of jobs that never ran, seconds between restarts."""

    mean_age: float
    new_share: float
    seconds_per_restart: float


STATE_SHAPES: Mapping[str, StateShape] = {
    "cold": StateShape(mean_age=3_600.0, new_share=0.05, seconds_per_restart=900.0),
    "running": StateShape(mean_age=3_600.0, new_share=0.05, seconds_per_restart=900.0),
    "disturbed": StateShape(mean_age=3_600.0, new_share=0.10, seconds_per_restart=900.0),
    "settled": StateShape(mean_age=36_000.0, new_share=0.02, seconds_per_restart=3_600.0),
}

#: Share of the nodes that a disturbance empties.
EMPTIED_SHARE = 0.2

#: Seconds before now within which a job that never ran was submitted.
NEW_AGE = 120


@dataclass(frozen=True)
class JobDraws:
    """Drawn jobs before their placement; every array has shape (jobs,), oldest job first."""

    application: Indices
    requested: Indices
    age: Floats
    restarts: Indices
    progress_step: Indices
    largest_run: Indices
    service_share: Floats


def check_arguments(seed: int, jobs: int | None, load: float | None, state: str) -> None:
    """Refuse arguments of a generator that make no sense.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `load` <= 0, `state` is unknown, or both `jobs` and `load` are
        given.
    """
    require_count("Generator: seed", seed, minimum=0)
    require_choice("Generator: state", state, get_args(State))
    if jobs is not None:
        require_count("Generator: jobs", jobs, minimum=1, maximum=1_000_000)
    if load is not None:
        require_number("Generator: load", load, minimum=0.0, strict=True)
        if jobs is not None:
            raise ValueError(f"Generator: jobs is {jobs} and load is {load}; expected one of them.")


def application_mix(mix: Mapping[str, float] | None) -> tuple[tuple[str, ...], Floats]:
    """Return the applications and their shares, which add up to 1."""
    known = application_names()
    if mix is None:
        mix = {application: load_profile(application).share for application in known}
    for application, weight in mix.items():
        if application not in known:
            raise ValueError(
                f"Generator: mix names application '{application}'; "
                f"expected some of {', '.join(known)}."
            )
        require_number(f"Generator: weight of application '{application}'", weight, minimum=0.0)
    weights = np.array(list(mix.values()), dtype=float)
    if weights.sum() <= 0:
        raise ValueError(f"Generator: mix is {dict(mix)}; expected a weight above 0.")
    return tuple(mix), weights / weights.sum()


def _choose(random: np.random.Generator, weights: Floats, count: int) -> Indices:
    """Draw indices by weight."""
    cumulative = np.cumsum(weights)
    drawn = np.searchsorted(cumulative / cumulative[-1], random.random(count), side="right")
    return drawn.astype(np.int64)


def draw_demand(
    random: np.random.Generator,
    jobs: int | None,
    load: float | None,
    num_gpus: int,
    applications: tuple[str, ...],
    weights: Floats,
) -> tuple[Indices, Indices]:
    """Draw application and requested GPUs of every job, for a number of jobs or for a load."""
    wanted = (1.0 if load is None else load) * num_gpus
    count = jobs if jobs is not None else max(int(np.ceil(wanted)), 1)
    if count > 1_000_000:
        raise ValueError(
            f"Generator: load {load} on {num_gpus} GPUs; expected at most 1000000 jobs."
        )
    application = _choose(random, weights, count)
    requested = np.zeros(count, dtype=np.int64)
    for index, name in enumerate(applications):
        table = REQUESTS.get(name, OTHER_REQUESTS)
        mine = np.flatnonzero(application == index)
        drawn = _choose(random, np.array(list(table.values())), mine.size)
        requested[mine] = np.array(list(table))[drawn]
    if jobs is None:
        enough = int(np.searchsorted(np.cumsum(requested), wanted)) + 1
        application, requested = application[:enough], requested[:enough]
    return application, requested


def draw_jobs(
    random: np.random.Generator, application: Indices, requested: Indices, shape: StateShape
) -> JobDraws:
    """Draw ages, restarts and progress.

    Ages are exponential in whole seconds, restarts uniform around one per mean time between
    restarts, and the largest run is the request halved, kept, doubled or quadrupled.
    """
    count = application.size
    age = np.ceil(-shape.mean_age * np.log1p(-random.random(count)))
    age = np.sort(np.maximum(age, NEW_AGE + 1))[::-1]
    restarts = np.floor(2.0 * random.random(count) * age / shape.seconds_per_restart)
    restarts = 1 + np.minimum(restarts, age // 120)
    largest_run = np.maximum(requested * 2.0 ** random.integers(-1, 3, count), 1)
    progress_step = random.integers(0, PROGRESS_STEPS, count)
    service_share = random.random(count)
    new = np.arange(count) >= count - int(np.floor(shape.new_share * count))
    age[new] = np.sort(random.integers(1, NEW_AGE + 1, count))[::-1][new]
    return JobDraws(
        application=application,
        requested=requested,
        age=age,
        restarts=np.where(new, 0, restarts).astype(np.int64),
        progress_step=np.where(new, 0, progress_step),
        largest_run=np.where(new, 0, largest_run).astype(np.int64),
        service_share=service_share,
    )


def most_replicas(draws: JobDraws, applications: tuple[str, ...]) -> Indices:
    """Return ``min(max(2 * largest run, 1), 64, floor(M_max / m_min))``, as Pollux's artifact."""
    limits = np.empty(len(applications), dtype=np.int64)
    for index, name in enumerate(applications):
        profile = load_profile(name)
        limits[index] = int(profile.batch.maximum) // int(profile.batch.atomic_minimum)
        if profile.restriction is not None:
            limits[index] = profile.restriction.replicas
    explored = np.maximum(2 * draws.largest_run, 1)
    return np.minimum(np.minimum(explored, MOST_REPLICAS), limits[draws.application])


def place_jobs(
    random: np.random.Generator,
    draws: JobDraws,
    most: Indices,
    cluster: Cluster,
    rules: Rules,
    state: State,
) -> Allocation:
    """Place the jobs that ran before, packed, and then apply the disturbance."""
    count = most.size
    if state == "cold":
        return Allocation.empty(count, cluster.num_nodes)
    ran = draws.largest_run > 0
    wanted = np.where(ran, np.minimum(draws.requested, most), 0)
    held = pack(wanted, np.where(ran, most, 0), cluster, rules)
    if state == "disturbed":
        emptied = random.permutation(cluster.num_nodes)
        emptied = emptied[: max(round(EMPTIED_SHARE * cluster.num_nodes), 1)]
        stopped = np.unique(held.job[np.isin(held.node, emptied)])
        held = held.rows(np.setdiff1d(np.arange(count), stopped).tolist())
    return held
