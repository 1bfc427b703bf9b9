"""Tables and figures of Pollux's evaluation (OSDI'21): the published value, ours, the deviation.

Table 2 was measured on a testbed; figures 8a to 8c come from the artifact's simulator, averaged
over eight workloads. All values are hours. Ours are replays of the published workloads on the
artifact's measurements where its folder is given, else of drawn ones on the shipped profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.workload import read_workload
from goodalloc.data.workload_generator import Requests, draw_workload
from goodalloc.experiments.plots import new_axes
from goodalloc.experiments.replay_report import rounded, summarise
from goodalloc.experiments.replay_task import ReplayTask
from goodalloc.experiments.simulator import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from goodalloc.data.workload import Submission

AVERAGE, TAIL, MAKESPAN = "average_jct_hours", "p99_jct_hours", "makespan_hours"


@dataclass(frozen=True)
class Case:
    """One row of a table, or one point of a figure.

    Parameters
    ----------
    label
        As in the paper.
    policy
        Name of the policy; "pollux" stands for whichever of Pollux's are asked for.
    published
        Hours by quantity.
    requests, load, interval, interference, interference_avoidance, power
        What is different from the published defaults.
    """

    label: str
    policy: str
    published: Mapping[str, float]
    requests: Requests = "tuned"
    load: float = 1.0
    interval: int = 60
    interference: float = 0.0
    interference_avoidance: bool = True
    power: float = -1.0

    def task(
        self, folder: Path, policy: str, workload: tuple[Submission, ...], traces: str | None,
        gaps: bool,
    ) -> ReplayTask:  # fmt: skip
        """The replay of this case on one workload."""
        setting = Setting(interval=self.interval, interference=self.interference)
        return ReplayTask(
            folder, policy, workload, setting, traces, self.power, self.interference_avoidance,
            gaps=gaps,
        )  # fmt: skip


def _hours(average: float, tail: float, makespan: float) -> dict[str, float]:
    return {AVERAGE: average, TAIL: tail, MAKESPAN: makespan}


def _loads(policy: str, *averages: float) -> tuple[Case, ...]:
    return tuple(
        Case(f"{policy.capitalize()}, load {load:g}", policy, {AVERAGE: hours}, load=load)
        for load, hours in zip((0.5, 1.0, 1.5, 2.0), averages, strict=True)
    )


#: What can be reproduced: name to cases.
REPRODUCTIONS: Mapping[str, tuple[Case, ...]] = {
    "table2": (
        Case("Pollux (p = -1)", "pollux", _hours(0.76, 11, 16)),
        Case("Optimus+Oracle+TunedJobs", "optimus", _hours(1.5, 15, 20)),
        Case("Tiresias+TunedJobs", "tiresias", _hours(1.2, 15, 24)),
        Case("Optimus+Oracle", "optimus", _hours(2.7, 22, 28), "realistic"),
        Case("Tiresias", "tiresias", _hours(2.8, 25, 31), "realistic"),
        Case("Pollux (p = +1)", "pollux", _hours(0.83, 10, 16), power=1.0),
        Case("Pollux (p = -10)", "pollux", _hours(0.84, 12, 18), power=-10.0),
    ),
    "fig8a": (
        *_loads("pollux", 0.426, 0.764, 1.024, 1.469),
        *_loads("optimus", 0.665, 1.578, 2.010, 2.700),
        *_loads("tiresias", 0.581, 1.122, 1.717, 2.789),
    ),
    "fig8b": tuple(
        Case(f"Pollux, every {seconds} s", "pollux", {AVERAGE: hours}, interval=seconds)
        for seconds, hours in ((30, 0.758), (60, 0.764), (120, 0.779), (240, 0.825), (480, 0.932))
    ),
    "fig8c": (
        Case("avoided", "pollux", {AVERAGE: 0.764}),
        *(
            Case(
                f"not avoided, {loss:.0%} lost", "pollux", {AVERAGE: hours}, interference=loss,
                interference_avoidance=False,
            )
            for loss, hours in ((0.0, 0.766), (0.25, 0.883), (0.5, 1.084))
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Which replays a reproduction takes.

    Parameters
    ----------
    name
        One of `REPRODUCTIONS`.
    folder
        Where everything goes.
    workloads
        Numbers of the published workloads, or seeds of drawn ones.
    pollux
        Names of the policies that stand for Pollux.
    artifact
        The artifact's folder ``simulator``, with its ``traces`` and ``workloads``; None to draw.
    gaps
        Whether every decision is judged.
    quick
        Half the jobs.
    """

    name: str
    folder: Path
    workloads: tuple[int, ...] = (6,)
    pollux: tuple[str, ...] = ("pollux",)
    artifact: Path | None = None
    gaps: bool = False
    quick: bool = False

    def policies(self, case: Case) -> tuple[str, ...]:
        """The policies that a case is replayed with."""
        return self.pollux if case.policy == "pollux" else (case.policy,)

    def replay_folder(self, index: int, policy: str, workload: int) -> Path:
        """Where the records of one replay go."""
        return self.folder / "replays" / f"{index}-{policy}-{workload}"

    def tasks(self) -> list[ReplayTask]:
        """All replays.

        Raises
        ------
        ValueError
            If a workload cannot be read.
        """
        traces = None if self.artifact is None else str(self.artifact / "traces")
        return [
            case.task(
                self.replay_folder(index, policy, number), policy, self._workload(case, number),
                traces, self.gaps,
            )
            for index, case in enumerate(REPRODUCTIONS[self.name])
            for policy in self.policies(case)
            for number in self.workloads
        ]  # fmt: skip

    def _workload(self, case: Case, number: int) -> tuple[Submission, ...]:
        load = case.load / 2 if self.quick else case.load
        if self.artifact is not None:
            name = "workloads" if case.requests == "tuned" else "workloads-realistic"
            name += "" if case.load == 1.0 else f"-{case.load}"
            jobs = read_workload(self.artifact / name / f"workload-{number}.csv")
            return jobs[::2] if self.quick else jobs
        return draw_workload(number, load=load, requests=case.requests)

    def rows(self) -> list[dict[str, Any]]:
        """One row a case, policy and quantity: published, ours, deviation, and ours' range."""
        rows = []
        for index, case in enumerate(REPRODUCTIONS[self.name]):
            for policy in self.policies(case):
                found = [
                    summarise(policy, self.replay_folder(index, policy, number))
                    for number in self.workloads
                ]
                rows += [_row(case, policy, quantity, found) for quantity in case.published]
        return rows


