"""Seeded rounds of many jobs on three types of GPU with cores, in columns.

The jobs are those of `column_rounds.py` for the same number of GPUs. Each may run on T4, A100 and
RTX 2080 Ti with several numbers of cores for a GPU; how many cores keep a GPU busy is drawn by job
(`models/goodput/input_pipeline.py`). Equal arguments give equal rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.gpu_types import load_type_profile
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
from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.columns.round_columns import NEVER_RAN, no_models
from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import Mode, resources
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import JobDraws, State
    from goodalloc.models.support.array_types import Indices

#: Nodes of a cluster of scale 1, GPUs and cores of a node, by type of GPU.
NODES = {"t4": (6, 4, 16.0), "a100": (2, 8, 64.0), "rtx2080ti": (3, 8, 32.0)}

#: Cores beside a GPU, by type: the modes. A GPU's share of its node is among them.
CORES = {"t4": (2, 4, 8), "a100": (2, 4, 8, 16), "rtx2080ti": (2, 4, 8)}

#: Cores that may be needed to keep a T4 busy, drawn alike.
BUSY = (1, 3, 6, 10)


def generate_mode_columns(
    seed: int, jobs: int, scale: int, *, state: State = "cold", rules: Rules | None = None
) -> ModeColumns:
    """Draw a round of jobs with ten modes, three types of GPU by cores.

    Parameters
    ----------
    seed
        Seed of all draws.
    jobs
        Number of jobs.
    scale
        Size of the cluster, 64 GPUs on eleven nodes times this.
    state
        What went before, as in `generate`; each running job is on one type, drawn by the GPUs there
        are, with a GPU's share of the cores.
    rules
        Rules of the round; the default ones if None.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `scale` < 1 or `state` is unknown.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> columns = generate_mode_columns(seed=0, jobs=40, scale=1)
    >>> columns.cluster.num_gpus, len(columns.modes), columns.cluster.resource_names
    (64, 10, ('cpu',))
    """
    check_arguments(seed, jobs, None, state)
    require_count("Generator: scale", scale, minimum=1, maximum=90_000)
    cluster = Cluster(
        tuple(
            NodeGroup(name, nodes * scale, gpus, name, resources({"cpu": cores}))
            for name, (nodes, gpus, cores) in NODES.items()
        )
    )
    applications, weights = application_mix(None)
    random = np.random.default_rng(seed)
    application, requested = draw_demand(
        random, jobs, None, cluster.num_gpus, applications, weights
    )
    draws = draw_jobs(random, application, requested, STATE_SHAPES[state])
    busy = random.integers(0, len(BUSY), jobs)
    most, rules = most_replicas(draws, applications), rules or Rules()
    ran = draws.largest_run > 0
    code = (draws.application * PROGRESS_STEPS + draws.progress_step) * len(BUSY) + busy
    codes, kind = np.unique(np.where(ran, code, NEVER_RAN), return_inverse=True)
    without = int(codes[0] == NEVER_RAN)
    models = [
        model for one in codes[without:].tolist() for model in _models(applications, int(one))
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
        _modes(),
    )


def _modes() -> tuple[Mode, ...]:
    """Return the modes, type by type."""
    return tuple(
        Mode(f"{name}-{cores}", None, name, resources({"cpu": float(cores)}))
        for name, each in CORES.items()
        for cores in each
    )


def _models(applications: tuple[str, ...], code: int) -> list[GoodputModel]:
    """Return the models of a kind in all modes."""
    application, step, busy = (
        applications[code // (PROGRESS_STEPS * len(BUSY))],
        code // len(BUSY) % PROGRESS_STEPS,
        BUSY[code % len(BUSY)],
    )
    first = load_profile(application).goodput_model(step / PROGRESS_STEPS)
    pipeline = InputPipeline(busy * float(first.throughput.beta_grad))
    models = []
    for name, each in CORES.items():
        profile = load_type_profile(application, name)
        for cores in each:
            bounded = bounded_by_input(profile.throughput, pipeline, float(cores))
            models.append(GoodputModel(bounded, first.gradient, profile.batch))
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
    names = [mode.name for mode in _modes()]
    entries, modes, first = [], np.zeros(most.size, dtype=np.int64), 0
    for index, group in enumerate(cluster.groups):
        here = (draws.largest_run > 0) & (drawn == index)
        wanted = np.where(here, np.minimum(draws.requested, most), 0)
        held = pack(wanted, np.where(here, most, 0), Cluster((group,)), rules)
        entries.append((held.job, held.node + first, held.replicas))
        share = int(dict(group.resources)["cpu"]) // group.gpus
        modes[held.job] = names.index(f"{group.gpu_type}-{share}")
        first += group.nodes
    job, node, replicas = (np.concatenate(column) for column in zip(*entries, strict=True))
    return Allocation.from_entries(job, node, replicas, most.size, cluster.num_nodes, modes)
