"""Assignment of guests to hosts: exactly, and by AntMan's rule.

References
----------
Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.shared_gpus.antman import build_guest_program
from goodalloc.models.shared_gpus.hosted_jobs import total_rate
from goodalloc.solvers.milp.cheapest_core import maximise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.shared_gpus.hosted_jobs import Guests, Hosts
    from goodalloc.solvers.interface.stop import Stop
    from goodalloc.solvers.milp.cheapest_core import Maximum


def best_hosts(problem: Guests, *, stop: Stop | None = None) -> Maximum[Hosts]:
    """Return the placement in which guests have most of their speed together.

    Parameters
    ----------
    problem
        The guests.
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Guests
    >>> from goodalloc.solvers.shared_gpus import best_hosts
    >>> rate = np.array([[1.0, 0.9], [1.0, 0.5]])  # two guests, two hosts of one GPU
    >>> best_hosts(Guests(np.array([1, 1]), np.array([1, 1]), rate)).choice
    (1, 0)
    """
    built = build_guest_program(problem)
    return maximise(built.program, built.hosts, partial(total_rate, problem), stop)


def least_loaded(problem: Guests, busy: Sequence[float], threshold: float = 0.8) -> Hosts:
    """Assign guests in order, each to the least busy host with room; the first of equals.

    Parameters
    ----------
    problem
        The guests, in order of arrival.
    busy
        Part of the time that the GPUs of every host compute.
    threshold
        Hosts at least this busy get no guests.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Guests
    >>> from goodalloc.solvers.shared_gpus import least_loaded
    >>> rate = np.array([[1.0, 0.9], [1.0, 0.5]])  # two guests, two hosts of one GPU
    >>> least_loaded(Guests(np.array([1, 1]), np.array([1, 1]), rate), [0.0, 0.5])
    (0, 1)
    """
    left, hosts = problem.room.tolist(), list[int | None]()
    for guest, gpus in enumerate(problem.gpus.tolist()):
        able = [
            host
            for host in range(problem.num_hosts)
            if busy[host] < threshold and left[host] >= gpus and problem.rate[guest, host] > -np.inf
        ]
        host = min(able, key=busy.__getitem__, default=None)
        if host is not None:
            left[host] -= gpus
        hosts.append(host)
    return tuple(hosts)
