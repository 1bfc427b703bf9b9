"""Pollux's genetic algorithm with the time of the exact solver, as published, and with ten times.

A day is replayed under the genetic algorithm as published, 100 generations a round from the
population of the last round. In every 20th round the same population is also evolved for as many
generations as take the time of the exact solver, and for ten times the published ones; the exact
solver proves how far each decision is from the optimum of that round. (Whole days with ten times
the generations would take ten times as long to replay.)

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.comparisons.judged_policy import JudgedPolicy, verdicts
from goodalloc.experiments.studies.framework.reproduction import EIGHT, Plan, Reproduction
from goodalloc.experiments.studies.pollux.scenario import LARGE, LOADS
from goodalloc.experiments.support.records import digest
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.policies.pollux import PolluxGenetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.pollux.scenario import Scenario
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.policies.policy import Decision, Policy, Round

#: The most contended published load, and four times the cluster with four times the jobs; that of
#: a quick run.
SCENARIOS, QUICK_SCENARIO = (LOADS[-1], LARGE), LOADS[0]

#: Rounds from one judged round to the next.
EVERY = 20

PROBES = "probes.jsonl"

#: Gap in per cent at which smaller ones are drawn.
LEAST_DRAWN = 1e-3

#: Factor on the published generations.
TIMES = 10


class Probe(NamedTuple):
    """One judged round; gaps are relative to the proved bound, in per cent.

    Attributes
    ----------
    time
        Seconds from the start of the day.
    jobs
        Active jobs.
    exact_seconds, published_seconds
        Time of the proof, and of the published generations.
    generations
        Generations in the time of the proof, at least one.
    published_gap_percent, same_time_gap_percent, ten_times_gap_percent
        Gap of the decision with each budget.
    """

    time: int
    jobs: int
    exact_seconds: float
    published_seconds: float
    generations: int
    published_gap_percent: float
    same_time_gap_percent: float
    ten_times_gap_percent: float


def gap_percent(instance: Instance, decision: Decision, bound: float) -> float:
    """Return the relative gap from a decision's fitness to a bound, in per cent."""
    placements = [tuple(sorted(decision.placements.get(job.name, ()))) for job in instance.jobs]
    allocation = Allocation.from_placements(placements, instance.cluster.num_nodes)
    return rounded(100.0 * max(1.0 - fitness(instance, allocation) / bound, 0.0), 6)


def judge_budgets(before: Policy, round_: Round, decision: Decision) -> dict[str, Any]:
    """Return the fields of `Probe` for a decision of the genetic algorithm.

    Parameters
    ----------
    before
        The algorithm before the decision, whose population is evolved with the other budgets.
    round_, decision
        The round, and what was decided with the published budget.
    """
    assert isinstance(before, PolluxGenetic)
    instance = round_.instance(before.rules)
    begin = time.perf_counter()
    proof = solve(instance, "highs", break_ties=False)
    exact = time.perf_counter() - begin
    published = before.generations
    begin = time.perf_counter()
    _evolved(before, round_, published)  # once more: the program is compiled now
    seconds = time.perf_counter() - begin
    same = max(int(published * exact / seconds), 1)
    others = (_evolved(before, round_, budget) for budget in (same, TIMES * published))
    same_gap, ten_gap = (gap_percent(instance, one, proof.bound) for one in others)
    return Probe(
        time=round_.time,
        jobs=len(round_.jobs),
        exact_seconds=rounded(exact, 4),
        published_seconds=rounded(seconds, 4),
        generations=same,
        published_gap_percent=gap_percent(instance, decision, proof.bound),
        same_time_gap_percent=same_gap,
        ten_times_gap_percent=ten_gap,
    )._asdict()


def _evolved(policy: PolluxGenetic, round_: Round, generations: int) -> Decision:
    """Return the decision after so many generations; `policy` keeps its population."""
    other = copy.copy(policy)
    other.generations = generations
    return other.decide(round_)


