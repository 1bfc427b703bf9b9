"""AITurbo (HPDC'21): predictable jobs and others in one order, then an exchange of units.

All jobs stand in one order, by the Borda count of `borda.py`; the marginal effect of a job is by
how much the best unit more lessens what remains of it. In that order jobs are admitted while they
fit, those that do not being overtaken, each with what it has, or else with the least it may have.
Then they exchange units with each other and with what is left (`exchange.py`).

How the paper joins the two kinds of jobs is not known; this is a documented reading, as are what
`borda.py` and `exchange.py` say of theirs. What remains of a predictable job its loss curve says.
Of another nothing is known but what it has had, and least attained service serves those first who
had least because, of times as they are, who ran long will run long: it is taken to need as many
steps again as it has done. The speed of its steps is as well known as that of any job, so it
takes part in the exchange. In the other reading it has what its user asks for, no more and no less.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.parameter_servers.job import Measure, service_table
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.tabulated_service import marginal_table
from goodalloc.models.support.validation import require_choice, require_flag, require_number
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.parameter_servers.borda import borda_scores, service_order
from goodalloc.solvers.parameter_servers.exchange import exchange_units
from goodalloc.solvers.parameter_servers.policy import TurnClock, admit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.parameter_servers.job import PsJob
    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.parameter_servers.exchange import Free
    from goodalloc.solvers.parameter_servers.policy import ActivePsJob, PsDecision, PsView


#: Axes of a table along which a pod grows.
POD_AXES = (2, 3, 4)

#: Pods of jobs that exchange units: of any size, or at least of that which the user asks for.
Size = Literal["any", "asked"]

#: Unpredictable jobs exchange units too, or have what their users ask for.
Others = Literal["exchange", "asked"]

#: An unpredictable job is taken to need at least so many seconds with what its user asks for.
NEWCOMER = 900.0


@dataclass
class PsAiturbo:
    """The hybrid.

    Parameters
    ----------
    measure
        What is counted of what remains of a job.
    pods
        How small those of jobs that exchange units may be.
    others
        Whether unpredictable jobs do.
    newcomer
        Of `as_long_again`: what an unpredictable job needs at least.
    promote
        Of `service_order`: how many times as long as it ran a job waits until it goes first.
    exact
        Whether jobs get the exact optimum in place of the exchange.
    stop
        Limits of one exact round.

    Raises
    ------
    ValueError
        If an argument makes no sense.
    """

    measure: Measure = "time"
    pods: Size = "any"
    others: Others = "exchange"
    newcomer: float = NEWCOMER
    promote: float = 0.0
    exact: bool = False
    stop: Stop = field(default_factory=lambda: Stop(seconds=20.0, gap=1e-4))
    _clock: TurnClock = field(default_factory=TurnClock, init=False)

    def __post_init__(self) -> None:
        require_choice("AITurbo: measure", self.measure, get_args(Measure))
        require_choice("AITurbo: pods", self.pods, get_args(Size))
        require_choice("AITurbo: others", self.others, get_args(Others))
        require_number("AITurbo: newcomer", self.newcomer, 0.0, strict=True)
        require_number("AITurbo: promote", self.promote, 0.0)
        require_flag("AITurbo: exact", self.exact)

    def decide(self, view: PsView) -> PsDecision:
        """One order; who fits; then units between them."""
        self._clock.advance(view)
        elastic = [
            index
            for index, job in enumerate(view.jobs)
            if job.predictable or self.others == "exchange"
        ]
        tables = {index: self._table(view.jobs[index]) for index in elastic}
        wanted = {
            index: _first_cells(job, tables[index]) if index in tables else [job.asked]
            for index, job in enumerate(view.jobs)
        }
        effect = np.zeros(len(view.jobs))
        for index in elastic:
            effect[index] = marginal_effect(tables[index], wanted[index][0])
        scores = borda_scores(
            effect, [job.attained for job in view.jobs], [job.predictable for job in view.jobs]
        )
        executed, waited = self._clock.of(view)
        order = service_order(scores, executed=executed, waited=waited, promote=self.promote)
        admitted = admit(view, order.tolist(), wanted)
        inside = [index for index in elastic if view.jobs[index].name in admitted]
        if inside:
            left = view.capacity - sum(
                (
                    job.demand(admitted[job.name])
                    for index, job in enumerate(view.jobs)
                    if job.name in admitted and index not in tables
                ),
                start=np.zeros(view.nodes.shape[1]),
            )
            cells = self._units(
                [tables[index] for index in inside],
                [admitted[view.jobs[index].name] for index in inside],
                left,
            )
            for index, cell in zip(inside, cells, strict=True):
                admitted[view.jobs[index].name] = cell
        return admitted

    def _table(self, job: ActivePsJob) -> ServiceTable:
        """What remains of a job, infinite where its pods are too small."""
        known = job.job if job.predictable else as_long_again(job, self.newcomer)
        table = service_table(known, self.measure)
        if self.pods == "any":
            return table
        index = np.indices(table.service.shape)
        small = [index[axis] < job.asked[axis] for axis in POD_AXES]
        return replace(table, service=np.where(np.any(small, axis=0), np.inf, table.service))

    def _units(
        self, tables: Sequence[ServiceTable], cells: Sequence[Cell], left: Floats
    ) -> Sequence[Cell]:
        """Where jobs end that begin here."""
        free: Free = "both" if self.measure == "service" else "donor"
        found = exchange_units(tables, cells, left, free=free)
        if not self.exact:
            return found.cells
        from goodalloc.solvers.parameter_servers.service_optimum import least_service

        best = least_service(tables, left, stop=self.stop)
        return best.cells if best.cells is not None and best.total < found.total else found.cells


def _first_cells(job: ActivePsJob, table: ServiceTable) -> list[Cell]:
    """What a job has, if it may have that, or else the least that it may have."""
    has = job.job.cell
    if has is None or not np.isfinite(table.service[has]):
        return [table.least]
    return [has, table.least]


def as_long_again(job: ActivePsJob, newcomer: float = NEWCOMER) -> PsJob:
    """A job that needs as many steps again as it has done.

    Parameters
    ----------
    job
        Of which nothing else is known.
    newcomer
        Seconds that it needs at least with what its user asks for.
    """
    told = job.job
    step = float(seconds_per_step(told.step_time, told.choices.at(job.asked), told.batch_size))
    return replace(told, remaining_steps=max(job.done, newcomer / step))


def marginal_effect(table: ServiceTable, cell: Cell) -> float:
    """By how much the best unit more lessens what remains of a job; 0 where none does."""
    marginal = marginal_table([table], [cell])
    return max(float(marginal.now[0] - marginal.service[0, 0].min()), 0.0)
