"""The worst or the best job's cost as the objective of the node-indexed program in Pyomo."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pyomo.environ as pyo

from goodalloc.formulations.basics.extreme_cost import least_worst

#: Which jobs' cost is minimised: that of all, of the worst or of the best.
Whose = Literal["all", "worst", "best"]


def whose_cost(power: float) -> Whose:
    """Return the jobs whose cost the mean of a power depends on.

    Examples
    --------
    >>> from math import inf
    >>> from goodalloc.formulations.node_indexed import whose_cost
    >>> [whose_cost(power) for power in (-inf, -1.0, inf)]
    ['worst', 'all', 'best']
    """
    if math.isfinite(power):
        return "all"
    return "worst" if power < 0 else "best"


def add_extreme_cost(model: Any, whose: Whose) -> None:
    """Add the objective (1) or (2) of `extreme_cost.py`.

    Parameters
    ----------
    model
        The program as `node_milp` builds it, without an objective.
    whose
        ``"worst"`` or ``"best"``.
    """
    if whose == "worst":
        _add_worst(model)
    else:
        _add_best(model)


def _add_worst(model: Any) -> None:
    """Add objective (1)."""
    job = np.array([job for job, *_ in model.choices])
    cap = least_worst(job, np.array([model.cost[choice] for choice in model.choices]))
    model.worst = pyo.Var(domain=pyo.Reals, bounds=(cap, None))
    model.total_cost = pyo.Objective(expr=model.worst)

    @model.Constraint(model.jobs)  # type: ignore[untyped-decorator]
    def no_job_is_worse(model: Any, j: int) -> Any:
        mine = (c for choices in model.by_job[j].values() for c in choices)
        return pyo.quicksum(max(model.cost[c], cap) * model.take[c] for c in mine) <= model.worst


def _add_best(model: Any) -> None:
    """Add objective (2)."""
    model.counts = pyo.Var(model.choices, bounds=(0, 1))
    model.total_cost = pyo.Objective(
        expr=pyo.quicksum(model.cost[c] * model.counts[c] for c in model.choices)
    )
    model.one_counts = pyo.Constraint(expr=pyo.quicksum(model.counts.values()) == 1)

    @model.Constraint(model.choices)  # type: ignore[untyped-decorator]
    def counts_if_taken(model: Any, *choice: Any) -> Any:
        return model.counts[choice] <= model.take[choice]
