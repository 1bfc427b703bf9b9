"""Replays under policies that know more than a scheduler can, as tasks that resume."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.support.records import digest

if TYPE_CHECKING:
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.hindsight.known_replay import Foresight
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.solvers.policies.policy import Policy


@dataclass(frozen=True)
class KnownTask(ReplayTask):
    """Replay under a policy with foresight; see `ReplayTask`.

    Parameters
    ----------
    foresight
        What the policy knows.
    """

    foresight: Foresight = "remaining work"

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on."""
        return super().description() | {
            "format": "goodalloc-foresight",
            "foresight": self.foresight,
        }

    def made_policy(self) -> Policy:
        """Return the policy with foresight."""
        from goodalloc.experiments.hindsight.known_replay import (
            foreseeing,
        )  # not needed to describe a replay
        from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem

        problem = replayed_problem(self.workload, self.applications, self.setting)
        return foreseeing(self.foresight, problem, self.applications, self.setting)


def known_task(plan: Plan, workload: tuple[Submission, ...], foresight: Foresight) -> KnownTask:
    """Return a replay in a folder of its own, whose jobs know their speed when they start.

    Parameters
    ----------
    plan
        Options of the study.
    workload
        The submitted jobs.
    foresight
        What the policy knows.
    """
    setting = Setting(knowledge="profiled")
    task = KnownTask(plan.folder, "hindsight", workload, setting, plan.traces, foresight=foresight)
    return replace(task, folder=plan.folder / "replays" / f"foresight-{digest(task.description())}")
