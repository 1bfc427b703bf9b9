r"""Pollux's advantage over a policy: shares of the batch sizes, of knowledge, and of scheduling.

A policy and Pollux as published differ in up to three factors: who chooses the batch sizes, what
they are told of jobs, and how they schedule. Replays with every combination of the factors
(`terms.py`) make a game whose players are the factors: the value :math:`v(S)` of a set is the
logarithm of the average completion time of the policy over that with the factors in *S* as under
Pollux. The share of a factor is its Shapley value, the mean over all orders of what switching it
changes; the shares add up to the logarithm of the whole advantage.

References
----------
Shapley, "A Value for n-Person Games", Contributions to the Theory of Games II, 1953.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.replay.replay_report import summarise
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.terms import POLLUX, Cell, replays
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.models.support.array_types import Floats

#: Policies as published, by what they are told.
BASELINES: Mapping[str, str] = {
    "tiresias": "nothing",
    "srtf": "true remaining",
    "optimus": "true remaining",
    "themis": "true remaining",
    "hesrpt": "true remaining",
}

#: Factors in which a policy and Pollux differ; of those that are told nothing two.
FACTORS = ("batch size", "scheduling", "knowledge")

#: What Pollux is told where a policy is told the truth.
TOLD_TRUTH = "true speed"


class AdvantageRow(NamedTuple):
    """Share of a factor in Pollux's advantage over a policy.

    Attributes
    ----------
    policy, knows
        The policy, and what it is told as published.
    factor
        One of `FACTORS`, or ``"all"``.
    times_shorter
        Factor by which it shortens the average completion time; those of all factors multiply to
        that of ``"all"``, geometric means over the workloads with 95 % intervals.
    share_percent
        Its part of the logarithm of the whole advantage.
    """

    policy: str
    knows: str
    factor: str
    workloads: int
    times_shorter: Estimate
    share_percent: float


def shapley_values(
    players: tuple[str, ...], value: Callable[[frozenset[str]], Floats]
) -> dict[str, Floats]:
    """Return the mean over all orders of what each player adds to those before it.

    Parameters
    ----------
    players
        The players.
    value
        Value of a set of players, which may be an array.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.experiments.studies.comparisons.advantage import shapley_values
    >>> worth = {frozenset(): 0.0, frozenset("a"): 1.0, frozenset("b"): 3.0, frozenset("ab"): 6.0}
    >>> shapley_values(("a", "b"), lambda found: np.array(worth[found]))
    {'a': np.float64(2.0), 'b': np.float64(4.0)}
    """
    orders = list(permutations(players))
    found = {}
    for player in players:
        added = [
            value(frozenset(order[: order.index(player) + 1]))
            - value(frozenset(order[: order.index(player)]))
            for order in orders
        ]
        found[player] = np.mean(added, axis=0)
    return found


def _cell(policy: str, switched: frozenset[str]) -> Cell:
    """Return the cell of a policy with some factors as under Pollux."""
    told = BASELINES[policy]
    scheduling = "scheduling" in switched
    batch = "adaptive" if "batch size" in switched else "requested"
    if told == "nothing":
        return Cell("pollux" if scheduling else policy, "measured" if scheduling else told, batch)
    truth = TOLD_TRUTH if scheduling else told
    knows = "measured" if "knowledge" in switched else truth
    return Cell("pollux" if scheduling else policy, knows, batch)


def _factors(policy: str) -> tuple[str, ...]:
    return FACTORS[:2] if BASELINES[policy] == "nothing" else FACTORS


def _cells(plan: Plan) -> dict[Cell, list[ReplayTask]]:
    """Return the replays of the cells of all games; in a quick run, of those that it has."""
    there = replays(plan)
    wanted = {
        _cell(policy, frozenset(order[:count]))
        for policy in _compared(plan)
        for order in permutations(_factors(policy))
        for count in range(len(order) + 1)
    }
    return {cell: tasks for cell, tasks in there.items() if cell in wanted}


def _compared(plan: Plan) -> list[str]:
    """Return the policies that the plan compares."""
    there = {cell.policy for cell in replays(plan)}
    return [policy for policy in BASELINES if policy in there]


def _tasks(plan: Plan) -> list[ReplayTask]:
    return [task for tasks in _cells(plan).values() for task in tasks]


def _rows(plan: Plan) -> list[AdvantageRow]:
    """Return the shares of all factors in the advantage over each policy."""
    logarithm = {
        cell: np.log([summarise("", task.folder)["average_jct_hours"] for task in tasks])
        for cell, tasks in _cells(plan).items()
    }
    rows = []
    for policy in _compared(plan):
        start = logarithm[_cell(policy, frozenset())]

        def value(found: frozenset[str], policy: str = policy, start: Floats = start) -> Floats:
            return np.asarray(start - logarithm[_cell(policy, found)])

        shares = shapley_values(_factors(policy), value)
        shares["all"] = start - logarithm[POLLUX]
        whole = float(shares["all"].mean())
        rows += [
            AdvantageRow(
                policy,
                BASELINES[policy],
                factor,
                len(share),
                _geometric(share),
                rounded(100.0 * float(share.mean()) / whole, 4),
            )
            for factor, share in shares.items()
        ]
    return rows


def _geometric(logarithms: Floats) -> Estimate:
    """Return the geometric mean, with half the width of its interval to the first order."""
    mean, half_width = estimate_of(logarithms.tolist())
    return estimate_of([float(np.exp(mean))])._replace(half_width=float(np.exp(mean)) * half_width)


def shortened(rows: list[AdvantageRow]) -> Rows:
    """Return a line for every policy, with the factors side by side."""
    shown = []
    for policy in dict.fromkeys(row.policy for row in rows):
        own = [row for row in rows if row.policy == policy]
        line: dict[str, object] = {"policy": policy, "knows": own[0].knows}
        for factor in (*FACTORS, "all"):
            found = [row for row in own if row.factor == factor]
            line[f"{factor}, times"] = found[0].times_shorter.text(".2f") if found else ""
            if factor != "all":
                line[f"{factor} (%)"] = f"{found[0].share_percent:.0f}" if found else ""
        shown.append(line)
    return shown


def plot_advantage(rows: list[AdvantageRow]) -> Figure:
    """Draw the factors by which each policy's completion times are longer than Pollux's."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    ax = new_axes(7.5, 1.6 + 0.5 * len(policies))
    for index, factor in enumerate((*FACTORS, "all")):
        own = [row for row in rows if row.factor == factor]
        ax.errorbar(
            [row.times_shorter.mean for row in own],
            [policies.index(row.policy) + 0.16 * (index - 1.5) for row in own],
            xerr=np.nan_to_num([row.times_shorter.half_width for row in own]),
            marker="D" if factor == "all" else "o",
            color="black" if factor == "all" else COLOURS[index],
            label=factor,
            linestyle="none",
            capsize=3,
        )
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(policies)), policies)
    ax.invert_yaxis()
    ax.set_xlabel("times shorter under Pollux, by factor; 95 % intervals over workloads")
    ax.set_title("What Pollux's advantage over a policy consists of", fontsize="medium")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


NOTE = """\
times: factor by which the average completion time is shorter; those of the factors multiply to
that of all. per cent: parts of its logarithm (Shapley values). A policy that is told true remaining
work has an advantage over Pollux there: its factor is below 1."""

ADVANTAGE = Reproduction(
    "Shares of batch sizes, knowledge and scheduling in Pollux's advantage",
    _tasks,
    _rows,
    lambda _, rows: plot_advantage(rows),
    shown=shortened,
    ignores=("pollux", "seeds", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
    note=NOTE,
)
