"""Gavel in the simulator of Sia's artifact and in ours: why the two differed, rule by rule.

Gavel's jobs are rigid: they keep the GPUs and batch size that their users requested. From our Gavel
to that of Sia's simulator lead eight steps, each a row. The first is that rounds begin at multiples
of 360 s, whenever jobs come. Three were known: the sum of the *steps* per second, in which small
batches count most; spare GPUs for any job that can run on them; GPU time that counts over a job's
whole life. The others were found by reading the simulator's rules against ours and replaying them
one by one, since it ships no logs: YOLOv3 trains 16 examples a pass on a T4, as far as was
measured, where Pollux's code stops at 8; rates include the slow-down of every application; spare
GPUs go to jobs in order of submission, not to those that had least; GPUs are given out in the order
of the nodes.

Every row is compared with the one before, event by event (`replay_difference.py`). Beside them
stand Gavel with max-min fairness, and AlloX.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.gpu_types import FIRST_TYPE
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.sia_and_synergy.replay_difference import difference
from goodalloc.experiments.studies.sia_and_synergy.sia_replay import (
    SECONDS,
    compared,
    is_known,
    shown,
    sia_setting,
    sia_workload,
)
from goodalloc.experiments.support.records import digest
from goodalloc.solvers.policies.policy import Terms
from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.sia_and_synergy.sia_replay import ComparedRow

#: Module of the policies of this study.
MODULE = "goodalloc.experiments.studies.sia_and_synergy.gavel_of_artifact"

#: Seconds between the decisions of Sia's simulator under Gavel.
ROUND_SECONDS = 360

#: Most examples a pass of YOLOv3 on a T4 that were measured, the limit of Sia's simulator.
YOLOV3_LIMIT = 16


class Step(NamedTuple):
    """Replay of this study.

    Attributes
    ----------
    function
        Function of `MODULE` that makes its policy, or the name of a policy that ships.
    interval
        Seconds between decisions.
    limits
        Whether YOLOv3 has the batch limit of Sia's simulator on a T4.
    after
        The row that it is compared with, empty for none.
    label
        Label in the figure.
    """

    function: str
    interval: int
    limits: bool
    after: str
    label: str


#: The rows, from ours to that of Sia's simulator, and others beside them.
STEPS = {
    "gavel-throughput": Step("gavel-throughput", 60, False, "", "ours: rates over the largest"),
    "gavel-rounds": Step("gavel-throughput", ROUND_SECONDS, False, "gavel-throughput", "+ rounds"),
    "gavel-steps": Step("gavel_steps", ROUND_SECONDS, False, "gavel-rounds", "+ rates in steps"),
    "gavel-spare": Step("gavel_spare", ROUND_SECONDS, False, "gavel-steps", "+ spare GPUs"),
    "gavel-lifelong": Step(
        "gavel_lifelong", ROUND_SECONDS, False, "gavel-spare", "+ time of whole lives"
    ),
    "gavel-limits": Step(
        "gavel_lifelong", ROUND_SECONDS, True, "gavel-lifelong", "+ batch limit of YOLOv3"
    ),
    "gavel-slowed": Step("gavel_slowed", ROUND_SECONDS, True, "gavel-limits", "+ slow-downs"),
    "gavel-in-order": Step(
        "gavel_in_order", ROUND_SECONDS, True, "gavel-slowed", "+ spare GPUs in order"
    ),
    "gavel-as-there": Step(
        "gavel_as_there", ROUND_SECONDS, True, "gavel-in-order", "+ GPUs in order: as there"
    ),
    "gavel": Step("gavel", ROUND_SECONDS, False, "", "Gavel, max-min"),
    "allox": Step("allox", 60, False, "", "AlloX"),
}

#: The rows from ours to that of Sia's simulator.
CHAIN = tuple(name for name in STEPS if name not in ("gavel", "allox"))


class SimulatorYolo(MeasuredApplication):
    """YOLOv3 with the batch limit of Sia's simulator on a T4."""

    def __init__(self, folder: Path, gpu_type: str = "") -> None:
        super().__init__(folder, gpu_type)
        if gpu_type in ("", FIRST_TYPE):
            self.batch = self.batch._replace(atomic_maximum=YOLOV3_LIMIT)


