"""AITurbo (HPDC'21): jobs that can be predicted by exchange, the others with what they ask for.

All jobs stand in one order, by the Borda count of `borda.py`; the marginal effect of a job is by
how much the best unit more lessens what remains of it. In that order jobs are admitted while they
fit, those that do not being overtaken: unpredictable ones with what their users ask for,
predictable ones with what they have, or else with the least they may have. Then the predictable
ones exchange units with each other and with what is left (`exchange.py`). How the paper joins the
two is not known; this is a documented reading, as are what `borda.py` and `exchange.py` say of
theirs. In another, the one to count service with, no pod of a predictable job is ever smaller than
its user asks for, as with Optimus: the least service is otherwise one core for everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.ps_job import Measure, service_table
from goodalloc.models.service_table import marginal_table
from goodalloc.models.validation import require_choice, require_flag, require_number
from goodalloc.solvers.borda import borda_scores, service_order
from goodalloc.solvers.exchange import exchange_units
from goodalloc.solvers.ps_policy import TurnClock, admit
from goodalloc.solvers.service_optimum import least_service
from goodalloc.solvers.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.models.service_table import Cell, ServiceTable
    from goodalloc.solvers.exchange import Free
    from goodalloc.solvers.ps_policy import ActivePsJob, PsDecision, PsView

    Floats = NDArray[np.float64]

#: Axes of a table along which a pod grows.
POD_AXES = (2, 3, 4)

#: Pods of predictable jobs: of any size, or at least of that which the user asks for.
Size = Literal["any", "asked"]


@dataclass
class PsAiturbo:
    """The hybrid.

    Parameters
    ----------
    measure
        What remains of a job, service or time.
    pods
        How small those of predictable jobs may be.
    promote
        Of `service_order`: how many times as long as it ran a job waits until it goes first.
    exact
        Whether predictable jobs get the exact optimum in place of the exchange.
    stop
        Limits of one exact round.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """

    measure: Measure = "time"
    pods: Size = "any"
    promote: float = 0.0
    exact: bool = False
    stop: Stop = field(default_factory=lambda: Stop(seconds=20.0, gap=1e-4))
    _clock: TurnClock = field(default_factory=TurnClock, init=False)

    def __post_init__(self) -> None:
        require_choice("AITurbo: measure", self.measure, get_args(Measure))
        require_choice("AITurbo: pods", self.pods, get_args(Size))
        require_number("AITurbo: promote", self.promote, 0.0)
        require_flag("AITurbo: exact", self.exact)

    def decide(self, view: PsView) -> PsDecision:
        """One order; who fits; then units between predictable jobs."""
        self._clock.advance(view)
        known = [index for index, job in enumerate(view.jobs) if job.predictable]
        tables = {index: self._table(view.jobs[index]) for index in known}
        wanted = {
            index: self._first_cells(job) if job.predictable else [job.asked]
            for index, job in enumerate(view.jobs)
        }
        effect = np.zeros(len(view.jobs))
        for index in known:
            effect[index] = marginal_effect(tables[index], wanted[index][0])
        scores = borda_scores(
            effect, [job.attained for job in view.jobs], [job.predictable for job in view.jobs]
        )
        executed, waited = self._clock.of(view)
        order = service_order(scores, executed=executed, waited=waited, promote=self.promote)
        admitted = admit(view, order.tolist(), wanted)
        inside = [index for index in known if view.jobs[index].name in admitted]
        if inside:
            left = view.capacity - sum(
                (job.demand(admitted[job.name]) for job in view.jobs
                 if job.name in admitted and not job.predictable),
                start=np.zeros(view.nodes.shape[1]),
            )  # fmt: skip
            cells = self._units(
                [tables[index] for index in inside],
                [admitted[view.jobs[index].name] for index in inside], left,
            )  # fmt: skip
            for index, cell in zip(inside, cells, strict=True):
                admitted[view.jobs[index].name] = cell
        return admitted

    def _table(self, job: ActivePsJob) -> ServiceTable:
        """What remains of a predictable job, infinite where its pods are too small."""
        table = service_table(job.job, self.measure)
        if self.pods == "any":
            return table
        index = np.indices(table.service.shape)
        small = [index[axis] < job.asked[axis] for axis in POD_AXES]
        return replace(table, service=np.where(np.any(small, axis=0), np.inf, table.service))

    def _first_cells(self, job: ActivePsJob) -> list[Cell]:
        """What a predictable job has, or else the least it may have."""
        smallest = [job.asked[axis] if self.pods == "asked" else 0 for axis in POD_AXES]
        least = (0, 0, *smallest)
        return [least] if job.job.cell is None else [job.job.cell, least]

    def _units(
        self, tables: Sequence[ServiceTable], cells: Sequence[Cell], left: Floats
    ) -> Sequence[Cell]:
        """Where predictable jobs end that begin here."""
        free: Free = "both" if self.measure == "service" else "donor"
        found = exchange_units(tables, cells, left, free=free)
        if not self.exact:
            return found.cells
        best = least_service(tables, left, stop=self.stop)
        return best.cells if best.cells is not None and best.total < found.total else found.cells


def marginal_effect(table: ServiceTable, cell: Cell) -> float:
    """By how much the best unit more lessens what remains of a job; 0 where none does."""
    marginal = marginal_table([table], [cell])
    return max(float(marginal.now[0] - marginal.service[0, 0].min()), 0.0)
