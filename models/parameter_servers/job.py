r"""Parameter-server job, and its remaining service: AITurbo.

AITurbo's goal is stated over the *remaining service* :math:`V` of a job; the formula could not be
read. The documented reading, that of a follow-on's code (github.com/MaoZzzzz/Aiturbo-vGPU, commit
11ab921), is what the job will have occupied by its end,

.. math:: V(c) = \bigl( N \, T(c) + o(c) \bigr) \, S(c), \qquad
    S(c) = \omega_{core} \, \mathrm{cores}(c) + \omega_{gpu} \, \mathrm{gpus}(c),              (1)

with the steps that remain *N*, the seconds of a step *T* (`models/parameter_servers/step_time.py`),
and the seconds *o* of a restart where the configuration *c* is not the present one; a GPU counts as
ten cores. Another reading is the remaining *time*, :math:`S = 1`. Service is least where no unit is
badly used, so a unit less may lower it; time never rises by more cores. Sums of either are lowered
most by the jobs that need longest. With *log time*, :math:`\ln(1 + N T + o)`, which is ours, a unit
goes to the job of whose time it takes the largest part, however long that is.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.tabulated_service import AXES, Pods, ServiceTable
from goodalloc.models.support.validation import require_choice, require_name, require_number

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.step_time import PsStepTime
    from goodalloc.models.parameter_servers.tabulated_service import Cell
    from goodalloc.models.support.array_types import Numbers


#: Measure of the remaining work: (1), seconds, or their logarithm.
Measure = Literal["service", "time", "log time"]

#: Weights of a core and a GPU in (1).
CORE_WEIGHT, GPU_WEIGHT = 1.0, 10.0


@dataclass(frozen=True)
class PsChoices:
    """Choices of a job along each axis, ascending; a step along an axis is AITurbo's unit.

    Parameters
    ----------
    servers, workers
        Numbers of parameter servers and of workers.
    server_cores, worker_cores
        Cores of each server and of each worker.
    worker_gpus
        GPUs of each worker, 0 for CPU workers.

    Raises
    ------
    ValueError
        If an axis is empty or not ascending, or a number is below 1 (GPUs: below 0) or not finite.
    """

    servers: tuple[int, ...] = tuple(range(1, 11))
    workers: tuple[int, ...] = tuple(range(1, 9))
    server_cores: tuple[int, ...] = (1, 2, 3, 4)
    worker_cores: tuple[int, ...] = (1, 2, 3, 4)
    worker_gpus: tuple[float, ...] = (0.0, 1.0)

    def __post_init__(self) -> None:
        for axis in AXES:
            values = getattr(self, axis)
            least = 0.0 if axis == "worker_gpus" else 1.0
            for value in values:
                require_number(f"Choices: {axis}", value, least)
            if not values or list(values) != sorted(set(values)):
                raise ValueError(f"Choices: {axis} is {values}; expected ascending numbers.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of choices along every axis."""
        return tuple(len(getattr(self, axis)) for axis in AXES)

    @property
    def grid(self) -> PsConfiguration:
        """All configurations, as arrays of five axes."""
        axes = [np.array(getattr(self, axis), dtype=float) for axis in AXES]
        return PsConfiguration(*np.meshgrid(*axes, indexing="ij"))

    def at(self, cell: Cell) -> PsConfiguration:
        """Return the configuration of a cell."""
        return PsConfiguration(
            *(getattr(self, axis)[i] for axis, i in zip(AXES, cell, strict=True))
        )

    def cell(self, configuration: PsConfiguration) -> Cell | None:
        """Return the cell of a configuration, None if it is not among the choices."""
        pairs = zip(AXES, configuration, strict=True)
        found = [np.flatnonzero(np.equal(getattr(self, axis), value)) for axis, value in pairs]
        return tuple(int(index[0]) for index in found) if all(i.size for i in found) else None


