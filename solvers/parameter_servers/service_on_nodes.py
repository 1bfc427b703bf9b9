"""Least total remaining service on nodes, to a proven gap: choose, pack, cut, repeat.

The method is that of `solvers/modes/oracle.py` for jobs of one kind of replica: the knapsack
ignores the nodes and is easy, its value is a bound; if its pods pack, they are the optimum, proved.
If not, the packing program (`pattern_master`) gives a cut that they violate and no allocation does.
Where the pods pack in parts but not in whole numbers, an allocation that packs because it leaves a
little unused is returned with the bound.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.mode_rounds.node_items import node_classes, without_stays
from goodalloc.formulations.parameter_servers.service_on_nodes import (
    PodCut,
    build_service_program,
    pod_choices,
)
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.price_and_core import decide
from goodalloc.solvers.modes.pattern_dive import PatternDive
from goodalloc.solvers.modes.pattern_master import PACKED, PatternMaster
from goodalloc.solvers.parameter_servers.service_optimum import SCALE, ServiceOptimum, program_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.formulations.mode_rounds.node_items import NodeClasses
    from goodalloc.formulations.parameter_servers.service_on_nodes import PodChoices
    from goodalloc.models.parameter_servers.tabulated_service import ServiceTable
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.milp.price_and_core import Decision


#: Most times that the knapsack is decided again with one more cut.
MOST_ROUNDS = 50
#: Shares of every resource that are left unused, in turn, until the choices pack.
SPARE = (1e-3, 4e-3, 0.016, 0.064, 0.25)


def least_service_on_nodes(
    tables: Sequence[ServiceTable], nodes: Floats, *, stop: Stop | None = None
) -> ServiceOptimum:
    """Decide the program of `formulations/parameter_servers/service_on_nodes.py`.

    Parameters
    ----------
    tables
        Table of every job.
    nodes
        Resources of every node, shape (nodes, resources).
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.parameter_servers import ServiceTable
    >>> from goodalloc.solvers.parameter_servers import least_service_on_nodes
    >>> gpus = np.array([[1.0], [2.0], [3.0]])  # in one pod
    >>> jobs = [ServiceTable(name, np.array([9.0, 3.0, 1.0]), gpus) for name in "ab"]
    >>> found = least_service_on_nodes(jobs, np.array([[2.0], [2.0]]))  # two nodes of two GPUs
    >>> found.cells, found.total
    (((1,), (1,)), 6.0)
    """
    stop = stop or Stop()
    watch = Watch(stop)
    search = _Search(pod_choices(tables, nodes, pooled=True), stop, watch)
    found, total, bound = None, math.inf, -math.inf
    try:
        if np.unique(search.choices.job).size < len(tables):
            bound = math.inf  # the pods of some job fit on no node
        else:
            found, bound = search.run(rounds=1)
            if found is None and math.isfinite(bound) and watch.limit is None:
                search = _Search(pod_choices(tables, nodes), stop, watch)
                found, further = search.run(rounds=MOST_ROUNDS)
                bound = max(bound, further)
    except KeyboardInterrupt:
        watch.interrupted = True
    cells = pods = None
    if found is not None:
        taken, pods = found
        total = float(search.choices.service[taken].sum())
        cells = tuple(search.choices.cell[index] for index in taken.tolist())
    return ServiceOptimum(cells, total, min(bound, total), watch.limit, watch.seconds, pods)


class _Search:
    """State of one search: its choices, cuts and clock."""

    def __init__(self, choices: PodChoices, stop: Stop, watch: Watch) -> None:
        self.choices, self.watch = choices, watch
        self.cuts: list[PodCut] = []
        self.scale = program_scale(choices.job, choices.service)
        self.gap = stop.gap * SCALE * np.unique(choices.job).size

    def run(self, rounds: int) -> tuple[tuple[Indices, Indices] | None, float]:
        """Return the choices and their pods on nodes, or None; and a bound."""
        bound = 0.0
        for _ in range(rounds):
            decision = self.decide()
            bound = max(bound, decision.bound / self.scale)
            if decision.values is None:
                return None, bound
            taken = np.flatnonzero(decision.values > 0.5)
            pods, cut = self.pack(taken)
            if pods is not None:
                return (taken, pods), bound
            if cut is None or self.watch.limit is not None:
                break
            self.cuts.append(cut)
        for spare in SPARE if rounds > 1 else ():
            if self.watch.limit is not None:
                break
            decision = self.decide(spare)
            if decision.values is None:
                break
            taken = np.flatnonzero(decision.values > 0.5)
            pods, _ = self.pack(taken)
            if pods is not None:
                return (taken, pods), bound
        return None, bound

    def decide(self, spare: float = 0.0) -> Decision:
        """Decide the knapsack with the cuts so far."""
        program = build_service_program(
            self.choices, self.choices.service * self.scale, cuts=self.cuts, spare=spare
        )
        priced = np.ones(program.num_columns, dtype=bool)
        return decide(program, priced, self.watch, gap=self.gap, exact=spare == 0.0)

    def pack(self, taken: Indices) -> tuple[Indices | None, PodCut | None]:
        """Return pods on nodes, (jobs, kinds, nodes), or a cut that these choices violate."""
        choices = self.choices
        count, each = choices.count[taken], choices.each[taken]
        units, which = np.unique(each.reshape(-1, each.shape[2]), axis=0, return_inverse=True)
        which = which.reshape(count.shape)
        wanted = np.bincount(which.ravel(), count.ravel(), len(units)).astype(np.int64)
        nodes = choices.nodes
        classes = node_classes(np.zeros(len(nodes), dtype=np.int64), nodes, nodes[:, 0] >= 0)
        none = np.zeros(0, dtype=np.int64)
        items = without_stays(
            code=np.zeros(len(units), dtype=np.int64),
            units=units,
            extra_code=none,
            extra_units=units[:0],
            extra_row=none,
            extra_amount=none.astype(float),
            rows=len(units),
        )
        size = np.maximum(nodes.max(axis=0), 1)
        weight = np.maximum((units / size).sum(axis=1), 1e-3)
        shape = tuple((nodes.max(axis=0) + 1).tolist())
        master = PatternMaster(items, classes, shape, weight, self.watch)
        held = PatternDive(master, wanted).run()
        if held is not None:
            return _assign(held, classes, which, count), None
        packed = master.solve(wanted.astype(float), classes.count, bounded=False)
        if not PACKED < packed.unpacked < math.inf:
            return None, None
        value = packed.values[0]
        cut = PodCut(choices.worth(value), float(value.alone[tuple(nodes.T)].sum()))
        return None, cut if cut.coefficient[taken].sum() > cut.upper * (1 + 1e-9) else None


def _assign(
    held: list[tuple[int, Indices]], classes: NodeClasses, which: Indices, count: Indices
) -> Indices:
    """Return pods of every job and kind on every node, given the contents of the classes' nodes."""
    free = [np.flatnonzero(classes.node_class == i).tolist() for i in range(classes.count.size)]
    missing = count.copy()
    pods = np.zeros((*count.shape, classes.node_class.size), dtype=np.int64)
    for node_class, numbers in held:
        node = free[node_class].pop(0)
        for kind in np.flatnonzero(numbers).tolist():
            left = int(numbers[kind])
            for job, pod in np.argwhere((which == kind) & (missing > 0)).tolist():
                here = min(left, int(missing[job, pod]))
                pods[job, pod, node] += here
                missing[job, pod] -= here
                left -= here
                if left == 0:
                    break
    return pods
