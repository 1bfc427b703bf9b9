r"""Fragmentation gradient descent: each pod in turn where it fragments the GPUs least.

Let *M* be a mix of tasks, of which task *m* makes up the part :math:`p_m`, and :math:`r_{ng}` the
free part of GPU *g* on node *n*. Task *m* cannot use

.. math::

    F_n(m) = \sum_g r_{ng}                                   \quad \text{if } m \text{ does not fit
        on } n \text{ or takes no GPU},

    F_n(m) = \sum_{g : r_{ng} < \min(s_m, 1)} r_{ng}         \quad \text{otherwise},          (1)

of it, where :math:`s_m` is the part that it takes of each of its GPUs, and the fragmentation of the
node is the expectation

.. math::

    F_n(M) = \sum_m p_m F_n(m).                                                              (2)

A pod goes to the node, and a part of a GPU to the GPU, where placing it makes (2) grow least.

Here the mix is the instance's own jobs, grouped by demand; all resources count as cores do in the
paper; of a job with several modes (1) is the least over them. Ties go to the earlier mode, node and
GPU (the published code rounds scores to whole per cents and leaves ties to its framework).

References
----------
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
    Descent", ATC 2023, sections 3 and 4. https://www.usenix.org/conference/atc23/presentation/weng
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.solvers.interface.result import Answer
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.pods.node_room import SLACK, NodeRoom, take_fullest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.formulations.pods.demand import Demand
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices


#: Number of states of nodes whose fragmentation is computed at once.
CHUNK = 512


@dataclass(frozen=True)
class TaskMix:
    """Tasks of a mix, as arrays; a task with several ways to run has a row for each.

    Parameters
    ----------
    share, replicas, takes
        Part of a GPU, replicas and resources of every way: shapes (ways,), (ways,), (ways,
        resources).
    nodes
        Whether each node has its types of GPU, shape (ways, nodes).
    first
        The first way of every task, shape (tasks,).
    popularity
        Part of the mix that every task makes up, shape (tasks,).
    """

    share: Floats
    replicas: Floats
    takes: Floats
    nodes: NDArray[np.bool_]
    first: Indices
    popularity: Floats

    @classmethod
    def of(cls, instance: Instance, demands: list[tuple[Demand, ...]]) -> TaskMix:
        """Return the mix of an instance's jobs."""
        tasks = Counter(demands)
        ways = [way for task in tasks for way in task]
        counts = np.array(list(tasks.values()), dtype=float)
        lengths = np.array([len(task) for task in tasks])
        return cls(
            np.array([way.share for way in ways]),
            np.array([way.replicas for way in ways], dtype=float),
            np.array([way.takes for way in ways]).reshape(len(ways), -1),
            np.array([way.nodes(instance.cluster.node_types) for way in ways]),
            np.cumsum(lengths) - lengths,
            counts / counts.sum(),
        )

    def fragmentation(self, nodes: Indices, gpus: Floats, resources: Floats) -> Floats:
        """Return the fragmentation (2) of nodes in given states.

        Parameters
        ----------
        nodes
            Node of every state, shape (states,).
        gpus, resources
            Free parts of GPUs and free resources: shapes (states, GPUs) and (states, resources).

        Returns
        -------
        ndarray
            GPUs, shape (states,).
        """
        found = np.empty(nodes.size)
        for start in range(0, nodes.size, CHUNK):
            part = slice(start, start + CHUNK)
            found[part] = self._fragmentation(nodes[part], gpus[part], resources[part])
        return found

    def _fragmentation(self, nodes: Indices, gpus: Floats, resources: Floats) -> Floats:
        fits = self.nodes[:, nodes].T & (self.share > 0)
        for resource in range(resources.shape[1]):
            fits &= self.takes[:, resource] <= resources[:, resource, None] + SLACK
        sizes, size = np.unique(self.share, return_inverse=True)
        wasted = np.zeros((nodes.size, sizes.size))
        room = np.zeros((nodes.size, sizes.size))
        for column, share in enumerate(sizes.tolist()):
            if share > 0:
                small = gpus < share - SLACK
                wasted[:, column] = np.where(small, gpus, 0.0).sum(axis=1)
                room[:, column] = np.floor((gpus + SLACK) / share).sum(axis=1)
        fits &= room[:, size] >= self.replicas
        total = gpus.sum(axis=1)[:, None]
        unusable = np.where(fits, wasted[:, size], total)
        return np.asarray(np.minimum.reduceat(unusable, self.first, axis=1) @ self.popularity)


