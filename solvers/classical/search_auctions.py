"""Searches as bidders: a policy for single jobs decides between searches of several trials.

Themis holds its auctions among applications, which may have several jobs, as a search of
hyper-parameters does: the scheduler gives GPUs to applications, each of which gives them to its
jobs. Here a search is shown to the policy as one job whose steps are those of all its trials, and
its GPUs are then divided among the trials. (A documented reading: a search ends with its last
trial, and no trial is stopped early.)

References
----------
Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from goodalloc.solvers.classical.themis import Themis, ThemisExact
from goodalloc.solvers.policies.policy import Decision, Round
from goodalloc.solvers.policies.spread_placement import take_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Oracle, Policy

#: Part of a job's name that stands between its search and its number.
TRIAL = "-trial-"


def search_of(name: str) -> str:
    """Return the search that a job belongs to: its name up to `TRIAL`, all of it without.

    Examples
    --------
    >>> from goodalloc.solvers.classical.search_auctions import search_of
    >>> search_of("cifar10-7-trial-2"), search_of("imagenet-1")
    ('cifar10-7', 'imagenet-1')
    """
    return name.partition(TRIAL)[0]


@dataclass(frozen=True)
class SearchOracle:
    """Remaining steps and step times of a search, from those of its trials.

    Parameters
    ----------
    trials
        Active trials, which train the same application at the same batch size.
    """

    trials: tuple[ActiveJob, ...]

    def remaining_steps(self) -> float:
        """Return the remaining steps of all trials."""
        return sum(trial.oracle.remaining_steps() for trial in self.trials)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the seconds between steps of the search, its trials served one after the other.

        As many trials as possible run on their requested GPUs, one more on the rest.
        """
        rate, left = 0.0, replicas
        for trial in self.trials:
            gpus = min(trial.replicas, trial.splits, left)
            if gpus > 0:
                rate += 1.0 / trial.oracle.seconds_per_step(gpus, gpus_per_node, gpu_type)
                left -= gpus
        return 1.0 / rate

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return None: searches share no GPUs."""
        return None


def divide(trials: Sequence[ActiveJob], placement: Placement) -> dict[str, Placement]:
    """Return the part of a search's GPUs that each of its trials gets.

    A running trial keeps its GPUs if they still are the search's. The rest goes to the running
    trials and then to the others, in order, up to the GPUs that each requests.

    Parameters
    ----------
    trials
        Active trials, in order of their numbers.
    placement
        GPUs of the search.
    """
    free = Counter(dict(placement))
    held: dict[str, Counter[int]] = {trial.name: Counter() for trial in trials}
    for trial in trials:
        if trial.placement and all(free[node] >= gpus for node, gpus in trial.placement):
            held[trial.name].update(dict(trial.placement))
            free.subtract(dict(trial.placement))
    for trial in sorted(trials, key=lambda trial: not held[trial.name]):
        asked = min(trial.replicas, trial.splits) - held[trial.name].total()
        taken = dict(take_of(tuple((+free).items()), max(min(asked, free.total()), 0)))
        held[trial.name].update(taken)
        free.subtract(taken)
    return {name: tuple(sorted(gpus.items())) for name, gpus in held.items() if gpus}


@dataclass
class SearchPolicy:
    """Policy that lets another decide between searches.

    Parameters
    ----------
    policy
        Policy for single jobs, at requested batch sizes.

    Attributes
    ----------
    held
        GPUs of the searches after the last decision, by name. A search keeps GPUs that its last
        trials leave idle until the policy takes them away.
    """

    policy: Policy
    batch_sizes: BatchSizes = field(default="requested", init=False)
    held: Mapping[str, Placement] = field(default_factory=dict, init=False)

    def decide(self, round_: Round) -> Decision:
        """Decide between the searches; divide the GPUs of each among its trials."""
        trials: dict[str, list[ActiveJob]] = {}
        for job in round_.jobs:
            trials.setdefault(search_of(job.name), []).append(job)
        searches = tuple(self._merged(name, mine, round_.cluster) for name, mine in trials.items())
        decided = self.policy.decide(Round(round_.time, round_.cluster, searches))
        self.held = decided.placements
        return Decision(
            {
                trial: gpus
                for name, placement in decided.placements.items()
                for trial, gpus in divide(trials[name], placement).items()
            }
        )

    def _merged(self, name: str, trials: Sequence[ActiveJob], cluster: Cluster) -> ActiveJob:
        """Return a search as one job, on the GPUs it was given last if all nodes are still there.

        Its request and its batch size are the sums, and large enough for the GPUs that it holds:
        those of trials that ended are worth nothing more to it.
        """
        held = self.held.get(name, ())
        if any(node >= cluster.num_nodes for node, _ in held):
            held = ()
        gpus = sum(count for _, count in held)
        batch_size = sum(trial.batch_size for trial in trials)
        return replace(
            trials[0],
            name=name,
            age=max(trial.age for trial in trials),
            placement=held,
            restarts=sum(trial.restarts for trial in trials),
            attained_service=sum(trial.attained_service for trial in trials),
            replicas=max(sum(min(trial.replicas, trial.splits) for trial in trials), gpus),
            batch_size=max(batch_size, gpus * math.ceil(trials[0].batch.atomic_minimum)),
            fixed_replicas=None,
            oracle=SearchOracle(tuple(trials)),
        )


def themis_between_searches() -> SearchPolicy:
    """Return Themis's auctions between searches.

    Examples
    --------
    >>> from goodalloc.solvers.classical.search_auctions import themis_between_searches
    >>> themis_between_searches().batch_sizes
    'requested'
    """
    return SearchPolicy(Themis())


def maxmin_between_searches() -> SearchPolicy:
    """Return the exact policy whose least favoured search fares best.

    Examples
    --------
    >>> from goodalloc.solvers.classical.search_auctions import maxmin_between_searches
    >>> maxmin_between_searches().policy.objective
    'largest'
    """
    return SearchPolicy(ThemisExact("largest"))
