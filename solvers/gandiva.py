"""Gandiva (OSDI'18) as a policy: time slices, jobs packed in pairs on trial, and migration.

While all jobs fit, each runs alone on the GPUs that its user asked for. Where they do not, jobs are
packed in pairs until they do, and the GPUs go round in time slices. Growing onto idle GPUs is left
out: users' batch sizes say what a job's GPUs are good for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.models.pairing import Pairing
from goodalloc.models.shared_speed import FAIR, GpuUse, Sharing
from goodalloc.models.validation import require_choice, require_flag, require_number
from goodalloc.solvers.pairing import best_pairs, first_pairs
from goodalloc.solvers.policy import BatchSizes, Decision
from goodalloc.solvers.share_rounds import place_on_types
from goodalloc.solvers.spread import take_of
from goodalloc.solvers.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.allocation import Placement
    from goodalloc.solvers.policy import ActiveJob, Round

#: How pairs are found.
PAIRS = ("none", "greedy", "matching")


@dataclass
class Gandiva:
    """Time slices and pairs.

    Among jobs that ran before, so that it is known how busy they keep a GPU, pairs are found by the
    published heuristic (lowest utilisation first, whatever a pair gains) or by a matching of
    greatest gain (`solvers/pairing.py`), which foresees all but the loss of sharing. Pairs are
    taken only until all jobs fit. After a round in which both together did no more than the larger
    one alone, a pair is undone and never tried again.

    Parameters
    ----------
    pairs
        "greedy", "matching", or "none": time slices only.
    slice_seconds
        A job that runs may do so for so long before others that had less take its GPUs.
    migrate
        Whether a job on several nodes moves to one that has room for all of it.
    sharing
        How pairs share GPUs.
    seconds
        Time limit of the matching, after which the best so far is taken.
    """

    pairs: str = "greedy"
    slice_seconds: float = 60.0
    migrate: bool = True
    sharing: Sharing = FAIR
    seconds: float = 10.0
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _had: Counter[str] = field(default_factory=Counter, init=False)
    _refused: set[frozenset[str]] = field(default_factory=set, init=False)
    _last: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_choice("Gandiva: pairs", self.pairs, PAIRS)
        require_number("Gandiva: slice_seconds", self.slice_seconds, minimum=0.0, strict=True)
        require_flag("Gandiva: migrate", self.migrate)
        require_number("Gandiva: seconds", self.seconds, minimum=0.0, strict=True)

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
        placements = self._place(round_, jobs, self._chosen(round_, jobs, beside))
        guests = {guest: host for guest, host in beside.items() if host in placements}
        for guest, host in guests.items():
            stays = jobs[guest].host == host and placements[host] == jobs[host].placement
            placements[guest] = (
                jobs[guest].placement if stays else take_of(placements[host], jobs[guest].replicas)
            )
        return Decision(placements, beside=guests)

    def _account(self, round_: Round, jobs: Mapping[str, ActiveJob]) -> None:
        """Count the seconds that jobs had; new ones begin where those stand that had least."""
        elapsed, self._last = round_.time - self._last, round_.time
        self._had.update({name: elapsed for name, job in jobs.items() if job.placement})
        known = {name: had for name, had in self._had.items() if name in jobs}
        least = min(known.values(), default=0)
        self._had = Counter({name: known.get(name, least) for name in jobs})

    def _tried(self, jobs: Mapping[str, ActiveJob]) -> dict[str, str]:
        """The pairs that ran and did more than the host alone; the others are refused for good."""
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
        """More guests and their hosts, until so many GPUs are saved."""
        paired = {*beside, *beside.values()}
        alone = [
            (job, GpuUse(job.busy, job.memory))
            for job in jobs.values() if job.busy is not None and job.name not in paired
        ]  # fmt: skip
        if excess <= 0 or len(alone) < 2:
            return {}
        names = [job.name for job, _ in alone]
        place = {name: index for index, name in enumerate(names)}
        refused = [
            (place[one], place[other]) for one, other in self._refused
            if one in place and other in place
        ]  # fmt: skip
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

    def _chosen(
        self, round_: Round, jobs: Mapping[str, ActiveJob], beside: Mapping[str, str]
    ) -> list[str]:
        """Who has GPUs of his own in this slice: who had fewest slices first, then who runs."""
        with_guests = {host: guest for guest, host in beside.items()}

        def turn(name: str) -> tuple[int, bool]:
            had = min(self._had[name], self._had[with_guests.get(name, name)])
            return int(had // self.slice_seconds), not jobs[name].placement

        left, chosen = round_.cluster.num_gpus, []
        for name in sorted((name for name in jobs if name not in beside), key=turn):
            if jobs[name].replicas <= left:
                left -= jobs[name].replicas
                chosen.append(name)
        return chosen

    def _place(
        self, round_: Round, jobs: Mapping[str, ActiveJob], chosen: list[str]
    ) -> dict[str, Placement]:
        """Who runs on GPUs of his own stays; others go to the tightest node that holds them."""
        cluster = round_.cluster
        current = {name: jobs[name].placement for name in chosen if not jobs[name].host}
        kinds = dict.fromkeys(chosen, cluster.gpu_types[0])
        replicas = {name: jobs[name].replicas for name in chosen}
        placements = place_on_types(cluster, kinds, replicas, current)
        free = Counter(dict(enumerate(cluster.node_gpus.tolist())))
        for placement in placements.values():
            free.subtract(dict(placement))
        for name in chosen if self.migrate else ():
            held, wanted = Counter(dict(placements[name])), replicas[name]
            if len(held) > 1:
                whole = [node for node in free if free[node] + held[node] >= wanted]
                if whole:
                    node = min(whole, key=lambda node: free[node] + held[node])
                    free.update(held)
                    free[node] -= wanted
                    placements[name] = ((node, wanted),)
        return placements


def _hosts_after(job: ActiveJob) -> tuple[int, bool]:
    """The larger job is the host, of equal ones that which runs."""
    return job.replicas, bool(job.placement)
