"""Cost of Sia's restrictions per round: shapes, rounded coefficients, placement afterwards.

Sia decides types and numbers of GPUs exactly, but only among a few shapes, with coefficients
rounded to two decimals, and finds nodes afterwards. The study lifts one after the other: first the
rounding, then the restriction to shapes, and last the separate placement, with nodes inside the
program (`highs`), whose proven bound is the reference of all. The rounds are drawn on scaled copies
of Sia's cluster of three types, or arise in replays of its policy
(`experiments/studies/sia_and_synergy/sia_replay.py`).

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
    SOSP 2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import dump
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.rounds.typed import generate_typed, sia_cluster
from goodalloc.experiments.replay.replayed_rounds import replayed_rounds
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.range_plot import plot_ranges
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.sia_and_synergy.sia_replay import sia_setting, sia_workload
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.objective import mode_utilities
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.bounds import Bound, believed_bound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.sia import sia

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.rounds.typed import TypedState
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.round.instance import Instance

#: Jobs, and copies of Sia's cluster of 64 GPUs.
SIZES = ((40, 1), (160, 8), (500, 16), (1000, 32))
STATES: tuple[TypedState, ...] = ("cold", "running")
SEEDS = range(5)

#: Gap and time limit in seconds of the program with nodes inside.
GAP, SECONDS = 1e-4, 30.0

#: Options of the solver `sia` by the name of the column.
ROADS: Mapping[str, Mapping[str, Any]] = {
    "published": {},
    "unrounded": {"decimals": None},
    "every_count": {"shapes": "any", "decimals": None},
}


#: Rounds from one that is measured to the next, of those with at least `LEAST_JOBS` jobs.
EVERY, LEAST_JOBS = 5, 5

#: Name of the file of a replay's rows.
ROUNDS = "losses.json"


class RoundRow(NamedTuple):
    """Fitness of every road on one round, and the proven bound."""

    jobs: int
    gpus: int
    state: str
    seed: int
    published: float
    unrounded: float
    every_count: float
    placed: float
    bound: float
    bound_source: str
    evidence: str
    status: str
    placed_seconds: float

    def fitness(self, road: str) -> float:
        """Return the fitness in the column of a road."""
        return float(getattr(self, road))


def drawn_row(jobs: int, scale: int, state: TypedState, seed: int) -> RoundRow:
    """Return `round_row` of a drawn round.

    Parameters
    ----------
    jobs, scale, state, seed
        Jobs, times Sia's cluster, and the arguments of `generate_typed`.
    """
    instance = generate_typed(seed, jobs, cluster=sia_cluster(scale), state=state)
    return round_row(instance, state, seed)


def round_row(instance: Instance, state: str, seed: int) -> RoundRow:
    """Return the fitness of every road on one round, and the proven bound.

    Parameters
    ----------
    instance
        Instance of the round.
    state, seed
        State and seed in the row.
    """
    mode_utilities(instance)  # kept with the instance, so that no solver's time includes it
    placed = solve(instance, "highs", stop=Stop(seconds=SECONDS, gap=GAP))
    roads = {name: solve(instance, "sia", **options) for name, options in ROADS.items()}
    best = max((r.fitness for r in (placed, *roads.values()) if r.allocation), default=math.nan)
    bound = believed_bound(instance, [Bound.of(placed)], best)
    return RoundRow(
        jobs=instance.num_jobs,
        gpus=instance.cluster.num_gpus,
        state=state,
        seed=seed,
        **{name: rounded(result.fitness, 8) for name, result in roads.items()},
        placed=rounded(placed.fitness, 8),
        bound=rounded(bound.value, 8),
        bound_source=bound.source,
        evidence=str(bound.evidence),
        status=str(placed.status),
        placed_seconds=rounded(placed.solve_seconds, 4),
    )


@dataclass(frozen=True)
class ReplayedLosses:
    """Task that replays Sia and measures its rounds, done as a whole or not at all.

    Parameters
    ----------
    folder
        Folder of the rows.
    workload
        Submitted jobs.
    traces
        Folder of the measurements that are the truth; None for the shipped profiles.
    number
        Number of the workload.
    """

    folder: Path
    workload: tuple[Submission, ...]
    traces: str | None
    number: int

    def description(self) -> dict[str, Any]:
        """Return all inputs that the rows depend on."""
        return {
            "format": "goodalloc-sia-losses",
            "version": 1,
            "library": library_version(),
            "traces": traces_digest(self.traces),
            "every": EVERY,
            "least_jobs": LEAST_JOBS,
            "gap": GAP,
            "seconds": SECONDS,
            "roads": {name: dict(o) for name, o in ROADS.items()},
            "workload": [[job.name, job.time, job.application] for job in self.workload],
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Replay and measure, unless the rows exist."""
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if (self.folder / ROUNDS).exists():
            return
        rows: list[RoundRow] = []
        for done, instance in replayed_rounds(
            self.workload,
            applications_of(self.traces),
            sia(Stop()),
            sia_setting(),
            every=EVERY,
            least_jobs=LEAST_JOBS,
        ):
            rows.append(round_row(instance, "replayed", self.number))
            report(done)
        write_atomically(self.folder / ROUNDS, dump([row._asdict() for row in rows]) + "\n")


