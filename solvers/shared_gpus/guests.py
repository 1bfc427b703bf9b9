"""Which guests go to which hosts: exactly, and as AntMan (OSDI'20) does."""

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
    """The placement in which guests have most of their speed together.

    Parameters
    ----------
    problem
        The guests.
    stop
        Limits; when time runs out the best so far is returned, with its bound.
    """
    built = build_guest_program(problem)
    return maximise(built.program, built.hosts, partial(total_rate, problem), stop)


def least_loaded(problem: Guests, busy: Sequence[float], threshold: float = 0.8) -> Hosts:
    """Guests in order, each to the least busy host that has room; the first of equal ones.

    Parameters
    ----------
    problem
        The guests, in the order in which they came.
    busy
        The part of the time that the GPUs of every host compute.
    threshold
        Hosts that are as busy have no guests.
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
