r"""Guests on the GPUs of hosts: problem, price and checker.

Guest *k* takes :math:`g_k` GPUs of a single host *h*, one guest on a GPU, of the :math:`G_h` that
are unused there, and then has the part :math:`r_{kh}` of its own speed. Each guest has one host at
most, and a placement is worth

.. math:: \sum_{k \text{ on } h} r_{kh}.                                                      (1)

Unallocated GPUs are a host, too, beside which guests have all of their speed. In AntMan
(OSDI'20) the guests are opportunistic jobs and hosts keep their speed, so that nothing is lost;
that memory and time of a GPU bound its guests is in the rates
(`models/shared_gpus/shared_speed.py`).

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao

Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class Guests:
    """Guests to be placed on hosts.

    Parameters
    ----------
    gpus
        GPUs of every guest, at least 1; shape (guests,).
    room
        Free GPUs of every host, shape (hosts,).
    rate
        :math:`r_{kh}` of (1), from 0 to 1 and minus infinity for never; shape (guests, hosts).

    Raises
    ------
    ValueError
        If there are no guests or hosts, shapes differ, a rate is neither from 0 to 1 nor minus
        infinity, or a number of GPUs is not whole or too small.
    """

    gpus: Int[Indices, " guests"]
    room: Int[Indices, " hosts"]
    rate: Float[Floats, "guests hosts"]

    def __post_init__(self) -> None:
        rate = as_numbers("Guests", "rate", self.rate).astype(float)
        if rate.ndim != 2 or not rate.size:
            raise ValueError(f"Guests: rate has shape {rate.shape}; expected guests by hosts.")
        right = ((rate >= 0) & (rate <= 1)) | (rate == -np.inf)
        require_all(right, "Guest", "rate", rate, "a number from 0 to 1, or minus infinity")
        object.__setattr__(self, "rate", rate)
        for name, value, size, least in (
            ("gpus", self.gpus, rate.shape[0], 1),
            ("room", self.room, rate.shape[1], 0),
        ):
            counts = as_numbers("Guests", name, value)
            if counts.shape != (size,) or counts.dtype.kind not in "iu":
                raise ValueError(f"Guests: {name} is {value!r}; expected {size} whole numbers.")
            require_all(counts >= least, "Guests", name, counts, f"at least {least}")
            object.__setattr__(self, name, counts.astype(np.int64))

    @property
    def num_guests(self) -> int:
        """Number of guests."""
        return self.gpus.size

    @property
    def num_hosts(self) -> int:
        """Number of hosts."""
        return self.room.size


#: The host of every guest, None for none.
Hosts = tuple[int | None, ...]


def guest_violations(problem: Guests, hosts: Sequence[int | None]) -> tuple[str, ...]:
    """Return a sentence for each fault of a placement; none if it is feasible."""
    if len(hosts) != problem.num_guests:
        return (f"There are {len(hosts)} hosts; expected one or None for every guest.",)
    found, left = [], problem.room.tolist()
    for guest, host in enumerate(hosts):
        if host is None:
            continue
        if not 0 <= host < problem.num_hosts:
            found.append(f"Guest {guest} is on {host}; expected 0 to {problem.num_hosts - 1}.")
            continue
        left[host] -= int(problem.gpus[guest])
        if problem.rate[guest, host] == -np.inf:
            found.append(f"Guest {guest} is on host {host}, where it cannot be.")
    for host, gpus in enumerate(left):
        if gpus < 0:
            found.append(f"Host {host} lacks {-gpus} GPUs; expected at most one guest on a GPU.")
    return tuple(found)


def total_rate(problem: Guests, hosts: Sequence[int | None]) -> float:
    """Return the worth (1) of a placement.

    Raises
    ------
    ValueError
        If the placement is infeasible.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Guests, total_rate
    >>> problem = Guests(np.array([1, 2]), np.array([2]), np.array([[0.5], [0.9]]))
    >>> total_rate(problem, [None, 0])
    0.9
    """
    broken = guest_violations(problem, hosts)
    if broken:
        raise ValueError(broken[0])
    return float(
        sum(problem.rate[guest, host] for guest, host in enumerate(hosts) if host is not None)
    )
