"""Seeded rounds of many jobs on several types of GPU with cores, in columns.

The jobs are those of `column_rounds.py` for the same number of GPUs. Each may run on every type of
the cluster, with several numbers of cores for a GPU; how many cores keep a GPU busy is drawn by job
(`models/goodput/input_pipeline.py`). Equal arguments give equal rounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.gpu_types import gpu_types, load_type_profile
from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.rounds.drawn_jobs import (
    EMPTIED_SHARE,
    PROGRESS_STEPS,
    STATE_SHAPES,
    application_mix,
    check_arguments,
    draw_demand,
    draw_jobs,
    most_replicas,
)
from goodalloc.data.rounds.packing import pack
from goodalloc.data.rounds.typed import sia_cluster
from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.columns.round_columns import NEVER_RAN, no_models
from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.mode import Mode, resources
from goodalloc.models.round.rules import Rules

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import JobDraws, State
    from goodalloc.models.round.cluster import NodeGroup
    from goodalloc.models.support.array_types import Indices

#: Cores of a node, by type of GPU.
CORES = {"t4": 16.0, "a100": 64.0, "rtx2080ti": 32.0}

#: Cores that may be needed to keep a T4 busy, drawn alike.
BUSY = (1, 3, 6, 10)


def three_types(scale: int = 1) -> Cluster:
    """Return the cluster of Sia's simulator (`sia_cluster`), `scale` times, with cores.

    Raises
    ------
    ValueError
        If the scale is no positive integer.

    Examples
    --------
    >>> from goodalloc.data.rounds import three_types
    >>> three_types().num_gpus, three_types().resource_names
    (64, ('cpu',))
    """
    groups = sia_cluster(scale).groups
    return Cluster(
        tuple(
            replace(group, resources=resources({"cpu": CORES[group.gpu_type]})) for group in groups
        )
    )


def generate_mode_columns(
    seed: int,
    jobs: int,
    cluster: Cluster | None = None,
    *,
    state: State = "cold",
    rules: Rules | None = None,
) -> ModeColumns:
    """Draw a round of jobs with modes, types of GPU by cores.

    Parameters
    ----------
    seed
        Seed of all draws.
    jobs
        Number of jobs.
    cluster
        Groups of nodes of types that there are profiles for, with cores (``cpu``) or without; that
        of `three_types` if None, on which jobs have ten modes.
    state
        What went before, as in `generate`; each running job is on one group, drawn by the GPUs
        there are, with a GPU's share of the cores. In a disturbed round each node has been emptied
        with a probability of a fifth, so that none may have been.
    rules
        Rules of the round; the default ones if None.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `state` is unknown, or a group has GPUs of an unknown type, other
        resources than cores, or fewer cores than GPUs.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> columns = generate_mode_columns(seed=0, jobs=40)
    >>> [mode.name for mode in columns.modes][-3:]
    ['rtx2080ti-2', 'rtx2080ti-4', 'rtx2080ti-8']
    """
    check_arguments(seed, jobs, None, state)
    cluster, rules = cluster or three_types(), rules or Rules()
    modes = _modes(cluster)
    applications, weights = application_mix(None)
    random = np.random.default_rng(seed)
    application, requested = draw_demand(
        random, jobs, None, cluster.num_gpus, applications, weights
    )
    draws = draw_jobs(random, application, requested, STATE_SHAPES[state])
    busy = random.integers(0, len(BUSY), jobs)
    most = most_replicas(draws, applications)
    ran = draws.largest_run > 0
    code = (draws.application * PROGRESS_STEPS + draws.progress_step) * len(BUSY) + busy
    codes, kind = np.unique(np.where(ran, code, NEVER_RAN), return_inverse=True)
    without = int(codes[0] == NEVER_RAN)
    models = [
        model
        for one in codes[without:].tolist()
        for model in _models(applications, int(one), modes)
    ]
    placed = Allocation.empty(jobs, cluster.num_nodes)
    if state != "cold":
        placed = _placed(random, draws, most, cluster, rules)
    if state == "disturbed":
        emptied = random.random(cluster.num_nodes) < EMPTIED_SHARE
        stopped = np.unique(placed.job[emptied[placed.node]])
        placed = placed.rows(np.setdiff1d(np.arange(jobs), stopped).tolist())
    return ModeColumns(
        cluster,
        stack_models(models) if models else no_models(),
        (kind - without).astype(np.int64),
        draws.age,
        draws.restarts,
        most,
        placed,
        rules,
        modes,
    )


def _modes(cluster: Cluster) -> tuple[Mode, ...]:
    """Return the modes: every type, with powers of 2 cores for a GPU to twice its largest share.

    The shares of a GPU are among them.
    """
    shares: dict[str, set[int]] = {}
    for group in cluster.groups:
        item = f"Generator: node group '{group.name}'"
        if group.gpu_type not in gpu_types():
            raise ValueError(
                f"{item} has GPUs of type '{group.gpu_type}'; expected one of "
                f"{', '.join(gpu_types())}."
            )
        if set(dict(group.resources)) - {"cpu"}:
            raise ValueError(f"{item} has {cluster.resource_names}; expected cores (cpu) alone.")
        share = _share(group)
        if bool(share) != bool(cluster.resource_names):
            raise ValueError(f"{item} has fewer cores than GPUs; expected one for each.")
        shares.setdefault(group.gpu_type, set()).add(share)
    modes = []
    for name, known in shares.items():
        cores = sorted(known | {2**i for i in range(1, 10) if 2**i <= 2 * max(known)})
        for each in cores if max(known) else [0]:
            taken = resources({"cpu": float(each)})
            modes.append(Mode(f"{name}-{each}" if each else name, None, name, taken))
    return tuple(modes)


def _share(group: NodeGroup) -> int:
    """Return a GPU's share of the cores of a node, 0 where these do not count."""
    return int(dict(group.resources).get("cpu", 0.0)) // max(group.gpus, 1)