def _tasks(plan: Plan) -> list[ReplayedLosses]:
    """Return a replay for every workload."""
    tasks = []
    for number in plan.workloads:
        task = ReplayedLosses(plan.folder, sia_workload(plan, number), plan.traces, number)
        name = f"losses-{digest(task.description())}"
        tasks.append(replace(task, folder=plan.folder / "replays" / name))
    return tasks


def _rows(plan: Plan) -> list[RoundRow]:
    """Return a row for every round."""
    drawn = [
        drawn_row(jobs, scale, state, seed)
        for jobs, scale in SIZES
        for state in STATES
        for seed in SEEDS
    ]
    for task in _tasks(plan):
        stored = json.loads((task.folder / ROUNDS).read_text(encoding="utf-8"))
        drawn += [RoundRow(**row) for row in stored]
    return drawn


def loss(row: RoundRow, road: str) -> float:
    """Return the distance of a road below the bound, in per cent of fitness."""
    return 100.0 * (1.0 - row.fitness(road) / row.bound)


def summarise_rounds(rows: list[RoundRow]) -> Rows:
    """Return a row for every size, and for the replays: mean and worst losses against the bound."""
    shown = []
    for size in dict.fromkeys(map(_size, rows)):
        group = [row for row in rows if _size(row) == size]
        shown.append(
            {
                "jobs": size[0],
                "gpus": size[1],
                **{
                    f"{road}_below_%": rounded(
                        float(np.mean([loss(row, road) for row in group])), 3
                    )
                    for road in (*ROADS, "placed")
                },
                "worst_published_%": rounded(max(loss(row, "published") for row in group), 3),
                "proved": f"{sum(row.status == 'optimal' for row in group)}/{len(group)}",
                "median_seconds": rounded(float(np.median([r.placed_seconds for r in group])), 3),
                "worst_seconds": max(row.placed_seconds for row in group),
            }
        )
    return shown


def _size(row: RoundRow) -> tuple[object, int]:
    """Return jobs and GPUs; rounds of replays are of one size."""
    return "replayed" if row.state == "replayed" else row.jobs, row.gpus


#: Labels of the curves by column.
LINES = {
    "published": "Sia as published",
    "unrounded": "coefficients not rounded",
    "every_count": "… and every number of GPUs",
    "placed": "… and nodes inside the program",
}


def plot_restrictions(rows: list[RoundRow]) -> Figure:
    """Draw losses against the GPUs, from the least to the greatest, and those of replays."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    ax, replayed = figure.subplots(1, 2)
    drawn = [row for row in rows if row.state != "replayed"]
    gpus = list(dict.fromkeys(row.gpus for row in drawn))
    losses = {
        label: {size: [loss(row, road) for row in drawn if row.gpus == size] for size in gpus}
        for road, label in LINES.items()
    }
    plot_ranges(ax, losses)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("GPUs of three types")
    ax.set_ylabel("fitness below the proven bound (%)")
    ax.set_title("drawn rounds", fontsize="medium")
    rounds = [row for row in rows if row.state == "replayed"]
    for index, road in enumerate(LINES):
        values = np.sort([loss(row, road) for row in rounds])
        share = 100.0 * np.arange(1, values.size + 1) / max(values.size, 1)
        replayed.plot(values, share, color=COLOURS[index], drawstyle="steps-post")
    replayed.set_xscale("symlog", linthresh=0.01)
    replayed.set_xlim(left=-0.001)
    replayed.xaxis.set_major_formatter("{x:g}")
    replayed.set_xlabel("fitness below the proven bound (%)")
    replayed.set_ylabel("rounds with at most that loss (%)")
    replayed.set_title("rounds of replays", fontsize="medium")
    replayed.grid(color="0.9")
    figure.legend(
        *ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    return figure


RESTRICTIONS = Reproduction(
    "What Sia's shapes, rounding and later placement cost a round",
    _tasks,
    _rows,
    lambda _, rows: plot_restrictions(rows),
    shown=summarise_rounds,
    ignores=("pollux", "seeds", "gaps"),
)