@dataclass(frozen=True)
class PsJob:
    """Parameter-server job with its choices and its present configuration.

    Parameters
    ----------
    name
        Name of the job.
    remaining_steps
        Steps to its end.
    batch_size
        Examples of a step.
    step_time
        Model of the seconds of a step.
    choices
        Choices of its configuration.
    current
        Present configuration, None while it waits.
    restart_seconds
        Cost of a change of configuration.

    Raises
    ------
    ValueError
        If the name is empty, `remaining_steps` or `batch_size` is not above 0, or
        `restart_seconds` is negative or not finite.
    """

    name: str
    remaining_steps: float
    batch_size: float
    step_time: PsStepTime
    choices: PsChoices = field(default_factory=PsChoices)
    current: PsConfiguration | None = None
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        for name in ("remaining_steps", "batch_size"):
            require_number(f"Job '{self.name}': {name}", getattr(self, name), 0.0, strict=True)
        require_number(f"Job '{self.name}': restart_seconds", self.restart_seconds, 0.0)

    @property
    def cell(self) -> Cell | None:
        """Cell of the present configuration; None while it waits, or if it is not a choice."""
        return None if self.current is None else self.choices.cell(self.current)


def service_table(
    job: PsJob,
    measure: Measure = "service",
    *,
    core_weight: float = CORE_WEIGHT,
    gpu_weight: float = GPU_WEIGHT,
    bandwidth: float = 1.0,
) -> ServiceTable:
    """Return the remaining service (1), or another measure, in every configuration.

    Parameters
    ----------
    job
        The job.
    measure
        Measure of the remaining work.
    core_weight, gpu_weight
        Weights of a core and a GPU.
    bandwidth
        Bandwidth over that at which the step times were measured.

    Returns
    -------
    ServiceTable
        Remaining service of every cell; the resources are cores and GPUs.

    Raises
    ------
    ValueError
        If `measure` is unknown, a weight is negative or not finite, or `bandwidth` is not above 0.

    Examples
    --------
    >>> from goodalloc.models.parameter_servers import PsChoices, PsJob, PsStepTime
    >>> from goodalloc.models.parameter_servers import StepTimeCoefficients, service_table
    >>> step = PsStepTime(StepTimeCoefficients(per_example=0.01, transfer=0.1))
    >>> choices = PsChoices((1,), (1, 2), (1,), (1,), (1.0,))
    >>> job = PsJob("job", 100.0, 32.0, step, choices)
    >>> service_table(job, "time").service.ravel().round(6)  # 100 steps of 0.42 and 0.36 s
    array([42., 36.])
    """
    require_choice("Remaining service: measure", measure, get_args(Measure))
    for name, weight in (("core_weight", core_weight), ("gpu_weight", gpu_weight)):
        require_number(f"Remaining service: {name}", weight, 0.0)
    grid = job.choices.grid
    seconds = job.remaining_steps * seconds_per_step(job.step_time, grid, job.batch_size, bandwidth)
    if job.current is not None:
        stays = np.zeros(seconds.shape, dtype=bool)
        if job.cell is not None:
            stays[job.cell] = True
        seconds = np.where(stays, seconds, seconds + job.restart_seconds)
    pods = (
        _pods(grid.servers, grid.server_cores, np.zeros(seconds.shape)),
        _pods(grid.workers, grid.worker_cores, grid.worker_gpus),
    )
    demand = np.stack([np.asarray(grid.cores), np.asarray(grid.gpus)], axis=-1)
    held = demand @ np.array([core_weight, gpu_weight])
    counted = seconds * held if measure == "service" else seconds
    if measure == "log time":
        counted = np.log1p(seconds)
    return ServiceTable(job.name, np.where(np.isfinite(seconds), counted, np.inf), demand, pods)


def _pods(count: Numbers, cores: Numbers, gpus: Numbers) -> Pods:
    """Return the pods of one kind, which take cores and GPUs."""
    each = np.stack([np.asarray(cores), np.asarray(gpus)], axis=-1)
    return Pods(np.rint(np.asarray(count)).astype(np.int64), each)
