"""AITurbo's exchange (HPDC'21) and Optimus's greedy (EuroSys'18) against the exact optimum.

Rounds of jobs with parameter servers are drawn (`data/parameter_servers/rounds.py`) and decided
four ways: by AITurbo's exchange from the least configuration of every job; by Optimus's greedy from
pods of two cores, or the smallest there are, and a GPU for every worker; exactly without nodes, as
these two decide; and exactly with every server and worker on a node. What remains is counted in
AITurbo's service or in time (`models/parameter_servers/job.py`); Optimus lessens time whatever is
counted. In a third set workers of 5 and 7 cores do not fill the nodes, so that these matter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.rounds import ANY_CHOICE, NODES_PER_JOB, ps_round
from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.job import PsChoices, service_table
from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.tabulated_service import AXES
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.parameter_servers.exchange import exchange_units
from goodalloc.solvers.parameter_servers.marginal_gain import greedy_by_gain
from goodalloc.solvers.parameter_servers.service_on_nodes import least_service_on_nodes
from goodalloc.solvers.parameter_servers.service_optimum import least_service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.parameter_servers.job import Measure
    from goodalloc.models.parameter_servers.tabulated_service import Cell, ServiceTable

#: Jobs of a round, and how many rounds of that size are drawn.
SIZES = {10: 60, 20: 50, 50: 40, 100: 40, 200: 10, 500: 5}


class Case(NamedTuple):
    """Set of rounds.

    Attributes
    ----------
    title
        Title of its panel.
    measure
        Counted resources.
    choices
        Choices of every job.
    nodes_per_job
        Nodes for every job.
    pods
        First allocation of a job in Optimus's greedy algorithm.
    """

    title: str
    measure: Measure
    choices: PsChoices
    nodes_per_job: float
    pods: PsConfiguration


_SMALL, _AWKWARD = PsConfiguration(1, 1, 2, 2, 1), PsConfiguration(1, 1, 3, 5, 1)

CASES = {
    "time": Case("remaining time", "time", ANY_CHOICE, NODES_PER_JOB, _SMALL),
    "service": Case("remaining service", "service", ANY_CHOICE, NODES_PER_JOB, _SMALL),
    "awkward": Case(
        "remaining time, awkward workers",
        "time",
        PsChoices((1, 2, 3, 4), (1, 2, 3, 4), (3,), (5, 7), (0.0, 1.0)),
        1.0,
        _AWKWARD,
    ),
}

#: Seconds and gap of an exact solve.
STOP = Stop(seconds=60.0, gap=1e-6)

#: A total this close to the optimum, relative to it, is the optimum.
OPTIMAL = 1e-9


class GapRow(NamedTuple):
    """Totals of all four ways on one round, and their seconds."""

    jobs: int
    nodes: int
    case: str
    seed: int
    exchange: float
    exchanges: int
    greedy: float
    pool: float
    pool_bound: float
    placed: float
    placed_bound: float
    exchange_seconds: float
    greedy_seconds: float
    pool_seconds: float
    placed_seconds: float

    @property
    def totals(self) -> dict[str, float]:
        """Total of every way that is compared with the pool, by its name."""
        return {"exchange": self.exchange, "greedy": self.greedy, "placed": self.placed}


def gap_row(jobs: int, case: str, seed: int) -> GapRow:
    """Return the totals of all four ways on one round, and their seconds.

    Parameters
    ----------
    jobs, seed
        Of `ps_round`.
    case
        Key in `CASES`.

    Raises
    ------
    RuntimeError
        If what was decided on nodes does not pass the checker.
    """
    _, measure, choices, nodes_per_job, pods = CASES[case]
    drawn = ps_round(seed, jobs, num_nodes=max(round(jobs * nodes_per_job), 1), choices=choices)
    tables = [service_table(job, measure) for job in drawn.jobs]
    timed = tables if measure == "time" else [service_table(job, "time") for job in drawn.jobs]
    capacity, least = drawn.nodes.sum(axis=0), [(0,) * tables[0].service.ndim] * jobs
    begin = time.perf_counter()
    exchanged = exchange_units(tables, least, capacity)
    exchange_seconds = time.perf_counter() - begin
    first = choices.cell(pods)
    begin = time.perf_counter()
    greedy = greedy_by_gain(timed, [least[0] if first is None else first] * jobs, capacity)
    greedy_seconds = time.perf_counter() - begin
    pool = least_service(tables, capacity, stop=STOP)
    placed = least_service_on_nodes(tables, drawn.nodes, stop=STOP)
    if placed.cells is not None and placed.pods is not None:
        broken = pod_violations(tables, placed.cells, placed.pods, drawn.nodes)
        if broken:
            raise RuntimeError(f"Round of {jobs} jobs, seed {seed}: {broken[0]}")
    return GapRow(
        jobs=jobs,
        nodes=len(drawn.nodes),
        case=case,
        seed=seed,
        exchange=rounded(exchanged.total, 10),
        exchanges=len(exchanged.exchanges),
        greedy=rounded(total_of(tables, greedy), 10),
        pool=rounded(pool.total, 10),
        pool_bound=rounded(pool.bound, 10),
        placed=rounded(placed.total, 10),
        placed_bound=rounded(placed.bound, 10),
        exchange_seconds=rounded(exchange_seconds, 3),
        greedy_seconds=rounded(greedy_seconds, 3),
        pool_seconds=rounded(pool.seconds, 3),
        placed_seconds=rounded(placed.seconds, 3),
    )


def total_of(tables: Sequence[ServiceTable], cells: Sequence[Cell]) -> float:
    """Return the total remaining time of all jobs."""
    return float(sum(table.service[cell] for table, cell in zip(tables, cells, strict=True)))


@dataclass(frozen=True)
class ExchangeGaps(RecordedTask):
    """Task of all rounds of one size and case, done as a whole or not at all.

    Parameters
    ----------
    jobs, rounds, case
        The size, how many are drawn, and which of `CASES`.
    """

    jobs: int
    rounds: int
    case: str

    def description(self) -> dict[str, Any]:
        """Return all inputs that the rows depend on."""
        case = CASES[self.case]
        return {
            "format": "goodalloc-exchange-gaps",
            "version": 1,
            "library": library_version(),
            "jobs": self.jobs,
            "rounds": self.rounds,
            "case": self.case,
            "gap": STOP.gap,
            "seconds": STOP.seconds,
            "choices": [list(getattr(case.choices, axis)) for axis in AXES],
            "nodes_per_job": case.nodes_per_job,
            "pods": list(case.pods),
        }

    def work(self, report: Report) -> Rows:
        """Draw and decide all rounds."""
        rows: Rows = []
        for seed in range(self.rounds):
            rows.append(gap_row(self.jobs, self.case, seed)._asdict())
            report(len(rows) / self.rounds)
        return rows


def _tasks(plan: Plan) -> list[ExchangeGaps]:
    """Return a task for every size and case; a tenth of the rounds, and no large ones, if quick."""
    tasks = []
    for jobs, rounds in SIZES.items():
        if plan.quick and jobs > 100:
            continue
        for case in CASES:
            task = ExchangeGaps(plan.folder, jobs, rounds // 10 if plan.quick else rounds, case)
            tasks.append(task.among(plan.folder, "exchange"))
    return tasks


def _rows(plan: Plan) -> list[GapRow]:
    """Return a row for every round."""
    return [GapRow(**row) for task in _tasks(plan) for row in task.record()]


def above(row: GapRow, way: str) -> float:
    """Return the excess of a way over the exact optimum without nodes, in per cent of it."""
    return 100.0 * (row.totals[way] / row.pool - 1.0)


def summarise_gaps(rows: list[GapRow]) -> Rows:
    """Return a row for every size and case: mean losses, share of optimal rounds, seconds."""
    shown = []
    for case in CASES:
        for jobs in sorted({row.jobs for row in rows}):
            group = [row for row in rows if row.case == case and row.jobs == jobs]
            losses = [above(row, "exchange") for row in group]
            gaps = [1.0 - row.placed_bound / row.placed for row in group]
            means = {
                name: float(np.mean(values))
                for name, values in {
                    "exchange_above_%": losses,
                    "optimal_%": [100.0 * (loss <= 100.0 * OPTIMAL) for loss in losses],
                    "optimus_above_%": [above(row, "greedy") for row in group],
                    "nodes_above_%": [above(row, "placed") for row in group],
                }.items()
            }
            seconds = {
                "exchange_s": float(np.median([row.exchange_seconds for row in group])),
                "pool_s": float(np.median([row.pool_seconds for row in group])),
                "placed_s": float(np.median([row.placed_seconds for row in group])),
            }
            shown.append(
                {
                    "case": case,
                    "jobs": jobs,
                    "rounds": len(group),
                    **{name: rounded(value, 3) for name, value in means.items()},
                    "exchange_worst_%": rounded(max(losses), 3),
                    "worst_gap": rounded(max(*gaps, 0.0), 2),
                    **{name: rounded(value, 2) for name, value in seconds.items()},
                    "placed_worst_s": rounded(max(row.placed_seconds for row in group), 2),
                }
            )
    return shown


def plot_gaps(rows: list[GapRow]) -> Figure:
    """Draw losses by size, of each case; and seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 4.2), layout="constrained")
    *panels, clock = figure.subplots(1, len(CASES) + 1)
    sizes = sorted({row.jobs for row in rows})

    def by_size(
        column: Callable[[GapRow], float], case: str | None = None
    ) -> dict[int, list[float]]:
        return {
            size: [column(r) for r in rows if r.jobs == size and case in (None, r.case)]
            for size in sizes
        }

    for ax, (name, case) in zip(panels, CASES.items(), strict=True):
        plot_ranges(
            ax,
            {
                "AITurbo's exchange": by_size(lambda r: above(r, "exchange"), name),
                "Optimus's greedy": by_size(lambda r: above(r, "greedy"), name),
                "exact, on nodes": by_size(lambda r: max(above(r, "placed"), 0.0), name),
            },
        )
        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_ylim(bottom=-0.05)
        ax.set_xlabel("jobs")
        ax.set_ylabel("above the exact optimum (%)")
        ax.set_title(case.title, fontsize="medium")
    panels[0].legend(frameon=False)
    plot_ranges(
        clock,
        {
            "exchange": by_size(lambda r: r.exchange_seconds),
            "greedy": by_size(lambda r: r.greedy_seconds),
            "exact, on nodes": by_size(lambda r: r.placed_seconds),
            "exact": by_size(lambda r: r.pool_seconds),
        },
    )
    clock.set_yscale("log")
    clock.set_xlabel("jobs")
    clock.set_ylabel("seconds")
    clock.set_title("time to decide", fontsize="medium")
    clock.set_ylim(top=10.0 * clock.get_ylim()[1])  # room for the legend
    clock.legend(frameon=False, loc="upper left")
    return figure


EXCHANGE = Reproduction(
    "AITurbo's exchange and Optimus's greedy against the exact optimum",
    _tasks,
    _rows,
    lambda _, rows: plot_gaps(rows),
    shown=summarise_gaps,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
)
