"""All policies on one workload: what each does to the jobs, and how far each is from three optima.

The workload is one of Pollux's, on 64 GPUs of one type. Completion times, makespan, finish-time
fairness (`fairness.py`), how much of the cluster was held, restarts and the time of a decision come
from the replay. Of every so many decisions the gap is proved by three objectives, each of which
some of these systems stand for, on what the jobs' fitted models predict of that round:

- *fitness*: the harmonic mean of the speedups, Pollux's own;
- *sum*: their arithmetic mean, the throughput of all in units of a fair share;
- *least*: the smallest of them, max-min fairness.

What a decision breaks of Pollux's rules is lifted for its round (`judge.py`). A policy is not asked
to be good at what it does not decide by; the table says what that costs.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.documents.json_file import dump
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import parts_of_gaps, summarise
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.pollux.fairness import alone_tasks, finish_time_fairness
from goodalloc.experiments.support.records import digest
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round

#: Those that decide on GPUs of one type.
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

#: Those that take minutes, left out of quick runs.
SLOW = ("pollux-genetic", "sia")

#: Powers of the mean that stand for the objectives.
OBJECTIVES = {"fitness": -1.0, "sum": 1.0, "least": -math.inf}

#: What the gap by fitness is made of (`models/round/starved_jobs.py`).
PARTS = ("starved", "served_fitness", "best_starved", "best_served_fitness")

#: Every so many decisions are judged; seconds of a proof.
EVERY, QUICK_EVERY, PROOF_SECONDS = 30, 50, 5.0

#: A quarter of the nodes, so that a quarter of the jobs are as many for a GPU.
QUICK_CLUSTER = Cluster.uniform(4, 4)

GAPS = "gaps.jsonl"


@dataclass
class Judged:
    """A policy some of whose decisions are judged; what came out is a line of a file each.

    Parameters
    ----------
    policy
        Who decides.
    judges
        By objective.
    file
        Where the lines go; a replay that goes on may say a line again.
    every
        Decisions from one that is judged to the next.
    """

    policy: Policy
    judges: dict[str, Judge]
    file: Path
    every: int
    _count: int = field(default=0, init=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """As of the policy."""
        return self.policy.batch_sizes

    @property
    def sharing(self) -> Sharing | None:
        """As of the policy, None where its jobs share no GPUs."""
        return getattr(self.policy, "sharing", None)

    def decide(self, round_: Round) -> Decision:
        """As of the policy."""
        decision = self.policy.decide(round_)
        if self._count % self.every == 0:
            verdicts = {name: judge(round_, decision) for name, judge in self.judges.items()}
            parts = {part: getattr(verdicts["fitness"], part) for part in PARTS}
            gaps = {name: verdict.gap for name, verdict in verdicts.items()}
            append_lines(self.file, dump({"time": round_.time, **parts, **gaps}) + "\n")
        self._count += 1
        return decision


@dataclass(frozen=True)
class JudgedTask(ReplayTask):
    """A replay of a judged policy; see `ReplayTask`.

    Parameters
    ----------
    every
        Decisions from one that is judged to the next.
    """

    every: int = EVERY

    def description(self) -> dict[str, Any]:
        """Everything that the records depend on."""
        powers = {name: str(power) for name, power in OBJECTIVES.items()}
        return super().description() | {"judged_every": self.every, "objectives": powers}

    def made_policy(self) -> Policy:
        """The policy, judged."""
        judges = {
            name: Judge(self.rules.replace(power=power), PROOF_SECONDS)
            for name, power in OBJECTIVES.items()
        }
        return Judged(super().made_policy(), judges, self.folder / GAPS, self.every)

    def judged(self) -> pd.DataFrame:
        """The gaps by objective, a row a decision that was judged."""
        lines = (self.folder / GAPS).read_text(encoding="utf-8").splitlines()
        found = pd.DataFrame([json.loads(line) for line in lines])
        return found.drop_duplicates("time", keep="last")


def _replays(plan: Plan) -> dict[tuple[int, str], JudgedTask]:
    """The replays by workload and policy; quick: a quarter of jobs and nodes, seldom judged."""
    found = {}
    every = QUICK_EVERY if plan.quick else EVERY
    setting = Setting(QUICK_CLUSTER) if plan.quick else Setting()
    for number in plan.workloads:
        jobs = plan.workload(number)[:: 2 if plan.quick else 1]
        workload = tuple(job for job in jobs if job.replicas <= setting.cluster.num_gpus)
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


def _tasks(plan: Plan) -> list[Task]:
    return [*_replays(plan).values(), *alone_tasks(plan).values()]


def _rows(plan: Plan) -> Rows:
    """A row a workload and policy."""
    alone = {name: pd.read_csv(task.file) for name, task in alone_tasks(plan).items()}
    rows: Rows = []
    for (number, policy), task in _replays(plan).items():
        jobs, rounds = (pd.read_csv(task.folder / f"{name}.csv") for name in ("jobs", "rounds"))
        gpus = task.setting.cluster.num_gpus
        rho = finish_time_fairness(jobs, gpus, alone)
        told, gaps = summarise(policy, task.folder), task.judged()
        rows.append(
            {
                "workload": number,
                "policy": policy,
                "average_jct_hours": told["average_jct_hours"],
                "median_jct_hours": rounded(float(jobs.jct.median()) / 3600.0, 4),
                "p99_jct_hours": told["p99_jct_hours"],
                "makespan_hours": told["makespan_hours"],
                "median_rho": rounded(float(np.median(rho)), 4),
                "greatest_rho": rounded(float(rho.max()), 4),
                "held_percent": rounded(100.0 * float(rounds.allocated_gpus.mean()) / gpus, 4),
                "restarts_per_job": told["restarts_per_job"],
                "decision_ms": told["decision_ms"],
                "judged": len(gaps),
                **{name: rounded(value, 4) for name, value in parts_of_gaps(gaps).items()},
                **{f"{name}_gap": rounded(float(gaps[name].mean()), 5) for name in OBJECTIVES},
            }
        )
    return rows


def summarise_family(rows: Rows) -> Rows:
    """A line a policy: means over the workloads, the shortest completion times first."""
    frame = pd.DataFrame(rows).drop(columns=["workload", "judged"])
    means = frame.groupby("policy", sort=False).mean().sort_values("average_jct_hours")
    names = {
        "average_jct_hours": "average h",
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
    }
    return [
        {
            "policy": policy,
            **{shown: rounded(float(row[name]), 3) for name, shown in names.items()},
            **{f"{name} gap": rounded(float(row[f"{name}_gap"]), 3) for name in OBJECTIVES},
        }
        for policy, row in means.iterrows()
    ]


NOTE = """\
rho: how much longer a job took than alone on its share of the GPUs (finish-time fairness);
held: GPUs that jobs had, of all, on average over the rounds; gaps, as parts of the best that is
proved: how far decisions are below it on average by fitness (the harmonic mean of the speedups),
sum (their arithmetic mean) and least (the smallest of them). More starved: jobs that hold nothing
and do in the best answer by fitness; served over best: what the others are worth, on harmonic
average, over those that it serves. No policy is asked to be good at what it does not decide by."""


def _plot(_: Plan, rows: Rows) -> Figure:
    """Gaps by policy and objective as a heat map; average completion times beside it."""
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
