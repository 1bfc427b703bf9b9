"""How much of Figure 8c is due to ties: interference under several rules between equal optima.

Where interference is not avoided, Pollux's objective does not tell placements in which distributed
jobs share nodes from those in which they do not, although the jobs' speeds differ. Which of equal
optima a solver takes therefore matters, and no rule is published. Every case of the figure is
replayed under the rule of the exact solver, with whichever optimum it meets first, and with the
rule in orders of jobs and nodes that are drawn for every round (`solvers/exact/shuffled.py`).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3.2, Figure 8c. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.records import table_of
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.published_cases import AVERAGE, CASES, MAKESPAN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.pollux.published_cases import Case

#: Rules between equal optima, by the name of the policy.
RULES: Mapping[str, str] = {
    "pollux": "stated order",
    "pollux-untied": "first met",
    "pollux-shuffled": "drawn order",
}

#: Seeds of the drawn orders, of which a quick run has the first.
SEEDS = (0, 1, 2)

#: Quantities of the table.
QUANTITIES = (AVERAGE, MAKESPAN)


def _replays(plan: Plan, case: Case) -> dict[tuple[str, int], list[ReplayTask]]:
    """Return the replays of a case by policy and seed, one for every workload."""
    seeds = SEEDS[:1] if plan.quick else SEEDS
    return {
        (policy, seed): case.tasks(replace(plan, seeds=(seed,)), policy)
        for policy in RULES
        for seed in (seeds if policy == "pollux-shuffled" else seeds[:1])
    }


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [
        task for case in CASES["fig8c"] for tasks in _replays(plan, case).values() for task in tasks
    ]


class TieRow(NamedTuple):
    """Quantity of a case under one rule between equal optima.

    Attributes
    ----------
    rule, seed
        The rule, and the seed of its order.
    ours_hours
        Mean over the workloads with its 95 % interval.
    from_stated_percent
        Change from the stated order, paired by workload, with its 95 % interval.
    """

    case: str
    quantity: str
    rule: str
    seed: int
    workloads: int
    ours_hours: Estimate
    from_stated_percent: Estimate


def _rows(plan: Plan) -> list[TieRow]:
    """Return a row for every case, quantity, rule and seed."""
    rows = []
    for case in CASES["fig8c"]:
        replays = _replays(plan, case)
        found = {
            key: [summarise(task.policy, task.folder) for task in tasks]
            for key, tasks in replays.items()
        }
        for quantity in QUANTITIES:
            stated = [one[quantity] for one in found["pollux", SEEDS[0]]]
            for (policy, seed), ones in found.items():
                hours = [one[quantity] for one in ones]
                changes = [100.0 * (a / b - 1.0) for a, b in zip(hours, stated, strict=True)]
                rows.append(
                    TieRow(
                        case.label,
                        quantity,
                        RULES[policy],
                        seed,
                        len(hours),
                        estimate_of(hours),
                        estimate_of(changes),
                    )
                )
    return rows


class TieRange(NamedTuple):
    """Range of a quantity of a case over the rules.

    Attributes
    ----------
    published_hours
        The published value, None where there is none.
    least_hours, greatest_hours
        Least and greatest mean over the workloads under any rule.
    range_percent
        Their difference, in per cent of the mean under the stated order.
    published_within
        Whether the published value lies in that range; None where there is none.
    """

    case: str
    quantity: str
    rules: int
    published_hours: float | None
    stated_hours: float
    least_hours: float
    greatest_hours: float
    range_percent: float
    published_within: bool | None


def ranges(rows: list[TieRow]) -> list[TieRange]:
    """Return the range over the rules of every case and quantity."""
    published = {
        (case.label, name): one for case in CASES["fig8c"] for name, one in case.published.items()
    }
    found = []
    for case, quantity in dict.fromkeys((row.case, row.quantity) for row in rows):
        group = [row for row in rows if (row.case, row.quantity) == (case, quantity)]
        means = [row.ours_hours.mean for row in group]
        stated, least, greatest = means[0], min(means), max(means)
        value = published.get((case, quantity))
        found.append(
            TieRange(
                case,
                quantity,
                len(group),
                value,
                stated,
                least,
                greatest,
                range_percent=rounded(100.0 * (greatest - least) / stated, 3),
                published_within=None if value is None else least <= value <= greatest,
            )
        )
    return found


def plot_ties(rows: list[TieRow]) -> Figure:
    """Draw the average completion time of every case under every rule, and as published."""
    shown = [row for row in rows if row.quantity == AVERAGE]
    cases = list(dict.fromkeys(row.case for row in shown))
    ax = new_axes(7.5, 1.4 + 0.7 * len(cases))
    for index, (rule, seed) in enumerate(dict.fromkeys((row.rule, row.seed) for row in shown)):
        group = [row for row in shown if (row.rule, row.seed) == (rule, seed)]
        kind = list(RULES.values()).index(rule)
        ax.errorbar(
            [row.ours_hours.mean for row in group],
            [cases.index(row.case) + 0.13 * (index - 2) for row in group],
            xerr=[np.nan_to_num(row.ours_hours.half_width) for row in group],
            marker=MARKERS[kind],
            color=COLOURS[kind],
            label=rule if seed == SEEDS[0] else None,
            linestyle="none",
            capsize=2,
            linewidth=0.9,
        )
    ax.plot(
        [case.published[AVERAGE] for case in CASES["fig8c"]],
        [cases.index(case.label) for case in CASES["fig8c"]],
        marker="D",
        color="black",
        markerfacecolor="white",
        linestyle="none",
        label="published",
    )
    ax.set_yticks(range(len(cases)), cases)
    ax.invert_yaxis()
    ax.set_xlabel("average job completion time (h), 95 % intervals over workloads")
    ax.set_title("Figure 8c under several rules between equal optima")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


TIE_RULES = Reproduction(
    "Figure 8c under several rules between equally good allocations",
    _tasks,
    _rows,
    lambda _, rows: plot_ties(rows),
    shown=lambda rows: table_of(ranges(rows)),
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
