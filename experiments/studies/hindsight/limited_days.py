"""Published days with hindsight within a time limit, as `goodalloc hindsight --seconds`.

The searches of prices and schedules are cut short, in two processes where there are two cores, so
that how far they come depends on the machine; what they find is proved and replayed as ever.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import QUICK_STEPS, STEPS
from goodalloc.experiments.studies.hindsight.day_task import DayRecord, DayTask
from goodalloc.experiments.studies.hindsight.placed_replays import (
    PlacedRow,
    days_and_means,
    placed_row,
    plot_placed_days,
)

if TYPE_CHECKING:
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Report

#: Seconds of the time limit; of a quick run.
LIMIT, QUICK_LIMIT = 60.0, 20.0


class LimitedRow(NamedTuple):
    """One day: the fields of `PlacedRow`, and how far the searches came.

    Attributes
    ----------
    workload, jobs, bound_s, bound_on_replays_s, ideal_s, planned_s, replayed_s
        As in `PlacedRow`.
    bound_over_ideal, bound_over_replayed, bound_on_replays_over_replayed, ideal_over_replayed
        As in `PlacedRow`.
    limit_s
        Time limit.
    ideal_steps, replayed_steps
        Steps of the searches of schedules.
    seconds
        Seconds of the day, of wall-clock time.
    """

    workload: int
    jobs: int
    bound_s: float
    bound_on_replays_s: float
    ideal_s: float
    planned_s: float
    replayed_s: float
    bound_over_ideal: float
    bound_over_replayed: float
    bound_on_replays_over_replayed: float
    ideal_over_replayed: float
    limit_s: float
    ideal_steps: int
    replayed_steps: int
    seconds: float

    @property
    def placed(self) -> PlacedRow:
        """The row of a day without a limit."""
        return PlacedRow(**{name: getattr(self, name) for name in PlacedRow._fields})


@dataclass(frozen=True)
class LimitedDay(DayTask):
    """Day with hindsight within a time limit; see `DayTask`.

    Parameters
    ----------
    limit
        Seconds of the limit.
    """

    limit: float = LIMIT

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = {"format": "goodalloc-limited-day", "version": 1, "limit": self.limit}
        return super().description() | told

    def work(self, report: Report) -> dict[str, Any]:
        """Bound the day, and find schedules, as long as there is time."""
        from goodalloc.experiments.hindsight.day import HindsightDay
        from goodalloc.experiments.hindsight.day_search import DaySearch
        from goodalloc.experiments.replay_bound.day_and_replays import whole_day

        begin = time.monotonic()
        search = DaySearch(steps=self.steps).within(self.limit)
        day, replays = whole_day(
            "completion", self.workload, self.setting, self.traces, search, report=report
        )
        assert isinstance(day, HindsightDay)
        assert day.replayed is not None  # GPUs of one type
        assert replays is not None
        found = DayRecord(
            float(day.certificate["bound"]),
            day.schedule.value,
            float(replays.certificate["bound"]),
            planned=day.replayed.planned,
            replayed=day.replayed.value,
        )
        return {
            "found": found._asdict(),
            "ideal_steps": day.steps,
            "replayed_steps": day.replayed.steps,
            "seconds": time.monotonic() - begin,
        }

    def row(self, number: int) -> LimitedRow:
        """Return the row of a day that was worked out.

        Parameters
        ----------
        number
            Number of its workload.
        """
        record = self.record()
        placed = placed_row(number, len(self.workload), DayRecord(**record["found"]))
        return LimitedRow(
            *placed,
            self.limit,
            record["ideal_steps"],
            record["replayed_steps"],
            rounded(record["seconds"], 4),
        )


def _days(plan: Plan) -> dict[int, LimitedDay]:
    """Return the days by workload."""
    steps, limit = (QUICK_STEPS, QUICK_LIMIT) if plan.quick else (STEPS, LIMIT)
    return {
        number: LimitedDay(
            plan.folder, plan.workload(number), Setting(), plan.traces, steps, limit
        ).among(plan.folder, "limited-day")
        for number in plan.workloads
    }


def _rows(plan: Plan) -> list[LimitedRow]:
    return [task.row(number) for number, task in _days(plan).items()]


def _summary(rows: list[LimitedRow]) -> Rows:
    """Return a row for every day, and the means with 95 % intervals."""
    columns: dict[str, tuple[str, list[float]]] = {
        "steps": (".0f", [row.ideal_steps for row in rows]),
        "steps with restarts": (".0f", [row.replayed_steps for row in rows]),
        "seconds": (".1f", [row.seconds for row in rows]),
    }
    *days, means = days_and_means([row.placed for row in rows])
    for name, (form, values) in columns.items():
        for day, value in zip(days, values, strict=True):
            day[name] = format(value, form)
        means[name] = estimate_of(values).text(form)
    return [*days, means]


NOTE = f"""\
As hindsight-replays, within {LIMIT:g} s of wall-clock time a day (--quick: {QUICK_LIMIT:g} s).
steps: of the searches of the ideal schedule and of that with restarts."""

LIMITED_DAYS = Reproduction(
    "Bounds and schedules with hindsight of the published days within a minute each",
    lambda plan: [*_days(plan).values()],
    _rows,
    lambda _, rows: plot_placed_days([row.placed for row in rows]),
    shown=_summary,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
    times=True,
)
