r"""Utilities of many rounds at once: what they have in common is computed once.

Rounds of one cluster under one set of rules are parts of one larger round, each with nodes of its
own. With *G* GPUs for :math:`n_r` jobs in round *r* of *R*, all of one fair share :math:`K_f =
\lceil G / n_r \rceil`, that of the larger round is :math:`\lceil R G / \sum_r n_r \rceil = K_f`
as well. So its utilities are those of the parts, and a goodput model that occurs in several rounds,
as those of a log of rounds do, is evaluated once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns, stacked_model
from goodalloc.models.columns.utilities_by_kind import ColumnUtilities, column_utilities
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from goodalloc.models.support.array_types import Floats

#: About how many jobs have their utilities computed together: few enough to stay in memory.
MOST_JOBS = 1_000_000


def utilities_of_many(rounds: Sequence[RoundColumns]) -> list[ColumnUtilities]:
    """Return the utilities of every round, as `column_utilities` does of one.

    Parameters
    ----------
    rounds
        The rounds, of any clusters and rules.

    Returns
    -------
    list of ColumnUtilities
        Those of each round, in order.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate_columns
    >>> from goodalloc.models.columns import column_utilities, utilities_of_many
    >>> rounds = [generate_columns(seed=seed, jobs=8, nodes=2) for seed in range(3)]
    >>> found, jobs = utilities_of_many(rounds), slice(0, 8)
    >>> bool((found[2].best(jobs) == column_utilities(rounds[2]).best(jobs)).all())
    True
    """
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    jobs: defaultdict[Hashable, int] = defaultdict(int)
    for index, one in enumerate(rounds):
        key = one.cluster, one.rules, one.fair_share, one.most_replicas
        jobs[key] += one.num_jobs
        alike[*key, jobs[key] // MOST_JOBS].append(index)
    found: dict[int, ColumnUtilities] = {}
    for group in alike.values():
        found |= zip(group, _side_by_side([rounds[index] for index in group]), strict=True)
    return [found[index] for index in range(len(rounds))]


def _side_by_side(rounds: list[RoundColumns]) -> list[ColumnUtilities]:
    """Return the utilities of rounds of one cluster, set of rules, fair share and most replicas."""
    whole = column_utilities(_joined(rounds))
    ends = np.cumsum([one.num_jobs for one in rounds])
    found = []
    for one, end in zip(rounds, ends.tolist(), strict=True):
        jobs = slice(end - one.num_jobs, end)
        kind = np.full(one.num_kinds + 1, NEVER_RAN)
        kind[one.kind] = whole.columns.kind[jobs]
        found.append(
            ColumnUtilities(one, whole.speedup[kind], whole.factor[jobs], whole.kept[jobs])
        )
    return found


def _joined(rounds: list[RoundColumns]) -> RoundColumns:
    """Return the round of all jobs, on as many clusters as there are rounds."""
    first, nodes = rounds[0], rounds[0].cluster.num_nodes
    groups = tuple(
        replace(group, name=f"{index}-{group.name}")
        for index, one in enumerate(rounds)
        for group in one.cluster.groups
    )
    numbers = np.concatenate([_numbers(one) for one in rounds])
    kinds, same = np.unique(numbers, axis=0, return_inverse=True)
    same, offset, kind = same.ravel(), 0, []
    for one in rounds:
        own = np.append(same[offset : offset + one.num_kinds], NEVER_RAN)  # the last for kind -1
        kind.append(own[one.kind])
        offset += one.num_kinds
    begins = np.cumsum([0, *(one.num_jobs for one in rounds)])
    held = [one.current for one in rounds]
    current = Allocation(
        np.concatenate([one.job + begin for one, begin in zip(held, begins, strict=False)]),
        np.concatenate([one.node + index * nodes for index, one in enumerate(held)]),
        np.concatenate([one.replicas for one in held]),
        int(begins[-1]),
        nodes * len(rounds),
    )
    return RoundColumns(
        Cluster(groups),
        stacked_model(list(kinds.T)),
        np.concatenate(kind),
        np.concatenate([one.age for one in rounds]),
        np.concatenate([one.restarts for one in rounds]),
        np.minimum(np.concatenate([one.max_replicas for one in rounds]), first.most_replicas),
        current,
        first.rules,
    )


def _numbers(one: RoundColumns) -> Floats:
    """Return the numbers of every kind, shape (kinds, 14)."""
    return np.stack([np.asarray(leaf, dtype=float) for leaf in leaves(one.models)], axis=1)
