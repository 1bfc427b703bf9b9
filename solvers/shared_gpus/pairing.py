"""Which jobs to pack in pairs: exactly, and as Gandiva (OSDI'18) and Gavel (OSDI'20) do."""

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
    """A pairing of greatest gain, by program (1) of `formulations/shared_gpus/gandiva.py`.

    Parameters
    ----------
    problem
        The jobs.
    stop
        Limits; when time runs out the best so far is returned, with its bound.
    """
    built = build_pairing_program(problem)
    return maximise(built.program, built.pairs, partial(total_gain, problem), stop)


def first_pairs(problem: Pairing, order: Sequence[int]) -> tuple[Pair, ...]:
    """Every job in some order with the next one that its memory fits beside, whatever they gain.

    By how busy the jobs are, the least first, it is Gandiva's heuristic; in random order Gavel's.

    Parameters
    ----------
    problem
        The jobs.
    order
        The jobs that take part.
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
    """The pairs that gain anything, as after a trial of each."""
    return tuple(pair for pair in pairs if problem.gain_of(pair) > 0)
