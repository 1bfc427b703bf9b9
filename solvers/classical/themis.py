"""Themis: auctions of free GPUs among the jobs that sharing costs most; and exactly.

Where the paper is not specific, this is a documented reading. A job is a gang that can use up to
the requested number of GPUs at the requested batch size, or fewer. An oracle gives steps and step
times; the whole work of a job is its remaining work when it was first seen. *N* counts the jobs
that are active now.

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.classical.auction import Auction
from goodalloc.models.classical.finish_time import Progress, finish_time_fairness, valuations
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_number,
    require_share,
)
from goodalloc.solvers.classical.progressive_filling import least_largest
from goodalloc.solvers.classical.themis_auction import partial_allocation, winners
from goodalloc.solvers.policies.auction_terms import LEASE, PUBLISHED_TERMS, Rounding
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import place_changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.auction_terms import AuctionTerms
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

    #: When each lease ends, and its GPUs.
    Leases = tuple[tuple[float, int], ...]


#: Exact objectives: the largest product of valuations, or the least largest fairness.
Objective = Literal["product", "largest"]


@dataclass
class FinishTimes:
    """Finish-time fairness of jobs by numbers of GPUs, with the memory it needs.

    Parameters
    ----------
    wait
        Seconds to the next chance of a job that gets nothing.
    """

    wait: float
    _whole: dict[str, float] = field(default_factory=dict, init=False)

    def fairness(self, round_: Round) -> dict[str, Floats]:
        """Return the fairness of every job on 0, 1, … GPUs, up to as many as it can use."""
        remaining = {job.name: job.oracle.remaining_steps() for job in round_.jobs}
        self._whole = {
            name: max(steps, self._whole.get(name, 0.0)) for name, steps in remaining.items()
        }
        share = round_.cluster.num_gpus / len(round_.jobs)
        return {
            job.name: finish_time_fairness(
                Progress(
                    float(job.age),
                    remaining[job.name],
                    self._whole[job.name],
                    self._speeds(round_, job),
                ),
                share,
                self.wait,
            )
            for job in round_.jobs
        }

    @staticmethod
    def _speeds(round_: Round, job: ActiveJob) -> Floats:
        """Return the steps per second on 0, 1, … GPUs."""
        per_node = int(round_.cluster.node_gpus.max())
        asked = min(job.replicas, job.splits)
        most = min(job.fixed_replicas or asked, round_.cluster.num_gpus)
        seconds = [job.oracle.seconds_per_step(gpus, per_node) for gpus in range(1, most + 1)]
        return np.array([0.0, *(1.0 / one for one in seconds)])


@dataclass
class Themis:
    """Leases of GPUs to the winners of partial-allocation auctions.

    A lease ends by itself, with its job, or when the job loses its nodes. While there are free GPUs
    every round holds an auction: (1) every job reports the fairness that it expects with its
    present GPUs; (2) among the jobs that can use more, the ones that sharing costs most are offered
    the free GPUs, all but the share *f*, at least one; (3) they bid the value of each number of
    further GPUs; (4) the winners keep what their hidden payments leave
    (`solvers/classical/themis_auction.py`); (5) remaining GPUs go to jobs without an offer, one
    after the other at random, each just as many as make it faster, and then likewise to the
    bidders, until no job gains.

    Parameters
    ----------
    terms
        Terms of the auctions and leases.
    seed
        Seed of the random choices.

    Raises
    ------
    ValueError
        If ``terms.fairness_knob`` is outside [0, 1], ``terms.lease`` <= 0, ``terms.wait`` or `seed`
        is negative, or ``terms.rounding`` is not one of its choices.
    """

    terms: AuctionTerms = PUBLISHED_TERMS
    seed: int = 0
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _times: FinishTimes = field(init=False)
    _leases: dict[str, Leases] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        terms = self.terms
        wait = terms.lease if terms.wait is None else terms.wait
        require_choice("Themis: rounding", terms.rounding, get_args(Rounding))
        require_share("Themis: fairness_knob", terms.fairness_knob)
        require_number("Themis: lease", terms.lease, 0.0, strict=True)
        require_number("Themis: wait", wait, 0.0, finite=False)
        require_count("Themis: seed", self.seed, 0)
        self._times = FinishTimes(wait)

    def decide(self, round_: Round) -> Decision:
        """Keep the leases that go on, auction the free GPUs, and place."""
        self._leases = self._running(round_)
        held = {name: held_gpus(leases) for name, leases in self._leases.items()}
        free = round_.cluster.num_gpus - sum(held.values())
        if free > 0:
            end = round_.time + self.terms.lease
            fairness = self._times.fairness(round_)
            for name, gpus in self._auction(round_.time, fairness, held, free).items():
                self._leases[name] += ((end, gpus),)
                held[name] += gpus
        return Decision(place_changed(round_, held))

    def _running(self, round_: Round) -> dict[str, Leases]:
        """Return the leases of the active jobs that go on; none of a job that lost its GPUs."""
        kept = {}
        for job in round_.jobs:
            leases = self._leases.get(job.name, ())
            if held_gpus(leases) != sum(gpus for _, gpus in job.placement):
                leases = ()
            kept[job.name] = tuple(lease for lease in leases if lease[0] > round_.time)
        return kept

    def _auction(
        self, time: int, fairness: Mapping[str, Floats], held: Mapping[str, int], free: int
    ) -> dict[str, int]:
        """Return the further GPUs of the jobs that get any."""
        now = {name: float(fairness[name][gpus]) for name, gpus in held.items()}
        wanting = [name for name in held if now[name] > fairness[name][-1]]
        if not wanting:
            return {}
        bidders = worst(wanting, now, self.terms.fairness_knob)
        bids = np.array([further(fairness[name], held[name], free) for name in bidders])
        random = np.random.default_rng([self.seed, time])
        chance = random if self.terms.rounding == "chance" else None
        kept = partial_allocation(Auction(valuations(bids))).kept(chance)
        more = Counter(dict(zip(bidders, kept.tolist(), strict=True)))
        others = [name for name in wanting if name not in bidders]
        for crowd in (others, bidders):
            there = {name: held[name] + more[name] for name in crowd}
            more += given_at_random(random, fairness, there, free - more.total())
        return dict(+more)


def held_gpus(leases: Leases) -> int:
    """Return the GPUs of some leases together."""
    return sum(gpus for _, gpus in leases)


def worst(names: Sequence[str], fairness: Mapping[str, float], knob: float) -> list[str]:
    """Return the jobs that sharing costs most: all but the share `knob`, at least one.

    Parameters
    ----------
    names, fairness
        Jobs in order, and the fairness of each.
    knob
        Share from 0 to 1.
    """
    number = max(math.ceil(round((1.0 - knob) * len(names), 9)), 1)
    return sorted(names, key=lambda name: -fairness[name])[:number]


def further(fairness: Floats, held: int, free: int) -> Floats:
    """Return a job's fairness on its GPUs and 0, 1, …, `free` more, shape (free + 1,)."""
    return fairness[np.minimum(np.arange(held, held + free + 1), fairness.size - 1)]


