"""AntMan as a policy: jobs with a guarantee, and others on the GPUs these leave.

Jobs with a guarantee get their requested GPUs, first come, first served, and run to their end.
Opportunistic jobs run on idle GPUs, which they lose to jobs with a guarantee, or beside one of
these without slowing it.

References
----------
Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.shared_gpus.hosted_jobs import Guests
from goodalloc.models.shared_gpus.shared_speed import GUARANTEED, GpuUse
from goodalloc.models.support.validation import require_flag, require_number, require_share
from goodalloc.solvers.gavel.share_rounds import place_on_types
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import take_of
from goodalloc.solvers.shared_gpus.guests import best_hosts, least_loaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


@dataclass
class AntMan:
    """Policy of guests beside hosts that have a guarantee.

    The names of jobs decide which have one, by a checksum (a documented reading: users declare it).
    A waiting opportunistic job goes to idle GPUs or, whole, to one host with GPUs that have no
    guest yet; by the published rule in order of arrival to the least busy GPUs below a threshold,
    or so that guests have most of their speed together (`solvers/shared_gpus/guests.py`). Hosts are
    jobs that ran before, so that their use of GPUs is known; a guest that never ran counts as busy
    all the time. A guest that has little of its speed moves to idle GPUs as soon as there are
    enough. Where a guest's host ends, it stays, alone.

    Parameters
    ----------
    exact
        Whether guests are placed by the exact program.
    guaranteed
        Share of the jobs that have a guarantee.
    threshold
        GPUs at least this busy get no guests, by the published rule.
    enough
        Guests with at least this part of their speed stay where they are.
    seconds
        Time limit of the program, after which the best so far is taken.
    sharing
        Way in which guests share GPUs.
    """

    exact: bool = False
    guaranteed: float = 0.5
    threshold: float = 0.8
    enough: float = 0.5
    seconds: float = 10.0
    sharing: Sharing = GUARANTEED
    batch_sizes: BatchSizes = field(default="requested", init=False)

    def __post_init__(self) -> None:
        require_flag("AntMan: exact", self.exact)
        for name in ("guaranteed", "threshold", "enough"):
            require_share(f"AntMan: {name}", getattr(self, name))
        require_number("AntMan: seconds", self.seconds, minimum=0.0, strict=True)

    def has_guarantee(self, name: str) -> bool:
        """Return whether a job of that name has a guarantee."""
        return zlib.crc32(name.encode()) < self.guaranteed * 2**32

    def decide(self, round_: Round) -> Decision:
        """Serve the jobs with a guarantee, then the others."""
        jobs = {job.name: job for job in round_.jobs}
        placements, beside = self._own(round_), dict[str, str]()
        for job in round_.jobs:
            if job.host and placements.get(job.host) == jobs[job.host].placement:
                placements[job.name], beside[job.name] = job.placement, job.host
        waiting = [
            job
            for job in round_.jobs
            if job.name not in placements and not self.has_guarantee(job.name)
        ]
        for job, host in self._hosted(round_, jobs, placements, beside, waiting):
            if host:
                beside[job.name] = host
                placements[job.name] = take_of(
                    _without_guests(host, placements, beside), job.replicas
                )
            else:
                placements[job.name] = ()
        slow = (job for job in round_.jobs if job.name in beside and job.host)
        alone = {name for name in placements if name not in beside}
        idle = round_.cluster.num_gpus - sum(jobs[name].replicas for name in alone)
        for job in slow:
            if job.share < self.enough and job.replicas <= idle:
                idle -= job.replicas
                placements[job.name] = ()
                del beside[job.name]
        return Decision(self._settled(round_, jobs, placements, beside), beside=beside)

    def _own(self, round_: Round) -> dict[str, Placement]:
        """Return the jobs with GPUs of their own; opportunistic ones give way to guarantees.

        Guarantees come in order of arrival; jobs still to be placed have no (node, GPUs) pairs yet.
        """
        held = {job.name: job for job in round_.jobs if job.placement and not job.host}
        late = [name for name in held if not self.has_guarantee(name)]
        free = round_.cluster.num_gpus - sum(job.replicas for job in held.values())
        placements = {name: job.placement for name, job in held.items()}
        for job in round_.jobs:
            if job.name in placements or not self.has_guarantee(job.name):
                continue
            if job.replicas > free + sum(held[name].replicas for name in late):
                break
            while job.replicas > free:
                name = late.pop()
                free += held[name].replicas
                del placements[name]
            free -= job.replicas
            placements[job.name] = ()
        return placements

    def _hosted(
        self,
        round_: Round,
        jobs: Mapping[str, ActiveJob],
        placements: Mapping[str, Placement],
        beside: Mapping[str, str],
        waiting: Sequence[ActiveJob],
    ) -> list[tuple[ActiveJob, str]]:
        """Return the waiting jobs that run now, with their hosts; no name for idle GPUs."""
        hosts = [
            jobs[name]
            for name in placements
            if placements[name] and self.has_guarantee(name) and jobs[name].busy is not None
        ]
        if not waiting:
            return []
        taken = sum(jobs[name].replicas for name in placements if name not in beside)
        guests = Counter[str]()
        for guest, host in beside.items():
            guests[host] += jobs[guest].replicas
        room = [round_.cluster.num_gpus - taken]
        room += [host.replicas - guests[host.name] for host in hosts]
        problem = guest_problem(waiting, hosts, room, self.sharing)
        if self.exact:
            found = best_hosts(problem, stop=Stop(seconds=self.seconds)).choice
        else:
            found = least_loaded(problem, loads(hosts), self.threshold)
        names = ["", *(host.name for host in hosts)]
        return [
            (job, names[host]) for job, host in zip(waiting, found, strict=True) if host is not None
        ]

    def _settled(
        self,
        round_: Round,
        jobs: Mapping[str, ActiveJob],
        placements: Mapping[str, Placement],
        beside: Mapping[str, str],
    ) -> dict[str, Placement]:
        """Return the placements, with the tightest nodes for jobs that have none yet."""
        own = [name for name in placements if name not in beside]
        kinds = dict.fromkeys(own, round_.cluster.gpu_types[0])
        replicas = {name: jobs[name].replicas for name in own}
        current = {name: placements[name] for name in own}
        placed = place_on_types(round_.cluster, kinds, replicas, current)
        return placed | {guest: placements[guest] for guest in beside}


def guest_problem(
    guests: Sequence[ActiveJob], hosts: Sequence[ActiveJob], room: Sequence[int], sharing: Sharing
) -> Guests:
    """Return the problem of guests and hosts, with the expected speeds of guests.

    Parameters
    ----------
    guests, hosts
        The jobs; the use of GPUs by the hosts is known.
    room
        Number of idle GPUs, then of the GPUs of every host without a guest.
    sharing
        Way in which guests share GPUs.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.models.shared_gpus.shared_speed import GUARANTEED
    >>> from goodalloc.solvers.shared_gpus import guest_problem
    >>> job = SimpleNamespace(replicas=1, busy=0.25, memory=0.5)
    >>> problem = guest_problem([job], [job], room=[0, 1], sharing=GUARANTEED)
    >>> problem.rate.shape, float(problem.rate[0, 0])  # idle GPUs, and one host
    ((1, 2), 1.0)
    """

    def rate(guest: GpuUse, host: GpuUse) -> float:
        return sharing.guest_rate(host, guest) if sharing.fits(host, guest) else -np.inf

    rates = [[1.0, *(rate(_use(guest), _use(host)) for host in hosts)] for guest in guests]
    gpus = np.array([guest.replicas for guest in guests])
    return Guests(gpus, np.array(room), np.array(rates))


def loads(hosts: Sequence[ActiveJob]) -> list[float]:
    """Return the busy part of the time of idle GPUs (0) and of those of every host.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.solvers.shared_gpus import loads
    >>> loads([SimpleNamespace(busy=0.25, memory=0.5)])
    [0.0, 0.25]
    """
    return [0.0, *(_use(host).busy for host in hosts)]


def _use(job: ActiveJob) -> GpuUse:
    """Return the use of GPUs by a job, busy all the time where it is not known."""
    return GpuUse(1.0 if job.busy is None else job.busy, job.memory)


def _without_guests(
    host: str, placements: Mapping[str, Placement], beside: Mapping[str, str]
) -> Placement:
    """Return the GPUs of a host that have no guest yet."""
    left = Counter(dict(placements[host]))
    for guest, other in beside.items():
        if other == host and guest in placements:
            left.subtract(dict(placements[guest]))
    return tuple((node, gpus) for node, gpus in left.items() if gpus > 0)
