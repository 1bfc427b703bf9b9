"""Objective: speedups, utilities and fitness of an allocation.

Notation as in `formulations/NOTATION.md`: job *j* on *K* GPUs of one node or of several has
``u_j = scale * weight_j * speedup_j * rho_j + floor`` and ``fitness = (mean_j u_j^p)^(1/p)``
(section 4.2 of Pollux; the floor and the scale are the artifact's). A job that holds nothing has
the floor, or the idle utility of the rules.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao

Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.round.generalised_mean import power_mean, restart_factor
from goodalloc.models.round.job_shapes import allowed_shapes
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.requirements import require_plain

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.models.goodput.chunked import Backend
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Allocations up to which a speedup table is not worth compiling for: compilation takes seconds,
#: and NumPy needs one second for as many.
SMALL_TABLE = 4_000_000

#: Least utility of a job that runs where nothing is added to it, so that every power of it is
#: finite; about what Sia's artifact makes of none by clipping its power -1/2 at 3000.
LEAST_UTILITY = 1e-7


@dataclass(frozen=True)
class UtilityTable:
    """Utilities of all choices of all jobs.

    Parameters
    ----------
    moved
        Utility on *K* GPUs placed anew: shape (modes, 2, most GPUs + 1), a row for every mode of
        every job (`Instance.modes`); the second axis is 0 for one node and 1 for several, the third
        is *K*. At *K* = 0, the utility of holding nothing.
    kept
        Utility with exactly the current placement, shape (jobs,); that of holding nothing for idle
        jobs.
    """

    moved: Float[Floats, "modes 2 gpus"]
    kept: Float[Floats, " jobs"]


def speedup_table(
    instance: Instance, backend: Backend | None = None
) -> Float[Floats, "modes 2 gpus"]:
    """Return the speedup of every mode over the job's fair share.

    ``speedup(N, K) = goodput*(N, K) / goodput*(N_f, K_f)`` (section 4.2 of Pollux) with the best
    batch size on either side; the last two axes as in `UtilityTable.moved`. The fair share of a job
    is priced in the mode in which it is worth most, so that its modes can be compared. A job that
    never ran has speedup *K / K_f*. Where a job cannot run on its fair share at all, the best it
    can do on fewer GPUs takes the place of the base, or 1 where that is nothing.

    Parameters
    ----------
    instance
        Instance of the round.
    backend
        ``"jax"`` compiles once and is fast at any size; ``"numpy"`` needs no compilation; by
        default the size decides, so that equal instances give equal bits.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.models.round import speedup_table
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,))
    >>> speedup_table(instance)
    array([[[0. , 1. , 1.8],
            [0. , 0. , 0. ]]])
    """
    most = max(int(instance.max_replicas.max()), 1)
    models = instance.mode_models
    table = np.zeros((len(models), 2, most + 1))
    rows: dict[GoodputModel, list[int]] = {}
    for index, model in enumerate(models):
        if model is None:
            table[index] = np.arange(most + 1) / _base_replicas(instance)
            table[index, 1, :2] = 0.0
        elif isinstance(model, SpeedupTable):
            for spread, speedups in enumerate(model):
                known = np.asarray(speedups[:most], dtype=float)
                table[index, spread, 1 : known.size + 1] = known
            table[index, 1, 1] = 0.0
        else:
            rows.setdefault(model, []).append(index)
    if rows:
        if backend is None:
            backend = "numpy" if len(rows) * table[0].size <= SMALL_TABLE else "jax"
        _fill_modelled(instance, table, rows, backend)
    return table


def _fill_modelled(
    instance: Instance, table: Floats, rows: dict[GoodputModel, list[int]], backend: Backend
) -> None:
    """Fill the rows of modes with a goodput model; those of one model share the computation."""
    # Rounds of tables alone never need the search for batch sizes.
    from goodalloc.models.goodput.batch_size import best_batch_size
    from goodalloc.models.goodput.speedup import goodput_table, stack_models

    rules, fair = instance.rules, _base_replicas(instance)
    stacked = stack_models(tuple(rows))
    goodput = goodput_table(
        stacked,
        table.shape[-1] - 1,
        search=rules.batch_search,
        grid_points=rules.grid_points,
        backend=backend,
    )
    several = rules.fair_share == "packed" and fair > int(instance.cluster.node_gpus.max())
    if fair < table.shape[-1]:
        base = goodput[:, int(several), fair]
    else:
        best = best_batch_size(
            stacked,
            np.full(len(rows), 1 + int(several)),
            np.full(len(rows), fair),
            search=rules.batch_search,
            grid_points=rules.grid_points,
        )
        base = np.asarray(best.goodput)
    attainable = goodput[:, :, : fair + 1].max(axis=(1, 2))
    base = np.where(base > 0, base, attainable)
    group = np.concatenate([np.full(len(modes), g) for g, modes in enumerate(rows.values())])
    filled = np.concatenate(list(rows.values()))
    job = instance.mode_job[filled]
    share = np.zeros(instance.num_jobs)
    if rules.fair_share == "least":
        share = _least_share(instance, filled, goodput[group])
    else:
        np.maximum.at(share, job, base[group])
    table[filled] = goodput[group] / np.where(share > 0, share, 1.0)[job][:, None, None]


def _least_share(
    instance: Instance, modes: Int[Indices, " rows"], goodput: Float[Floats, "rows 2 gpus"]
) -> Float[Floats, " jobs"]:
    """Return the goodput of every job's worst whole-node shape over its fewest GPUs.

    It covers all shapes in any of these modes; any number of GPUs where no whole-node shape runs,
    and it is 0 where nothing runs. Shape (jobs,).

    Parameters
    ----------
    instance
        Instance of the round.
    modes, goodput
        Rows of `Instance.modes`, and their goodputs of shape (rows, 2, most GPUs + 1).
    """
    job, share = instance.mode_job[modes], np.zeros(instance.num_jobs)
    replicas = np.broadcast_to(np.arange(goodput.shape[-1]), goodput.shape)
    for whole_nodes in (False, True):  # the latter has the last word where there are any
        shapes = allowed_shapes(instance, whole_nodes=whole_nodes)[modes]
        runs = np.any(shapes, axis=1) & (goodput > 0)
        least = np.full(instance.num_jobs, np.inf)
        fewest = np.full(instance.num_jobs, np.inf)
        np.minimum.at(least, job, np.where(runs, goodput, np.inf).min(axis=(1, 2)))
        np.minimum.at(fewest, job, np.where(runs, replicas, np.inf).min(axis=(1, 2)))
        known = np.isfinite(least)
        share[known] = least[known] / fewest[known]
    return share


def _base_replicas(instance: Instance) -> int:
    """Return the number of GPUs with speedup 1, where it does not depend on the job."""
    return 1 if instance.rules.fair_share in ("one_gpu", "least") else instance.fair_share


def mode_utilities(instance: Instance) -> UtilityTable:
    """Return the utility of every choice of every mode, computed once per instance.

    ``u = scale * weight * speedup * rho + floor``, where ``rho`` is 1 for an unchanged placement in
    the same mode and ``max(age - delay * restarts, 0) / (age + delay)`` for any other (Pollux,
    section 4.2.1), of the jobs that `Rules.restart_penalty` names.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models.round import mode_utilities
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,), Rules(restart_delay=0.0))
    >>> mode_utilities(instance).moved.round(3)
    array([[[0.001, 0.251, 0.451],
            [0.001, 0.001, 0.001]]])
    """
    table = instance.memo.get("utilities")
    if not isinstance(table, UtilityTable):
        table = instance.memo["utilities"] = _mode_utilities(instance)
    return table


def _mode_utilities(instance: Instance) -> UtilityTable:
    rules, job = instance.rules, instance.mode_job
    speedups = speedup_table(instance)
    scale = np.array([one.weight for one in instance.jobs])
    if rules.speedup_scale == "node":
        scale = scale * (instance.cluster.num_nodes / instance.cluster.num_gpus)
    current = instance.current
    rho = np.asarray(restart_factor(instance.age, instance.restarts, instance.restart_delay))
    if rules.restart_penalty == "running":
        pays = (current.job_replicas > 0) & (instance.age >= instance.restart_delay)
        rho = np.where(pays, rho, 1.0)
    least = rules.floor or LEAST_UTILITY
    moved = scale[job, None, None] * speedups * rho[job, None, None] + rules.floor
    moved = np.maximum(moved, least)
    moved[:, :, 0] = rules.idle
    held = np.minimum(current.job_replicas, speedups.shape[-1] - 1)
    several = (current.job_nodes > 1).astype(int)
    kept = scale * speedups[instance.first_mode + current.mode, several, held] + rules.floor
    kept = np.where(current.job_replicas > 0, np.maximum(kept, least), rules.idle)
    moved.flags.writeable = False
    kept.flags.writeable = False
    return UtilityTable(moved, kept)


def utility_table(instance: Instance) -> UtilityTable:
    """Return `mode_utilities` of an instance without modes: a row for every job.

    Raises
    ------
    ValueError
        If a job has modes: callers of this table know no resource but GPUs.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models.round import utility_table
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,), Rules(restart_delay=0.0))
    >>> utility_table(instance).moved.round(3)
    array([[[0.001, 0.251, 0.451],
            [0.001, 0.001, 0.001]]])
    """
    require_plain(instance)
    return mode_utilities(instance)


def utilities(instance: Instance, allocation: Allocation) -> Float[Floats, " jobs"]:
    """Return the utility of every job under an allocation, shape (jobs,).

    Raises
    ------
    ValueError
        If the allocation has another shape than the instance.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models import utilities
    >>> jobs = tuple(Job(name, SpeedupTable((1.0, 2.0), ())) for name in "ab")
    >>> rules = Rules(speedup_scale="job", restart_delay=0.0)
    >>> instance = Instance(Cluster.uniform(1, 3), jobs, rules)
    >>> allocation = Allocation.from_matrix([[2], [1]])
    >>> utilities(instance, allocation).round(2)
    array([2., 1.])
    """
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    if (allocation.num_jobs, allocation.num_nodes) != shape:
        raise ValueError(
            f"Allocation has {allocation.num_jobs} jobs and {allocation.num_nodes} nodes; "
            f"the instance has {shape[0]} and {shape[1]}."
        )
    table = mode_utilities(instance)
    most = table.moved.shape[-1] - 1
    several = (allocation.job_nodes > 1).astype(int)
    replicas = np.minimum(allocation.job_replicas, most)
    moved = table.moved[instance.first_mode + allocation.mode, several, replicas]
    return np.where(allocation.unchanged(instance.current), table.kept, moved)


def fitness(instance: Instance, allocation: Allocation) -> float:
    """Return the objective, the power mean of the jobs' utilities; larger is better.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.models import fitness
    >>> jobs = tuple(Job(name, SpeedupTable((1.0, 2.0), ())) for name in "ab")
    >>> rules = Rules(speedup_scale="job", restart_delay=0.0)
    >>> instance = Instance(Cluster.uniform(1, 3), jobs, rules)
    >>> allocation = Allocation.from_matrix([[2], [1]])
    >>> round(fitness(instance, allocation), 2)  # 2 / (1/2 + 1/1)
    1.33
    """
    return float(power_mean(utilities(instance, allocation), instance.rules.power))
