"""Fits of a job of a replay, and its modes: equipment of its replicas, and goodput on each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.application import examples_per_second, pass_time
from goodalloc.data.applications.architectures import ARCHITECTURES, Architecture
from goodalloc.data.rounds.equipped import CORES, mode_name
from goodalloc.models.fitting.fit import ONLINE, fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.bootstrapped_goodput import bootstrap
from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.job_similarity import traits_of
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.similar_jobs import Experience, foresee, measured_regimes
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.mode import Mode, resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.models.goodput.job_similarity import Traits
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
    from goodalloc.models.round.cluster import Cluster

#: Measured configuration: number of nodes, number of replicas, atomic batch size.
Configuration = tuple[int, int, int]


@dataclass
class Measured:
    """Measurements of a job on one type of GPU, and the parameters fitted to them.

    Parameters
    ----------
    times
        Seconds of a pass without and with synchronisation, by configuration.
    parameters
        Parameters of the last fit, None before the first.
    fitted
        Number of configurations of the last fit.
    reach
        Replicas that similar jobs measured, if they predict what this job did not; else 0.
    """

    times: dict[Configuration, tuple[float, float]] = field(default_factory=dict)
    parameters: ThroughputParameters | None = None
    fitted: int = 0
    reach: int = 0


def fit_tables(
    tables: Sequence[Mapping[Configuration, tuple[float, float]]],
) -> list[ThroughputParameters]:
    """Return the throughput parameters fitted to the times of each table, in one call."""
    if not tables:
        return []
    rows = [np.array([(*key, *times) for key, times in table.items()]) for table in tables]
    fitted = fit_throughput(pad_observations(rows), ONLINE).parameters
    return [
        ThroughputParameters(*map(float, one)) for one in zip(*map(np.asarray, fitted), strict=True)
    ]


def traits_of_application(application: Application, parameters: ThroughputParameters) -> Traits:
    """Return the traits of a job: what its submission tells, and the speed of its first pass."""
    architecture = ARCHITECTURES.get(application.name, Architecture())
    return traits_of(application.batch, parameters, architecture.parameters, architecture.family)


def experience_of(
    application: Application, times: Mapping[Configuration, tuple[float, float]]
) -> Experience:
    """Return the experience with an application on a type of GPU, fitted to measured times."""
    # Fitted alone, so that what it is fitted beside cannot matter after a checkpoint.
    (parameters,) = fit_tables([times])
    most = max(replicas for _, replicas, _ in times)
    return Experience(
        traits_of_application(application, parameters), parameters, measured_regimes(times), most
    )


def predict_unmeasured(
    found: Measured, application: Application, experiences: Sequence[Experience]
) -> None:
    """Replace parameters that were never measured by predictions, if there are similar jobs."""
    if experiences and found.parameters is not None:
        traits = traits_of_application(application, found.parameters)
        regimes = measured_regimes(found.times)
        found.parameters, found.reach = foresee(found.parameters, regimes, traits, experiences)


@dataclass(frozen=True)
class Equipment:
    """Equipment that the nodes of a cluster offer a replica.

    Parameters
    ----------
    shares
        Fewest cores per GPU of any node, by type of GPU.
    most_cores
        Most cores of any node, by type of GPU; 0 where cores do not count.
    """

    shares: dict[str, float]
    most_cores: dict[str, float]

    @classmethod
    def of(cls, cluster: Cluster) -> Equipment:
        """Return the equipment of the nodes with GPUs."""
        shares: dict[str, float] = {}
        most: dict[str, float] = {}
        for group in cluster.groups:
            if group.gpus:
                cores = dict(group.resources).get("cpu", 0.0)
                share = cores / group.gpus
                shares[group.gpu_type] = min(share, shares.get(group.gpu_type, share))
                most[group.gpu_type] = max(cores, most.get(group.gpu_type, 0.0))
        return cls(shares, most)

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Types of GPU in the order of the groups."""
        return tuple(self.shares)

    @property
    def counts_cores(self) -> bool:
        """Whether cores count."""
        return any(self.most_cores.values())

    @property
    def plain(self) -> bool:
        """Whether there is one unnamed type of GPU and cores do not count."""
        return len(self.shares) == 1 and "" in self.shares and not self.counts_cores


