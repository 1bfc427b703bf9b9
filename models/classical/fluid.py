r"""Fluid simulation of jobs that share servers in continuous time under any rule.

A rule divides the servers among the remaining jobs; job *i* with :math:`k_i` of them does
:math:`k_i^p` seconds of its work a second. It is evaluated again whenever a job ends, and at a
fixed interval if it depends on the remaining work. The flow times are counted from that alone, so
that this also prices what `hesrpt.py` says in closed form.

References
----------
Berg et al., "heSRPT: Parallel scheduling to minimize mean slowdown", Performance Evaluation 2020.
    doi:10.1016/j.peva.2020.102147
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.array_types import Floats
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import as_numbers, require_all, require_number

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import ArrayLike


#: Servers for every job, from the remaining sizes of the jobs in descending order.
Rule = Callable[[Floats], Floats]


def fluid_completion_times(
    sizes: ArrayLike, servers: float, power: float, rule: Rule, interval: float = math.inf
) -> Float[Floats, " jobs"]:
    """Return the seconds until each job ends, all present from the start; shape (jobs,).

    Parameters
    ----------
    sizes
        Seconds of every job on one server, above 0; shape (jobs,).
    servers
        Number of servers.
    power
        *p* of the speedup.
    rule
        Division of the servers among the jobs.
    interval
        Seconds after which the rule is evaluated again though no job ended.

    Raises
    ------
    ValueError
        If a size, `power` or `interval` is not above 0, or the rule gives more servers than there
        are, a negative number, or none at all.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import fluid_completion_times
    >>> def equal(sizes):
    ...     return np.full(sizes.size, 2.0 / sizes.size)
    >>> fluid_completion_times([1.0, 3.0], servers=2.0, power=0.5, rule=equal).round(2)
    array([1.  , 2.41])
    """
    require_number("Fluid: power", power, minimum=0.0, strict=True)
    require_number("Fluid: interval", interval, minimum=0.0, finite=False, strict=True)
    left = as_numbers("Jobs", "sizes", sizes).astype(float)
    require_all(np.isfinite(left) & (left > 0), "Job", "size", left, "finite seconds above 0")
    ends, order, now = np.empty(left.size), np.argsort(-left, kind="stable"), 0.0
    left = left[order]
    while left.size:
        given = rule(left)
        if given.shape != left.shape or not (given >= 0).all() or not given.any():
            raise ValueError(f"Rule gives {given} to {left.size} jobs; expected servers for each.")
        if given.sum() > servers * (1 + RESOURCE_TOLERANCE):
            raise ValueError(f"Rule gives {given.sum():g} servers; there are {servers:g}.")
        rate = given**power * (given > 0)
        seconds = np.divide(left, rate, out=np.full(left.size, np.inf), where=rate > 0)
        step = min(float(seconds.min()), interval)
        now += step
        going = seconds > step * (1 + RESOURCE_TOLERANCE)
        ends[order[~going]] = now
        left, order = (left - rate * step)[going], order[going]
        again = np.argsort(-left, kind="stable")
        left, order = left[again], order[again]
    return ends