def _row(
    case: Case, policy: str, quantity: str, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    values = np.array([row[quantity] for row in found])
    published, ours = case.published[quantity], float(values.mean())
    gaps = np.array([row["mean_gap"] for row in found])
    return {
        "case": case.label, "policy": policy, "quantity": quantity, "published": published,
        "ours": rounded(ours, 4), "deviation": f"{ours / published - 1.0:+.0%}",
        "least": rounded(float(values.min()), 4), "greatest": rounded(float(values.max()), 4),
        "workloads": len(found), "mean_gap": float(gaps.mean()),
    }  # fmt: skip


def plot_reproduction(name: str, rows: Sequence[Mapping[str, Any]]) -> Axes:
    """Average completion times: published as an open diamond, ours as a bar with its range."""
    shown = [row for row in rows if row["quantity"] == AVERAGE]
    ax = new_axes(8.0, 1.2 + 0.38 * len(shown))
    for index, row in enumerate(shown):
        exact = row["policy"] == "pollux"
        ax.barh(index, row["ours"], height=0.6, color="#0072B2" if exact else "#9ecae1")
        if row["workloads"] > 1:
            reach = [[row["ours"] - row["least"]], [row["greatest"] - row["ours"]]]
            ax.errorbar(row["ours"], index, xerr=reach, color="black", capsize=3, linewidth=1.0)
        ax.plot(
            row["published"], index, marker="D", color="black", markerfacecolor="white",
            linestyle="none", label="published" if index == 0 else None,
        )  # fmt: skip
    labels = [f"{row['case']}: {row['policy']}" for row in shown]
    ax.set_yticks(range(len(shown)), labels, fontsize="small")
    ax.invert_yaxis()
    ax.set_xlabel("average job completion time (h)")
    ax.set_title(name)
    ax.legend(fontsize="small")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    return ax