def draw_pipeline(
    application: Application, gpu_types: tuple[str, ...], random: np.random.Generator
) -> InputPipeline:
    """Draw an input pipeline that keeps up with the fastest type of GPU on a number of cores.

    The number is drawn from those that a replica may have; slower GPUs need fewer.

    Parameters
    ----------
    application
        The application of the job.
    gpu_types
        The types of GPU of the cluster.
    random
        Generator of which one number is drawn.
    """
    fastest = min(pass_time(application.on(name)).per_example for name in gpu_types)
    return InputPipeline(float(random.integers(CORES[0], CORES[-1] + 1)) * fastest)


def predict(
    application: Application,
    measured: dict[str, Measured],
    gradient: GradientStatistics | None,
    gpu_types: tuple[str, ...],
    batch_size: int | None = None,
    *,
    pooled: bool = False,
) -> dict[str, GoodputModel]:
    """Return the goodput model of a job on every type of GPU; empty before any measurement.

    The model on a type that it never ran on is bootstrapped from the first type that it ran on and
    from its throughput on one GPU of each type, on which every job is profiled beforehand
    (`models/goodput/bootstrapped_goodput.py`).

    Parameters
    ----------
    application
        The true application, of which the batch limits are known, and the throughput on one GPU.
    measured, gradient
        Measurements on every type that it ran on, and the gradient statistics measured last.
    gpu_types
        The types of GPU.
    batch_size
        The only total batch size that it may use; None for any within the limits.
    pooled
        Whether its agent takes all types for one: the first fit then stands for every type.
    """
    fitted = {
        name: found.parameters for name, found in measured.items() if found.parameters is not None
    }
    if not fitted or gradient is None:
        return {}
    if pooled:
        fitted = dict.fromkeys(gpu_types, next(iter(fitted.values())))
    elif len(gpu_types) > 1:
        rates = {name: examples_per_second(application.on(name)) for name in gpu_types}
        fitted = bootstrap(fitted, rates)
    limits = {name: application.on(name).batch for name in gpu_types}
    if batch_size is not None:
        limits = {name: at_batch_size(found, batch_size) for name, found in limits.items()}
    return {name: GoodputModel(fitted[name], gradient, limits[name]) for name in gpu_types}


def at_batch_size(limits: BatchLimits, batch_size: int) -> BatchLimits:
    """Return the limits with one total batch size, at which every step then counts as efficient."""
    most = min(int(limits.atomic_maximum), batch_size)
    return limits._replace(initial=batch_size, maximum=batch_size, atomic_maximum=most)


def equip(
    equipment: Equipment, models: dict[str, GoodputModel], pipeline: InputPipeline | None
) -> tuple[Mode, ...]:
    """Return the modes of a job, one per type and number of cores; none on plain equipment.

    A job that never ran may have the cores of a GPU's share only, since it cannot predict the value
    of more or fewer.

    Parameters
    ----------
    equipment
        Equipment of the nodes.
    models
        Predictions on every type of GPU, empty before the job ran.
    pipeline
        Its input pipeline, None where cores do not count.
    """
    if equipment.plain:
        return ()
    modes = []
    for name, share in equipment.shares.items():
        model = models.get(name)
        if pipeline is None:
            modes.append(Mode(name or "gpu", model, name))
            continue
        for cores in CORES:
            usual = min(max(int(share), CORES[0]), CORES[-1])
            if cores <= equipment.most_cores[name] and (model is not None or cores == usual):
                slower = model and bounded(model, pipeline, cores)
                modes.append(Mode(mode_name(name, cores), slower, name, resources({"cpu": cores})))
    return tuple(modes)


def bounded(model: GoodputModel, pipeline: InputPipeline, cores: float) -> GoodputModel:
    """Return `model` with `cores` beside every GPU."""
    return model._replace(throughput=bounded_by_input(model.throughput, pipeline, cores))
