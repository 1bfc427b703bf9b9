r"""Pairing of jobs that share their GPUs: problem, price and checker.

Jobs are of kinds; a job of kind *a* and one of kind *b* on the same GPUs do :math:`w_{ab}` more
than the larger one does there alone, minus infinity where their memory does not fit. A pairing has
every job at most once and is worth

.. math:: \sum_{\{i, j\}} w_{k(i) k(j)}.                                                      (1)

For jobs that share as `models/shared_gpus/shared_speed.py` has it, of :math:`g_h \ge g_g` GPUs,

.. math:: w = g_g r_g - g_h (1 - r_h)                                                         (2)

in GPUs that do nothing else: of equal numbers of GPUs, that times the sum of both rates less 1. It
is what Gandiva (OSDI'18) tries to gain by packing; its formula is a documented reading.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float, Int

    from goodalloc.models.shared_gpus.shared_speed import GpuUse, Sharing
    from goodalloc.models.support.array_types import Floats, Indices


#: Two jobs.
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Pairing:
    """Jobs that may be paired, by kind.

    Parameters
    ----------
    kind
        Kind of every job, shape (jobs,).
    gain
        :math:`w_{ab}` of (1), symmetric, minus infinity for never; shape (kinds, kinds).

    Raises
    ------
    ValueError
        If there are no jobs, shapes differ, a kind is unknown, or a gain is NaN, infinite or not
        symmetric.
    """

    kind: Int[Indices, " jobs"]
    gain: Float[Floats, "kinds kinds"]

    def __post_init__(self) -> None:
        gain = as_numbers("Pairing", "gain", self.gain).astype(float)
        if gain.ndim != 2 or gain.shape[0] != gain.shape[1] or not gain.size:
            raise ValueError(f"Pairing: gain has shape {gain.shape}; expected kinds by kinds.")
        require_all(gain < np.inf, "Kinds", "gain", gain, "a number or minus infinity")
        require_all(gain == gain.T, "Kinds", "gain", gain, "the same either way", bound=gain.T)
        kind = as_numbers("Pairing", "kind", self.kind)
        if kind.ndim != 1 or kind.dtype.kind not in "iu" or not kind.size:
            raise ValueError(
                f"Pairing: kind is {self.kind!r}; expected the kind of every job, at least one."
            )
        inside = (kind >= 0) & (kind < len(gain))
        require_all(inside, "Job", "kind", kind, f"0 to {len(gain) - 1}")
        object.__setattr__(self, "gain", gain)
        object.__setattr__(self, "kind", kind.astype(np.int64))

    @classmethod
    def of(cls, gpus: Sequence[int], uses: Sequence[GpuUse], sharing: Sharing) -> Pairing:
        """Return the problem of jobs with `gpus` GPUs and `uses` of them, by (2)."""
        jobs = list(zip(gpus, uses, strict=True))
        kinds = list(dict.fromkeys(jobs))
        gain = [[shared_gain(one, other, sharing) for other in kinds] for one in kinds]
        return cls(np.array([kinds.index(job) for job in jobs]), np.array(gain))

    def without(self, pairs: Sequence[Pair]) -> Pairing:
        """Return the problem without some pairs; every job is then a kind of its own."""
        if not pairs:
            return self
        gain = self.gain[np.ix_(self.kind, self.kind)]
        for one, other in pairs:
            gain[one, other] = gain[other, one] = -np.inf
        return Pairing(np.arange(self.num_jobs), gain)

    def gain_of(self, pair: Pair) -> float:
        """Return the gain of a pair."""
        return float(self.gain[self.kind[pair[0]], self.kind[pair[1]]])

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return self.kind.size


def shared_gain(one: tuple[int, GpuUse], other: tuple[int, GpuUse], sharing: Sharing) -> float:
    """Return the gain (2) of two jobs, minus infinity where the memory is too small."""
    (guest_gpus, guest), (host_gpus, host) = sorted((one, other))
    if not sharing.fits(host, guest):
        return -np.inf
    lost = host_gpus * (1.0 - sharing.host_rate(host, [guest]))
    return guest_gpus * sharing.guest_rate(host, guest) - lost


def pairing_violations(problem: Pairing, pairs: Iterable[Pair]) -> tuple[str, ...]:
    """Return a sentence for each fault of a pairing; none if it is feasible."""
    found, paired = [], set[int]()
    for one, other in pairs:
        for job in (one, other):
            if not 0 <= job < problem.num_jobs:
                found.append(f"Job {job} is paired; expected 0 to {problem.num_jobs - 1}.")
            elif job in paired:
                found.append(f"Job {job} is paired twice; expected at most once.")
            paired.add(job)
        if not found and problem.gain_of((one, other)) == -np.inf:
            found.append(f"Jobs {one} and {other} are paired; they cannot share a GPU.")
    return tuple(found)


def total_gain(problem: Pairing, pairs: Sequence[Pair]) -> float:
    """Return the worth (1) of a pairing.

    Raises
    ------
    ValueError
        If the pairing is infeasible.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.shared_gpus import Pairing, total_gain
    >>> problem = Pairing(np.array([0, 0, 1]), np.array([[0.1, 0.5], [0.5, 0.2]]))
    >>> total_gain(problem, [(0, 2)])
    0.5
    """
    broken = pairing_violations(problem, pairs)
    if broken:
        raise ValueError(broken[0])
    return float(sum(map(problem.gain_of, pairs)))
