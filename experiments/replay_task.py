"""Replays as plain data: what to replay and where its records go, alone or several at a time."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.application import profiled_applications
from goodalloc.experiments.judge import Judge
from goodalloc.experiments.policies import make_policy
from goodalloc.experiments.replay import Replay
from goodalloc.experiments.simulator import Setting, Simulator
from goodalloc.experiments.version import library_version
from goodalloc.experiments.workers import ALONE, Workers, map_unordered
from goodalloc.models.rules import OSDI21

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.data.application import Application
    from goodalloc.data.workload import Submission
    from goodalloc.models.rules import Rules


@dataclass(frozen=True)
class ReplayTask:
    """One replay.

    Parameters
    ----------
    folder
        Where its records go.
    policy
        Name of the policy.
    workload
        Which jobs are submitted when.
    setting
        The conditions.
    traces
        Folder of the measurements that are the truth, None for the shipped profiles.
    power, interference_avoidance
        Of Pollux's rules.
    seed
        Of the genetic algorithm.
    seconds
        Time limit of a decision and of a proof.
    gaps
        Whether decisions are judged.
    """

    folder: Path
    policy: str
    workload: tuple[Submission, ...]
    setting: Setting = Setting()  # noqa: RUF009 - frozen, so that one default serves all
    traces: str | None = None
    power: float = -1.0
    interference_avoidance: bool = True
    seed: int = 0
    seconds: float | None = None
    gaps: bool = True

    @property
    def rules(self) -> Rules:
        """Pollux's rules."""
        return OSDI21.replace(
            power=self.power, interference_avoidance=self.interference_avoidance,
            restart_delay=self.setting.restart_delay,
        )  # fmt: skip

    @property
    def applications(self) -> dict[str, Application]:
        """The truth."""
        if self.traces is None:
            return profiled_applications()
        from goodalloc.data.traces import measured_applications

        return measured_applications(self.traces)

    def absolute(self) -> ReplayTask:
        """The same with absolute paths, for processes that stand elsewhere."""
        traces = None if self.traces is None else str(Path(self.traces).absolute())
        return replace(self, folder=self.folder.absolute(), traces=traces)

    def description(self) -> dict[str, Any]:
        """Everything that the records depend on, for `Replay`."""
        setting = self.setting
        return {
            "format": "goodalloc-replay", "version": 1, "library": library_version(),
            "policy": self.policy, "traces": self.traces is not None, "seed": self.seed,
            "seconds": self.seconds, "gaps": self.gaps, "power": str(self.power),
            "interference_avoidance": self.interference_avoidance, "nodes": setting.nodes,
            "gpus_per_node": setting.gpus_per_node, "interval": setting.interval,
            "restart_delay": setting.restart_delay, "interference": setting.interference,
            "workload": [
                [job.name, job.time, job.application, job.replicas, job.batch_size]
                for job in self.workload
            ],
        }  # fmt: skip


def run_task(task: ReplayTask, report: Callable[[Simulator], None] = lambda _: None) -> None:
    """Replay one task, or what is left of it.

    Raises
    ------
    ValueError
        If something in the task makes no sense or its folder holds another replay.
    """
    policy = make_policy(task.policy, seed=task.seed, seconds=task.seconds, rules=task.rules)
    simulator = Simulator(task.workload, task.applications, policy, task.setting)
    judge = Judge(task.rules, task.seconds) if task.gaps else None
    task.folder.mkdir(parents=True, exist_ok=True)
    Replay(simulator, task.folder, task.description(), judge).run(report)


def run_tasks(
    tasks: Sequence[ReplayTask], workers: Workers = ALONE,
    report: Callable[[float], None] = lambda _: None,
) -> None:  # fmt: skip
    """Replay tasks, several at a time in processes of their own or on a cluster.

    Parameters
    ----------
    tasks
        The replays; those that are finished already take no time.
    workers
        Who replays; one local process is this one. All must see the folders of the tasks.
    report
        Is told how many replays have been done since it was told last, fractions included.

    Raises
    ------
    ValueError
        As `run_task` and `map_unordered`.
    """
    if workers != ALONE:
        anywhere = [task.absolute() for task in tasks]
        with contextlib.closing(map_unordered(run_task, anywhere, workers)) as finished:
            for _ in finished:
                report(1.0)
        return
    for task in tasks:
        done = 0.0

        def advanced(simulator: Simulator) -> None:
            nonlocal done
            share = simulator.completed / len(simulator.jobs)
            report(share - done)
            done = share

        run_task(task, advanced)
        report(1.0 - done)
