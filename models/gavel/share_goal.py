r"""Goals of time shares in terms of the rates of the jobs: section 4 of Gavel.

Gavel's policies are instances of a few goals. With the rates :math:`\tau` of
`time_sharing.py`, in steps per second:

.. math::

    \text{worst:} \quad & \min_X \max_j \; a_j + b_j / \tau_j                              (1)\\
    \text{total:} \quad & \min_X \sum_j a_j + b_j / \tau_j                                 (2)\\
    \text{gain:}  \quad & \max_X \sum_{lw} g_{lw} X_{lw}                                    (3)\\
    \text{level:} \quad & \max_X \min_{j : b_j > 0} \; (\tau_j - a_j) / b_j                  (4)

- *Max-min fairness* ("LAS") is (4) with :math:`a = 0, b_j = w_j \bar\tau_j / s_j`: the least of the
  rates over their due (`equal_rates`), times GPUs and over the weight :math:`w_j`, is as large as
  possible.
- *Makespan* is (1) with the steps remaining :math:`n_j` as *b*: the last job ends first.
- *Finish-time fairness* (Themis) is (1) with :math:`a_j = e_j / D_j, b_j = n_j / D_j`, where a job
  has been there for :math:`e_j` and would take :math:`D_j` in all with its part of the cluster
  alone.
- *Average completion time* is (2) with :math:`a_j = e_j` and :math:`b_j = n_j`, if shares stay.
- *Throughput*, and throughput *per dollar*, are (3) with :math:`g = T`, each job's in units of its
  own rate if it is to count as any other, over the price of a type.

Without *a*, (1) is the inverse of (4). Jobs may be promised rates, :math:`\tau_j \ge r_j` (5):
deadlines, and what others have already.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak

Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020.
    https://www.usenix.org/conference/nsdi20/presentation/mahajan
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.gavel.time_sharing import equal_rates, rates
from goodalloc.models.support.validation import literal, real_array

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import ArrayLike

    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.models.support.array_types import Floats


@dataclass(frozen=True, eq=False)
class _Delays:
    """Base of goals that are functions of the jobs' delays.

    Parameters
    ----------
    delay, work
        a and b of every job, shape (jobs,); at least 0. Jobs with neither do not count.
    """

    delay: Float[Floats, " jobs"]
    work: Float[Floats, " jobs"]
    larger_is_better = False

    def __post_init__(self) -> None:
        _accept(self, delay=self.delay, work=self.work)

    def delays(
        self, sharing: TimeSharing, shares: Float[Floats, "lines types"]
    ) -> Float[Floats, " jobs"]:
        """Return the delay of each job; infinite where one with work has no rate."""
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(self.work > 0, self.work / rates(sharing, shares), 0.0)
        found: Floats = self.delay + parts
        return found


class Worst(_Delays):
    """Goal (1): minimise the largest delay."""

    def value(self, sharing: TimeSharing, shares: Float[Floats, "lines types"]) -> float:
        """Return the largest delay."""
        return float(self.delays(sharing, shares).max())


class Total(_Delays):
    """Goal (2): minimise the sum of the delays."""

    def value(self, sharing: TimeSharing, shares: Float[Floats, "lines types"]) -> float:
        """Return the sum of the delays."""
        return float(self.delays(sharing, shares).sum())


@dataclass(frozen=True, eq=False)
class Gain:
    """Goal (3): maximise the total worth of the shares.

    Parameters
    ----------
    worth
        g of every line and type, shape (lines, types); at least 0.
    """

    worth: Float[Floats, "lines types"]
    larger_is_better = True

    def __post_init__(self) -> None:
        _accept(self, worth=self.worth)

    def value(self, _: TimeSharing, shares: Float[Floats, "lines types"]) -> float:
        """Return the total worth of the shares."""
        return float((self.worth * shares).sum())


@dataclass(frozen=True, eq=False)
class Level:
    """Goal (4): maximise the lowest level.

    Parameters
    ----------
    floor, step
        a and b: rates at level 0, and by how much they rise from level to level, shape (jobs,); at
        least 0. Jobs without a step do not count.
    """

    floor: Float[Floats, " jobs"]
    step: Float[Floats, " jobs"]
    larger_is_better = True

    def __post_init__(self) -> None:
        _accept(self, floor=self.floor, step=self.step)
        if not (self.step > 0).any():
            raise ValueError("Goal: step is 0 for everybody; expected a job that counts.")

    def value(self, sharing: TimeSharing, shares: Float[Floats, "lines types"]) -> float:
        """Return the lowest level."""
        counts = self.step > 0
        above = rates(sharing, shares)[counts] - self.floor[counts]
        return float((above / self.step[counts]).min())


#: Goal of time shares.
Goal = Worst | Total | Gain | Level


def max_min(sharing: TimeSharing, weights: ArrayLike = 1.0) -> Level:
    """Return max-min fairness: maximise the least rate over a job's due.

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    weights
        Weight of every job, relative to others.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> round(max_min(sharing).value(sharing, shares), 3)  # least of 2 / 1.5 and 4 / 4
    1.0
    """
    due = _above_0("weights", weights, sharing.num_jobs) * equal_rates(sharing) / sharing.replicas
    return Level(np.zeros(sharing.num_jobs), due)


def makespan(steps: ArrayLike) -> Worst:
    """Return the goal of the least makespan, in seconds.

    Parameters
    ----------
    steps
        Remaining steps of every job, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, makespan
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> makespan([10.0, 40.0]).value(sharing, shares)
    10.0
    """
    left = _above_0("steps", steps)
    return Worst(np.zeros_like(left), left)


def finish_time(steps: ArrayLike, elapsed: ArrayLike, alone: ArrayLike) -> Worst:
    """Return the goal of the least maximum of finish-time fairness, rho.

    Parameters
    ----------
    steps
        Remaining steps of every job, above 0.
    elapsed
        Seconds since its submission.
    alone
        D: total seconds that it would take alone on its part of the cluster, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, finish_time
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> goal = finish_time([10.0, 40.0], elapsed=0.0, alone=[10.0, 20.0])
    >>> goal.value(sharing, shares)
    0.5
    """
    left = _above_0("steps", steps)
    whole = _above_0("alone", alone, left.size)
    return Worst(_spread("elapsed", elapsed, left.size) / whole, left / whole)


def completion_time(steps: ArrayLike, elapsed: ArrayLike = 0.0) -> Total:
    """Return the goal of the least sum of completion times, in seconds, for constant shares.

    Parameters
    ----------
    steps, elapsed
        As in `finish_time`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, completion_time
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> completion_time([10.0, 40.0]).value(sharing, shares)  # 5 + 10
    15.0
    """
    left = _above_0("steps", steps)
    return Total(_spread("elapsed", elapsed, left.size), left)


def throughput(sharing: TimeSharing, unit: ArrayLike = 1.0, prices: ArrayLike = 1.0) -> Gain:
    """Return the goal of the largest sum of the rates.

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    unit
        Steps per second of every job that count as 1, shape (jobs,) or a number.
    prices
        Of a GPU of every type, by which its rates are divided, shape (types,) or a number.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.gavel import TimeSharing, throughput
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> shares = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> throughput(sharing).value(sharing, shares)  # 2 + 4
    6.0
    """
    units = np.append(_above_0("unit", unit, sharing.num_jobs), 1.0)
    per_line = (sharing.line_rate / units[sharing.members][:, None, :]).sum(axis=2)
    return Gain(per_line / _above_0("prices", prices, sharing.num_types))


def require_goal(sharing: TimeSharing, goal: object) -> None:
    """Validate a goal against the jobs of `sharing`.

    Parameters
    ----------
    sharing
        Jobs and GPUs.
    goal
        Goal to validate.

    Raises
    ------
    ValueError
        If `goal` is not a goal, or its arrays do not match the jobs.

    Examples
    --------
    >>> from goodalloc.models.gavel import TimeSharing, max_min, require_goal
    >>> sharing = TimeSharing(("a", "b"), [[2.0, 1.0], [4.0, 4.0]], gpus=[1, 1])
    >>> require_goal(sharing, max_min(sharing))
    """
    if not isinstance(goal, Worst | Total | Gain | Level):
        shown = literal(goal) if isinstance(goal, str) else type(goal).__name__
        raise ValueError(
            f"Goal is {shown}; expected a Worst, Total, Gain or Level, as max_min(sharing) is one."
        )
    wanted: tuple[int, ...] = (sharing.num_jobs,)
    if isinstance(goal, Gain):
        name, array, wanted = "worth", goal.worth, (sharing.num_lines, sharing.num_types)
    else:
        name, array = ("step", goal.step) if isinstance(goal, Level) else ("work", goal.work)
    if array.shape != wanted:
        raise ValueError(f"Goal: {name} has shape {array.shape}; expected {wanted}.")


def _spread(name: str, values: ArrayLike, size: int) -> Floats:
    """Broadcast a number for all jobs, or one each, to `size`."""
    array = real_array(f"Goal: values of {name}", values, (), (1,), (size,))
    return np.broadcast_to(array, (size,))


def _above_0(name: str, values: ArrayLike, size: int | None = None) -> Floats:
    """Validate numbers above 0 and broadcast them to `size`, by default their own number."""
    if size is None:
        size = real_array(f"Goal: values of {name}", values).size
    array = _spread(name, values, size)
    wrong = array[~(np.isfinite(array) & (array > 0))]
    if wrong.size:
        raise ValueError(
            f"Goal: {name} has {literal(float(wrong[0]))}; expected finite numbers above 0."
        )
    return array


def _accept(goal: object, **arrays: Floats) -> None:
    """Store validated, read-only arrays on a goal."""
    found = {name: real_array(f"Goal: values of {name}", values) for name, values in arrays.items()}
    shapes = {name: array.shape for name, array in found.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"Goal: shapes are {shapes}; expected the same.")
    for name, array in found.items():
        wrong = array[~(np.isfinite(array) & (array >= 0))]
        if wrong.size:
            raise ValueError(
                f"Goal: {name} has {literal(float(wrong[0]))}; expected finite numbers of at "
                "least 0."
            )
        array.setflags(write=False)
        object.__setattr__(goal, name, array)
