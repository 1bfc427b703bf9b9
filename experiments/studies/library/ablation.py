"""What each part of the exact road is worth: the same rounds with more and more of it.

The roads are in `goodalloc.experiments.library.ablated_roads`. Every allocation is checked, and a
round counts as solved by the bound of the library (`goodalloc.experiments.library.protocol`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.library.catalogue import find_round, load_round
from goodalloc.experiments.library.ablated_roads import ROADS
from goodalloc.experiments.library.protocol import PENALTY, SECONDS_SHIFT, judge
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.statistics import shifted_geometric_mean
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Rounds without modes, and with modes.
PLAIN = (
    "even-disturbed",
    "mixed-nodes",
    "over-disturbed",
    "medium-disturbed",
    "pollux-60x10-eight-gpus-running-1",
    "pollux-80x16-power-1-1",
    "pollux-160x64-running-1",
    "pollux-500x128-disturbed-1",
    "philly-43x8-tiresias-3",
)
MODES = (
    "awkward-30x8-0",
    "awkward-40x16-0",
    "awkward-40x16-1",
    "sia-60x11-running-1",
    "synergy-32x4-one-gpu-1",
    "synergy-64x8-several-gpus-2",
    "pollux-30x6-cores-1",
    "arena-60x50-1",
)

#: Rounds of a quick run.
QUICK = ("even-disturbed", "awkward-30x8-0")

#: Seconds of every run.
SECONDS = 10.0


class AblationRow(NamedTuple):
    """One road on one round.

    Attributes
    ----------
    round, kind
        The round, "plain" or "modes".
    road
        Key of `ROADS`.
    solver_seconds
        Seconds.
    fitness
        Recomputed; None without an allocation.
    loss_percent
        How far it is below the best known value.
    solved
        1 if solved to proven optimality, by the library's bound.
    """

    round: str
    kind: str
    road: str
    solver_seconds: float
    fitness: float | None
    loss_percent: float
    solved: int


@dataclass(frozen=True)
class AblationTask(RecordedTask):
    """One run of a road.

    Parameters
    ----------
    round
        Name of the round.
    road
        Key of `ROADS`.
    """

    round: str
    road: str

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-ablation",
            "version": 1,
            "library": library_version(),
            "round": self.round,
            "sha256": find_round(self.round).sha256,
            "road": self.road,
            "seconds": SECONDS,
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Decide the round."""
        instance, line = load_round(self.round), find_round(self.round)
        mode_utilities(instance)
        road = ROADS[self.road]
        result = solve(
            instance,
            lambda instance, *, stop: road.solve(instance, stop),
            stop=Stop(seconds=SECONDS),
            bound=line.bound,
        )
        seconds, value = result.solve_seconds, result.fitness
        judged = judge(line, self.road, SECONDS, seconds, value)
        return {
            "solver_seconds": rounded(seconds, 4),
            "fitness": None if np.isnan(value) else value,
            "loss_percent": rounded(100.0 * judged.loss, 6),
            "solved": int(judged.solved),
        }


def _ways(plan: Plan) -> list[tuple[str, str, str]]:
    """Return round, kind and road of every run."""
    ways = []
    for name in QUICK if plan.quick else (*PLAIN, *MODES):
        kind = "modes" if "modes" in find_round(name).features else "plain"
        for road, found in ROADS.items():
            if found.plain if kind == "plain" else found.modes:
                ways.append((name, kind, road))
    return ways


def _task(plan: Plan, name: str, road: str) -> AblationTask:
    return AblationTask(plan.folder, name, road).among(plan.folder, "ablation")


def _rows(plan: Plan) -> list[AblationRow]:
    return [
        AblationRow(name, kind, road, **_task(plan, name, road).record())
        for name, kind, road in _ways(plan)
    ]


def summarise_ablation(rows: list[AblationRow]) -> Rows:
    """Return a row for each kind of round and road."""
    shown = []
    for kind, road in dict.fromkeys((row.kind, row.road) for row in rows):
        group = [row for row in rows if (row.kind, row.road) == (kind, road)]
        seconds = [row.solver_seconds if row.solved else PENALTY * SECONDS for row in group]
        shown.append(
            {
                "kind": kind,
                "road": road,
                "adds": ROADS[road].text,
                "rounds": len(group),
                "solved": sum(row.solved for row in group),
                "seconds": rounded(shifted_geometric_mean(seconds, SECONDS_SHIFT), 4),
                "worst_loss_percent": rounded(max(row.loss_percent for row in group), 4),
            }
        )
    return shown


def plot_ablation(rows: list[AblationRow]) -> Figure:
    """Draw the seconds of every road on every round; hollow marks are not solved."""
    names = list(dict.fromkeys(row.round for row in rows))
    ax = new_axes(10.0, 5.2)
    for index, road in enumerate(ROADS):
        mine = [row for row in rows if row.road == road]
        ax.scatter(
            [names.index(row.round) + 0.1 * (index - 3) for row in mine],
            [max(row.solver_seconds, 1e-3) for row in mine],
            marker="osD^vPX"[index],
            edgecolors=COLOURS[index],
            facecolors=[COLOURS[index] if row.solved else "none" for row in mine],
            label=road,
        )
    ax.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize="small")
    ax.set_yscale("log")
    ax.set_ylabel("seconds (hollow: not solved)")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure_of(ax)


ABLATION = Reproduction(
    "What each part of the exact road is worth, on rounds of the library",
    lambda plan: [_task(plan, name, road) for name, _, road in _ways(plan)],
    _rows,
    lambda _, rows: plot_ablation(rows),
    shown=summarise_ablation,
    ignores=("pollux", "seeds", "artifact", "gaps", "workloads"),
    times=True,
)
