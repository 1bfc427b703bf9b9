"""An instance, and members to start from, as the arrays of the genetic algorithm."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from goodalloc.models.allocation import Allocation
from goodalloc.models.instance import Instance
from goodalloc.models.objective import speedup_table, utility_table
from goodalloc.solvers.genetic_operators import Problem

Members = Sequence[Allocation] | NDArray[Any]


def repair_order(instance: Instance) -> NDArray[np.int64]:
    """Jobs as the repair serves them: pinned ones, then the least served, then the oldest."""
    service = np.array([job.attained_service for job in instance.jobs])
    age = np.array([-job.age for job in instance.jobs])
    return np.lexsort((age, service, ~instance.pinned))


def build_problem(instance: Instance, order: NDArray[np.int64]) -> Problem:
    """The instance as arrays of JAX (x64 on), jobs in this order and padded to a round number.

    Raises
    ------
    ValueError
        If a node or the cluster has more GPUs than the algorithm's compact arrays can count.
    """
    cluster, rules, table = instance.cluster, instance.rules, utility_table(instance)
    most_gpus = int(cluster.node_gpus.max())
    if most_gpus > 16_000 or cluster.num_gpus > 65_000:
        raise ValueError(
            f"Genetic algorithm: the cluster has {cluster.num_gpus} GPUs, "
            f"a node up to {most_gpus}; expected at most 65000 and 16000."
        )
    dtype = np.int8 if most_gpus <= 60 else np.int16
    speedups = speedup_table(instance)
    jobs, width = _round_up(order.size), _round_up(speedups.shape[-1])
    pad = jobs - order.size
    more = ((0, pad), (0, 0), (0, width - speedups.shape[-1]))
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
        log_moved=np.pad(np.log(table.moved[order]), more, mode="edge"),
        log_kept=np.pad(np.log(table.kept[order]), (0, pad)),
        speedups=np.pad(speedups[order], more, mode="edge"),
        node_factor=randomness.integers(2**31, size=cluster.num_nodes, dtype=np.uint32) * 2 + 1,
        job_factor=randomness.integers(2**63, size=jobs, dtype=np.uint64) * 2 + 1,
    )
    return Problem(**{name: jnp.asarray(array) for name, array in arrays.items()})


def _round_up(count: int) -> int:
    """The next number with at most four leading binary digits: few shapes, few compilations."""
    step = 1 << max(count.bit_length() - 4, 3)
    return -(-count // step) * step


def initial_members(
    instance: Instance, start: Allocation | None, warm: Members | None, population: int
) -> NDArray[np.int64]:
    """Matrices of the first generation, shape (members, jobs, nodes)."""
    shape = (instance.num_jobs, instance.cluster.num_nodes)
    first = [] if start is None else [start.matrix()]
    if warm is None or len(warm) == 0:
        first.append(instance.current.matrix())
    else:
        first += [m.matrix() if isinstance(m, Allocation) else np.asarray(m) for m in warm]
    return np.stack([_checked(member, shape) for member in first[:population]])


def _checked(member: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Refuse a member of another shape than the instance, and negative entries."""
    if member.shape != shape:
        raise ValueError(
            f"Genetic algorithm: a member to start from has shape {member.shape}; "
            f"the instance has {shape[0]} jobs and {shape[1]} nodes."
        )
    if member.min() < 0:
        raise ValueError(f"Genetic algorithm: a member holds {member.min()}; expected 0 or more.")
    return member.astype(np.int64)


def without_broken_rows(
    instance: Instance, member: NDArray[np.int64], order: NDArray[np.int64]
) -> Allocation:
    """A feasible allocation at no cost: job after job, a row that breaks a rule goes to 0.

    What is left to a run whose time is over before the program, and with it the true repair, is
    compiled.
    """
    rules, free = instance.rules, instance.cluster.node_gpus.copy()
    current, kept = instance.current.matrix(), np.zeros_like(member)
    shared = np.zeros(free.size, dtype=bool)
    for job in order:
        row = current[job] if instance.pinned[job] else member[job]
        nodes = np.flatnonzero(row)
        distributed = nodes.size > 1 and rules.interference_avoidance
        if (
            instance.min_replicas[job] <= row.sum() <= instance.max_replicas[job]
            and nodes.size <= rules.max_nodes_per_job
            and not (row > free).any()
            and not (distributed and shared[nodes].any())
        ):
            kept[job], free = row, free - row
            shared[nodes] |= distributed
    return Allocation.from_matrix(kept)


def pad_members(members: NDArray[np.int64], problem: Problem, places: int) -> tuple[Any, Any]:
    """The first generation in the layout of the program, and which places it takes."""
    gpus = np.asarray(problem.gpus)
    rows = np.zeros((problem.current.shape[0], places, gpus.size), gpus.dtype)
    rows[: members.shape[1], : len(members)] = np.minimum(members, gpus).transpose(1, 0, 2)
    valid = np.arange(places) < len(members)
    return jnp.asarray(rows), jnp.asarray(valid)
