"""Configuration of a parameter-server job: servers, workers, and the equipment of each.

Workers compute gradients and push them to the parameter servers, each of which holds a part of the
parameters, updates it, and lets the workers pull it (M. Li et al., OSDI'14). Optimus (EuroSys'18)
decides on the numbers of servers and workers, AITurbo (HPDC'21) on the cores of each and on CPU or
GPU for the workers as well.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517

Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import LARGEST_COUNT, as_numbers, require_all

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Array, Indices, Numbers


class PsConfiguration(NamedTuple):
    """Servers and workers of a job, each field a number or an array of many configurations.

    No servers and no workers are the zero configuration: the job does not run.

    Attributes
    ----------
    servers, workers
        Parameter servers and workers; neither without the other.
    server_cores, worker_cores
        CPU cores of each server and of each worker.
    worker_gpus
        GPUs of each worker: 0 for a CPU worker, a part of one GPU, or a whole number.
    """

    servers: Numbers
    workers: Numbers
    server_cores: Numbers = 1.0
    worker_cores: Numbers = 1.0
    worker_gpus: Numbers = 1.0

    @property
    def cores(self) -> Array:
        """CPU cores of all servers and workers together."""
        return np.multiply(self.servers, self.server_cores) + np.multiply(
            self.workers, self.worker_cores
        )

    @property
    def gpus(self) -> Array:
        """GPUs of all workers together."""
        return np.multiply(self.workers, self.worker_gpus)

    @property
    def nothing(self) -> Array:
        """Whether this is the zero configuration."""
        return np.equal(self.workers, 0)

    def take(self, indices: Indices) -> PsConfiguration:
        """Return the configurations at `indices`."""
        return PsConfiguration(*(field[indices] for field in np.broadcast_arrays(*self)))


#: Zero configuration: the job does not run.
NOTHING = PsConfiguration(0, 0)


def checked_configuration(
    configuration: PsConfiguration, name: str = "configuration"
) -> PsConfiguration:
    """Validate configurations and return all fields as arrays of floats of one shape.

    Parameters
    ----------
    configuration
        One or many; the fields broadcast against each other.
    name
        Name of the configuration in a message.

    Raises
    ------
    ValueError
        If a number is negative or too large, servers or workers are not whole or only one of them
        is 0, whatever runs has no cores, or a worker has a part of several GPUs.
    """
    fields = configuration._fields
    given = [as_numbers(name, *pair) for pair in zip(fields, configuration, strict=True)]
    try:
        numbers = [np.array(values, dtype=float) for values in np.broadcast_arrays(*given)]
    except ValueError as error:
        shapes = ", ".join(f"{f} {v.shape}" for f, v in zip(fields, given, strict=True))
        raise ValueError(f"{name}: shapes are {shapes}; expected one shape.") from error
    for field, value in zip(fields, numbers, strict=True):
        within = (value >= 0) & (value <= LARGEST_COUNT)
        require_all(within, name, field, value, f"0 or more and at most {LARGEST_COUNT}")
    servers, workers, server_cores, worker_cores, gpus = numbers
    for field, value in (("servers", servers), ("workers", workers)):
        require_all(value == np.floor(value), name, field, value, "a whole number")
    require_all(
        (servers > 0) | (workers == 0), name, "servers", servers, "1 or more for the workers"
    )
    require_all(
        (workers > 0) | (servers == 0), name, "workers", workers, "1 or more for the servers"
    )
    for field, value in (("server_cores", server_cores), ("worker_cores", worker_cores)):
        require_all((value > 0) | (workers == 0), name, field, value, "above 0")
    require_all(
        (gpus <= 1) | (gpus == np.floor(gpus)),
        name,
        "worker_gpus",
        gpus,
        "a part of one GPU or a whole number",
    )
    return PsConfiguration(*numbers)
