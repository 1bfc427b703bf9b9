"""State of a job of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goodalloc.experiments.replay.job_modes import Measured
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
    from goodalloc.models.round.allocation import Placement


class BatchBasis(NamedTuple):
    """Basis on which a job chose its batch size.

    Attributes
    ----------
    model
        Prediction of its goodput.
    nodes, replicas
        Number of nodes and of GPUs.
    """

    model: GoodputModel
    nodes: int
    replicas: int


@dataclass(eq=False)
class SimulatedJobState:
    """State of a job that a checkpoint stores.

    Parameters
    ----------
    gpu_type, cores, mode, host
        Type of its GPUs, CPU cores beside each, name of its mode, and the job whose GPUs it shares
        as a guest; the first is that of its last GPUs while it has none.
    placement
        Its GPUs on each of its nodes.
    delay
        Remaining seconds of its restart.
    epoch, progress, attained_service
        Complete epochs, progress in steps at the initial batch size, and GPU-seconds held.
    first_start, completion
        Times at which it began to train first and ended.
    restarts
        Number of restarts, None before its first start.
    atomic_batch_size, accumulation_steps
        Examples per GPU and pass, and passes before the one that synchronises.
    measured
        Its measurements on every type of GPU that it ran on.
    gradient, first_gradient
        Gradient statistics measured last and first.
    chosen_for
        Basis of its last choice of a batch size.
    efficiency
        Statistical efficiency measured last.
    busy, share
        Busy part of its GPUs if it was measured, and its speed relative to that on GPUs of its own.
    """

    gpu_type: str
    cores: float = 0.0
    mode: str = ""
    host: str = ""
    placement: Placement = ()
    delay: float = 0.0
    epoch: int = 0
    progress: float = 0.0
    attained_service: float = 0.0
    first_start: float | None = None
    completion: float | None = None
    restarts: int | None = None
    atomic_batch_size: int = 0
    accumulation_steps: int = 0
    measured: dict[str, Measured] = field(default_factory=dict)
    gradient: GradientStatistics | None = None
    first_gradient: GradientStatistics | None = None
    chosen_for: BatchBasis | None = None
    efficiency: float = 0.0
    busy: float | None = None
    share: float = 1.0
