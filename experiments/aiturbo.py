"""AITurbo (HPDC'21) against other schedulers, while fewer and fewer jobs can be predicted.

Drawn workloads (`data/ps_workload.py`) are replayed (`ps_simulator.py`) under every policy with 0
to 100 % of the jobs unpredictable. The paper's own numbers could not be read. Its slides claim at
least half the average completion time and at least 15 % more CPU and GPU utilisation, and show that
the difference between the two is below 60 % for 80 % of the time without AITurbo and below 40 %
with it. By share there are numbers only of a follow-on (github.com/MaoZzzzz/Aiturbo-vGPU, commit
11ab921), relative to its own scheduler; over AITurbo they give the ratios in `PUBLISHED`.

Utilisation is that of nodes and rounds until the last submission, while jobs still come. Short jobs
are those whose run with what is asked is below the median of the workload.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.json_file import dump, write_atomically
from goodalloc.data.ps_workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.plots import COLOURS, looks
from goodalloc.experiments.ps_simulator import PsSetting, PsSimulator
from goodalloc.experiments.replay import DESCRIPTION, check_description
from goodalloc.experiments.replay_report import rounded
from goodalloc.experiments.reproduction import Reproduction, digest
from goodalloc.experiments.version import library_version
from goodalloc.models.ps_step_time import seconds_per_step
from goodalloc.models.service_feasibility import pod_violations
from goodalloc.solvers.ps_aiturbo import PsAiturbo
from goodalloc.solvers.ps_optimus import PsOptimus
from goodalloc.solvers.ps_queueing import PsFirstCome, PsShortestFirst, PsTiresias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.data.ps_workload import PsSubmission
    from goodalloc.experiments.replay_task import Report
    from goodalloc.experiments.reproduction import Plan, Rows
    from goodalloc.solvers.ps_policy import PsPolicy

#: Per cent of the jobs that are unpredictable, and the share that is looked at closely.
SHARES = (0, 25, 50, 75, 100)
CLOSE = 50

#: Policies by name, and what pictures call them.
POLICIES: Mapping[str, Callable[[], PsPolicy]] = {
    "aiturbo": PsAiturbo,
    "aiturbo-told": PsAiturbo,
    "aiturbo-exact": lambda: PsAiturbo(exact=True),
    "aiturbo-service": lambda: PsAiturbo("service", "asked"),
    "optimus": PsOptimus,
    "tiresias": PsTiresias,
    "srtf": PsShortestFirst,
    "fcfs": PsFirstCome,
}
LABELS = {
    "aiturbo": "AITurbo (time)",
    "aiturbo-told": "AITurbo, told",
    "aiturbo-exact": "AITurbo, exact",
    "aiturbo-service": "AITurbo (service)",
    "optimus": "Optimus",
    "tiresias": "Tiresias",
    "srtf": "SRTF, true times",
    "fcfs": "FCFS",
}

#: Is told at once, and truly, which jobs are predictable.
TOLD = "aiturbo-told"

#: Average completion time over that of AITurbo, by share: of the follow-on, not of the paper.
PUBLISHED: Mapping[str, Mapping[int, float]] = {
    "optimus": {0: 2.1 / 1.48, 25: 2.2 / 1.34, 50: 2.5 / 1.24, 75: 3.3 / 1.1, 100: 3.9},
    "tiresias": {0: 5.3 / 1.48, 25: 4.3 / 1.34, 50: 3.9 / 1.24, 75: 3.3 / 1.1, 100: 2.2},
}

#: Differences of utilisation below which so much of the nodes and rounds are, on the slides.
SLIDES = {"without AITurbo": 60.0, "with AITurbo": 40.0}

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
        One of `POLICIES`.
    workload, setting
        What is replayed.

    Raises
    ------
    ValueError
        If no job makes progress for long.
    RuntimeError
        If pods on nodes do not pass the checker.
    """
    simulator = PsSimulator(workload, POLICIES[policy](), setting)
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
        told = self.policy == TOLD
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
        found: dict[str, Any] = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        return found


def _tasks(plan: Plan) -> list[PsReplay]:
    """A replay for every policy, share and workload; half the jobs if quick."""
    jobs = PsWorkloadOptions().jobs // (2 if plan.quick else 1)
    tasks = []
    for policy in POLICIES:
        for share in SHARES:
            for seed in plan.workloads:
                task = PsReplay(plan.folder, policy, share, seed, jobs)
                name = f"ps-{policy}-{digest(task.description())}"
                tasks.append(replace(task, folder=plan.folder / "replays" / name))
    return tasks