class Gradient:
    """Growth of the fragmentation of every node by a pod of a given demand.

    The growth is kept for every demand and recomputed only for nodes that changed since.
    """

    def __init__(self, room: NodeRoom) -> None:
        nodes = np.arange(room.gpus.shape[0])
        self.room, self.mix = room, TaskMix.of(room.instance, room.demands)
        self.now = self.mix.fragmentation(nodes, room.gpus, room.resources)
        self.changed = np.zeros(nodes.size, dtype=np.int64)
        self.clock = 0
        self._known: dict[Demand, tuple[Floats, Indices, int]] = {}

    def growth(self, demand: Demand) -> tuple[Floats, Indices]:
        """Return the growth on every node, infinite where the pod does not fit, and the GPU.

        Both of shape (nodes,); the GPU is -1 where the pod does not take a part of a single one.
        """
        count = self.now.size
        known = self._known.get(demand)
        growth, gpu, since = known or (np.empty(count), np.full(count, -1), -1)
        stale = np.flatnonzero(self.changed > since)
        growth[stale] = np.inf
        fits = self.room.fits(demand)
        asked = stale[fits[stale]]
        if demand.replicas == 1 and 0 < demand.share < 1:
            growth[asked], gpu[asked] = self._by_gpu(asked, demand)
        elif asked.size:
            after = self.room.gpus[asked]
            for state in after:
                take_fullest(state, demand)
            growth[asked] = self._grown(asked, after, demand)
        self._known[demand] = (growth, gpu, self.clock)
        return growth, gpu

    def _by_gpu(self, asked: Indices, demand: Demand) -> tuple[Floats, Indices]:
        """Return the least growth over the GPUs of every node, and the first GPU that has it."""
        gpus = self.room.gpus[asked]
        able = gpus >= demand.share - SLACK
        for at in range(1, gpus.shape[1]):  # of GPUs in the same state the first will do
            able[:, at] &= ~(able[:, :at] & (gpus[:, :at] == gpus[:, at, None])).any(axis=1)
        row, gpu = np.nonzero(able)
        after = gpus[row]
        after[np.arange(row.size), gpu] -= demand.share
        growth = np.full(gpus.shape, np.inf)
        growth[row, gpu] = self._grown(asked[row], after, demand)
        best = np.argmin(growth, axis=1)
        return growth[np.arange(asked.size), best], best

    def _grown(self, nodes: Indices, gpus: Floats, demand: Demand) -> Floats:
        left = self.room.resources[nodes] - demand.takes
        return np.round(self.mix.fragmentation(nodes, gpus, left) - self.now[nodes], 9)

    def update(self, node: int) -> None:
        """Record that a pod was placed on a node."""
        one = np.array([node])
        self.clock += 1
        self.changed[node] = self.clock
        room = self.room
        self.now[node] = self.mix.fragmentation(one, room.gpus[one], room.resources[one])[0]


def solve_fgd(instance: Instance, *, stop: Stop | None = None) -> Answer:
    """Place the jobs in their order, each for its fewest replicas on one node, by equation (2).

    A job that fits nowhere gets nothing; jobs that run on one node stay.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits on the time; the allocation at the limit is returned.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers.pods import solve_fgd
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = (Job("a", table, min_replicas=2), Job("b", table, min_replicas=2))
    >>> solve_fgd(Instance(Cluster.uniform(1, 4), jobs)).allocation.placements()
    [((0, 2),), ((0, 2),)]
    """
    watch, room = Watch(stop or Stop()), NodeRoom(instance)
    gradient, placed = Gradient(room), 0
    for job in room.waiting:
        if watch.limit is not None:
            break
        best = None
        for demand in room.demands[job]:
            growth, gpus = gradient.growth(demand)
            node = int(np.argmin(growth))
            if growth[node] < (np.inf if best is None else best[0]):
                best = (float(growth[node]), demand, node, int(gpus[node]))
        if best is not None:
            _, demand, node, gpu = best
            room.put(job, demand, node, None if gpu < 0 else gpu)
            gradient.update(node)
            placed += 1
    return Answer(room.allocation(), limit=watch.limit, iterations=placed)
