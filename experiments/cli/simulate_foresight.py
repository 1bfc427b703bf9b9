"""Policies of the command `simulate` that know more than a scheduler can."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.experiments.studies.hindsight.known_task import KnownTask
from goodalloc.solvers.policies.policy import Terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.hindsight.known_replay import Foresight
    from goodalloc.experiments.replay.replay_task import ReplayTask

#: What each of them knows.
FORESIGHT: Mapping[str, Foresight] = {
    "foresight-work": "remaining work",
    "foresight-plans": "plans",
    "foresight-hour": "arrivals of an hour",
}


@dataclass(frozen=True)
class ForesightTask(KnownTask):
    """Replay under a policy with foresight, by its name here; see `KnownTask`."""

    @property
    def terms(self) -> Terms:
        """What the policy is told, and who chooses the batch sizes."""
        own = self.setting.batch_sizes
        return Terms("true remaining", "adaptive" if own == "policy" else own)


def with_foresight(task: ReplayTask) -> ReplayTask:
    """Return a replay under the policy with foresight that it names, or as it is.

    Jobs know their speed when they start. Decisions are not judged, which follow another objective.

    Parameters
    ----------
    task
        The replay.

    Raises
    ------
    ValueError
        If nodes have several types of GPU or other resources, or as `replayed_problem`.
    """
    if task.policy not in FORESIGHT:
        return task
    cluster = task.setting.cluster
    if len(cluster.gpu_types) > 1:
        raise ValueError(
            f"Policy '{task.policy}' knows one type of GPU and the cluster has "
            f"{', '.join(cluster.gpu_types)}; expected one."
        )
    told = {"setting": replace(task.setting, knowledge="profiled"), "gaps": False}
    known = ForesightTask(**vars(task) | told, foresight=FORESIGHT[task.policy])
    known.made_policy()  # refuses what it cannot serve before anything is written
    return known
