r"""The time-indexed program of `time_indexed.py` as a Pyomo model, line by line as on paper.

Names are those of its equations (1) to (7); it is for reading, and the independent check of the
matrix form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.support.array_types import Floats


def time_indexed_model(problem: OfflineProblem, edges: Float[Floats, " edges"]) -> Any:
    """Return the program (1) to (7) of `time_indexed.py` as a Pyomo model.

    Parameters
    ----------
    problem
        The problem; jobs begin at edges, and the supply changes there.
    edges
        Seconds of the grid, ascending from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.hindsight import time_indexed_model
    >>> from goodalloc.models.hindsight import OfflineJob, OfflineProblem, Supply, Training
    >>> training = Training("one", np.array([60.0]), np.array([1.0, 2.0]), np.array([[[1.0, 1.5]]]))
    >>> job = OfflineJob("a", "one", 0.0, 30.0)
    >>> problem = OfflineProblem((training,), (job,), Supply.constant({"t4": 2.0}))
    >>> len(time_indexed_model(problem, np.array([0.0, 30.0, 60.0, 90.0])).x)
    4
    """
    from pyomo import environ as pyo

    jobs = problem.jobs
    trainings = [problem.training(job.training) for job in jobs]
    length, supply = np.diff(edges), problem.supply.mean(edges)
    model: Any = pyo.ConcreteModel()
    model.t = pyo.RangeSet(0, length.size - 1)
    model.a = pyo.RangeSet(0, len(problem.supply.types) - 1)
    there = [(j, t) for j, job in enumerate(jobs) for t in model.t if edges[t] >= job.begin]
    model.there = pyo.Set(initialize=there, dimen=2)
    model.phases = pyo.Set(
        initialize=[(j, t, q) for j, t in there for q in range(trainings[j].num_phases)], dimen=3
    )
    model.choices = pyo.Set(
        initialize=[
            (j, t, a, k) for j, t in there for a in model.a for k in range(trainings[j].gpus.size)
        ],
        dimen=4,
    )
    model.work = pyo.Set(
        initialize=[
            (j, t, q, a, k) for j, t, a, k in model.choices for q in range(trainings[j].num_phases)
        ],
        dimen=5,
    )
    model.x = pyo.Var(model.choices, domain=pyo.Binary)
    model.z = pyo.Var(model.work, domain=pyo.NonNegativeReals)
    model.c = pyo.Var(model.phases, domain=pyo.Binary)
    model.u = pyo.Var(model.there, domain=pyo.NonNegativeReals)

    def options(j: int) -> list[tuple[int, int]]:
        """Return the types and numbers of GPUs of a job."""
        return [(a, k) for a in model.a for k in range(trainings[j].gpus.size)]

    def times(j: int, last: int | None = None) -> list[int]:
        """Return the intervals in which a job is there, up to one."""
        return [t for i, t in there if i == j and (last is None or t <= last)]

    model.completion = pyo.Objective(  # (1)
        expr=sum(
            job.weight * (job.begin - job.release + sum(model.u[j, t] for t in times(j)))
            for j, job in enumerate(jobs)
        )
    )
    model.one = pyo.Constraint(  # (2)
        model.there, rule=lambda m, j, t: sum(m.x[j, t, a, k] for a, k in options(j)) <= 1
    )

    def capacity(m: Any, t: int, a: int) -> Any:
        held = sum(
            trainings[j].gpus[k] * m.x[j, t, a, k]
            for j, s in there
            if s == t
            for k in range(trainings[j].gpus.size)
        )
        return held <= supply[t, a] if not isinstance(held, int) else pyo.Constraint.Skip

    model.free = pyo.Constraint(model.t, model.a, rule=capacity)  # (3)
    model.seconds = pyo.Constraint(  # (4)
        model.choices,
        rule=lambda m, j, t, a, k: (
            sum(m.z[j, t, q, a, k] for q in range(trainings[j].num_phases))
            <= length[t] * m.x[j, t, a, k]
        ),
    )
    model.progress = pyo.Constraint(  # (5)
        model.phases,
        rule=lambda m, j, t, q: (
            sum(
                trainings[j].rates[a, q, k] * m.z[j, s, q, a, k]
                for s in times(j, t)
                for a, k in options(j)
            )
            >= trainings[j].work[q] * m.c[j, t, q]
        ),
    )
    model.order = pyo.Constraint(  # (6)
        model.phases,
        rule=lambda m, j, t, q: (
            sum(m.z[j, t, q + 1, a, k] for a, k in options(j)) <= length[t] * m.c[j, t, q]
            if q + 1 < trainings[j].num_phases
            else pyo.Constraint.Skip
        ),
    )
    model.whole = pyo.Constraint(  # (7)
        model.there,
        rule=lambda m, j, t: m.u[j, t] >= length[t] * (1 - m.c[j, t, trainings[j].num_phases - 1]),
    )
    model.part = pyo.Constraint(
        model.there,
        rule=lambda m, j, t: (
            m.u[j, t]
            >= sum(
                m.z[j, t, q, a, k] for q in range(trainings[j].num_phases) for a, k in options(j)
            )
        ),
    )
    model.ended = pyo.Constraint(
        range(len(jobs)),
        rule=lambda m, j: m.c[j, length.size - 1, trainings[j].num_phases - 1] == 1,
    )
    return model
