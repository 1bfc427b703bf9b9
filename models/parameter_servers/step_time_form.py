"""Form of the step time of parameter-server training, without its coefficients.

The symbols are those of equation (1) of `models/parameter_servers/step_time.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from goodalloc.models.parameter_servers.slowdown import CoreEfficiency, GpuShare
from goodalloc.models.support.validation import require_choice, require_flag, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Numbers

#: Cost of an update, *u* of (1): w / p, 1 / p, or 1.
UpdateLoad = Literal["every_worker", "averaged", "constant"]
UPDATE_LOADS: tuple[UpdateLoad, ...] = ("every_worker", "averaged", "constant")

#: Share of the forward pass in forward and backward: a backward pass takes about twice as long.
FORWARD_PART = 1.0 / 3.0


@dataclass(frozen=True, slots=True)
class StepTimeForm:
    """Form of the step time: synchrony, cost of an update, and slowdowns of cores and GPUs.

    Parameters
    ----------
    synchronous
        Whether the workers wait for each other in every step.
    update_load
        Cost of an update, one of `UPDATE_LOADS`.
    cpu_slowdown
        Forward and backward pass of a CPU worker with any number of cores over that on a whole GPU;
        infinite where the job does not run on CPU workers, or nothing is known of them.
    worker_cores, server_cores
        Efficiency of cores of a CPU worker and of a server.
    forward_share, backward_share
        Slowdown of the forward and of the backward pass on a share of a GPU.
    forward_part
        Share of the forward pass in both together, on a whole GPU.

    Raises
    ------
    ValueError
        If `synchronous` is not a flag, `update_load` is unknown, `cpu_slowdown` is not above 0, or
        `forward_part` is outside [0, 1].
    """

    synchronous: bool = True
    update_load: UpdateLoad = "every_worker"
    cpu_slowdown: float = math.inf
    worker_cores: CoreEfficiency = field(default_factory=CoreEfficiency)
    server_cores: CoreEfficiency = field(default_factory=CoreEfficiency)
    forward_share: GpuShare = field(default_factory=GpuShare)
    backward_share: GpuShare = field(default_factory=GpuShare)
    forward_part: float = FORWARD_PART

    def __post_init__(self) -> None:
        require_flag("Step time: synchronous", self.synchronous)
        require_choice("Step time: update_load", self.update_load, UPDATE_LOADS)
        require_number("Step time: cpu_slowdown", self.cpu_slowdown, 0.0, finite=False, strict=True)
        require_number("Step time: forward_part", self.forward_part, 0.0)
        if self.forward_part > 1:
            raise ValueError(f"Step time: forward_part is {self.forward_part}; expected 0 to 1.")

    def worker_slowdown(self, cores: Numbers, gpus: Numbers) -> Any:
        """Return the slowdown c_w of (1): a worker's passes over those on whole GPUs.

        Parameters
        ----------
        cores, gpus
            Cores and GPUs of the worker.

        Raises
        ------
        ValueError
            If a CPU worker's cores are too few for an efficiency above 0.
        """
        on_cpu = np.equal(gpus, 0)
        share = np.where(on_cpu, 1.0, np.minimum(gpus, 1.0))
        forward, backward = (g.slowdown(share) for g in (self.forward_share, self.backward_share))
        on_gpu = self.forward_part * forward + (1.0 - self.forward_part) * backward
        if self.cpu_slowdown == math.inf:
            return np.where(on_cpu, np.inf, on_gpu)
        slow = self.worker_cores.slowdown(cores, "Configuration: CPU workers", on_cpu)
        return np.where(on_cpu, self.cpu_slowdown * slow, on_gpu)
