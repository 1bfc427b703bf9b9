"""Small plans of studies, and how they are carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.studies.framework.reproduction import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.workloads.generator import Requests
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.studies.framework.reproduction import Reproduction


def carry_out(
    reproduction: Reproduction[Any], folder: Path, workloads: tuple[int, ...] = (1,)
) -> Plan:
    """Do all that a reproduction takes, on few short jobs, with a queue in place of Pollux."""
    plan = TinyPlan(folder, workloads, ("fifo",))
    for task in dict.fromkeys(reproduction.tasks(plan)):
        task.run(lambda _: None)
    return plan


class TinyPlan(Plan):
    """Draws workloads of three short jobs, whatever the load."""

    def workload(
        self, number: int, requests: Requests = "tuned", load: float = 1.0
    ) -> tuple[Submission, ...]:
        """Another one for every number."""
        drawn = draw_workload(number, jobs=30, requests=requests)
        return tuple(job for job in drawn if job.application in {"ncf", "cifar10"})[:3]
