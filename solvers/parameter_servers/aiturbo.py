"""AITurbo: predictable jobs and others in one order, then an exchange of units.

All jobs are in one order, by the Borda count of `borda.py`; the marginal effect of a job is the
largest reduction of its remaining service by one more unit. In that order jobs are admitted while
they fit, those that do not being overtaken, each with its present cell, or else with its least one.
Then they exchange units with each other and with free capacity (`exchange.py`).

The paper's way of joining the two kinds of jobs is not known; this is a documented reading, as are
those of `borda.py` and `exchange.py`. The loss curve of a predictable job gives its remaining
steps. Of another job only its attained service is known, and least attained service favours jobs
with little of it because jobs that ran long tend to run long: such a job is taken to need as many
steps again as it has done. The speed of its steps is as well known as that of any job, so it takes
part in the exchange. In the other reading it has exactly the requested pods.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
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

#: Pods of jobs that exchange units: of any size, or of at least the requested size.
Size = Literal["any", "asked"]

#: Unpredictable jobs exchange units too, or have the requested pods.
Others = Literal["exchange", "asked"]

#: Least seconds that an unpredictable job is taken to need with the requested pods.
NEWCOMER = 900.0


@dataclass
class PsAiturbo:
    """Hybrid policy of AITurbo for predictable and unpredictable jobs.

    Parameters
    ----------
    measure
        Measure of the remaining work of a job.
    pods
        Least size of the pods of jobs that exchange units.
    others
        Whether unpredictable jobs exchange units.
    newcomer
        Argument of `as_long_again`: the least seconds of an unpredictable job.
    promote
        Argument of `service_order`: ratio of waiting to running time at which a job goes first.
    exact
        Whether to solve for the exact optimum instead of exchanging units.
    stop
        Limits of one exact round.

    Raises
    ------
    ValueError
        If `newcomer` <= 0, `promote` is negative, or another argument is not one of its choices.
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
        """Order the jobs, admit those that fit, then exchange units between them."""
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
        """Return the remaining service of a job by cell, infinite where its pods are too small."""
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
        """Return the cells at which jobs that begin at `cells` end."""
        free: Free = "both" if self.measure == "service" else "donor"
        found = exchange_units(tables, cells, left, free=free)
        if not self.exact:
            return found.cells
        from goodalloc.solvers.parameter_servers.service_optimum import least_service

        best = least_service(tables, left, stop=self.stop)
        return best.cells if best.cells is not None and best.total < found.total else found.cells


def _first_cells(job: ActivePsJob, table: ServiceTable) -> list[Cell]:
    """Return the cells to try for a job: its present one, if allowed, and its least one."""
    has = job.job.cell
    if has is None or not np.isfinite(table.service[has]):
        return [table.least]
    return [has, table.least]


def as_long_again(job: ActivePsJob, newcomer: float = NEWCOMER) -> PsJob:
    """Return the job with as many remaining steps as it has done.

    Parameters
    ----------
    job
        A job of unknown remaining steps.
    newcomer
        Least seconds that it needs with the requested pods.
    """
    told = job.job
    step = float(seconds_per_step(told.step_time, told.choices.at(job.asked), told.batch_size))
    return replace(told, remaining_steps=max(job.done, newcomer / step))


def marginal_effect(table: ServiceTable, cell: Cell) -> float:
    """Return the largest reduction of a job's remaining service by one unit; 0 if none."""
    marginal = marginal_table([table], [cell])
    return max(float(marginal.now[0] - marginal.service[0, 0].min()), 0.0)
