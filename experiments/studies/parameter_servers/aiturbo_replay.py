"""AITurbo (HPDC'21) against other schedulers, while fewer and fewer jobs can be predicted.

Drawn workloads (`data/parameter_servers/workload.py`) are replayed
(`parameter_servers/simulator.py`) under every policy with 0 to 100 % of the jobs unpredictable, on
two clusters, one a third of the other. The paper's own numbers could not be read. Its slides claim
at least half the average completion time and at least 15 % more CPU and GPU utilisation, and show
that the difference between the two is below 60 % for 80 % of the time without AITurbo and below 40
% with it. By share there are numbers only of a follow-on (github.com/MaoZzzzz/Aiturbo-vGPU, commit
11ab921), relative to its own scheduler; over AITurbo they give the ratios in `PUBLISHED`.

Not all contenders decide on the same: AITurbo on numbers of servers and workers and on their pods,
Optimus on the numbers, with the pods that users ask for; the others give jobs what is asked for,
which is drawn. AITurbo counts what a restart costs, as described; the others do not.

Utilisation is that of nodes and rounds until the last submission, while jobs still come; a core of
a worker with a GPU counts as busy while that computes (`models/parameter_servers/utilisation.py`).
Short jobs are those whose run with what is asked is at most the median of the workload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.documents.json_file import dump, in_file, write_atomically
from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.reporting.estimates import estimate
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.parameter_servers.simulator import PsSetting, PsSimulator
from goodalloc.experiments.support.records import DESCRIPTION, check_description, digest
from goodalloc.experiments.support.version import library_version
from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.solvers.parameter_servers.aiturbo import PsAiturbo
from goodalloc.solvers.parameter_servers.optimus import PsOptimus
from goodalloc.solvers.parameter_servers.queueing import PsFirstCome, PsShortestFirst, PsTiresias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.data.parameter_servers.workload import PsSubmission
    from goodalloc.experiments.studies.framework.reproduction import Plan, Rows
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.solvers.parameter_servers.policy import PsPolicy

#: Per cent of the jobs that are unpredictable, and the share that is looked at closely.
SHARES = (0, 25, 50, 75, 100)
CLOSE = 50

#: Nodes of the clusters.
NODES = (12, 4)


class Contender(NamedTuple):
    """A policy of the comparison.

    Attributes
    ----------
    label
        What pictures call it.
    make
        Makes it.
    told
        Whether it is told at once, and truly, which jobs are predictable, and their steps.
    blind
        Whether it makes no difference to it which jobs are predictable.
    """

    label: str
    make: Callable[[], PsPolicy]
    told: bool = False
    blind: bool = False


CONTENDERS: Mapping[str, Contender] = {
    "aiturbo": Contender("AITurbo, time", PsAiturbo),
    "aiturbo-told": Contender("AITurbo, time, told", PsAiturbo, told=True),
    "aiturbo-exact": Contender("AITurbo, time, exact", lambda: PsAiturbo(exact=True)),
    "aiturbo-pods": Contender("AITurbo, time, pods ≥ asked", lambda: PsAiturbo(pods="asked")),
    "aiturbo-service": Contender(
        "AITurbo, service, pods ≥ asked", lambda: PsAiturbo("service", "asked")
    ),
    "aiturbo-asked": Contender("AITurbo, time, others as asked", lambda: PsAiturbo(others="asked")),
    "log-time": Contender("AITurbo, log time (ours)", lambda: PsAiturbo("log time")),
    "optimus": Contender("Optimus", PsOptimus),
    "optimus-told": Contender("Optimus, told", PsOptimus, told=True, blind=True),
    "tiresias": Contender("Tiresias", PsTiresias, blind=True),
    "srtf": Contender("SRTF, true times", PsShortestFirst, blind=True),
    "fcfs": Contender("FCFS", PsFirstCome, blind=True),
}

#: Average completion time over that of AITurbo, by share: of the follow-on, not of the paper.
PUBLISHED: Mapping[str, Mapping[int, float]] = {
    "optimus": {0: 2.1 / 1.48, 25: 2.2 / 1.34, 50: 2.5 / 1.24, 75: 3.3 / 1.1, 100: 3.9},
    "tiresias": {0: 5.3 / 1.48, 25: 4.3 / 1.34, 50: 3.9 / 1.24, 75: 3.3 / 1.1, 100: 2.2},
    "srtf": {50: 1.9 / 1.24},
    "fcfs": {50: 4.2 / 1.24},
}

#: Makespan over that of AITurbo, likewise, with half the jobs unpredictable.
PUBLISHED_MAKESPAN = {
    "optimus": 2.1 / 1.34, "tiresias": 3.394 / 1.34, "srtf": 4.694 / 1.34, "fcfs": 3.394 / 1.34,
}  # fmt: skip

#: Differences of utilisation below which so much of the nodes and rounds are, on the slides.
SLIDES = {"without AITurbo": 60.0, "with AITurbo": 40.0}

#: Of whom the differences are drawn.
DISTRIBUTIONS = ("aiturbo", "log-time", "optimus", "tiresias", "srtf", "fcfs")

#: How many quantiles of the differences are kept.
QUANTILES = 101

#: The file of a replay's numbers.
RECORD = "numbers.json"

#: Columns that are averaged over workloads.
QUANTITIES = (
    "jct_h", "short_h", "long_h", "makespan_h", "cpu_%", "gpu_%", "difference_p80_%", "starts",
)  # fmt: skip


def replay_row(
    policy: str, workload: tuple[PsSubmission, ...], setting: PsSetting
) -> dict[str, Any]:
    """What comes of a workload under a policy: hours, per cent; and quantiles of the difference.

    Parameters
    ----------
    policy
        One of `CONTENDERS`.
    workload, setting
        What is replayed.

    Raises
    ------
    ValueError
        If no job makes progress for long.
    RuntimeError
        If pods on nodes do not pass the checker.
    """
    simulator = PsSimulator(workload, CONTENDERS[policy].make(), setting)
    last = max(job.time for job in workload)
    rounds = list(simulator.run())
    for record in rounds:
        broken = pod_violations(record.tables, record.cells, record.pods, record.view.nodes)
        if broken:
            raise RuntimeError(f"Policy '{policy}' at {record.view.time:g} s: {broken[0]}")
    early = [record.utilisation for record in rounds if record.view.time <= last]
    used = 100.0 * np.concatenate(early or [rounds[0].utilisation])
    difference = np.abs(used[:, 0] - used[:, 1])
    ends = np.array([job.completion for job in simulator.jobs], dtype=float)
    hours = (ends - [job.submission.time for job in simulator.jobs]) / 3600.0
    alone = np.array([seconds_alone(job.submission) for job in simulator.jobs])
    short = alone <= np.median(alone)
    numbers = {
        "jct_h": hours.mean(), "short_h": hours[short].mean(),
        "long_h": hours[~short].mean() if (~short).any() else hours.mean(),
        "makespan_h": ends.max() / 3600.0, "cpu_%": used[:, 0].mean(), "gpu_%": used[:, 1].mean(),
        "difference_p80_%": np.quantile(difference, 0.8),
        "starts": np.mean([job.starts for job in simulator.jobs]),
    }  # fmt: skip
    return {
        **{name: rounded(float(value), 8) for name, value in numbers.items()},
        "differences": [
            rounded(float(v)) for v in np.quantile(difference, np.linspace(0, 1, QUANTILES))
        ],
    }


def seconds_alone(job: PsSubmission) -> float:
    """A job's run with what its user asks for."""
    return job.steps * float(seconds_per_step(job.step_time, job.asked, job.batch_size))


