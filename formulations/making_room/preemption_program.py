r"""Least loss by stopping jobs so that a gang fits, under quotas of groups that may borrow.

A node *n* of the gang is freed by a set *s* of its jobs that may be stopped, none of which is
superfluous; of jobs alike (one node, equal GPUs, same group) the cheapest. With the loss
:math:`L_j` of each job, *D* the distributed ones, and what each group *q* holds beyond its quota,
:math:`B_q`,

.. math::

    \min \sum_{n,s} \Big(\sum_{j \in s \setminus D} L_j\Big) v_{ns} + \sum_{j \in D} L_j z_j
    \quad \text{s.t.} \quad
    & \sum_s v_{ns} \le 1 \;\; \forall n, \qquad \sum_{n,s} v_{ns} \ge F,                  (1) \\
    & \sum_{s \ni j} v_{ns} \le z_j \;\; \forall n, j \in D, \qquad
      \sum_{n,s} k_{sq} v_{ns} + \sum_{j \in D \cap q} K_j z_j \le B_q \;\; \forall q,     (2)

where :math:`k_{sq}` are the GPUs of the jobs of group *q* in *s* that run on one node, and
:math:`K_j` those of a distributed job, which loses all of them wherever one is needed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.making_room.residents import (
    gpus_beyond_quotas,
    residents_of,
)
from goodalloc.models.making_room.room_plan import usable_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.making_room.residents import Resident
    from goodalloc.models.making_room.room_plan import Gang
    from goodalloc.models.round.instance import Instance


class Freeing(NamedTuple):
    """Column: a node, and the jobs that are stopped to free it for a piece of the gang."""

    node: int
    victims: tuple[int, ...]


@dataclass(frozen=True)
class PreemptionProgram:
    """Program (1), (2) with what its columns stand for.

    Parameters
    ----------
    program
        The program; its first columns are `freeings`, the others the `distributed` jobs.
    freeings, distributed
        What the columns stand for.
    """

    program: Program
    freeings: tuple[Freeing, ...]
    distributed: tuple[int, ...]

    def within(self, nodes: Collection[int]) -> PreemptionProgram:
        """Return the program of a gang within some nodes, by their columns alone.

        Parameters
        ----------
        nodes
            Numbers of these nodes.
        """
        freeings = tuple(one for one in self.freeings if one.node in nodes)
        involved = {job for one in freeings for job in one.victims}
        frees = [one.node in nodes for one in self.freeings]
        stops = [job in involved for job in self.distributed]
        distributed = tuple(job for job in self.distributed if job in involved)
        return PreemptionProgram(
            self.program.columns(np.array([*frees, *stops], dtype=bool)), freeings, distributed
        )


def freeing_sets(
    instance: Instance,
    gang: Gang,
    losses: Mapping[int, float],
    groups: Mapping[int, str],
) -> list[Freeing]:
    """Return the columns: for each node the sets of jobs that free it, none superfluous.

    Parameters
    ----------
    instance, gang
        The round, and the gang.
    losses
        Loss of each job that may be stopped, by its index.
    groups
        Group of each job that belongs to one.
    """
    usable = usable_nodes(instance, gang)
    free = instance.cluster.node_gpus - instance.current.node_replicas
    nodes = instance.current.job_nodes
    apart = gang.nodes > 1 and instance.rules.interference_avoidance
    found = []
    for node, residents in enumerate(residents_of(instance)):
        if not usable[node]:
            continue
        forced = [one for one in residents if apart and nodes[one.job] > 1]
        if any(one.job not in losses for one in forced):
            continue
        needed = gang.gpus_per_node - int(free[node]) - sum(one.gpus for one in forced)
        others = [one for one in residents if one.job in losses and one not in forced]
        alike: dict[tuple[object, ...], list[Resident]] = {}
        for one in sorted(others, key=lambda one: losses[one.job]):
            single = nodes[one.job] == 1
            key = (one.gpus, groups.get(one.job, "")) if single else (one.gpus, one.job)
            alike.setdefault(key, []).append(one)
        for taken in _covers(list(alike.values()), needed):
            found.append(Freeing(node, tuple(sorted(one.job for one in (*forced, *taken)))))
    return found


def _covers(alike: Sequence[Sequence[Resident]], needed: int) -> Iterator[list[Resident]]:
    """Yield the sets of jobs, of those alike the first, that free enough, none superfluous."""
    for counts in itertools.product(*(range(len(one) + 1) for one in alike)):
        taken = [one for jobs, count in zip(alike, counts, strict=True) for one in jobs[:count]]
        total = sum(one.gpus for one in taken)
        if total >= needed and all(total - one.gpus < needed for one in taken):
            yield taken


def build_preemption_program(
    instance: Instance,
    gang: Gang,
    losses: Mapping[int, float],
    groups: Mapping[int, str],
    quotas: Mapping[str, int],
) -> PreemptionProgram:
    """Build the program.

    Parameters
    ----------
    instance, gang, losses, groups
        As of `freeing_sets`.
    quotas
        GPUs of each group that are its own.

    Examples
    --------
    >>> from goodalloc.formulations.making_room import build_preemption_program
    >>> from goodalloc.models import Cluster, Instance, Job
    >>> from goodalloc.models.making_room import Gang
    >>> jobs = (Job("a", placement=((0, 1),)), Job("b", placement=((0, 1),)))
    >>> instance = Instance(Cluster.uniform(1, 2), jobs)
    >>> found = build_preemption_program(instance, Gang(1, 1), {0: 3.0, 1: 2.0}, {}, {})
    >>> [one.victims for one in found.freeings]  # the cheaper of two that are alike
    [(1,)]
    """
    freeings = freeing_sets(instance, gang, losses, groups)
    nodes, replicas = instance.current.job_nodes, instance.current.job_replicas
    involved = sorted({job for one in freeings for job in one.victims if nodes[job] > 1})
    place = {job: index for index, job in enumerate(involved)}
    builder = ProgramBuilder()
    single = [[job for job in one.victims if job not in place] for one in freeings]
    costs = [sum(losses[job] for job in jobs) for jobs in single]
    v = builder.add_columns("free", len(freeings), cost=np.array(costs, dtype=float), upper=1.0)
    lost = np.array([losses[job] for job in involved], dtype=float)
    z = builder.add_columns("stop", len(involved), cost=lost, upper=1.0)
    rows = {node: index for index, node in enumerate(dict.fromkeys(one.node for one in freeings))}
    once = builder.add_rows("node", len(rows), upper=1.0)
    builder.add_entries(once[[rows[one.node] for one in freeings]], v, 1.0)
    enough = builder.add_rows("gang", 1, lower=float(gang.nodes))
    builder.add_entries(np.full(len(v), enough[0]), v, 1.0)
    links = sorted({(one.node, job) for one in freeings for job in one.victims if job in place})
    at = {key: index for index, key in enumerate(links)}
    linked = builder.add_rows("linked", len(links), upper=0.0)
    for column, one in zip(v.tolist(), freeings, strict=True):
        for job in one.victims:
            if job in place:
                builder.add_entries(linked[at[one.node, job]], column, 1.0)
    for (_, job), index in at.items():
        builder.add_entries(linked[index], z[place[job]], -1.0)
    for group, beyond in gpus_beyond_quotas(instance, groups, quotas).items():
        members = {job for job, name in groups.items() if name == group}
        row = builder.add_rows("quota", 1, upper=float(beyond))
        taken = [
            float(sum(int(replicas[job]) for job in jobs if job in members)) for jobs in single
        ]
        builder.add_entries(np.full(len(v), row[0]), v, np.array(taken, dtype=float))
        held = np.array([float(replicas[job]) if job in members else 0.0 for job in involved])
        builder.add_entries(np.full(len(z), row[0]), z, held)
    return PreemptionProgram(builder.build(), tuple(freeings), tuple(involved))
