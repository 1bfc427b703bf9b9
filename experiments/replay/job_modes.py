"""How the replicas of a job of a replay may be equipped, and what it predicts of each way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.data.applications.application import examples_per_second, pass_time
from goodalloc.data.rounds.equipped import CORES, mode_name
from goodalloc.models.goodput.bootstrapped_goodput import bootstrap
from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.mode import Mode, resources

if TYPE_CHECKING:
    import numpy as np

    from goodalloc.data.applications.application import Application
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from goodalloc.models.round.cluster import Cluster

#: One measured configuration: (one node or several as a count, replicas, atomic batch size).
Configuration = tuple[int, int, int]


@dataclass
class Measured:
    """What a job measured on one type of GPU, and what follows from it.

    Parameters
    ----------
    times
        Seconds of a pass without and with synchronisation, by configuration.
    parameters
        As last fitted, None before.
    fitted
        How many configurations they were fitted to.
    """

    times: dict[Configuration, tuple[float, float]] = field(default_factory=dict)
    parameters: ThroughputParameters | None = None
    fitted: int = 0


@dataclass(frozen=True)
class Equipment:
    """What the nodes of a cluster let a replica have.

    Parameters
    ----------
    shares
        Of every type of GPU the cores for each GPU of the node that has the fewest for each.
    most_cores
        The most cores of any node of every type; 0 where cores do not count.
    """

    shares: dict[str, float]
    most_cores: dict[str, float]

    @classmethod
    def of(cls, cluster: Cluster) -> Equipment:
        """What there is on the nodes with GPUs."""
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
        """The types of GPU, in the order of the groups."""
        return tuple(self.shares)

    @property
    def counts_cores(self) -> bool:
        """Whether cores count."""
        return any(self.most_cores.values())

    @property
    def plain(self) -> bool:
        """Whether GPUs are all that counts."""
        return len(self.shares) == 1 and "" in self.shares and not self.counts_cores


def draw_pipeline(
    application: Application, gpu_types: tuple[str, ...], random: np.random.Generator
) -> InputPipeline:
    """An input that some number of cores keeps apace with the fastest type of GPU.

    The number is drawn from those that a replica may have; slower GPUs need fewer.

    Parameters
    ----------
    application
        What the job trains.
    gpu_types
        The types of GPU there are.
    random
        Draws one number.
    """
    fastest = min(pass_time(application.on(name)).per_example for name in gpu_types)
    return InputPipeline(float(random.integers(CORES[0], CORES[-1] + 1)) * fastest)


def predict(
    application: Application,
    measured: dict[str, Measured],
    gradient: GradientStatistics | None,
    gpu_types: tuple[str, ...],
) -> dict[str, GoodputModel]:
    """The goodput model of a job on every type of GPU; empty before it measured anything.

    What it never ran on is bootstrapped from the first type that it ran on and from its throughput
    on one GPU of each, which every job is profiled on beforehand
    (`models/goodput/bootstrapped_goodput.py`).
    """
    fitted = {
        name: found.parameters for name, found in measured.items() if found.parameters is not None
    }
    if not fitted or gradient is None:
        return {}
    if len(gpu_types) > 1:
        rates = {name: examples_per_second(application.on(name)) for name in gpu_types}
        fitted = bootstrap(fitted, rates)
    return {
        name: GoodputModel(fitted[name], gradient, application.on(name).batch) for name in gpu_types
    }


def equip(
    equipment: Equipment, models: dict[str, GoodputModel], pipeline: InputPipeline | None
) -> tuple[Mode, ...]:
    """The modes of a job: of every type, with every number of cores; none if all that is plain.

    A job that never ran may have the cores of a GPU's share only, since nothing tells it what more
    or fewer are worth.

    Parameters
    ----------
    equipment
        What there is.
    models
        What it predicts on every type, empty before it ran.
    pipeline
        Its input, None where cores do not count.
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
    """The model with as many cores beside every GPU."""
    return model._replace(throughput=bounded_by_input(model.throughput, pipeline, cores))