def _rows(plan: Plan) -> Rows:
    """A row for every replay."""
    return [
        {
            "policy": task.policy, "unpredictable_%": task.share, "workload": task.seed,
            "jobs": task.jobs, **{name: task.record()[name] for name in QUANTITIES},
        }
        for task in _tasks(plan)
    ]  # fmt: skip


def summarise_shares(rows: Rows) -> Rows:
    """A row for every policy and share: means over the workloads, and the time over AITurbo's."""
    shown = []
    for policy in POLICIES:
        for share in SHARES:
            group = _of(rows, policy, share)
            means = {name: float(np.mean([row[name] for row in group])) for name in QUANTITIES}
            hybrid = float(np.mean([row["jct_h"] for row in _of(rows, "aiturbo", share)]))
            published = PUBLISHED.get(policy, {}).get(share)
            ratio = means["jct_h"] / hybrid
            off = None if published is None else rounded(100.0 * (ratio / published - 1.0), 3)
            shown.append({
                "policy": policy, "unpredictable_%": share, "workloads": len(group),
                **{name: rounded(value, 3) for name, value in means.items()},
                "over_aiturbo": rounded(ratio, 3),
                "published": "" if published is None else rounded(published, 3),
                "deviation_%": "" if off is None else off,
            })  # fmt: skip
    return shown


def _of(rows: Rows, policy: str, share: int) -> Rows:
    """The rows of a policy and a share."""
    return [r for r in rows if r["policy"] == policy and r["unpredictable_%"] == share]


def plot_aiturbo(plan: Plan, rows: Rows) -> Figure:
    """Completion times by share; differences of utilisation and utilisation at one share."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.0, 4.8), layout="constrained")
    times, differences, bars = figure.subplots(1, 3)
    look = looks(POLICIES, tuple(POLICIES))
    for policy in POLICIES:
        means = [np.mean([row["jct_h"] for row in _of(rows, policy, share)]) for share in SHARES]
        times.plot(SHARES, means, label=LABELS[policy], markersize=5, linewidth=1.4, **look[policy])
    times.set_ylim(bottom=0.0)
    times.set_xticks(SHARES)
    times.set_xlabel("unpredictable jobs (%)")
    times.set_ylabel("average completion time (h)")
    close = [task for task in _tasks(plan) if task.share == CLOSE]
    heights = np.linspace(0.0, 100.0, QUANTILES)
    for policy in POLICIES:
        values = [task.record()["differences"] for task in close if task.policy == policy]
        style = {name: look[policy][name] for name in ("color", "linestyle")}
        differences.plot(np.mean(values, axis=0), heights, linewidth=1.4, **style)
    for place in SLIDES.values():
        differences.plot(place, 80.0, marker="x", color="black", markersize=8, linestyle="none")
    differences.set_xlim(0.0, 100.0)
    differences.set_ylim(0.0, 100.0)
    differences.set_xlabel("|CPU - GPU utilisation| (%)")
    differences.set_ylabel("nodes and rounds (%)")
    differences.set_title(f"{CLOSE} % unpredictable; x: slides", fontsize="medium")
    _plot_bars(rows, bars)
    for ax in (times, differences):
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    figure.legend(
        *times.get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False
    )
    return figure


def _plot_bars(rows: Rows, ax: Axes) -> None:
    """Utilisation of CPUs and GPUs by policy."""
    for index, (column, label) in enumerate((("cpu_%", "CPU"), ("gpu_%", "GPU"))):
        means = [np.mean([row[column] for row in _of(rows, policy, CLOSE)]) for policy in POLICIES]
        places = np.arange(len(POLICIES)) + 0.4 * (index - 0.5)
        ax.barh(places, means, height=0.38, color=COLOURS[index], label=label)
    ax.set_yticks(range(len(POLICIES)), [LABELS[policy] for policy in POLICIES])
    ax.invert_yaxis()
    ax.set_xlim(0.0, 100.0)
    ax.set_xlabel("utilisation (%)")
    ax.set_title(f"{CLOSE} % unpredictable", fontsize="medium")
    ax.legend(frameon=False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)


AITURBO = Reproduction(
    "AITurbo (HPDC'21) against others, by the share of unpredictable jobs",
    _tasks, _rows, plot_aiturbo, shown=summarise_shares,
    ignores=("pollux", "seeds", "gaps", "artifact"),
)  # fmt: skip