@lru_cache(maxsize=2)
def simulator_yolo(traces: str) -> Application:
    """Return YOLOv3 by the measurements in a folder, with the limit of Sia's simulator."""
    return SimulatorYolo(Path(traces) / "yolov3")


@dataclass(frozen=True)
class SimulatorTask(ReplayTask):
    """Replay with the batch limit of Sia's simulator, where there are measurements."""

    @property
    def applications(self) -> dict[str, Application]:
        """True applications, by name."""
        found = super().applications
        return found if self.traces is None else found | {"yolov3": simulator_yolo(self.traces)}

    def description(self) -> dict[str, Any]:
        """Return the description of the replay, with the limit."""
        return super().description() | {"yolov3_limit": YOLOV3_LIMIT}


def _task(plan: Plan, number: int, row: str) -> ReplayTask:
    """Return the replay of a row."""
    step = STEPS[row]
    name = step.function if step.function in POLICIES else f"{MODULE}:{step.function}"
    setting = replace(sia_setting(), interval=step.interval)
    task = plan.replay(name, sia_workload(plan, number), setting=setting, seconds=SECONDS)
    if not step.limits:
        return task
    values = {field.name: getattr(task, field.name) for field in fields(task)}
    limited = SimulatorTask(**values)
    folder = plan.folder / "replays" / f"{name}-{digest(limited.description())}"
    return replace(limited, folder=folder)


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [_task(plan, number, row) for number in plan.workloads for row in STEPS]


def _rows(plan: Plan) -> list[ComparedRow]:
    """Return the rows, each with its difference from the one before."""
    rows = []
    for number in plan.workloads:
        for name, step in STEPS.items():
            task = _task(plan, number, name)
            own = step.function not in POLICIES
            terms = Terms("true speed", "requested") if own else task.terms
            there = is_known(plan) and name in CHAIN
            row = compared(task, number, name, terms, "gavel" if there else "")
            if step.after:
                before = _task(plan, number, step.after)
                row = row._replace(parted=difference(task.folder, before.folder))
            rows.append(row)
    return rows


def _shown(rows: list[ComparedRow]) -> Rows:
    """Return the quantities beside the artifact's, and how many jobs part from the row before."""
    return [
        line
        | {
            "deviation (%)": row.average_jct_hours_deviation_percent,
            "parted jobs": None if math.isnan(row.parted.jobs) else int(row.parted.jobs),
            "first": row.parted.first_job,
            "first (h)": None if math.isnan(row.parted.jobs) else row.parted.first_hours,
        }
        for line, row in zip(shown(rows), rows, strict=True)
    ]


def _plot(_: Plan, rows: list[ComparedRow]) -> Figure:
    """Draw average completion times by step, over the artifact's or those of the last step."""
    ax = new_axes(7.5, 4.6)
    numbers = list(dict.fromkeys(row.workload for row in rows))
    for index, number in enumerate(numbers):
        own = {row.policy: row for row in rows if row.workload == number}
        last = own[CHAIN[-1]]
        base = last.artifact_average_jct_hours or last.average_jct_hours
        ratios = [own[name].average_jct_hours / base for name in CHAIN]
        ax.plot(
            ratios,
            range(len(CHAIN)),
            marker=MARKERS[index],
            color=COLOURS[index],
            label=f"workload {number}",
        )
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(CHAIN)), [STEPS[name].label for name in CHAIN])
    ax.invert_yaxis()
    known = rows[0].artifact_average_jct_hours is not None
    ax.set_xlabel(
        "average completion time over that "
        + ("in the artifact's simulator" if known else "of the last step")
    )
    ax.legend(frameon=False)
    return figure_of(ax)


SIA_GAVEL = Reproduction(
    "Gavel on three types of GPU, rule by rule to that of Sia's simulator",
    _tasks,
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "seeds", "gaps"),
    workloads=(1, 2, 3),
    quick_workloads=(3,),
)
