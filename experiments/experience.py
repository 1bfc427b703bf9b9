"""What jobs know of their application when they start: nothing, what others found out, or all.

Pollux's jobs start with nothing and explore: their priors make GPUs that they never tried look
cheap, and they may use at most twice as many as they ever ran on (OSDI'21, section 4.1). A pool of
experience hands what jobs of the same application measured before to those that follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from goodalloc.data.application import Application, Spread
    from goodalloc.experiments.simulated_job import Configuration, SimulatedJob
    from goodalloc.models.efficiency import GradientStatistics

#: What a job knows when it starts: nothing (as published), what jobs of its application that are
#: finished measured, or measurements of the whole range, as if it had been profiled beforehand.
Knowledge = Literal["explored", "history", "profiled"]

#: The placements of a profile that is taken beforehand.
PROFILED_SPREADS: tuple[Spread, ...] = ((1,), (2,), (4,), (4, 4), (4, 4, 4, 4))


@dataclass
class ExperiencePool:
    """Measurements by application; of every number of nodes and GPUs the two extreme batch sizes.

    Step times are linear in the batch size, so that the extremes tell what those between would,
    and fits stay quick however long the pool grows.

    Parameters
    ----------
    knowledge
        What the pool hands out.
    """

    knowledge: Knowledge
    _profiles: dict[str, dict[Configuration, tuple[float, float]]] = field(default_factory=dict)
    _gradients: dict[str, GradientStatistics] = field(default_factory=dict)

    def teach(self, job: SimulatedJob) -> None:
        """Give a new job what is known of its application."""
        application = job.application
        if self.knowledge == "profiled" and application.name not in self._profiles:
            self._keep(application.name, measure(application))
            self._gradients[application.name] = application.gradient_statistics(
                int(application.batch.initial), 0
            )
        if application.name in self._profiles:
            job.profile = dict(self._profiles[application.name])
            job.gradient = self._gradients[application.name]

    def learn(self, job: SimulatedJob) -> None:
        """Keep what a finished job measured."""
        if self.knowledge == "history" and job.first_gradient is not None:
            self._keep(job.application.name, job.profile)
            self._gradients.setdefault(job.application.name, job.first_gradient)

    def _keep(self, name: str, found: dict[Configuration, tuple[float, float]]) -> None:
        merged = {**self._profiles.get(name, {}), **found}
        sizes: dict[tuple[int, int], list[int]] = {}
        for nodes, replicas, atomic in merged:
            sizes.setdefault((nodes, replicas), []).append(atomic)
        extremes = {
            (*key, atomic) for key, found in sizes.items() for atomic in (min(found), max(found))
        }
        self._profiles[name] = {key: merged[key] for key in sorted(extremes)}


def measure(application: Application) -> dict[Configuration, tuple[float, float]]:
    """True times of a pass without and with synchronisation, over the range of the application."""
    limits = application.batch
    found = {}
    for spread in PROFILED_SPREADS:
        replicas = sum(spread)
        most = int(min(limits.atomic_maximum, limits.maximum // replicas))
        for atomic in sorted({int(limits.atomic_minimum), most}):
            if limits.atomic_minimum <= atomic <= most:
                step, synchronisation = application.step_times(spread, atomic)
                found[len(spread), replicas, atomic] = (step - synchronisation, step)
    return found
