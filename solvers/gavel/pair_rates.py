"""Pairs of jobs that gain by sharing their GPUs, and their rates.

A pair whose rates, each over that of its job alone, add up to at most 1 on a type gains nothing
over the two jobs one after the other: with parts r and r' of its time alone each is as fast, in no
more GPU time. Such pairs are left out without loss for any goal of Gavel.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.gavel.time_sharing import TimeSharing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import ActiveJob, Round


@dataclass
class PairRates:
    """Rates of pairs by the oracles of their jobs, each asked once.

    Attributes
    ----------
    known
        Steps per second of both jobs on every type, for the present pairs.
    """

    known: dict[tuple[str, str], tuple[tuple[float, float], ...]] = field(
        default_factory=dict, init=False
    )

    def among(self, round_: Round, gpus: Mapping[str, int], replicas: Mapping[str, int]) -> Floats:
        """Return the rates of all pairs, in the order of `combinations`; 0 where two cannot share.

        Shape (pairs, types, 2). Jobs that take different numbers of GPUs cannot.

        Parameters
        ----------
        round_
            The round.
        gpus
            GPUs of every type.
        replicas
            GPUs that every job takes.
        """
        per_node = round_.cluster.most_per_node

        def ask(one: ActiveJob, other: ActiveJob) -> tuple[tuple[float, float], ...]:
            wanted, rates = replicas[one.name], []
            for kind, most in gpus.items():
                found = None
                if wanted == replicas[other.name] and wanted <= most:
                    found = one.oracle.beside(other.oracle, wanted, per_node[kind], kind)
                rates.append(found or (0.0, 0.0))
            return tuple(rates)

        self.known = {
            (one.name, other.name): self.known.get((one.name, other.name)) or ask(one, other)
            for one, other in combinations(round_.jobs, 2)
        }
        return np.array(list(self.known.values()), dtype=float).reshape(-1, len(gpus), 2)


def shares_of_speed(rate: Floats, pair_rate: Floats) -> Floats:
    """Return the parts of their speeds alone that both of every pair keep, (pairs, types, 2).

    Parameters
    ----------
    rate
        Steps per second of every job alone, shape (jobs, types).
    pair_rate
        Rates of all pairs, in the order of `combinations`; shape (pairs, types, 2).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.gavel import shares_of_speed
    >>> alone = np.array([[10.0], [4.0]])  # two jobs on one type
    >>> shares_of_speed(alone, np.array([[[6.0, 3.0]]])).tolist()
    [[[0.6, 0.75]]]
    """
    first, second = np.triu_indices(len(rate), 1)
    alone = np.stack([rate[first], rate[second]], axis=2)
    return np.divide(pair_rate, alone, out=np.zeros_like(pair_rate), where=alone > 0)


def with_gainful_pairs(sharing: TimeSharing, pair_rate: Floats) -> TimeSharing:
    """Return the same jobs, with the pairs and types on which two gain by sharing.

    Parameters
    ----------
    sharing
        Jobs alone.
    pair_rate
        Rates of all pairs, in the order of `combinations`; shape (pairs, types, 2).
    """
    gains = shares_of_speed(sharing.rate, pair_rate).sum(axis=2) > 1.0
    some = gains.any(axis=1)
    pairs = np.stack(np.triu_indices(sharing.num_jobs, 1), axis=1)[some]
    useful = np.where(gains[..., None], pair_rate, 0.0)[some]
    return TimeSharing(
        names=sharing.names,
        rate=sharing.rate,
        gpus=sharing.gpus,
        replicas=sharing.replicas,
        pairs=pairs,
        pair_rate=useful,
        cluster_gpus=sharing.cluster_gpus,
    )
