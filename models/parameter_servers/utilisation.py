r"""Utilisation of the cores and GPUs of a parameter-server job.

AITurbo (HPDC'21) measures how busy CPUs and GPUs are; of a simulated step that is a reading of
ours, by its parts (equation (1) of `parameter_servers/step_time.py`). GPUs compute in the forward
and backward pass and when they aggregate, the cores of workers in the forward and backward pass (on
them, or feeding a GPU) and in what is due to every worker, those of servers in the update and in
what is due to every server. Nothing computes during push and pull.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.parameter_servers.step_time import step_time_parts

if TYPE_CHECKING:
    from goodalloc.models.parameter_servers.configuration import PsConfiguration
    from goodalloc.models.parameter_servers.step_time import PsStepTime


class Busy(NamedTuple):
    """Busy parts of a step, from 0 to 1."""

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
    """Return the busy parts of one configuration, with the arguments of `seconds_per_step`.

    Raises
    ------
    ValueError
        If the configuration is invalid or does not train, or `batch_size` or `bandwidth` is not
        above 0.

    Examples
    --------
    >>> from goodalloc.models.parameter_servers import PsConfiguration, PsStepTime
    >>> from goodalloc.models.parameter_servers import StepTimeCoefficients, busy_parts
    >>> step = PsStepTime(StepTimeCoefficients(per_example=0.01, transfer=0.1))
    >>> round(busy_parts(step, PsConfiguration(1, 2), batch_size=32).gpus, 3)  # 0.16 of 0.36
    0.444
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
