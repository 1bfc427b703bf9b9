"""All policies on one workload: completion times, and gaps to three optima.

The workload is one of Pollux's, on 64 GPUs of one type. Completion times, makespan, finish-time
fairness (`fairness.py`), allocated GPUs, restarts and the time of a decision come from the replay.
The gaps of every `EVERY`-th decision are proved for three objectives, each of which is that of some
of these systems, on the goodput that the jobs' fitted models predict in that round:

- *fitness*: the harmonic mean of the speedups, Pollux's own;
- *sum*: their arithmetic mean, the total throughput in units of a fair share;
- *least*: the smallest speedup, max-min fairness.

A rule of Pollux that a decision breaks is lifted for its round (`judge.py`). A policy optimises its
own objective only; the table says what that costs in the others. How far its average completion
time is above the bound on every replay (`formulations/HINDSIGHT.md`) stands beside it; those whose
jobs share GPUs, which the bound does not cover, have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import parts_of_gaps, summarise
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.comparisons.judged_policy import JudgedPolicy, verdicts
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import above_percent, day_of
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, finish_time_fairness
from goodalloc.experiments.support.records import digest
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.hindsight.day_task import DayTask
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.solvers.policies.policy import Decision, Policy, Round

#: Policies that decide on GPUs of one type.
FAMILY = (
    "pollux",
    "pollux-genetic",
    "pollux-greedy",
    "pollux-goodput",
    "pollux-remaining",
    "sia",
    "optimus",
    "tiresias",
    "tiresias-gittins",
    "gavel",
    "gavel-makespan",
    "gavel-finish-time",
    "gavel-completion",
    "gavel-throughput",
    "gavel-levels",
    "gavel-packed",
    "themis",
    "themis-exact",
    "themis-maxmin",
    "slaq",
    "slaq-exact",
    "gandiva",
    "gandiva-exact",
    "antman",
    "antman-exact",
    "allox",
    "hesrpt",
    "srtf",
    "fifo",
    "equal",
)

#: Policies that take minutes, left out of quick runs.
SLOW = ("pollux-genetic", "sia")

#: Objectives by the power of the power mean of the speedups.
OBJECTIVES = {"fitness": -1.0, "sum": 1.0, "least": -math.inf}

#: Parts of the fitness gap (`models/round/starved_jobs.py`).
PARTS = ("starved", "served_fitness", "best_starved", "best_served_fitness")

#: Decisions from one that is judged to the next, also if quick; seconds of a proof.
EVERY, QUICK_EVERY, PROOF_SECONDS = 30, 50, 5.0

#: Cluster of a quick run: a quarter of the nodes, for a quarter of the jobs.
QUICK_CLUSTER = Cluster.uniform(4, 4)

GAPS = "gaps.jsonl"


@dataclass(frozen=True)
class ThreeObjectives:
    """Judge by several objectives at once.

    Parameters
    ----------
    judges
        Judges by objective.
    """

    judges: dict[str, Judge]

    def __call__(self, before: Policy, round_: Round, decision: Decision) -> dict[str, Any]:
        """Return the parts of the fitness gap, and the gap by every objective."""
        found = {name: judge(round_, decision) for name, judge in self.judges.items()}
        parts = {part: getattr(found["fitness"], part) for part in PARTS}
        return parts | {name: verdict.gap for name, verdict in found.items()}


@dataclass(frozen=True)
class JudgedTask(ReplayTask):
    """Replay of a judged policy; see `ReplayTask`.

    Parameters
    ----------
    every
        Decisions from one that is judged to the next.
    """

    every: int = EVERY

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on."""
        powers = {name: str(power) for name, power in OBJECTIVES.items()}
        return super().description() | {"judged_every": self.every, "objectives": powers}

    def made_policy(self) -> Policy:
        """Return the judged policy."""
        judges = {
            name: Judge(self.rules.replace(power=power), PROOF_SECONDS)
            for name, power in OBJECTIVES.items()
        }
        judge = ThreeObjectives(judges)
        return JudgedPolicy(super().made_policy(), judge, self.folder / GAPS, self.every)

    @property
    def shares_gpus(self) -> bool:
        """Whether two jobs can be on the same GPU."""
        return getattr(super().made_policy(), "sharing", None) is not None

    def judged(self) -> pd.DataFrame:
        """Return the gaps by objective, a row for every judged decision."""
        return pd.DataFrame(verdicts(self.folder / GAPS))


