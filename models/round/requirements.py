"""Requirements of solvers that know less than an instance can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance


def require_whole_gpus(instance: Instance) -> None:
    """Raise if an instance has shares of GPUs, for solvers of modes with whole GPUs.

    Raises
    ------
    ValueError
        If a mode of some job takes less than a GPU a replica.

    Examples
    --------
    >>> from goodalloc.models.round import Cluster, Instance, Job, require_whole_gpus
    >>> require_whole_gpus(Instance(Cluster.uniform(nodes=2, gpus=4), (Job("job"),)))
    """
    for job in instance.jobs:
        for mode in job.modes:
            if mode.gpu_share != 1:
                raise ValueError(
                    f"Job '{job.name}': mode '{mode.name}' takes {mode.gpu_share:g} of a GPU and "
                    "this solver knows whole GPUs only; expected one that knows parts, which are "
                    "pyomo, brute_force, best_fit, fgd and, for pods, pods."
                )


def require_plain(instance: Instance) -> None:
    """Raise if a job has modes, for solvers that count GPUs only.

    Raises
    ------
    ValueError
        If a job has modes; where one takes a part of a GPU, as `require_whole_gpus`.

    Examples
    --------
    >>> from goodalloc.models.round import Cluster, Instance, Job, require_plain
    >>> require_plain(Instance(Cluster.uniform(nodes=2, gpus=4), (Job("job"),)))
    """
    require_whole_gpus(instance)
    for job in instance.jobs:
        if job.modes:
            raise ValueError(
                f"Job '{job.name}' has modes, as '{job.modes[0].name}', which this solver does "
                "not know; expected one that does, which are highs, pyomo, brute_force, knapsack, "
                "genetic, greedy, best_fit, fgd and sia."
            )
