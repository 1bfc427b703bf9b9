"""Rules of a scheduling round: objective, restart penalty, placement constraints.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao

Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_flag,
    require_number,
)

FairShare = Literal["one_node", "packed", "one_gpu", "least"]
SpeedupScale = Literal["node", "job"]
BatchSearch = Literal["integer", "grid"]
RestartPenalty = Literal["all", "running"]

#: Finite powers beyond these are, to float64, the geometric mean, the minimum or the maximum.
SMALLEST_POWER, LARGEST_POWER = 1e-9, 1e6


@dataclass(frozen=True, slots=True)
class Rules:
    """Objective and constraints of an allocation; the defaults are Pollux's published values.

    The utility of job *j* is ``u_j = scale * weight_j * speedup_j * rho_j + floor`` and the
    objective is the power mean of the utilities, ``(mean_j u_j^p)^(1/p)`` (section 4.2 of Pollux,
    where every weight is 1).

    Parameters
    ----------
    power
        The power *p* of the mean: any real, 0 (geometric mean), ``-inf`` (minimum) or ``inf``.
    floor
        Added to every job's speedup so that a job without GPUs stays finite; above 0, or 0 where
        `idle_utility` is the utility of such a job.
    idle_utility
        Utility of a job that holds nothing, above 0; the floor if None.
    restart_delay
        Seconds without progress after a change of allocation, for jobs without a delay of their
        own.
    max_nodes_per_job
        Most nodes that one job may span.
    interference_avoidance
        Whether at most one distributed job (one on several nodes) may touch a node.
    fair_share
        Allocation of speedup 1: the fair share of ``K_f = ceil(GPUs / jobs)`` GPUs priced as if all
        sat on one node (``"one_node"``, as the artifact does) or on as many as it needs
        (``"packed"``, the paper); a single GPU (``"one_gpu"``, as AdaptDL's later versions do); or
        the least goodput of any whole-node shape of the job (see
        `goodalloc.models.round.job_shapes`) over its fewest GPUs (``"least"``, Sia, SOSP'23).
    speedup_scale
        ``"node"``: ``scale = nodes / GPUs``, so that a node-sized share at linear speed counts 1
        (the artifact); ``"job"``: ``scale = 1``, so that the fair share counts 1 (the paper).
    batch_search
        Search for the best batch size: ``"integer"``, the true optimum over integers, or
        ``"grid"``, the published geometric grid.
    grid_points
        Points of that grid.
    restart_penalty
        Jobs that pay for a change of allocation: ``"all"`` jobs, starting included (Pollux), or
        only those that are ``"running"`` and older than the delay (Sia).

    Raises
    ------
    ValueError
        If a value is NaN, out of range or not one of the choices.

    Examples
    --------
    >>> from goodalloc.models import Rules
    >>> rules = Rules(power=0.0)
    >>> rules.replace(restart_delay=60.0).restart_delay
    60.0
    """

    power: float = -1.0
    floor: float = 1e-3
    restart_delay: float = 30.0
    max_nodes_per_job: int = 16
    interference_avoidance: bool = True
    fair_share: FairShare = "one_node"
    speedup_scale: SpeedupScale = "node"
    batch_search: BatchSearch = "integer"
    grid_points: int = 50
    idle_utility: float | None = None
    restart_penalty: RestartPenalty = "all"

    def __post_init__(self) -> None:
        require_number("Rules: power", self.power, finite=False)
        ordinary = self.power == 0 or SMALLEST_POWER <= abs(self.power) <= LARGEST_POWER
        if not ordinary and math.isfinite(self.power):
            raise ValueError(
                f"Rules: power is {self.power!r}; expected 0, inf, -inf, or a size between "
                f"{SMALLEST_POWER:g} and {LARGEST_POWER:g}."
            )
        if self.idle_utility is not None:
            require_number("Rules: idle_utility", self.idle_utility, minimum=0.0, strict=True)
        strict = self.idle_utility is None
        require_number("Rules: floor", self.floor, minimum=0.0, strict=strict)
        require_number("Rules: restart_delay", self.restart_delay, minimum=0.0)
        require_count("Rules: max_nodes_per_job", self.max_nodes_per_job, minimum=1)
        require_flag("Rules: interference_avoidance", self.interference_avoidance)
        require_choice("Rules: fair_share", self.fair_share, get_args(FairShare))
        require_choice("Rules: speedup_scale", self.speedup_scale, get_args(SpeedupScale))
        require_choice("Rules: batch_search", self.batch_search, get_args(BatchSearch))
        require_count("Rules: grid_points", self.grid_points, minimum=2)
        penalties = get_args(RestartPenalty)
        require_choice("Rules: restart_penalty", self.restart_penalty, penalties)

    @property
    def idle(self) -> float:
        """Utility of a job that holds nothing."""
        return self.floor if self.idle_utility is None else self.idle_utility

    def replace(self, **changes: Any) -> Rules:
        """Return a copy with some values changed."""
        return replace(self, **changes)


#: The objective of the OSDI'21 artifact, to the last digit.
OSDI21 = Rules(batch_search="grid")

#: Lambda of Sia, its cost of every job that gets nothing.
SIA_IDLE_COST = 1.1

#: The objective of Sia's artifact: p = -1/2, speedups over the job's slowest shape, and a cost of
#: 1.1 (utility 0.83) of an idle job. The delay is that of most applications in the artifact.
SIA = Rules(
    power=-0.5,
    floor=0.0,
    interference_avoidance=False,
    fair_share="least",
    speedup_scale="job",
    batch_search="grid",
    idle_utility=SIA_IDLE_COST**-2,
    restart_penalty="running",
)

#: Rules by name: the default, Pollux's artifact, and Sia.
PRESETS = {"default": Rules(), "osdi21": OSDI21, "sia": SIA}