def _replays(plan: Plan) -> dict[tuple[int, str], JudgedTask]:
    """Return the replays by workload and policy; smaller and judged less often if quick."""
    found = {}
    every = QUICK_EVERY if plan.quick else EVERY
    for number in plan.workloads:
        workload, setting = _conditions(plan, number)
        for policy in FAMILY:
            if plan.quick and policy in SLOW:
                continue
            task = JudgedTask(
                plan.folder,
                policy,
                workload,
                setting,
                plan.traces,
                gaps=False,
                seconds=PROOF_SECONDS,
                every=every,
            )
            folder = plan.folder / "replays" / f"family-{policy}-{digest(task.description())}"
            found[number, policy] = replace(task, folder=folder)
    return found


def _conditions(plan: Plan, number: int) -> tuple[tuple[Submission, ...], Setting]:
    """Return the submitted jobs, and the conditions of their replays; fewer nodes if quick."""
    setting = Setting(QUICK_CLUSTER) if plan.quick else Setting()
    jobs = plan.workload(number)[:: 2 if plan.quick else 1]
    return tuple(job for job in jobs if job.replicas <= setting.cluster.num_gpus), setting


def _days(plan: Plan) -> dict[int, DayTask]:
    """Return the days with their bounds, by workload."""
    return {number: day_of(plan, *_conditions(plan, number)) for number in plan.workloads}


def _tasks(plan: Plan) -> list[Task]:
    return [*_replays(plan).values(), *alone_tasks(plan).values(), *_days(plan).values()]


class PolicyRow(NamedTuple):
    """Outcome of one policy on one workload.

    Attributes
    ----------
    above_bound_percent
        By how much the average completion time is above the bound on every replay; None if jobs
        share GPUs.
    median_rho, greatest_rho
        Finish-time fairness of the jobs.
    held_percent
        Allocated GPUs, in per cent of the cluster, mean over the rounds.
    judged
        Number of judged decisions.
    mean_starved, mean_more_starved, served_over_best
        Parts of the fitness gap; see `parts_of_gaps`.
    fitness_gap, sum_gap, least_gap
        Mean gap by each of `OBJECTIVES`.
    """

    workload: int
    policy: str
    knows: str
    batch: str
    average_jct_hours: float
    above_bound_percent: float | None
    median_jct_hours: float
    p99_jct_hours: float
    makespan_hours: float
    median_rho: float
    greatest_rho: float
    held_percent: float
    restarts_per_job: float
    decision_ms: float
    judged: int
    mean_starved: float
    mean_more_starved: float
    served_over_best: float
    fitness_gap: float
    sum_gap: float
    least_gap: float


