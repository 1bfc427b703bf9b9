"""Prior knowledge of jobs about their application: none, that of earlier jobs, or a profile.

Jobs of Pollux start without knowledge and explore: their priors make numbers of GPUs that they
never tried look cheap, and they may use at most twice as many as they ever ran on (section 4.1). A
pool of experience hands measurements of jobs of the same application to those that follow, and
predicts synchronisation that a job has not measured from jobs of any application
(`models/goodput/similar_jobs.py`).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import check_keys, check_object
from goodalloc.experiments.replay.job_modes import Measured, experience_of
from goodalloc.experiments.replay.simulation_state import (
    pack_numbers,
    pack_times,
    unpack_numbers,
    unpack_times,
)
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.data.documents.json_file import Document
    from goodalloc.experiments.replay.job_modes import Configuration
    from goodalloc.experiments.replay.replay_conditions import Knowledge
    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.models.goodput.similar_jobs import Experience


#: Kinds of knowledge that finished jobs add to.
LEARNING: tuple[Knowledge, ...] = ("history", "similar", "others")

#: Kinds of knowledge with predictions from similar jobs.
PREDICTING: tuple[Knowledge, ...] = ("similar", "others")

#: Numbers of GPUs on each node, in a profile that is taken beforehand.
PROFILED_SPREADS: tuple[Spread, ...] = ((1,), (2,), (4,), (4, 4), (4, 4, 4, 4))


@dataclass
class ExperiencePool:
    """Measurements by application and type of GPU.

    The smallest and the largest batch size of every number of nodes and GPUs are kept: step times
    are linear in the batch size, so that those in between add nothing, and fits stay quick.

    Parameters
    ----------
    knowledge
        Kind of knowledge that the pool hands out.
    applications
        True applications, by name.
    """

    knowledge: Knowledge
    applications: Mapping[str, Application]
    _profiles: dict[tuple[str, str], dict[Configuration, tuple[float, float]]] = field(
        default_factory=dict
    )
    _gradients: dict[str, GradientStatistics] = field(default_factory=dict)
    _fitted: dict[tuple[str, str], tuple[tuple[Configuration, ...], Experience]] = field(
        default_factory=dict
    )

    def teach(self, job: SimulatedJob) -> None:
        """Give a new job the knowledge of its application."""
        application = job.application
        name, types = application.name, job.equipment.gpu_types
        if self.knowledge == "profiled" and name not in self._gradients:
            for gpu_type in types:
                self._keep((name, gpu_type), measure(application.on(gpu_type)))
            initial = int(application.batch.initial)
            self._gradients[name] = application.gradient_statistics(initial, 0)
        known = [gpu_type for gpu_type in types if (name, gpu_type) in self._profiles]
        if known and self.knowledge != "others":
            job.measured = {
                gpu_type: Measured(dict(self._profiles[name, gpu_type])) for gpu_type in known
            }
            job.gradient = self._gradients[name]

    def learn(self, job: SimulatedJob) -> None:
        """Keep the measurements of a finished job."""
        if self.knowledge in LEARNING and job.first_gradient is not None:
            for gpu_type, measured in job.measured.items():
                self._keep((job.application.name, gpu_type), measured.times)
            self._gradients.setdefault(job.application.name, job.first_gradient)

    def experiences(self, application: str) -> tuple[Experience, ...]:
        """Return the jobs from which one of `application` predicts what it did not measure.

        They are one for every application and type of GPU, fitted to all of their measurements.
        """
        if self.knowledge not in PREDICTING:
            return ()
        own = application if self.knowledge == "others" else None
        return tuple(self._experience(*key) for key in sorted(self._profiles) if key[0] != own)

    def _experience(self, name: str, gpu_type: str) -> Experience:
        """Return the experience with an application on a type, fitted when its profile changed."""
        times = self._profiles[name, gpu_type]
        configurations = tuple(times)
        fitted = self._fitted.get((name, gpu_type))
        if fitted is None or fitted[0] != configurations:
            found = experience_of(self.applications[name].on(gpu_type), times)
            fitted = self._fitted[name, gpu_type] = configurations, found
        return fitted[1]

    def pack(self) -> Document:
        """Return the pool in terms of JSON."""
        found: Document = {
            name: {"gradient": pack_numbers(gradient), "times": {}}
            for name, gradient in self._gradients.items()
        }
        for (name, gpu_type), times in self._profiles.items():
            found[name]["times"][gpu_type] = pack_times(times)
        return found

    def unpack(self, document: object) -> None:
        """Restore a pool that `pack` returned.

        Raises
        ------
        ValueError
            If a key is missing or unknown, or gradient statistics or times are malformed.
        """
        for name, value in check_object("Experience", document).items():
            item = f"Experience of '{name}'"
            found = check_keys(item, value, ("gradient", "times"))
            self._gradients[name] = unpack_numbers(item, found["gradient"], GradientStatistics)
            for gpu_type, times in check_object(f"{item}: times", found["times"]).items():
                self._profiles[name, gpu_type] = unpack_times(item, times)

    def _keep(self, key: tuple[str, str], found: dict[Configuration, tuple[float, float]]) -> None:
        """Add times to the profile of `key`, and drop those between the extreme batch sizes."""
        merged = {**self._profiles.get(key, {}), **found}
        sizes: dict[tuple[int, int], list[int]] = {}
        for nodes, replicas, atomic in merged:
            sizes.setdefault((nodes, replicas), []).append(atomic)
        extremes = {
            (*pair, atomic) for pair, found in sizes.items() for atomic in (min(found), max(found))
        }
        self._profiles[key] = {
            configuration: merged[configuration] for configuration in sorted(extremes)
        }


def measure(application: Application) -> dict[Configuration, tuple[float, float]]:
    """Return true times of a pass without and with synchronisation, at extreme batch sizes."""
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
