r"""Time sharing of GPUs of several types: sections 3 and 4 of Gavel.

A *line* is a job that has GPUs to itself, or two jobs on the same GPUs ("space sharing"). With
:math:`X_{lw}` the part of its time that line *l* spends on GPUs of type *w*, :math:`T_{lwj}` the
steps per second of job *j* then, :math:`s_l` the GPUs that it takes and :math:`N_w` those of a
type,

.. math::

    X \ge 0, \qquad \sum_{l \ni j} \sum_w X_{lw} \le 1, \qquad \sum_l s_l X_{lw} \le N_w,     (1)

.. math:: \tau_j(X) = \sum_{l \ni j} \sum_w T_{lwj} X_{lw}.                                  (2)

The goals of all policies are functions of the rates :math:`\tau`. Shares are of time, so that
nothing here says which GPU of a type a job runs on.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, sections 3 and 4.
    https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import literal, real_array, require_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class TimeSharing:
    """Jobs that share GPUs in time, with their rates.

    Parameters
    ----------
    names
        Names of the jobs, each once.
    rate
        Steps per second of every job alone on its GPUs, shape (jobs, types); 0 where it cannot run.
    gpus
        GPUs of every type, shape (types,); whole numbers above 0.
    replicas
        GPUs that every job takes at a time, shape (jobs,); 1 each by default.
    pairs
        Jobs that may share their GPUs, shape (pairs, 2); both of a pair take as many GPUs.
    pair_rate
        Steps per second of the first and the second of a pair, shape (pairs, types, 2); 0 where
        they cannot share.
    cluster_gpus
        GPUs of every type that a job may take at a time, shape (types,): those of the cluster, of
        which `gpus` are a part in time; `gpus` by default.

    Raises
    ------
    ValueError
        If there is no job or type, a name repeats, a shape is wrong, a rate is negative or not
        finite, a number of GPUs is not a positive integer, a job runs nowhere, or a pair is not of
        two different jobs with as many GPUs.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> sharing.num_jobs, sharing.num_types
    (2, 2)
    """

    names: tuple[str, ...]
    rate: Float[Floats, "jobs types"]
    gpus: Int[Indices, " types"]
    replicas: Int[Indices, " jobs"]
    pairs: Int[Indices, "pairs 2"]
    pair_rate: Float[Floats, "pairs types 2"]
    cluster_gpus: Int[Indices, " types"]

    def __init__(
        self,
        names: Sequence[str],
        rate: ArrayLike,
        gpus: ArrayLike,
        replicas: ArrayLike | None = None,
        pairs: ArrayLike | None = None,
        pair_rate: ArrayLike | None = None,
        *,
        cluster_gpus: ArrayLike | None = None,
    ) -> None:
        jobs = len(names)
        types = real_array("GPUs of a type", gpus).size
        found_gpus = _whole("GPUs of a type", gpus, (types,))
        found_pairs = _places(np.zeros((0, 2)) if pairs is None else pairs)
        cluster = found_gpus if cluster_gpus is None else cluster_gpus
        pair_rates = np.zeros((0, types, 2)) if pair_rate is None else pair_rate
        values = {
            "names": tuple(names),
            "rate": real_rates("Rates", rate, (jobs, types)),
            "gpus": found_gpus,
            "replicas": _whole(
                "GPUs of a job", np.ones(jobs) if replicas is None else replicas, (jobs,)
            ),
            "pairs": found_pairs,
            "pair_rate": real_rates("Pairs: rates", pair_rates, (len(found_pairs), types, 2)),
            "cluster_gpus": _whole("GPUs of the cluster", cluster, (types,)),
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        self._check_jobs()
        self._check_pairs()

    def _check_jobs(self) -> None:
        if not self.names or not self.gpus.size:
            raise ValueError(
                f"Time sharing has {len(self.names)} jobs and {self.gpus.size} types of GPU; "
                "expected at least one of each."
            )
        for name in self.names:
            require_name("Time sharing: job", name)
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"Job '{twice}' is there twice; expected unique names.")
        runs = (self.rate > 0) & (self.replicas[:, None] <= self.cluster_gpus)
        for job in np.flatnonzero(~runs.any(axis=1)).tolist():
            raise ValueError(
                f"Job '{self.names[job]}' takes {self.replicas[job]} GPUs and runs nowhere; "
                "expected a rate above 0 on a type with so many."
            )

    def _check_pairs(self) -> None:
        seen = set()
        for first, second in self.pairs.tolist():
            if not (0 <= first < len(self.names) and 0 <= second < len(self.names)):
                raise ValueError(
                    f"Pair ({first}, {second}): expected two of {len(self.names)} jobs."
                )
            names = f"Pair of jobs '{self.names[first]}' and '{self.names[second]}'"
            if first == second:
                raise ValueError(f"{names}: expected two jobs.")
            if frozenset((first, second)) in seen:
                raise ValueError(f"{names} is there twice; expected it once.")
            seen.add(frozenset((first, second)))
            if self.replicas[first] != self.replicas[second]:
                raise ValueError(
                    f"{names}: they take {self.replicas[first]} and {self.replicas[second]} GPUs; "
                    "expected as many."
                )

    @property
    def num_jobs(self) -> int:
        """Number of jobs."""
        return len(self.names)

    @property
    def num_types(self) -> int:
        """Number of types of GPU."""
        return int(self.gpus.size)

    @property
    def num_lines(self) -> int:
        """Number of lines: jobs alone, in their order, then the pairs in theirs."""
        return self.num_jobs + len(self.pairs)

    @cached_property
    def members(self) -> Int[Indices, "lines 2"]:
        """Jobs of every line, shape (lines, 2); -1 in place of a missing second job."""
        alone = np.stack([np.arange(self.num_jobs), np.full(self.num_jobs, -1)], axis=1)
        return np.concatenate([alone, self.pairs])

    @cached_property
    def line_replicas(self) -> Int[Indices, " lines"]:
        """GPUs that every line takes at a time, shape (lines,)."""
        return self.replicas[self.members[:, 0]]

    @cached_property
    def line_rate(self) -> Float[Floats, "lines types 2"]:
        """T of (2): steps per second of the jobs of every line, shape (lines, types, 2).

        It is 0 where the cluster has too few GPUs of a type.
        """
        alone = np.stack([self.rate, np.zeros_like(self.rate)], axis=2)
        whole = np.concatenate([alone, self.pair_rate])
        fits = self.line_replicas[:, None] <= self.cluster_gpus
        return np.where(fits[..., None], whole, 0.0)

    def of_jobs(self, jobs: Sequence[int], gpus: ArrayLike) -> TimeSharing:
        """Return the problem restricted to `jobs` and `gpus`; pairs of other jobs are dropped."""
        place = np.full(self.num_jobs, -1)
        place[list(jobs)] = np.arange(len(jobs))
        moved = place[self.pairs]
        kept = (moved >= 0).all(axis=1)
        return TimeSharing(
            names=tuple(self.names[job] for job in jobs),
            rate=self.rate[list(jobs)],
            gpus=gpus,
            replicas=self.replicas[list(jobs)],
            pairs=moved[kept],
            pair_rate=self.pair_rate[kept],
            cluster_gpus=self.cluster_gpus,
        )


def rates(sharing: TimeSharing, shares: Float[Floats, "lines types"]) -> Float[Floats, " jobs"]:
    """Return the rates (2): steps per second of every job, shape (jobs,).

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    shares
        X, shape (lines, types).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, rates
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> rates(sharing, shares)
    array([2., 4.])
    """
    found = np.zeros(sharing.num_jobs + 1)
    per_line = np.einsum("lwi,lw->li", sharing.line_rate, shares)
    np.add.at(found, sharing.members, per_line)
    return found[:-1]


def share_violations(sharing: TimeSharing, shares: Float[Floats, "lines types"]) -> tuple[str, ...]:
    """Return a sentence for each constraint of (1) that the shares break; none if feasible.

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    shares
        X, shape (lines, types).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, share_violations
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> share_violations(sharing, shares)
    ()
    """
    wanted = (sharing.num_lines, sharing.num_types)
    if np.shape(shares) != wanted:
        return (f"Shares have shape {np.shape(shares)}; expected {wanted}.",)
    if not np.isfinite(shares).all() or (shares < 0).any():
        line, kind = np.argwhere(~(shares >= 0) | np.isinf(shares))[0].tolist()
        return (
            f"Line {line} has {shares[line, kind]:g} of its time on type {kind}; expected a finite "
            "number of at least 0.",
        )
    time = np.zeros(sharing.num_jobs + 1)
    np.add.at(time, sharing.members, shares.sum(axis=1)[:, None])
    found = [
        f"Job '{sharing.names[job]}' has {time[job]:.9g} of its time; expected at most 1."
        for job in np.flatnonzero(time[:-1] > 1 + RESOURCE_TOLERANCE).tolist()
    ]
    taken = sharing.line_replicas @ shares
    for kind in np.flatnonzero(taken > sharing.gpus * (1 + RESOURCE_TOLERANCE)).tolist():
        found.append(
            f"Type {kind}: {taken[kind]:.9g} GPUs are taken; expected at most {sharing.gpus[kind]}."
        )
    return tuple(found)


def equal_rates(sharing: TimeSharing) -> Float[Floats, " jobs"]:
    """Return the rates of jobs that divide their time in proportion to the types' GPUs.

    Gavel's fairness takes them as the jobs' dues, up to a factor common to all jobs.
    Types without enough GPUs for a job do not count for it.
    """
    alone = sharing.line_rate[: sharing.num_jobs, :, 0]
    runs = alone > 0
    due: Floats = (alone * sharing.gpus).sum(axis=1) / (runs * sharing.gpus).sum(axis=1)
    return due


def largest_rates(sharing: TimeSharing) -> Float[Floats, " jobs"]:
    """Return the most steps per second of each job on any line, shape (jobs,).

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, largest_rates
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> largest_rates(sharing)
    array([2., 4.])
    """
    largest = np.zeros(sharing.num_jobs + 1)
    np.maximum.at(largest, sharing.members, sharing.line_rate.max(axis=1))
    return largest[:-1]


def isolated_shares(sharing: TimeSharing, count: int | None = None) -> Float[Floats, "lines types"]:
    """Return the shares of jobs alone on one of *n* parts of the cluster, shape (lines, types).

    The part is :math:`N_w / n` GPUs of every type on which a job runs; one that takes *s* at a time
    has each type for :math:`N_w / (n s)` of its time, and all for no more than the whole of it.

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    count
        n; the number of jobs by default.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, isolated_shares
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> isolated_shares(sharing)
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    runs = sharing.line_rate[: sharing.num_jobs, :, 0] > 0
    time = runs * sharing.gpus / ((count or sharing.num_jobs) * sharing.replicas[:, None])
    shares = np.zeros((sharing.num_lines, sharing.num_types))
    shares[: sharing.num_jobs] = time / np.maximum(time.sum(axis=1, keepdims=True), 1.0)
    return shares