def _rows(plan: Plan) -> list[PolicyRow]:
    """Return a row for every workload and policy."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    bounds = {number: day.found().bound_on_replays for number, day in _days(plan).items()}
    rows: list[PolicyRow] = []
    for (number, policy), task in _replays(plan).items():
        jobs, rounds = (pd.read_csv(task.folder / f"{name}.csv") for name in ("jobs", "rounds"))
        gpus = task.setting.cluster.num_gpus
        rho = finish_time_fairness(jobs, gpus, alone)
        told, gaps = summarise(policy, task.folder), task.judged()
        parts = {name: rounded(value, 4) for name, value in parts_of_gaps(gaps).items()}
        rows.append(
            PolicyRow(
                number,
                policy,
                knows=task.terms.knows,
                batch=task.terms.batch,
                average_jct_hours=(average := told["average_jct_hours"]),
                above_bound_percent=None
                if task.shares_gpus or (bound := bounds[number]) is None
                else above_percent(average, bound / HOUR),
                median_jct_hours=rounded(float(jobs.jct.median()) / HOUR, 4),
                p99_jct_hours=told["p99_jct_hours"],
                makespan_hours=told["makespan_hours"],
                median_rho=rounded(float(np.median(rho)), 4),
                greatest_rho=rounded(float(rho.max()), 4),
                held_percent=rounded(100.0 * float(rounds.allocated_gpus.mean()) / gpus, 4),
                restarts_per_job=told["restarts_per_job"],
                decision_ms=told["decision_ms"],
                judged=len(gaps),
                fitness_gap=rounded(float(gaps["fitness"].mean()), 5),
                sum_gap=rounded(float(gaps["sum"].mean()), 5),
                least_gap=rounded(float(gaps["least"].mean()), 5),
                **parts,
            )
        )
    return rows


#: Columns of the table that people read, by the field of which they show the mean.
SHOWN = {
    "average_jct_hours": "average h",
    "above_bound_percent": "above bound %",
    "median_jct_hours": "median h",
    "p99_jct_hours": "p99 h",
    "makespan_hours": "makespan h",
    "median_rho": "median rho",
    "greatest_rho": "greatest rho",
    "held_percent": "held %",
    "restarts_per_job": "restarts",
    "decision_ms": "decision ms",
    "mean_more_starved": "more starved",
    "served_over_best": "served over best",
    "fitness_gap": "fitness gap",
    "sum_gap": "sum gap",
    "least_gap": "least gap",
}


def summarise_family(rows: list[PolicyRow]) -> Rows:
    """Return means over the workloads by policy, the shortest completion times first."""
    terms = {row.policy: row for row in rows}
    means = (
        pd.DataFrame(rows)
        .groupby("policy", sort=False)[list(SHOWN)]
        .mean()
        .sort_values("average_jct_hours")
    )
    return [
        {
            "policy": policy,
            "knows": terms[str(policy)].knows,
            "batch": terms[str(policy)].batch,
            **{
                SHOWN[name]: None if np.isnan(row[name]) else rounded(float(row[name]), 3)
                for name in SHOWN
            },
        }
        for policy, row in means.iterrows()
    ]


NOTE = """\
rho: finish-time fairness, a job's completion time over that alone on its share of the GPUs; held:
allocated GPUs, on average over the rounds. Above bound: by how much the average is above the bound
on every replay, for policies whose jobs share no GPUs. Gaps: mean relative distance of decisions
from the proved bound by fitness (the harmonic mean of the speedups), sum (their arithmetic mean)
and least (the smallest speedup). More starved: jobs without GPUs beyond those of the best
allocation by fitness; served over best: harmonic mean of the speedups of served jobs over that of
the best allocation. A policy optimises its own objective only."""


def _plot(_: Plan, rows: list[PolicyRow]) -> Figure:
    """Draw the gaps by policy and objective as a heat map beside average completion times."""
    from matplotlib.figure import Figure

    shown = summarise_family(rows)
    gaps = np.array([[100.0 * row[f"{name} gap"] for name in OBJECTIVES] for row in shown])
    figure = Figure(figsize=(9.0, 1.2 + 0.27 * len(shown)), layout="constrained")
    heat, bars = figure.subplots(1, 2, sharey=True, width_ratios=(1.0, 1.0))
    image = heat.imshow(gaps, aspect="auto", cmap="cividis", vmin=0.0, vmax=100.0)
    for place, values in enumerate(gaps):
        for column, value in enumerate(values):
            heat.text(
                column,
                place,
                f"{value:.1f}" if value >= 0.05 else "0",
                ha="center",
                va="center",
                fontsize="small",
                color="black" if value > 55.0 else "white",
            )
    heat.set_xticks(range(len(OBJECTIVES)), list(OBJECTIVES))
    heat.set_yticks(range(len(shown)), [row["policy"] for row in shown])
    heat.set_title("mean gap (%)", fontsize="medium")
    figure.colorbar(image, ax=heat, fraction=0.05)
    bars.barh(range(len(shown)), [row["average h"] for row in shown], color="#0072B2")
    bars.set_xlim(left=0.0)
    bars.set_title("average completion time (h)", fontsize="medium")
    bars.grid(visible=False, axis="y")
    return figure


THE_FAMILY = Reproduction(
    "family: all policies on one workload, judged by three objectives",
    _tasks,
    _rows,
    _plot,
    shown=summarise_family,
    ignores=("pollux", "seeds", "gaps"),
    note=NOTE,
)
