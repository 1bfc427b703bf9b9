"""Arrays of the genetic algorithm for an instance and for members to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import mode_utilities, speedup_table
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.solvers.genetic.modes import Modes
from goodalloc.solvers.genetic.operators import Genes, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from goodalloc.models.round.instance import Instance

#: Factor on the capacities of nodes: half of the checker's tolerance, so that sums in another order
#: stay within it.
TOLERANT = 1 + RESOURCE_TOLERANCE / 2


def repair_order(instance: Instance) -> NDArray[np.int64]:
    """Return the jobs in repair order: pinned ones, then the least served, then the oldest."""
    service = np.array([job.attained_service for job in instance.jobs])
    age = np.array([-job.age for job in instance.jobs])
    return np.lexsort((age, service, ~instance.pinned))


def build_problem(instance: Instance, order: NDArray[np.int64]) -> Problem:
    """Return the arrays of an instance (x64 on), jobs in `order`, padded to a round number.

    Raises
    ------
    ValueError
        If a node has more than 16,000 GPUs or the cluster more than 65,000, which the compact
        arrays cannot count.
    """
    cluster, rules, table = instance.cluster, instance.rules, mode_utilities(instance)
    most_gpus = int(cluster.node_gpus.max())
    if most_gpus > 16_000 or cluster.num_gpus > 65_000:
        raise ValueError(
            f"Genetic algorithm: the cluster has {cluster.num_gpus} GPUs, "
            f"a node up to {most_gpus}; expected at most 65000 and 16000."
        )
    dtype = np.int8 if most_gpus <= 60 else np.int16
    speedups = speedup_table(instance)
    jobs, pad = _round_up(order.size), _round_up(order.size) - order.size
    padded = _round_up if instance.plain else _next_power
    more = (
        (0, padded(len(speedups)) - len(speedups)),
        (0, 0),
        (0, padded(speedups.shape[-1]) - speedups.shape[-1]),
    )
    randomness = np.random.default_rng(0)  # equal matrices must hash equally in every run
    pinned, real = (np.pad(flags[order], (0, pad)) for flags in (instance.pinned, order >= 0))
    arrays: dict[str, Any] = dict(
        gpus=cluster.node_gpus.astype(dtype),
        current=np.pad(instance.current.matrix()[order].astype(dtype), ((0, pad), (0, 0))),
        pinned=pinned,
        real=real,
        fewest=np.pad(instance.min_replicas[order].astype(np.int32), (0, pad)),
        most=np.pad(instance.max_replicas[order].astype(np.int32), (0, pad)),
        num_jobs=np.int32(order.size),
        max_nodes=np.int32(min(rules.max_nodes_per_job, cluster.num_nodes)),
        exclusive=np.asarray(rules.interference_avoidance),
        log_moved=np.pad(np.log(table.moved), more, mode="edge"),
        log_kept=np.pad(np.log(table.kept[order]), (0, pad)),
        speedups=np.pad(speedups, more, mode="edge"),
        first_mode=np.pad(instance.first_mode[order].astype(np.int32), (0, pad)),
        node_factor=randomness.integers(2**31, size=cluster.num_nodes, dtype=np.uint32) * 2 + 1,
        job_factor=randomness.integers(2**63, size=jobs, dtype=np.uint64) * 2 + 1,
    )
    modes = None if instance.plain else _modes(instance, order, pad, more[0])
    return Problem(**{name: jnp.asarray(array) for name, array in arrays.items()}, modes=modes)


def _modes(instance: Instance, order: NDArray[np.int64], pad: int, more: tuple[int, int]) -> Modes:
    """Return the demands of the modes, padded by `pad` jobs and by `more` modes."""
    cluster = instance.cluster
    count = np.bincount(instance.mode_job)[order]
    arrays: dict[str, Any] = dict(
        num_modes=np.pad(count.astype(np.int32), (0, pad), constant_values=1),
        current=np.pad(instance.current.mode[order].astype(np.int32), (0, pad)),
        gpu_type=np.pad(instance.mode_type.astype(np.int32), more),
        demand=np.pad(instance.mode_resources.T, ((0, 0), more)),
        node_type=cluster.node_type.astype(np.int32),
        capacity=cluster.node_resources.T * TOLERANT,
    )
    return Modes(**{name: jnp.asarray(array) for name, array in arrays.items()})


def _round_up(count: int) -> int:
    """Return the next number with at most four leading binary digits, for few compilations."""
    step = 1 << max(count.bit_length() - 4, 3)
    return -(-count // step) * step


def _next_power(count: int) -> int:
    """Return the next power of two, as the number of modes changes every round."""
    return 1 << max((count - 1).bit_length(), 5)


def initial_members(
    instance: Instance, start: Allocation | None, warm: Sequence[Allocation] | None, population: int
) -> list[Allocation]:
    """Return the first generation: `start`, and the warm members or the current placements."""
    first = [] if start is None else [start]
    first += list(warm) if warm else [instance.current]
    for member in first[:population]:
        _check(instance, member)
    return first[:population]


def carried_over(
    members: Sequence[Allocation], modes: Mapping[str, Sequence[str]], instance: Instance
) -> list[Allocation]:
    """Return members of an earlier round for the jobs, their modes and the nodes of this one.

    Rows of jobs that are gone are left out, and those of new jobs are empty. Modes are matched by
    name; a row whose mode is gone is in the job's first.

    Parameters
    ----------
    members, modes
        The members, and the names of the modes of every job of that round, by its name and in its
        order.
    instance
        This round.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.genetic import carried_over
    >>> jobs = tuple(Job(name, SpeedupTable((1.0, 1.8), (1.0, 1.5))) for name in "bc")
    >>> before = Allocation.from_matrix([[1], [2]])  # of the jobs a and b
    >>> instance = Instance(Cluster.uniform(1, 4), jobs)
    >>> members = carried_over([before], {"a": [""], "b": [""]}, instance)
    >>> members[0].matrix().tolist()
    [[2], [0]]
    """
    row = {name: index for index, name in enumerate(modes)}
    there = [index for index, job in enumerate(instance.jobs) if job.name in row]
    jobs = [instance.jobs[index] for index in there]
    before = [row[job.name] for job in jobs]
    now = [{mode.name: index for index, mode in enumerate(job.all_modes)} for job in jobs]
    renamed = [
        [known.get(name, 0) for name in modes[job.name]]
        for job, known in zip(jobs, now, strict=True)
    ]
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    carried = []
    for member in members:
        matrix, chosen = np.zeros(shape, dtype=np.int64), np.zeros(shape[0], dtype=np.int64)
        nodes = min(shape[1], member.num_nodes)
        matrix[there, :nodes] = member.matrix()[before, :nodes]
        old = member.mode[before].tolist()
        chosen[there] = [new[mode] for new, mode in zip(renamed, old, strict=True)]
        carried.append(Allocation.from_matrix(matrix, chosen))
    return carried


def _check(instance: Instance, member: Allocation) -> None:
    """Refuse members of another shape than the instance, and unknown modes."""
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    if (member.num_jobs, member.num_nodes) != shape:
        raise ValueError(
            f"Genetic algorithm: a member to start from has {member.num_jobs} jobs and "
            f"{member.num_nodes} nodes; the instance has {shape[0]} jobs and {shape[1]} nodes."
        )
    unknown = member.mode >= np.bincount(instance.mode_job)
    if unknown.any():
        job = int(np.argmax(unknown))
        raise ValueError(
            f"Genetic algorithm: a member to start from has job '{instance.jobs[job].name}' in "
            f"mode {member.mode[job]}; it has {len(instance.jobs[job].modes)}, from 0."
        )


def without_broken_rows(
    instance: Instance, member: Allocation, order: NDArray[np.int64]
) -> Allocation:
    """Return a feasible allocation: job after job, a row that breaks a rule goes to 0.

    It serves a run whose time ends before the program, and with it the true repair, is compiled.
    """
    rules, pinned, current = instance.rules, instance.pinned, instance.current
    rows = np.where(pinned[:, None], current.matrix(), member.matrix())
    modes = np.where(pinned, current.mode, member.mode)
    chosen = instance.first_mode + modes
    fits, demand = instance.mode_nodes, instance.mode_resources
    free, left = instance.cluster.node_gpus.copy(), instance.cluster.node_resources * TOLERANT
    shared = np.zeros(free.size, dtype=bool)
    for job in order:
        row = rows[job]
        nodes = np.flatnonzero(row)
        distributed = nodes.size > 1 and rules.interference_avoidance
        taken = row[nodes, None] * demand[chosen[job]]
        if pinned[job] or (
            instance.min_replicas[job] <= row.sum() <= instance.max_replicas[job]
            and nodes.size <= rules.max_nodes_per_job
            and not (row > free).any()
            and not (distributed and shared[nodes].any())
            and fits[chosen[job], nodes].all()
            and not ((taken > left[nodes]) & (taken > 0)).any()
        ):
            free -= row
            left[nodes] -= taken
            shared[nodes] |= distributed
        else:
            rows[job] = 0
    return Allocation.from_matrix(rows, modes)


def pad_members(
    members: Sequence[Allocation], order: NDArray[np.int64], problem: Problem, places: int
) -> tuple[Genes, Any]:
    """Return the first generation in the layout of the program, and which places it takes."""
    gpus = np.asarray(problem.gpus)
    jobs = problem.current.shape[0]
    rows = np.zeros((jobs, places, gpus.size), gpus.dtype)
    modes = np.zeros((jobs, places), problem.first_mode.dtype)
    for place, member in enumerate(members):
        rows[: order.size, place] = np.minimum(member.matrix()[order], gpus)
        modes[: order.size, place] = member.mode[order]
    valid = np.arange(places) < len(members)
    genes = Genes(jnp.asarray(rows), None if problem.modes is None else jnp.asarray(modes))
    return genes, jnp.asarray(valid)
