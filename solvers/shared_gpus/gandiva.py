"""Gandiva as a policy: time slices, pairs on trial, migration, growth, affinity.

While all jobs fit, each runs alone on its requested GPUs, and grows onto idle ones. Where they do
not, jobs are packed in pairs until they do, and the GPUs rotate among them in time slices.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.goodput.throughput_model import throughput
from goodalloc.models.shared_gpus.pairing import Pairing
from goodalloc.models.shared_gpus.shared_speed import FAIR, GpuUse, Sharing
from goodalloc.models.support.validation import require_choice, require_flag, require_number
from goodalloc.solvers.gavel.share_rounds import place_on_types
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.policy import MOST_REPLICAS, Decision
from goodalloc.solvers.policies.spread_placement import take_of
from goodalloc.solvers.shared_gpus.idle_gpus import gather, grow, idle_gpus
from goodalloc.solvers.shared_gpus.pairing import best_pairs, first_pairs
from goodalloc.solvers.shared_gpus.server_slices import find_home, serve_at_home, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

#: Ways to find pairs.
Pairs = Literal["none", "greedy", "matching"]

#: Growth of jobs: none, at the requested total batch size, or at the requested one for each GPU.
Growth = Literal["none", "requested", "proportional"]


@dataclass
class Gandiva:
    """Policy of time slices, pairs, migration, growth and affinity.

    Among jobs that ran before, so that their use of GPUs is known, pairs are found by the published
    heuristic (lowest utilisation first, whatever a pair gains) or by a matching of greatest gain
    (`solvers/shared_gpus/pairing.py`), which foresees all but the loss of sharing. Pairs are taken
    only until all jobs fit. After a round in which both together did no more than the larger one
    alone, a pair is undone and never tried again.

    While no job waits, idle GPUs go to jobs on the same server
    (`solvers/shared_gpus/idle_gpus.py`), which give them back as soon as others arrive. (A
    documented reading: all jobs can grow, as long as their batches allow it; in the paper only
    those that declare it.)

    Parameters
    ----------
    pairs
        "greedy", "matching", or "none": time slices only.
    slice_seconds
        Seconds that a job may run before others that had less time take its GPUs.
    migrate
        Whether a job on several nodes moves to one that has room for all of it, and with affinity
        one that waits at home to idle GPUs elsewhere.
    growth
        "none"; or "requested" if the total batch of a growing job stays as requested,
        "proportional" if the batch for each GPU does.
    affinity
        Whether jobs have homes, by the affinity and height of servers, where they take turns
        (`solvers/shared_gpus/server_slices.py`); otherwise turns go round the cluster, and a job
        runs where it fits tightest.
    sharing
        Way in which pairs share GPUs.
    seconds
        Time limit of the matching, after which the best so far is taken.
    """

    pairs: Pairs = "greedy"
    slice_seconds: float = 60.0
    migrate: bool = True
    growth: Growth = "requested"
    affinity: bool = True
    sharing: Sharing = FAIR
    seconds: float = 10.0
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _homes: dict[str, Placement] = field(default_factory=dict, init=False)
    _had: Counter[str] = field(default_factory=Counter, init=False)
    _refused: set[frozenset[str]] = field(default_factory=set, init=False)
    _last: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_choice("Gandiva: pairs", self.pairs, get_args(Pairs))
        require_number("Gandiva: slice_seconds", self.slice_seconds, minimum=0.0, strict=True)
        require_flag("Gandiva: migrate", self.migrate)
        require_choice("Gandiva: growth", self.growth, get_args(Growth))
        require_flag("Gandiva: affinity", self.affinity)
        require_number("Gandiva: seconds", self.seconds, minimum=0.0, strict=True)
        if self.growth == "proportional":
            self.batch_sizes = "proportional"

    def decide(self, round_: Round) -> Decision:
        """Judge the pairs, find others if jobs do not fit, and give the next slices."""
        jobs = {job.name: job for job in round_.jobs}
        self._account(round_, jobs)
        beside: dict[str, str] = {}
        excess = sum(job.replicas for job in round_.jobs) - round_.cluster.num_gpus
        if excess > 0 and self.pairs != "none":
            beside = self._tried(jobs)
            excess -= sum(jobs[guest].replicas for guest in beside)
            beside |= self._packed(jobs, beside, excess)
        placements = self._served(round_, jobs, self._order(round_, jobs, beside))
        guests = {guest: host for guest, host in beside.items() if host in placements}
        if self.growth != "none" and len(placements) == len(jobs):
            placements = self._grown(round_, jobs, placements)
        for guest, host in guests.items():
            stays = jobs[guest].host == host and placements[host] == jobs[host].placement
            placements[guest] = (
                jobs[guest].placement if stays else take_of(placements[host], jobs[guest].replicas)
            )
        return Decision(placements, beside=guests)

    def _account(self, round_: Round, jobs: Mapping[str, ActiveJob]) -> None:
        """Count the seconds that jobs ran; new ones start from the least of all."""
        elapsed, self._last = round_.time - self._last, round_.time
        self._had.update({name: elapsed for name, job in jobs.items() if job.placement})
        known = {name: had for name, had in self._had.items() if name in jobs}
        least = min(known.values(), default=0)
        self._had = Counter({name: known.get(name, least) for name in jobs})

    def _tried(self, jobs: Mapping[str, ActiveJob]) -> dict[str, str]:
        """Return the pairs that beat the host alone; refuse the other pairs for good."""
        kept = {}
        for guest in jobs.values():
            if not guest.host:
                continue
            host = jobs[guest.host]
            if guest.replicas * guest.share > host.replicas * (1.0 - host.share):
                kept[guest.name] = host.name
            else:
                self._refused.add(frozenset((guest.name, host.name)))
        return kept

    def _packed(
        self, jobs: Mapping[str, ActiveJob], beside: Mapping[str, str], excess: int
    ) -> dict[str, str]:
        """Return further guests and their hosts, until `excess` GPUs are saved."""
        paired = {*beside, *beside.values()}
        alone = [
            (job, use)
            for job in jobs.values()
            if job.name not in paired and (use := known_use(job))
        ]
        if excess <= 0 or len(alone) < 2:
            return {}
        names = [job.name for job, _ in alone]
        place = {name: index for index, name in enumerate(names)}
        refused = [
            (place[one], place[other])
            for one, other in self._refused
            if one in place and other in place
        ]
        foreseen = Sharing(self.sharing.way, loss=0.0)
        problem = Pairing.of(
            [job.replicas for job, _ in alone], [use for _, use in alone], foreseen
        ).without(refused)
        if self.pairs == "matching":
            best = best_pairs(problem, stop=Stop(seconds=self.seconds)).choice
            pairs = sorted(best, key=problem.gain_of, reverse=True)
        else:
            busy = [use.busy for _, use in alone]
            pairs = list(first_pairs(problem, sorted(range(len(alone)), key=busy.__getitem__)))
        found: dict[str, str] = {}
        for pair in pairs:
            if excess <= 0:
                break
            later, earlier = (jobs[names[index]] for index in sorted(pair, reverse=True))
            guest, host = sorted((later, earlier), key=_hosts_after)
            found[guest.name] = host.name
            excess -= guest.replicas
        return found

    def _order(
        self, round_: Round, jobs: Mapping[str, ActiveJob], beside: Mapping[str, str]
    ) -> list[str]:
        """Return jobs for exclusive GPUs: fewest slices first, then those that run."""
        with_guests = {host: guest for guest, host in beside.items()}

        def turn(name: str) -> tuple[int, bool]:
            had = min(self._had[name], self._had[with_guests.get(name, name)])
            return int(had // self.slice_seconds), not jobs[name].placement

        gpus = round_.cluster.num_gpus
        own = (name for name, job in jobs.items() if name not in beside and job.replicas <= gpus)
        return sorted(own, key=turn)

    def _served(
        self, round_: Round, jobs: Mapping[str, ActiveJob], order: list[str]
    ) -> dict[str, Placement]:
        """Assign exclusive GPUs for this slice; each job gets all it requested or none."""
        held = {
            name: _as_asked(jobs[name])
            for name in order
            if jobs[name].placement and not jobs[name].host
        }
        serve = self._at_home if self.affinity else _anywhere
        placements = serve(round_, {name: jobs[name].replicas for name in order}, held)
        if self.migrate:
            placements = gather(round_.cluster.node_gpus.tolist(), placements)
        if self.affinity:
            self._homes |= placements
        return placements

    def _grown(
        self, round_: Round, jobs: Mapping[str, ActiveJob], placements: Mapping[str, Placement]
    ) -> dict[str, Placement]:
        """Give idle GPUs to jobs beside them that are faster with more."""
        node_gpus = round_.cluster.node_gpus.tolist()
        idle = idle_gpus(node_gpus, placements)
        most = {
            name: most_gpus(jobs[name], len(pairs), self.growth)
            for name, pairs in placements.items()
            if any(idle[node] for node, _ in pairs)
        }
        return grow(node_gpus, placements, most)

    def _at_home(
        self, round_: Round, replicas: Mapping[str, int], held: Mapping[str, Placement]
    ) -> dict[str, Placement]:
        """Place jobs at home or elsewhere; new jobs find a home in order of arrival."""
        node_gpus = round_.cluster.node_gpus.tolist()
        homes = {
            name: home
            for name, home in {**self._homes, **held}.items()
            if name in replicas and max(home)[0] < len(node_gpus)
        }
        for job in round_.jobs:
            if job.name in replicas and job.name not in homes:
                homes[job.name] = find_home(node_gpus, homes.values(), job.replicas)
        self._homes = homes
        return serve_at_home(node_gpus, {name: homes[name] for name in replicas}, move=self.migrate)


def _anywhere(
    round_: Round, replicas: Mapping[str, int], held: Mapping[str, Placement]
) -> dict[str, Placement]:
    """Place jobs in turn: running ones stay, the others go to the tightest node that holds them."""
    cluster, left, chosen = round_.cluster, round_.cluster.num_gpus, list[str]()
    for name, gpus in replicas.items():
        if gpus <= left:
            left -= gpus
            chosen.append(name)
    return place_on_types(cluster, dict.fromkeys(chosen, cluster.gpu_types[0]), replicas, held)


def known_use(job: ActiveJob) -> GpuUse | None:
    """Return a job's use of its requested GPUs, if it ran, and has not grown since; else None.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.solvers.shared_gpus import known_use
    >>> job = SimpleNamespace(busy=0.5, memory=0.25, placement=((0, 1),), replicas=1)
    >>> known_use(job).busy
    0.5
    """
    if job.busy is None or size_of(job.placement) > job.replicas:
        return None
    return GpuUse(job.busy, job.memory)


def most_gpus(job: ActiveJob, nodes: int, growth: Growth) -> int:
    """Return the number of GPUs, at least the requested one, on which a job is fastest.

    The job's own model decides. A GPU has at least the least examples of a pass, and all have at
    most the largest batch. The model is optimistic about untried numbers of GPUs: growth is a
    trial, too.

    Parameters
    ----------
    job
        The job.
    nodes
        Number of its nodes.
    growth
        "requested" if its total batch stays the same, "proportional" if it grows as well.
    """
    model = None if job.fixed_replicas is not None else job.model()
    if model is None:
        return job.replicas
    limits, larger = job.batch, growth == "proportional"
    most = (
        limits.maximum * job.replicas / job.batch_size
        if larger
        else (job.batch_size / limits.atomic_minimum)
    )
    gpus = np.arange(job.replicas, max(int(min(most, MOST_REPLICAS)), job.replicas) + 1)
    examples = job.batch_size / (job.replicas if larger else gpus)
    passes = np.ceil(examples / limits.atomic_maximum)
    speed = throughput(model.throughput, nodes, gpus, examples / passes, passes - 1)
    return int(gpus[np.argmax(speed)])


def _as_asked(job: ActiveJob) -> Placement:
    """Return a job's placement without the GPUs it has grown by."""
    grown = size_of(job.placement) > job.replicas
    return take_of(job.placement, job.replicas) if grown else job.placement


def _hosts_after(job: ActiveJob) -> tuple[int, bool]:
    """Return a sort key by which the host follows: the larger job, of equals the running one."""
    return job.replicas, bool(job.placement)
