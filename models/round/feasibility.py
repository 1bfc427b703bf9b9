"""Independent checker of allocations, straight from the rules.

It shares no code with the formulations or the solvers: it counts, entry by entry, in exact
integers. Every command calls it before it reports a number.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance


@dataclass(frozen=True, slots=True)
class Violation:
    """Broken rule: its name, and a sentence that names the job or node and the amount."""

    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def violations(instance: Instance, allocation: Allocation) -> tuple[Violation, ...]:
    """Return every rule of the instance that the allocation breaks; none if feasible.

    The rules (section 4.2 of Pollux and its artifact): no node holds more replicas than it
    has GPUs; a job that runs has between min_replicas and max_replicas replicas on at most
    max_nodes_per_job nodes; with interference avoidance no node is touched by two distributed
    jobs; a pinned job keeps its placement. Where jobs have modes, a job runs in one of its own, on
    nodes with GPUs of its mode's type, and no node's other resources are exceeded. Where replicas
    share GPUs, those of a node fit if their shares can be packed into its GPUs, each share whole
    (a search of the checker's own decides it, not the packing of the solvers); which GPU it is
    stays open, also for jobs that keep their placement.

    Examples
    --------
    >>> from goodalloc.models import Allocation, Cluster, Instance, Job, SpeedupTable, violations
    >>> cluster = Cluster.uniform(nodes=2, gpus=4)
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), max_replicas=2)
    >>> instance = Instance(cluster, (job,))
    >>> for violation in violations(instance, Allocation.from_matrix([[3, 0]])):
    ...     print(violation)
    Job 'job' has 3 replicas; max_replicas is 2.
    """
    num_jobs, num_nodes = instance.num_jobs, instance.cluster.num_nodes
    if (allocation.num_jobs, allocation.num_nodes) != (num_jobs, num_nodes):
        message = (
            f"The allocation is {allocation.num_jobs} jobs by {allocation.num_nodes} nodes; "
            f"the instance is {num_jobs} by {num_nodes}."
        )
        return (Violation("shape", message),)
    rows: dict[int, dict[int, int]] = defaultdict(dict)
    columns: dict[int, dict[int, int]] = defaultdict(dict)
    entries = (allocation.job.tolist(), allocation.node.tolist(), allocation.replicas.tolist())
    for job, node, replicas in zip(*entries, strict=True):
        rows[job][node] = replicas
        columns[node][job] = replicas
    modes = allocation.mode.tolist()
    found = [*_job_violations(instance, rows), *_node_violations(instance, rows, columns, modes)]
    return (*found, *_mode_violations(instance, rows, columns, modes))


def _job_violations(instance: Instance, rows: dict[int, dict[int, int]]) -> list[Violation]:
    """Return violations of the rows: replica limits, node limit, pinned placements."""
    found = []
    for index, job in enumerate(instance.jobs):
        row = rows.get(index, {})
        replicas, most = sum(row.values()), job.max_replicas
        if replicas > most:
            text = f"Job '{job.name}' has {replicas} replicas; max_replicas is {most}."
            found.append(Violation("max_replicas", text))
        if 0 < replicas < job.min_replicas:
            text = f"Job '{job.name}' has {replicas} replicas; min_replicas is {job.min_replicas}."
            found.append(Violation("min_replicas", text))
        if len(row) > instance.rules.max_nodes_per_job:
            limit = instance.rules.max_nodes_per_job
            text = f"Job '{job.name}' spans {len(row)} nodes; max_nodes_per_job is {limit}."
            found.append(Violation("max_nodes_per_job", text))
        if job.placement and not job.preemptible and row != dict(job.placement):
            text = f"Job '{job.name}' is not preemptible and was moved or stopped."
            found.append(Violation("pinned", text))
    return found


def _mode_violations(
    instance: Instance,
    rows: dict[int, dict[int, int]],
    columns: dict[int, dict[int, int]],
    modes: list[int],
) -> list[Violation]:
    """Return violations of the modes: their number, types of GPU, other resources."""
    if instance.plain and not any(modes):
        return []
    found = []
    node_group = [group for group in instance.cluster.groups for _ in range(group.nodes)]
    names, taken = instance.cluster.node_names, {}
    for index, row in sorted(rows.items()):
        job, mode = instance.jobs[index], modes[index]
        if mode >= max(len(job.modes), 1):
            text = f"Job '{job.name}' runs in mode {mode}; it has {len(job.modes)}, from 0."
            found.append(Violation("mode", text))
            continue
        if job.modes and job.placement and not job.preemptible and job.modes[mode].name != job.mode:
            text = f"Job '{job.name}' is not preemptible and changed its mode."
            found.append(Violation("pinned", text))
        wanted = job.modes[mode].gpu_type if job.modes else ""
        taken[index] = dict(job.modes[mode].resources) if job.modes else {}
        for node in row:
            if wanted not in ("", node_group[node].gpu_type):
                text = (
                    f"Job '{job.name}' is on node '{names[node]}', whose GPUs are "
                    f"'{node_group[node].gpu_type}'; its mode is for '{wanted}'."
                )
                found.append(Violation("gpu_type", text))
    for node, column in sorted(columns.items()):
        for resource, had in _resources_of(taken, column, dict(node_group[node].resources)).items():
            used, has = had
            if used > has * (1 + RESOURCE_TOLERANCE):
                text = f"Node '{names[node]}' gives {used:g} of {resource}; it has {has:g}."
                found.append(Violation("resource", text))
    return found


def _resources_of(
    taken: dict[int, dict[str, float]], column: dict[int, int], node: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """Return the amounts of each resource that the jobs on a node take and the node has."""
    used: dict[str, list[float]] = defaultdict(list)
    for job, replicas in column.items():
        for resource, amount in taken.get(job, {}).items():
            used[resource].append(replicas * amount)
    return {name: (math.fsum(parts), node.get(name, 0.0)) for name, parts in sorted(used.items())}


def _node_violations(
    instance: Instance,
    rows: dict[int, dict[int, int]],
    columns: dict[int, dict[int, int]],
    modes: list[int],
) -> list[Violation]:
    """Return violations of the columns: GPUs of a node, one distributed job a node."""
    found = []
    names, gpus = instance.cluster.node_names, instance.cluster.node_gpus.tolist()
    for node, column in sorted(columns.items()):
        text = _overfull(_shares_of(instance, column, modes), gpus[node])
        if text:
            found.append(Violation("capacity", f"Node '{names[node]}' {text}"))
        distributed = [instance.jobs[job].name for job in column if len(rows[job]) > 1]
        if instance.rules.interference_avoidance and len(distributed) > 1:
            text = f"Node '{names[node]}' is shared by distributed jobs {', '.join(distributed)}."
            found.append(Violation("interference", text))
    return found


def _shares_of(instance: Instance, column: dict[int, int], modes: list[int]) -> list[float]:
    """Return the GPU share of every replica on a node; 1 in an unknown mode."""
    shares = []
    for job, replicas in column.items():
        known = instance.jobs[job].modes  # none where it takes whole GPUs
        share = known[modes[job]].gpu_share if modes[job] < len(known) else 1.0
        shares += [share] * replicas
    return shares


def _overfull(shares: list[float], gpus: int) -> str:
    """Return a description of the excess of GPU shares on a node, empty if they fit."""
    if all(share == 1 for share in shares):
        if len(shares) > gpus:
            return f"holds {len(shares)} replicas; it has {gpus} GPUs."
    elif math.fsum(shares) > gpus * (1 + RESOURCE_TOLERANCE):
        return f"gives {math.fsum(shares):g} of its GPUs; it has {gpus}."
    elif not _fit(shares, gpus):
        parts = ", ".join(f"{share:g}" for share in sorted(shares, reverse=True) if share > 0)
        return f"holds shares of {parts}; they do not fit on {gpus} GPUs, none on two at once."
    return ""


def _fit(shares: list[float], gpus: int) -> bool:
    """Whether each share, from 0 to 1, can be on one GPU; exact, and not the solvers' search.

    Depth first: the largest share that remains goes on each GPU that holds it, the fullest first.
    Of GPUs with equal loads one is tried, no state twice, and none whose room in GPUs that still
    hold the smallest share is less than what remains. Before the search, the dual feasible
    functions f(s) = floor((k + 1) s) / k refute what has too many large shares: the sum of f over
    shares that fit on a GPU is at most 1.
    """
    full = 1 + RESOURCE_TOLERANCE
    parts = sorted((share for share in shares if share > 0), reverse=True)
    for k in range(1, 8):
        largest = sum(math.floor((k + 1) * share / full - RESOURCE_TOLERANCE) for share in parts)
        if largest > k * gpus:
            return False
    remaining = [math.fsum(parts[at:]) for at in range(len(parts) + 1)]
    seen = set()
    stack = [(0, (0.0,) * gpus)]
    while stack:
        at, loads = stack.pop()
        if at == len(parts):
            return True
        room = math.fsum(full - load for load in loads if load + parts[-1] <= full)
        if (at, loads) in seen or room < remaining[at]:
            continue
        seen.add((at, loads))
        for load in sorted({load for load in loads if load + parts[at] <= full}):
            index = loads.index(load)
            others = (*loads[:index], *loads[index + 1 :])
            stack.append((at + 1, tuple(sorted((*others, load + parts[at])))))
    return False
