"""Selection of jobs to pack in pairs: exactly, and by the rules of Gandiva and Gavel.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.shared_gpus.gandiva import build_pairing_program
from goodalloc.models.shared_gpus.pairing import Pair, total_gain
from goodalloc.solvers.milp.cheapest_core import maximise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.shared_gpus.pairing import Pairing
    from goodalloc.solvers.interface.stop import Stop
    from goodalloc.solvers.milp.cheapest_core import Maximum


def best_pairs(problem: Pairing, *, stop: Stop | None = None) -> Maximum[tuple[Pair, ...]]:
    """Return a pairing of greatest gain, by (1) of `formulations/shared_gpus/gandiva.py`.

    Parameters
    ----------
    problem
        The jobs.
    stop
        Limits; when time runs out the best so far is returned, with its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Pairing
    >>> from goodalloc.solvers.shared_gpus import best_pairs
    >>> gain = np.array([[0.0, 0.3, 0.1], [0.3, 0.0, 0.2], [0.1, 0.2, 0.0]])
    >>> best_pairs(Pairing(np.arange(3), gain)).choice
    ((0, 1),)
    """
    built = build_pairing_program(problem)
    return maximise(built.program, built.pairs, partial(total_gain, problem), stop)


def first_pairs(problem: Pairing, order: Sequence[int]) -> tuple[Pair, ...]:
    """Pair every job in some order with the next one whose memory fits beside its own.

    In order of utilisation, the least first, this is Gandiva's heuristic; in random order, Gavel's.
    Gains are ignored.

    Parameters
    ----------
    problem
        The jobs.
    order
        The jobs that take part.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Pairing
    >>> from goodalloc.solvers.shared_gpus import first_pairs
    >>> gain = np.array([[0.0, 0.3, 0.1], [0.3, 0.0, 0.2], [0.1, 0.2, 0.0]])
    >>> first_pairs(Pairing(np.arange(3), gain), [2, 1, 0])
    ((2, 1),)
    """
    left, pairs = list(order), list[Pair]()
    while left:
        one = left.pop(0)
        fits = (job for job in left if problem.gain_of((one, job)) > -np.inf)
        other = next(fits, None)
        if other is not None:
            left.remove(other)
            pairs.append((one, other))
    return tuple(pairs)


def gainful(problem: Pairing, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs with a positive gain, as after a trial of each.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Pairing
    >>> from goodalloc.solvers.shared_gpus import gainful
    >>> gain = np.array([[0.0, 0.3, -0.1], [0.3, 0.0, 0.2], [-0.1, 0.2, 0.0]])
    >>> gainful(Pairing(np.arange(3), gain), [(0, 1), (0, 2)])
    ((0, 1),)
    """
    return tuple(pair for pair in pairs if problem.gain_of(pair) > 0)
