"""What each part of the exact road is worth: the same rounds with more and more of it.

The roads are in `goodalloc.solvers.exact.ablated_roads`. Every allocation is checked, and a
round counts as solved by the bound of the library (`goodalloc.experiments.library.protocol`). Of
each class of the library as many rounds are taken as there are, up to a number: hard ones evenly by
the seconds that their best known value took, of at least `LEAST_SECONDS`, as greedy algorithms make
others hard; the rest evenly by size. Left out are rounds on trees and those in which jobs share
GPUs, whose exact roads are others.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.library.catalogue import find_round, library_rounds, load_round
from goodalloc.data.library.library_round import CATEGORIES
from goodalloc.experiments.library.protocol import PENALTY, SECONDS_SHIFT, judge
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.statistics import shifted_geometric_mean
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.exact.ablated_roads import ROADS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report

#: Rounds of each class, without modes and with modes, at most.
PER_CLASS = 12

#: Least seconds in which the best known value of a hard round was found.
LEAST_SECONDS = 0.1

#: Rounds of a quick run.
QUICK = ("even-disturbed", "awkward-30x8-0")

#: Seconds of every run.
SECONDS = 10.0


class AblationRow(NamedTuple):
    """One road on one round.

    Attributes
    ----------
    round, category, kind
        The round, its class, "plain" or "modes".
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
    category: str
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
            "version": 2,
            "library": library_version(),
            "round": self.round,
            "sha256": find_round(self.round).sha256,
            "road": self.road,
            "seconds": SECONDS,
        }

    def work(self, report: Report) -> dict[str, Any]:
        """Decide the round."""
        line = find_round(self.round)
        result = ROADS[self.road].run(load_round(self.round), SECONDS, line.bound)
        seconds, value = result.solve_seconds, result.fitness
        judged = judge(line, self.road, SECONDS, seconds, value)
        return {
            "solver_seconds": rounded(seconds, 4),
            "fitness": None if np.isnan(value) else value,
            "loss_percent": rounded(100.0 * judged.loss, 6),
            "solved": int(judged.solved),
        }


def sampled_rounds() -> tuple[LibraryRound, ...]:
    """Return the rounds of the study: of a class and kind evenly by size, or by their seconds."""
    cells: defaultdict[tuple[int, str], list[LibraryRound]] = defaultdict(list)
    for one in library_rounds().values():
        quick = one.category == "hard" and not one.seconds >= LEAST_SECONDS
        if not (quick or one.on_tree or "shares" in one.features):
            cells[-CATEGORIES.index(one.category), _kind(one)].append(one)
    found: list[LibraryRound] = []
    for _, cell in sorted(cells.items()):
        cell.sort(
            key=lambda one: (
                one.seconds if one.category == "hard" else one.jobs * one.nodes,
                one.name,
            )
        )
        places = np.linspace(0, len(cell) - 1, min(PER_CLASS, len(cell)))
        found += [cell[place] for place in np.rint(places).astype(int).tolist()]
    return tuple(found)


def _kind(one: LibraryRound) -> str:
    return "modes" if "modes" in one.features else "plain"


def _ways(plan: Plan) -> list[tuple[LibraryRound, str]]:
    """Return round and road of every run."""
    rounds = tuple(map(find_round, QUICK)) if plan.quick else sampled_rounds()
    return [
        (one, name)
        for one in rounds
        for name, road in ROADS.items()
        if (road.plain if _kind(one) == "plain" else road.modes)
    ]


def _task(plan: Plan, name: str, road: str) -> AblationTask:
    return AblationTask(plan.folder, name, road).among(plan.folder, "ablation")


def _rows(plan: Plan) -> list[AblationRow]:
    return [
        AblationRow(
            one.name, one.category, _kind(one), road, **_task(plan, one.name, road).record()
        )
        for one, road in _ways(plan)
    ]


def summarise_ablation(rows: list[AblationRow]) -> Rows:
    """Return a row for each class and kind of rounds and each road."""
    shown: Rows = []
    for category, kind, road in dict.fromkeys((row.category, row.kind, row.road) for row in rows):
        group = [
            row for row in rows if (row.category, row.kind, row.road) == (category, kind, road)
        ]
        seconds = [row.solver_seconds if row.solved else PENALTY * SECONDS for row in group]
        shown.append(
            {
                "class": category,
                "kind": kind,
                "road": road,
                "adds": (kind == "modes" and ROADS[road].modes_text) or ROADS[road].text,
                "rounds": len(group),
                "solved": sum(row.solved for row in group),
                "seconds": rounded(shifted_geometric_mean(seconds, SECONDS_SHIFT), 4),
                "worst_loss_percent": rounded(max(row.loss_percent for row in group), 4),
            }
        )
    return shown


def plot_ablation(rows: list[AblationRow]) -> Figure:
    """Draw the mean seconds of every road, a line for each class and kind of rounds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    summary = summarise_ablation(rows)
    kinds = dict.fromkeys(row.kind for row in rows)
    for ax, kind in zip(
        np.atleast_1d(figure.subplots(1, len(kinds), sharey=True)), kinds, strict=True
    ):
        roads = [
            road for road in ROADS if any((r["kind"], r["road"]) == (kind, road) for r in summary)
        ]
        classes = [
            one
            for one in CATEGORIES
            if any((r["kind"], r["class"]) == (kind, one) for r in summary)
        ]
        for category in classes:
            index = CATEGORIES.index(category)
            own = {r["road"]: r for r in summary if (r["kind"], r["class"]) == (kind, category)}
            ax.plot(
                range(len(roads)),
                [own[road]["seconds"] for road in roads],
                marker=MARKERS[index],
                color=COLOURS[index],
                label=f"{category}, {next(iter(own.values()))['rounds']} rounds",
            )
            for place, road in enumerate(roads):
                if own[road]["solved"] < own[road]["rounds"]:
                    ax.plot(
                        place,
                        own[road]["seconds"],
                        MARKERS[index],
                        color=COLOURS[index],
                        markerfacecolor="white",
                    )
        ax.set_xticks(range(len(roads)), roads, rotation=25, ha="right")
        ax.set_title("without modes" if kind == "plain" else "with modes", fontsize="medium")
        ax.set_yscale("log")
        ax.legend(frameon=False, fontsize="small")
        open_axes(ax)
    figure.supylabel("seconds, shifted geometric mean (hollow: not all solved)", fontsize="medium")
    return figure


ABLATION = Reproduction(
    "What each part of the exact road is worth, on rounds of the library",
    lambda plan: [_task(plan, one.name, road) for one, road in _ways(plan)],
    _rows,
    lambda _, rows: plot_ablation(rows),
    shown=summarise_ablation,
    ignores=("pollux", "seeds", "artifact", "gaps", "workloads"),
    times=True,
)