def _models(
    applications: tuple[str, ...], code: int, modes: tuple[Mode, ...]
) -> list[GoodputModel]:
    """Return the models of a kind in all modes."""
    kind, busy = divmod(code, len(BUSY))
    index, step = divmod(kind, PROGRESS_STEPS)
    first = load_profile(applications[index]).goodput_model(step / PROGRESS_STEPS)
    pipeline = InputPipeline(BUSY[busy] * float(first.throughput.beta_grad))
    models = []
    for mode in modes:
        profile = load_type_profile(applications[index], mode.gpu_type)
        throughput, cores = profile.throughput, dict(mode.resources).get("cpu")
        if cores is not None:
            throughput = bounded_by_input(throughput, pipeline, cores)
        models.append(GoodputModel(throughput, first.gradient, profile.batch))
    return models


def _placed(
    random: np.random.Generator,
    draws: JobDraws,
    most: Indices,
    cluster: Cluster,
    rules: Rules,
) -> Allocation:
    """Return the jobs that ran before packed on a type each, with a GPU's share of the cores."""
    gpus = np.array([group.nodes * group.gpus for group in cluster.groups])
    drawn = random.choice(gpus.size, size=most.size, p=gpus / gpus.sum())
    names = [mode.name for mode in _modes(cluster)]
    entries, modes, first = [], np.zeros(most.size, dtype=np.int64), 0
    for index, group in enumerate(cluster.groups):
        here = (draws.largest_run > 0) & (drawn == index)
        wanted = np.where(here, np.minimum(draws.requested, most), 0)
        held = pack(wanted, np.where(here, most, 0), Cluster((group,)), rules)
        entries.append((held.job, held.node + first, held.replicas))
        share = _share(group)
        name = f"{group.gpu_type}-{share}" if share else group.gpu_type
        modes[held.job] = names.index(name)
        first += group.nodes
    job, node, replicas = (np.concatenate(column) for column in zip(*entries, strict=True))
    return Allocation.from_entries(job, node, replicas, most.size, cluster.num_nodes, modes)
