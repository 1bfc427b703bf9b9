"""A day with hindsight and the bound on its replays, beside each other and within a time limit."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.hindsight import HindsightDay, day_by
from goodalloc.experiments.hindsight.day_search import USUAL_SEARCH
from goodalloc.experiments.replay_bound.replay_bound import (
    ReplayBound,
    bound_replays,
    prove_replays,
)
from goodalloc.experiments.support.machine_description import usable_cores
from goodalloc.experiments.support.workers import meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.workloads import Submission
    from goodalloc.experiments.hindsight.day_by_objective import ObjectiveName
    from goodalloc.experiments.hindsight.day_search import DaySearch
    from goodalloc.experiments.hindsight.deadline_day import DeadlineDay
    from goodalloc.experiments.replay import Setting
    from goodalloc.models.topology import Topology

#: Least number of jobs for which all replays are bounded in another process, which starts when the
#: bound on schedules is found.
MEANWHILE = 30

#: Part of the progress that counts for the schedules, while that bound is proved beside them and
#: where it is proved after them: then also their part of the time left, if there is a limit.
BESIDE, BEFORE = 0.95, 0.7


class WholeDay(NamedTuple):
    """A day with hindsight, and the bound on its replays.

    Attributes
    ----------
    day
        Bound on schedules, and the schedules that were found.
    replays
        Bound on all replays; None for late jobs and the makespan.
    """

    day: HindsightDay | DeadlineDay
    replays: ReplayBound | None


def whole_day(
    objective: ObjectiveName,
    workload: tuple[Submission, ...],
    setting: Setting,
    traces: str | None = None,
    search: DaySearch = USUAL_SEARCH,
    *,
    due: float | None = None,
    weights: Mapping[str, float] | None = None,
    topology: Topology | None = None,
    found: Callable[[HindsightDay | DeadlineDay], object] = lambda _day: None,
    report: Callable[[float], None] = lambda _share: None,
) -> WholeDay:
    """Bound all schedules and all replays of a workload, and find schedules.

    Where there is more than one core, averages over at least `MEANWHILE` jobs take two processes.

    Parameters
    ----------
    objective, workload, setting, traces, due, weights, topology
        As in `day_by`.
    search
        Limits and seed of the searches, those of both processes.
    found
        Callback for the day, when its replays may not be bounded yet.
    report
        Callback for the share that is done.

    Raises
    ------
    ValueError
        As in `day_by`.

    Examples
    --------
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments.hindsight import DaySearch
    >>> from goodalloc.experiments.replay import Setting
    >>> from goodalloc.experiments.replay_bound import whole_day
    >>> from goodalloc.models.round import Cluster
    >>> jobs = (Submission("a", 0, "cifar10", 1, 128),)
    >>> setting = Setting(Cluster.uniform(1, 2))
    >>> day, replays = whole_day("completion", jobs, setting, search=DaySearch(steps=1))
    >>> day.certificate["bound"] <= replays.certificate["bound"] <= day.replayed.value
    True
    """
    averaged = objective in ("completion", "slowdown")
    alone = usable_cores() == 1 or current_process().daemon  # a worker, which may start no other
    apart = averaged and len(workload) >= MEANWHILE and not alone
    part = (BESIDE if apart else BEFORE) if averaged else 1.0
    own = search
    if search.until is not None and averaged and not apart:
        own = replace(search, until=search.until - (1.0 - part) * (search.until - time.monotonic()))
    wait: Callable[[], dict[str, Any]] | None = None
    with ExitStack() as beside:

        def bounded(problem: Any, bound: Any, proved: float) -> None:
            nonlocal wait
            if apart:
                prove = partial(prove_replays, problem, bound, proved, setting, until=search.until)
                with suppress(OSError):  # no process can be started
                    wait = beside.enter_context(meanwhile(prove, traces))

        day = day_by(
            objective,
            workload,
            setting,
            traces,
            own,
            due=due,
            weights=weights,
            topology=topology,
            bounded=bounded,
            report=lambda share: report(part * share),
        )
        found(day)
        if not isinstance(day, HindsightDay):
            return WholeDay(day, None)
        if wait is not None:
            with suppress(ChildProcessError):  # as of one that was killed for its memory
                return WholeDay(day, ReplayBound(day, wait()))
        replays = bound_replays(
            day,
            setting,
            traces,
            until=search.until,
            report=lambda share: report(part + (1.0 - part) * share),
        )
        return WholeDay(day, replays)