def given_at_random(
    random: np.random.Generator, fairness: Mapping[str, Floats], held: Mapping[str, int], left: int
) -> Counter[str]:
    """Return further GPUs for jobs drawn in turn, each just as many as make it faster.

    Parameters
    ----------
    random
        Generator of the draws.
    fairness
        Fairness of every job on 0, 1, … GPUs.
    held
        GPUs of the jobs that take part.
    left
        Number of GPUs to give.
    """
    more: Counter[str] = Counter()
    able = list(held)
    while able and left > 0:
        name = able[int(random.integers(len(able)))]
        at = held[name] + more[name]
        faster = np.flatnonzero(fairness[name] < fairness[name][at])
        step = int(faster[0]) - at if faster.size else left + 1
        if step > left:
            able.remove(name)
            continue
        more[name] += step
        left -= step
    return more


@dataclass
class ThemisExact:
    """Exact policy, which decides all GPUs anew as jobs come and go and as leases end.

    There are no payments and no randomness. The largest product of valuations over all jobs is the
    outcome of Themis's auction if all jobs bid for all GPUs; the least largest fairness optimises
    the metric itself (`solvers/classical/progressive_filling.py`).

    Parameters
    ----------
    objective
        One of these two objectives.
    lease
        Seconds after which GPUs are decided anew although no job came or went, and for which a job
        that gets nothing expects to wait.

    Raises
    ------
    ValueError
        If `lease` <= 0 or `objective` is not one of its choices.
    """

    objective: Objective = "product"
    lease: float = LEASE
    batch_sizes: BatchSizes = field(default="requested", init=False)
    _times: FinishTimes = field(init=False)
    _held: dict[str, int] = field(default_factory=dict, init=False)
    _end: float = field(default=-math.inf, init=False)

    def __post_init__(self) -> None:
        require_choice("Themis: objective", self.objective, get_args(Objective))
        require_number("Themis: lease", self.lease, 0.0, strict=True)
        self._times = FinishTimes(self.lease)

    def decide(self, round_: Round) -> Decision:
        """Keep the present GPUs during a lease; else share all GPUs out."""
        there = {job.name: sum(gpus for _, gpus in job.placement) for job in round_.jobs}
        if there != self._held or round_.time >= self._end:
            self._held = self._shares(round_)
            self._end = round_.time + self.lease
        return Decision(place_changed(round_, self._held))

    def _shares(self, round_: Round) -> dict[str, int]:
        """Return the GPUs of every job."""
        fairness = self._times.fairness(round_)
        table = np.array([further(row, 0, round_.cluster.num_gpus) for row in fairness.values()])
        product = self.objective == "product"
        shares = winners(Auction(valuations(table))) if product else least_largest(table)
        return dict(zip(fairness, shares.tolist(), strict=True))