@dataclass(frozen=True)
class BudgetTask(ReplayTask):
    """Replay of one day with judged rounds; see `ReplayTask`.

    Parameters
    ----------
    every
        Rounds from one judged round to the next.
    """

    every: int = EVERY

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on."""
        return super().description() | {"format": "goodalloc-budgets", "every": self.every}

    def made_policy(self) -> Policy:
        """Return the genetic algorithm, whose decisions are judged."""
        policy = super().made_policy()
        return JudgedPolicy(policy, judge_budgets, self.folder / PROBES, self.every)

    def probes(self) -> list[Probe]:
        """Return the judged rounds of a day that was replayed."""
        return [Probe(**found) for found in verdicts(self.folder / PROBES)]


def _task(plan: Plan, scenario: Scenario, number: int, seed: int) -> BudgetTask:
    task = BudgetTask(
        plan.folder,
        "pollux-genetic",
        scenario.workload(plan, number),
        scenario.setting,
        plan.traces,
        seed=seed,
        gaps=False,
        every=EVERY,
    )
    return replace(task, folder=plan.folder / "replays" / f"budgets-{digest(task.description())}")


def _cases(plan: Plan) -> list[tuple[Scenario, int, int]]:
    """Return scenario, workload and seed of every task."""
    return [
        (scenario, number, seed)
        for scenario in ((QUICK_SCENARIO,) if plan.quick else SCENARIOS)
        for number in plan.workloads
        for seed in plan.seeds
    ]


class BudgetRow(NamedTuple):
    """Judged round (see `Probe`), with its day."""

    scenario: str
    workload: int
    seed: int
    time: int
    jobs: int
    exact_seconds: float
    published_seconds: float
    generations: int
    published_gap_percent: float
    same_time_gap_percent: float
    ten_times_gap_percent: float


def _rows(plan: Plan) -> list[BudgetRow]:
    """Return a row for every judged round."""
    return [
        BudgetRow(scenario.label, number, seed, *probe)
        for scenario, number, seed in _cases(plan)
        for probe in _task(plan, scenario, number, seed).probes()
    ]


#: Budgets as people read them, with the columns of their gaps.
BUDGETS = {
    "time of the exact solver": "same_time_gap_percent",
    "published": "published_gap_percent",
    "ten times the published": "ten_times_gap_percent",
}


class BudgetSummary(NamedTuple):
    """Gaps with one budget under one scenario, means over the workloads with 95 % intervals.

    Attributes
    ----------
    gap_percent
        Mean gap of the judged rounds.
    worst_percent
        Largest gap.
    seconds
        Median seconds of a decision; estimated from the published one for the largest budget.
    exact_seconds
        Median seconds of a proof.
    """

    scenario: str
    budget: str
    workloads: int
    rounds: int
    gap_percent: Estimate
    worst_percent: float
    generations: float
    seconds: float
    exact_seconds: float


def summarise_budgets(rows: list[BudgetRow]) -> list[BudgetSummary]:
    """Return a line for every scenario and budget."""
    lines = []
    for scenario in dict.fromkeys(row.scenario for row in rows):
        group = [row for row in rows if row.scenario == scenario]
        numbers = dict.fromkeys(row.workload for row in group)
        published = float(np.median([row.published_seconds for row in group]))
        exact = float(np.median([row.exact_seconds for row in group]))
        same = float(np.median([row.generations for row in group]))
        usual = PolluxGenetic().generations
        for budget, column in BUDGETS.items():
            generations = {"published": usual, "time of the exact solver": same}.get(
                budget, TIMES * usual
            )
            gaps = {
                number: [getattr(row, column) for row in group if row.workload == number]
                for number in numbers
            }
            lines.append(
                BudgetSummary(
                    scenario=scenario,
                    budget=budget,
                    workloads=len(numbers),
                    rounds=len(group),
                    gap_percent=estimate_of([float(np.mean(found)) for found in gaps.values()]),
                    worst_percent=max(gap for found in gaps.values() for gap in found),
                    generations=generations,
                    seconds=rounded(published * generations / usual, 3),
                    exact_seconds=rounded(exact, 3),
                )
            )
    return lines


def _shown(rows: list[BudgetRow]) -> Rows:
    """Return the table that people read."""
    return [
        {
            "scenario": line.scenario,
            "budget": line.budget,
            "workloads": line.workloads,
            "rounds": line.rounds,
            "mean gap (%)": line.gap_percent.text(".3f"),
            "worst (%)": f"{line.worst_percent:.1f}",
            "generations": f"{line.generations:.0f}",
            "seconds": f"{line.seconds:.2f}",
            "exact seconds": f"{line.exact_seconds:.2f}",
        }
        for line in summarise_budgets(rows)
    ]


def _plot(_: Plan, rows: list[BudgetRow]) -> Figure:
    """Draw the share of the judged rounds whose gap is above a value, by scenario and budget."""
    ax = new_axes(7.5, 4.6)
    styles = dict(zip(dict.fromkeys(row.scenario for row in rows), ("-", "--"), strict=False))
    for scenario, style in styles.items():
        for index, (budget, column) in enumerate(BUDGETS.items()):
            gaps = np.sort([getattr(row, column) for row in rows if row.scenario == scenario])
            ax.plot(
                np.maximum(gaps, LEAST_DRAWN),
                100.0 * (1.0 - np.arange(gaps.size) / gaps.size),
                style,
                color=COLOURS[index],
                marker=MARKERS[index],
                markersize=3,
                linewidth=1.2,
                label=f"{budget}, {scenario}",
            )
    ax.set_xscale("log")
    ax.set_xlim(left=LEAST_DRAWN)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel(f"gap to the proved optimum of the round (%), below {LEAST_DRAWN:g} drawn there")
    ax.set_ylabel("judged rounds with at least this gap (%)")
    ax.grid(color="0.9")
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize="small")
    return figure_of(ax)


GENETIC_BUDGETS = Reproduction(
    "Pollux's genetic algorithm with the time of the exact solver, as published, and ten times",
    lambda plan: [_task(plan, *case) for case in _cases(plan)],
    _rows,
    _plot,
    shown=_shown,
    ignores=("pollux", "gaps"),
    workloads=EIGHT,
    quick_workloads=Plan.workloads,
)
