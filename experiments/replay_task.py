"""Replays as plain data: what to replay and where its records go, alone or several at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from goodalloc.data.application import profiled_applications
from goodalloc.experiments.judge import Judge
from goodalloc.experiments.policies import make_policy
from goodalloc.experiments.replay import Replay
from goodalloc.experiments.simulator import Setting, Simulator
from goodalloc.experiments.version import library_version
from goodalloc.models.rules import OSDI21

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.data.application import Application
    from goodalloc.data.workload import Submission
    from goodalloc.models.rules import Rules


#: Is told a share, from 0 to 1.
Report = Callable[[float], None]


class Task(Protocol):
    """A piece of work that keeps its records in a folder of its own and goes on where it was."""

    @property
    def folder(self) -> Path: ...

    def run(self, report: Report) -> None:
        """Do what is left of it, telling what share of it is done."""
        ...


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
        return true_applications(self.traces)

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
            "outages": [list(outage) for outage in setting.outages],
            "knowledge": setting.knowledge,
            "workload": [
                [job.name, job.time, job.application, job.replicas, job.batch_size]
                for job in self.workload
            ],
        }  # fmt: skip

    def run(self, report: Report = lambda _: None) -> None:
        """Replay, or what is left of it.

        Raises
        ------
        ValueError
            If something in the task makes no sense or its folder holds another replay.
        """
        policy = make_policy(self.policy, seed=self.seed, seconds=self.seconds, rules=self.rules)
        simulator = Simulator(self.workload, self.applications, policy, self.setting)
        judge = Judge(self.rules, self.seconds) if self.gaps else None
        self.folder.mkdir(parents=True, exist_ok=True)

        def advanced(simulator: Simulator) -> None:
            report(simulator.completed / len(simulator.jobs))

        Replay(simulator, self.folder, self.description(), judge).run(advanced)


def true_applications(traces: str | None) -> dict[str, Application]:
    """The truth: the measurements in that folder, or the shipped profiles."""
    if traces is None:
        return profiled_applications()
    from goodalloc.data.traces import measured_applications

    return measured_applications(traces)


def run_tasks(tasks: Sequence[Task], workers: int = 1, report: Report = lambda _: None) -> None:
    """Do tasks, so many at a time in processes of their own.

    Parameters
    ----------
    tasks
        What to do; what is done already takes no time.
    workers
        Processes; with one everything runs in this process.
    report
        Is told how many tasks have been done since it was told last, fractions included.

    Raises
    ------
    ValueError
        As the tasks.
    """
    if workers > 1:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
        for _ in parallel(delayed(_run)(task) for task in tasks):
            report(1.0)
        return
    for task in tasks:
        done = 0.0

        def advanced(share: float) -> None:
            nonlocal done
            report(share - done)
            done = share

        task.run(advanced)
        report(1.0 - done)


def _run(task: Task) -> None:
    """In a process of its own."""
    task.run(lambda _: None)