@dataclass(frozen=True)
class PsReplay:
    """One replay; done at once or not at all.

    Parameters
    ----------
    folder
        Where its numbers go.
    policy, share, seed, jobs
        Which policy, per cent of unpredictable jobs, and workload.
    setting
        The conditions.
    """

    folder: Path
    policy: str
    share: int
    seed: int
    jobs: int
    setting: PsSetting = field(default_factory=PsSetting)

    @property
    def options(self) -> PsWorkloadOptions:
        """What is drawn."""
        told = CONTENDERS[self.policy].told
        return PsWorkloadOptions(jobs=self.jobs, unpredictable=self.share / 100.0, told=told)

    def description(self) -> dict[str, Any]:
        """Everything that the numbers depend on."""
        return {
            "format": "goodalloc-ps-replay", "version": 1, "library": library_version(),
            "policy": self.policy, "seed": self.seed, "workload": vars(self.options),
            "setting": vars(self.setting),
        }  # fmt: skip

    def run(self, report: Report = lambda _: None) -> None:
        """Replay, unless that is done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        check_description(self.folder / DESCRIPTION, self.description())
        if not (self.folder / RECORD).exists():
            row = replay_row(self.policy, ps_workload(self.seed, self.options), self.setting)
            write_atomically(self.folder / RECORD, dump(row) + "\n")
        report(1.0)

    def record(self) -> dict[str, Any]:
        """Its numbers."""
        path = self.folder / RECORD
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(in_file(path, error)) from error
        return found


def _task(plan: Plan, nodes: int, policy: str, share: int, seed: int) -> PsReplay:
    """A replay, of half the jobs if quick; who is blind has one for all shares."""
    share = SHARES[0] if CONTENDERS[policy].blind else share
    jobs = PsWorkloadOptions().jobs // (2 if plan.quick else 1)
    task = PsReplay(plan.folder, policy, share, seed, jobs, PsSetting(nodes))
    name = f"ps-{policy}-{digest(task.description())}"
    return replace(task, folder=plan.folder / "replays" / name)


def _tasks(plan: Plan) -> list[PsReplay]:
    """A replay for every cluster, policy, share and workload."""
    return list(dict.fromkeys(
        _task(plan, nodes, policy, share, seed)
        for nodes in NODES for seed in plan.workloads for policy in CONTENDERS for share in SHARES
    ))  # fmt: skip


def _rows(plan: Plan) -> Rows:
    """A row for every cluster, policy, share and workload."""
    rows = []
    for nodes in NODES:
        for policy in CONTENDERS:
            for share in SHARES:
                for seed in plan.workloads:
                    task = _task(plan, nodes, policy, share, seed)
                    record = task.record()
                    rows.append({
                        "nodes": nodes, "policy": policy, "unpredictable_%": share,
                        "workload": seed, "jobs": task.jobs,
                        **{name: record[name] for name in QUANTITIES},
                    })  # fmt: skip
    return rows


def summarise_shares(rows: Rows) -> Rows:
    """A row for every cluster, policy and share: means over the workloads, and over AITurbo's.

    The half-width is that of the 95 % confidence interval of the ratio, workload by workload.
    """
    shown = []
    for nodes in NODES:
        for policy in CONTENDERS:
            for share in SHARES:
                group, hybrid = (_of(rows, nodes, name, share) for name in (policy, "aiturbo"))
                ratio, makespan = (
                    estimate([a[name] / b[name] for a, b in zip(group, hybrid, strict=True)])
                    for name in ("jct_h", "makespan_h")
                )
                means = {name: float(np.mean([row[name] for row in group])) for name in QUANTITIES}
                published = PUBLISHED.get(policy, {}).get(share)
                longest = PUBLISHED_MAKESPAN.get(policy) if share == CLOSE else None
                shown.append({
                    "nodes": nodes, "policy": policy, "unpredictable_%": share,
                    "workloads": len(group), "jct_h": rounded(means["jct_h"], 3),
                    "over_aiturbo": rounded(ratio["mean"], 3),
                    "half_width": rounded(ratio["half_width"], 2),
                    "published": "" if published is None else rounded(published, 3),
                    "makespan_over": rounded(makespan["mean"], 3),
                    "makespan_published": "" if longest is None else rounded(longest, 3),
                    **{name: rounded(means[name], 3) for name in QUANTITIES[1:]},
                })  # fmt: skip
    return shown


def _of(rows: Rows, nodes: int, policy: str, share: int) -> Rows:
    """The rows of a cluster, a policy and a share."""
    return [
        row for row in rows
        if (row["nodes"], row["policy"], row["unpredictable_%"]) == (nodes, policy, share)
    ]  # fmt: skip


def plot_replays(plan: Plan, rows: Rows) -> Figure:
    """Completion times by share on both clusters; differences and utilisation on the smaller."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17.0, 5.2), layout="constrained")
    *times, differences, bars = figure.subplots(1, len(NODES) + 2)
    look = _looks()
    for ax, nodes in zip(times, NODES, strict=True):
        for policy, contender in CONTENDERS.items():
            groups = [_of(rows, nodes, policy, share) for share in SHARES]
            means = [np.mean([row["jct_h"] for row in group]) for group in groups]
            ax.plot(
                SHARES, means, label=contender.label, markersize=5, linewidth=1.4, **look[policy]
            )
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("{x:g}")
        ax.set_xticks(SHARES)
        ax.set_xlabel("unpredictable jobs (%)")
        ax.set_ylabel("average completion time (h)")
        ax.set_title(f"{nodes} nodes", fontsize="medium")
    heights = np.linspace(0.0, 100.0, QUANTILES)
    for policy in (name for name in DISTRIBUTIONS if name in CONTENDERS):
        values = [
            _task(plan, NODES[-1], policy, CLOSE, seed).record()["differences"]
            for seed in plan.workloads
        ]
        style = {name: look[policy][name] for name in ("color", "linestyle")}
        differences.plot(np.mean(values, axis=0), heights, linewidth=1.4, **style)
    for marker, (label, place) in zip("+x", SLIDES.items(), strict=True):
        differences.plot(
            place, 80.0, marker=marker, color="black", markersize=9, linestyle="none",
            label=f"slides, {label}",
        )  # fmt: skip
    differences.legend(loc="lower right", frameon=False)
    differences.set_xlim(0.0, 100.0)
    differences.set_ylim(0.0, 100.0)
    differences.set_xlabel("|CPU - GPU utilisation| (%)")
    differences.set_ylabel("nodes and rounds (%)")
    differences.set_title(f"{NODES[-1]} nodes, {CLOSE} % unpredictable", fontsize="medium")
    _plot_bars(rows, bars)
    for ax in (*times, differences):
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    figure.legend(
        *times[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
    )
    return figure


def _looks() -> dict[str, dict[str, Any]]:
    """A colour for every scheduler, a line and a marker for each of its variants."""
    schedulers = list(dict.fromkeys(policy.split("-")[0] for policy in CONTENDERS))
    look = {}
    for colour, scheduler in zip(COLOURS, schedulers, strict=False):
        variants = [policy for policy in CONTENDERS if policy.split("-")[0] == scheduler]
        for variant, policy in enumerate(variants):
            line, marker = STYLES[variant % len(STYLES)], MARKERS[variant % len(MARKERS)]
            look[policy] = {"color": colour, "linestyle": line, "marker": marker}
    return look


def _plot_bars(rows: Rows, ax: Axes) -> None:
    """Utilisation of CPUs and GPUs by policy."""
    for index, (column, label) in enumerate((("cpu_%", "CPU"), ("gpu_%", "GPU"))):
        groups = [_of(rows, NODES[-1], policy, CLOSE) for policy in CONTENDERS]
        means = [np.mean([row[column] for row in group]) for group in groups]
        places = np.arange(len(CONTENDERS)) + 0.4 * (index - 0.5)
        ax.barh(places, means, height=0.38, color=COLOURS[index], label=label)
    ax.set_yticks(range(len(CONTENDERS)), [found.label for found in CONTENDERS.values()])
    ax.invert_yaxis()
    ax.set_xlim(0.0, 100.0)
    ax.set_xlabel("utilisation (%)")
    ax.set_title(f"{NODES[-1]} nodes, {CLOSE} % unpredictable", fontsize="medium")
    ax.legend(frameon=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)


AITURBO_REPLAY = Reproduction(
    "AITurbo (HPDC'21) against others, by the share of unpredictable jobs",
    _tasks, _rows, plot_replays, shown=summarise_shares,
    ignores=("pollux", "seeds", "gaps", "artifact"),
)  # fmt: skip
