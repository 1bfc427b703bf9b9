"""Hierarchical fairness of Gavel as a rule for its rounds.

Shares are filled level by level (`solvers/gavel/water_filling.py`), so that also the jobs above the
least one have as much as possible. Jobs belong to entities, which share the cluster by weight.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020, section 4.3. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_choice, require_number
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.gavel.water_filling import Entity, fill_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from goodalloc.models.gavel.time_sharing import TimeSharing
    from goodalloc.solvers.gavel.water_filling import Within
    from goodalloc.solvers.policies.policy import ActiveJob, Round


def of_itself(job: ActiveJob) -> str:
    """Return the name of the job: every job is an entity."""
    return job.name


def of_application(job: ActiveJob) -> str:
    """Return the application of the job: jobs that train the same are an entity."""
    return job.application


@dataclass(frozen=True)
class Levels:
    """Hierarchical max-min fairness.

    Parameters
    ----------
    entity
        Function that returns the name of a job's entity.
    weights
        Weights of entities by name; 1 where none is given.
    within
        Way in which the jobs of an entity share its weight; see `Entity`.

    Raises
    ------
    ValueError
        If a weight <= 0, or `within` is neither ``"fairness"`` nor ``"fifo"``.
    """

    entity: Callable[[ActiveJob], str] = of_itself
    weights: Mapping[str, float] = field(default_factory=dict)
    within: Within = "fairness"

    def __post_init__(self) -> None:
        require_choice("Levels: within", self.within, ("fairness", "fifo"))
        for name, weight in self.weights.items():
            require_number(f"Levels: weight of '{name}'", weight, minimum=0.0, strict=True)

    def __call__(self, sharing: TimeSharing, round_: Round) -> NDArray[np.float64] | None:
        """Return the shares of a round; None if a solver fails.

        Parameters
        ----------
        sharing
            The jobs of the round, in their order.
        round_
            The round.
        """
        groups: dict[str, list[int]] = {}
        for place, job in enumerate(round_.jobs):
            groups.setdefault(self.entity(job), []).append(place)
        entities = [
            Entity(tuple(jobs), self.weights.get(name, 1.0), self.within)
            for name, jobs in groups.items()
        ]
        return fill_levels(sharing, entities).shares


def gavel_levels() -> Gavel:
    """Return Gavel's max-min fairness, level by level.

    Examples
    --------
    >>> from goodalloc.solvers.gavel import gavel_levels
    >>> gavel_levels().goal.within
    'fairness'
    """
    return Gavel(Levels())
