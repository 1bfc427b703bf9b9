r"""Which part of a step the cores and GPUs of a job with parameter servers compute.

AITurbo (HPDC'21) measures how busy CPUs and GPUs are; of a simulated step that is a reading of
ours, by its parts (equation (1) of `parameter_servers/step_time.py`). GPUs compute in the forward
and backward pass and when they aggregate, the cores of workers in the forward and backward pass (on
them, or feeding a GPU) and in what is due to every worker, those of servers in the update and in
what is due to every server. Nothing computes during push and pull.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.parameter_servers.step_time import step_time_parts

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.configuration import PsConfiguration
    from goodalloc.models.parameter_servers.step_time import PsStepTime


class Busy(NamedTuple):
    """Parts of a step, from 0 to 1."""

    server_cores: float
    worker_cores: float
    gpus: float


#: Nothing computes.
IDLE = Busy(0.0, 0.0, 0.0)


def busy_parts(
    parameters: PsStepTime,
    configuration: PsConfiguration,
    batch_size: float,
    bandwidth: float = 1.0,
) -> Busy:
    """How busy the cores and GPUs of one configuration are; arguments as of `seconds_per_step`.

    Raises
    ------
    ValueError
        If a number makes no sense, or the job does not train there.
    """
    parts = step_time_parts(parameters, configuration, batch_size, bandwidth)
    seconds = float(np.sum(parts))
    if not np.isfinite(seconds):
        raise ValueError(f"Configuration {tuple(configuration)} does not train; expected one.")
    return Busy(
        float(parts.update + parts.servers) / seconds,
        float(parts.forward_backward + parts.workers) / seconds,
        float(parts.forward_backward + parts.aggregation) / seconds,
    )
