"""Replays on a tree: policies that do not know it, with placements by level, and Pollux on it.

The published workloads on 16 nodes of 4 GPUs in islands of 2, racks of 4 and pods of 8 nodes
(`goodalloc.data.topology.standard_tree`). Truth and policies as in
`goodalloc.experiments.topology`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.topology.tree_rounds import standard_tree
from goodalloc.experiments.replay.replay_conditions import TESTBED
from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.topology.tree_replay import TreeReplay
from goodalloc.models.topology.tree_wishes import TreeWishes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows

#: Policies, each with the one that it is compared with: the same without a placing.
BASELINES = {
    "pollux": "pollux",
    "pollux@best_fit": "pollux",
    "pollux@exact": "pollux",
    "optimus": "optimus",
    "optimus@best_fit": "optimus",
    "tiresias": "tiresias",
    "tiresias@best_fit": "tiresias",
}

#: Loads; of a quick run the first.
LOADS = (0.5, 1.0)


class TreeReplayRow(NamedTuple):
    """Summary of a replay on the tree.

    Attributes
    ----------
    load, workload
        The day.
    policy, knows, batch
        Policy with its placing, what it is told, and who chooses the batch sizes.
    average_jct_hours, p99_jct_hours
        Average completion time and its 99th percentile.
    change_percent
        Change of the average against the policy without its placing; 0 of that one.
    restarts_per_job
        Mean number of restarts.
    """

    load: float
    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    p99_jct_hours: float
    change_percent: float
    restarts_per_job: float


#: The tree.
WISHES = TreeWishes(standard_tree(TESTBED.num_nodes))


def tree_replay(plan: Plan, load: float, number: int, policy: str) -> TreeReplay:
    """Return a replay in a folder named for its inputs.

    Parameters
    ----------
    plan
        Options of the study.
    load, number, policy
        The day, and the policy with its placing.
    """
    return TreeReplay(
        plan.folder,
        policy,
        plan.workload(number, load=load),
        traces=plan.traces,
        gaps=False,
        wishes=WISHES,
    ).among(plan.folder)


def loads_of(plan: Plan) -> tuple[float, ...]:
    """Return the loads of the study.

    Parameters
    ----------
    plan
        Options of the study.
    """
    return LOADS[: 1 if plan.quick else None]


def _tasks(plan: Plan) -> list[TreeReplay]:
    return [
        tree_replay(plan, load, number, policy)
        for load in loads_of(plan)
        for number in plan.workloads
        for policy in BASELINES
    ]


def _rows(plan: Plan) -> list[TreeReplayRow]:
    rows = []
    for load in loads_of(plan):
        for number in plan.workloads:
            tasks = {policy: tree_replay(plan, load, number, policy) for policy in BASELINES}
            found = {policy: summarise(policy, task.folder) for policy, task in tasks.items()}
            hours = {policy: float(one["average_jct_hours"]) for policy, one in found.items()}
            rows += [
                TreeReplayRow(
                    load,
                    number,
                    policy,
                    *tasks[policy].terms,
                    average_jct_hours=rounded(hours[policy], 6),
                    p99_jct_hours=rounded(float(found[policy]["p99_jct_hours"]), 6),
                    change_percent=rounded(100.0 * (hours[policy] / hours[baseline] - 1.0), 6),
                    restarts_per_job=rounded(float(found[policy]["restarts_per_job"]), 6),
                )
                for policy, baseline in BASELINES.items()
            ]
    return rows


def _summary(rows: list[TreeReplayRow]) -> Rows:
    """Return means over the workloads, with 95 % intervals of the changes."""
    shown = []
    for load in dict.fromkeys(row.load for row in rows):
        for policy, baseline in BASELINES.items():
            own = [row for row in rows if (row.load, row.policy) == (load, policy)]
            change = estimate_of([row.change_percent for row in own]).text("+.1f")
            shown.append(
                {
                    "load": load,
                    "policy": policy,
                    "knows": own[0].knows,
                    "batch": own[0].batch,
                    "average (h)": estimate_of([r.average_jct_hours for r in own]).text(".2f"),
                    "99th percentile (h)": estimate_of([r.p99_jct_hours for r in own]).text(".1f"),
                    "change (%)": "" if policy == baseline else change,
                    "restarts a job": rounded(float(np.mean([r.restarts_per_job for r in own])), 2),
                }
            )
    return shown


def plot_tree_replays(rows: list[TreeReplayRow]) -> Figure:
    """Draw what knowing the tree changes, a panel a load: means, and a point for each workload."""
    from matplotlib.figure import Figure

    loads = sorted({row.load for row in rows})
    placed = [policy for policy, baseline in BASELINES.items() if policy != baseline]
    figure = Figure(figsize=(4.2 * len(loads) + 1.2, 2.8), layout="constrained")
    panels = figure.subplots(1, len(loads), sharex=True, sharey=True, squeeze=False)[0]
    for ax, load in zip(panels, loads, strict=True):
        for place, policy in enumerate(placed):
            own = [r.change_percent for r in rows if (r.load, r.policy) == (load, policy)]
            found = estimate_of(own)
            ax.plot(own, [place] * len(own), "o", color="0.6", markersize=3)
            ax.errorbar(
                found.mean,
                place,
                xerr=np.nan_to_num(found.half_width),
                marker="s",
                color=COLOURS[0],
                capsize=3,
            )
        ax.axvline(0.0, color="0.3", linewidth=0.8)
        ax.set_title(f"load {load:g}", fontsize="medium")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
    panels[0].set_yticks(range(len(placed)), placed)
    panels[0].set_ylim(len(placed) - 0.5, -0.5)
    figure.supxlabel("average completion time against the policy without the tree (%)")
    return figure


NOTE = """\
NAME@best_fit: the numbers of GPUs of that policy, placed as Kueue does, at the lowest level that
has room. pollux@exact: numbers and nodes decided together, with speedups by level. change: of the
average completion time against the same policy, which does not know the tree; 95 % interval."""

TREE_REPLAYS = Reproduction(
    "Replays on a tree of racks: policies that do not know it, placed by level, decided on it",
    _tasks,
    _rows,
    lambda _, rows: plot_tree_replays(rows),
    shown=_summary,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
