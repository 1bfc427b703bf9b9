r"""Gandiva as Gavel runs it beside its own policies: pairs with equal shares.

Where jobs request more GPUs than there are, jobs of equally many GPUs are paired, until all jobs
fit; otherwise each has its own. All lines, pairs and jobs alone, have an equal part of every type:
of *m* lines one that takes *s* GPUs has

.. math:: X_{lw} = \min(1, m s / N) \cdot N_w / (m s), \qquad N = \sum_w N_w,                   (1)

and rounds follow these shares. The gain of a pair is the mean over all GPUs of the parts of their
speeds that both keep,

.. math:: w_{ij} = \sum_w \frac{N_w}{N} (r_{iw} + r_{jw}) - 1,                                (2)

and a pair must run on every type. A pair that ran and gains nothing is undone and never tried
again. This is a documented reading of the published code (`shared_gpus/gandiva.py`), which adds up
the types in place of (2), so that a pair may stay with a third of the speed, draws pairs at random
and pairs all jobs, even if one GPU is missing; the other options are additions.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from goodalloc.models.shared_gpus.pairing import Pairing
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.models.support.validation import require_choice, require_count, require_flag
from goodalloc.solvers.gavel.pair_rates import PairRates, shares_of_speed
from goodalloc.solvers.gavel.policy import time_sharing
from goodalloc.solvers.gavel.share_policy import SharePolicy
from goodalloc.solvers.shared_gpus.pairing import best_pairs, first_pairs

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.gavel.share_rounds import Line
    from goodalloc.solvers.policies.policy import Round


#: Ways to find pairs: not at all; at random, as in Gavel; the least busy first, as in Gandiva; or
#: by a matching of greatest gain, which knows all rates.
Way = Literal["none", "random", "busy", "matching"]


@dataclass
class PairedShares(SharePolicy):
    """Policy of pairs on trial and equal shares; see `SharePolicy`.

    Pairs last until one of the two is gone or they are undone; those of a matching are found anew
    as jobs come and go. With way ``"busy"`` jobs that never ran take no part, as their use of GPUs
    is not known.

    Parameters
    ----------
    way
        Way to find pairs.
    everybody
        Whether to pair all jobs that can be paired, not only as many as necessary for all to fit.
    seed
        Seed of random pairs.

    Examples
    --------
    >>> from goodalloc.solvers.shared_gpus import PairedShares
    >>> PairedShares(way="busy").everybody
    False
    """

    way: Way = "random"
    everybody: bool = False
    seed: int = 0
    sharing: Sharing = field(default=FAIR, init=False)
    _rates: PairRates = field(default_factory=PairRates, init=False)
    _gains: dict[Line, float] = field(default_factory=dict, init=False)
    _refused: set[Line] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("Pairs: way", self.way, get_args(Way))
        require_flag("Pairs: everybody", self.everybody)
        require_count("Pairs: seed", self.seed, minimum=0)

    def situation(self, round_: Round) -> Hashable:
        """Return the key of `SharePolicy.situation` with the pairs undone so far."""
        self._refused |= {line for line in self._types if self._gains.get(line, 1.0) <= 0.0}
        there = {job.name for job in round_.jobs}
        self._refused = {line for line in self._refused if there.issuperset(line)}
        return super().situation(round_), frozenset(self._refused)

    def new_shares(
        self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]
    ) -> dict[tuple[Line, str], float]:
        """Return the shares (1) of the pairs at the time."""
        all_gpus = sum(gpus.values())
        excess = sum(replicas.values()) - all_gpus
        pairs = {}
        if self.way != "none" and excess > 0:
            for line, gain in self._pairs_of(round_, gpus, replicas).items():
                if self.everybody or excess > 0:
                    pairs[line] = gain
                    excess -= replicas[line[0]]
        self._gains = pairs
        paired = {name for line in pairs for name in line}
        lines = [*pairs, *((name,) for name in replicas if name not in paired)]
        shares = {}
        for line in lines:
            part = 1.0 / (len(lines) * replicas[line[0]])
            for kind, count in gpus.items():
                shares[line, kind] = count * min(part, 1.0 / all_gpus)
        return shares

    def _pairs_of(
        self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]
    ) -> dict[Line, float]:
        """Return pairs that go on, then new ones, each with its gain."""
        names = [job.name for job in round_.jobs]
        place = {name: index for index, name in enumerate(names)}
        gain = self._gain(round_, gpus, replicas)
        for one, other in self._refused:
            gain[place[one], place[other]] = gain[place[other], place[one]] = -np.inf
        pairs: list[tuple[int, int]] = []
        if self.way != "matching":
            pairs = [
                (place[line[0]], place[line[1]])
                for line in self._gains
                if place.keys() >= set(line) and line not in self._refused
            ]
        paired = {job for pair in pairs for job in pair}
        free = np.array([job for job in range(len(names)) if job not in paired], dtype=np.int64)
        if free.size > 1:
            problem = Pairing(np.arange(free.size), gain[np.ix_(free, free)])
            if self.way == "matching":
                found = sorted(best_pairs(problem).choice, key=problem.gain_of, reverse=True)
            else:
                found = list(first_pairs(problem, self._order(round_, free)))
            pairs += [(int(free[one]), int(free[other])) for one, other in found]
        ordered = (tuple(sorted(pair)) for pair in pairs)
        return {(names[one], names[other]): float(gain[one, other]) for one, other in ordered}

    def _gain(self, round_: Round, gpus: dict[str, int], replicas: dict[str, int]) -> Floats:
        """Return the gains (2), (jobs, jobs); -inf where a pair does not run on every type."""
        rate = time_sharing(round_, gpus, replicas).rate
        speed = shares_of_speed(rate, self._rates.among(round_, gpus, replicas))
        weights = np.array(list(gpus.values())) / sum(gpus.values())
        mean = np.where((speed > 0).all(axis=(1, 2)), speed.sum(axis=2) @ weights - 1.0, -np.inf)
        gain = np.full((len(rate), len(rate)), -np.inf)
        first, second = np.triu_indices(len(rate), 1)
        gain[first, second] = gain[second, first] = mean
        return gain

    def _order(self, round_: Round, free: NDArray[np.int64]) -> list[int]:
        """Return the jobs that take part in pairs, by their places among `free`."""
        if self.way == "random":
            random = np.random.default_rng([self.seed, round_.time])
            return [int(place) for place in random.permutation(free.size)]
        busy = [round_.jobs[job].busy for job in free.tolist()]
        known = [(use, place) for place, use in enumerate(busy) if use is not None]
        return [place for _, place in sorted(known)]