def real_rates(item: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Validate steps per second and return them as a new array.

    Parameters
    ----------
    item
        Name of the values in a message, in the plural.
    values
        Numbers.
    shape
        Expected shape.

    Raises
    ------
    ValueError
        If a value is negative or not finite, or the shape differs.

    Examples
    --------
    >>> from goodalloc.models.gavel import real_rates
    >>> real_rates("Rates", [[1, 2]], (1, 2))
    array([[1., 2.]])
    """
    array = real_array(item, values, shape)
    wrong = array[~(np.isfinite(array) & (array >= 0))]
    if wrong.size:
        raise ValueError(
            f"{item} are {literal(float(wrong[0]))} somewhere; expected finite numbers of at least "
            "0 steps per second."
        )
    return array


def _places(values: ArrayLike) -> Indices:
    array = real_array("Pairs", values)
    if not array.size:
        array = array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"Pairs have shape {array.shape}; expected two jobs each.")
    wrong = array[~(np.isfinite(array) & (array == np.round(array)))]
    if wrong.size:
        raise ValueError(f"Pairs are {literal(float(wrong[0]))} somewhere; expected whole numbers.")
    return array.astype(np.int64)


def _whole(item: str, values: ArrayLike, shape: tuple[int, ...]) -> Indices:
    array = real_array(item, values, shape)
    wrong = array[~(np.isfinite(array) & (array >= 1) & (array == np.round(array)))]
    if wrong.size:
        raise ValueError(f"{item} are {literal(float(wrong[0]))}; expected whole numbers above 0.")
    return array.astype(np.int64)
