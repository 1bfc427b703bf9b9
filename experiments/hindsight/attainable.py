"""Rates that jobs of a replay can have, and the placements on which they have them.

The rates of `problem_of_replay.py` are never below those of a replay, for the sake of the bound:
they cover what rounding may gain. Schedules that are to be replayed are made with these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from goodalloc.experiments.hindsight.placements import placements_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.experiments.hindsight.placements import Placements
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.round.cluster import Cluster


@dataclass(frozen=True)
class Attainable:
    """What jobs on GPUs of one type can attain.

    Parameters
    ----------
    applications
        The true applications, by name.
    cluster
        The nodes.
    """

    applications: Mapping[str, Application]
    cluster: Cluster

    @cached_property
    def _placements(self) -> dict[str, Placements]:
        """Placements of every application."""
        (gpu_type,) = self.cluster.gpu_types
        return {
            name: placements_of(application, self.cluster, gpu_type)
            for name, application in self.applications.items()
        }

    def spreads(self, application: str, gpus: int) -> tuple[Spread, ...]:
        """Return numbers of GPUs on each node, those with the greatest mean rate first.

        Parameters
        ----------
        application
            Name of the application.
        gpus
            Number of GPUs.
        """
        return self._placements[application].at(gpus).spreads

    def problem(self, problem: OfflineProblem) -> OfflineProblem:
        """Return an offline problem with attainable rates.

        Parameters
        ----------
        problem
            The problem of a replay of these applications on this cluster.
        """
        trainings = []
        for training in problem.trainings:
            rates = self._placements[training.name].best_rates(training.gpus)
            trainings.append(replace(training, rates=rates[None]))
        return replace(problem, trainings=tuple(trainings))
