r"""The time-indexed program of `time_indexed.py` as a Pyomo model, line by line as on paper.

Names are those of its equations (1) to (8); it is for reading, and the independent check of the
matrix form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo.environ as pyo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from goodalloc.models.hindsight.offline_problem import OfflineProblem, Training
    from goodalloc.models.support.array_types import Floats


def time_indexed_model(
    problem: OfflineProblem,
    edges: Float[Floats, " edges"],
    due: Float[Floats, " jobs"] | None = None,
) -> Any:
    """Return the program (1) to (7), or (8), of `time_indexed.py` as a Pyomo model.

    Parameters
    ----------
    problem
        The problem; jobs begin at edges, and the supply changes there.
    edges
        Seconds of the grid, ascending from 0.
    due
        Edges by which the jobs are due, for the least weight of late jobs, (8); None for (1).

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
    model: Any = pyo.ConcreteModel()
    _add_sets(model, problem, edges)
    model.x = pyo.Var(model.choices, domain=pyo.Binary)
    model.z = pyo.Var(model.work, domain=pyo.NonNegativeReals)
    model.c = pyo.Var(model.phases, domain=pyo.Binary)
    model.u = pyo.Var(model.there, domain=pyo.NonNegativeReals)
    if due is None:
        model.completion = pyo.Objective(  # (1)
            expr=sum(job.weight * (job.begin - job.release) for job in problem.jobs)
            + sum(problem.jobs[j].weight * model.u[j, t] for j, t in model.there)
        )
    else:
        met = _last_intervals(model, problem, due, edges)
        model.late = pyo.Objective(  # (8)
            expr=sum(job.weight for job in problem.jobs)
            - sum(problem.jobs[j].weight * model.c[j, t, q] for j, t, q in met)
        )
    trainings = [problem.training(job.training) for job in problem.jobs]
    _add_allocation(model, trainings, problem.supply.mean(edges), np.diff(edges))
    _add_progress(model, trainings, np.diff(edges))
    _add_completion(model, trainings, np.diff(edges))
    return model


def _add_sets(model: Any, problem: OfflineProblem, edges: Float[Floats, " edges"]) -> None:
    """Add the sets of intervals, types and what a job can choose in each."""
    model.t = pyo.RangeSet(0, edges.size - 2)
    model.a = pyo.RangeSet(0, len(problem.supply.types) - 1)
    there, phases, choices = [], [], []
    for j, job in enumerate(problem.jobs):
        training = problem.training(job.training)
        own = [(j, t) for t in model.t if edges[t] >= job.begin]
        there += own
        phases += [(*place, q) for place in own for q in range(training.num_phases)]
        counts = range(training.gpus.size)
        choices += [(*place, a, k) for place in own for a in model.a for k in counts]
    model.there = pyo.Set(initialize=there, dimen=2)
    model.phases = pyo.Set(initialize=phases, dimen=3)
    model.choices = pyo.Set(initialize=choices, dimen=4)
    work = [(*phase, *place[2:]) for phase in phases for place in choices if phase[:2] == place[:2]]
    model.work = pyo.Set(initialize=work, dimen=5)


def _last_intervals(
    model: Any, problem: OfflineProblem, due: Float[Floats, " jobs"], edges: Float[Floats, " edges"]
) -> list[tuple[int, int, int]]:
    """Return the last phase of each job in the interval at whose end it is due."""
    last = [problem.training(job.training).num_phases - 1 for job in problem.jobs]
    return [(j, t, last[j]) for j, t in model.there if edges[t + 1] == due[j]]


def _options(model: Any, training: Training) -> list[tuple[int, int]]:
    """Return the types and numbers of GPUs among which a job chooses."""
    return [(a, k) for a in model.a for k in range(training.gpus.size)]


def _add_allocation(
    model: Any,
    trainings: Sequence[Training],
    supply: Float[Floats, "intervals types"],
    length: Float[Floats, " intervals"],
) -> None:
    """Add (2) to (4)."""

    def at_most_one(m: Any, j: int, t: int) -> Any:
        return sum(m.x[j, t, a, k] for a, k in _options(m, trainings[j])) <= 1

    def free(m: Any, t: int, a: int) -> Any:
        chosen = [(j, k) for j, s, b, k in m.choices if (s, b) == (t, a)]
        if not chosen:
            return pyo.Constraint.Skip
        return sum(trainings[j].gpus[k] * m.x[j, t, a, k] for j, k in chosen) <= supply[t, a]

    def seconds(m: Any, j: int, t: int, a: int, k: int) -> Any:
        phases = range(trainings[j].num_phases)
        return sum(m.z[j, t, q, a, k] for q in phases) <= length[t] * m.x[j, t, a, k]

    model.one = pyo.Constraint(model.there, rule=at_most_one)  # (2)
    model.free = pyo.Constraint(model.t, model.a, rule=free)  # (3)
    model.seconds = pyo.Constraint(model.choices, rule=seconds)  # (4)


def _add_progress(
    model: Any, trainings: Sequence[Training], length: Float[Floats, " intervals"]
) -> None:
    """Add (5) and (6)."""

    def progress(m: Any, j: int, t: int, q: int) -> Any:
        so_far = [s for i, s in m.there if i == j and s <= t]
        done = sum(
            trainings[j].rates[a, q, k] * m.z[j, s, q, a, k]
            for s in so_far
            for a, k in _options(m, trainings[j])
        )
        return done >= trainings[j].work[q] * m.c[j, t, q]

    def order(m: Any, j: int, t: int, q: int) -> Any:
        if q + 1 == trainings[j].num_phases:
            return pyo.Constraint.Skip
        following = sum(m.z[j, t, q + 1, a, k] for a, k in _options(m, trainings[j]))
        return following <= length[t] * m.c[j, t, q]

    model.progress = pyo.Constraint(model.phases, rule=progress)  # (5)
    model.order = pyo.Constraint(model.phases, rule=order)  # (6)


def _add_completion(
    model: Any, trainings: Sequence[Training], length: Float[Floats, " intervals"]
) -> None:
    """Add (7), and that every job ends."""
    last = [training.num_phases - 1 for training in trainings]

    def whole(m: Any, j: int, t: int) -> Any:
        return m.u[j, t] >= length[t] * (1 - m.c[j, t, last[j]])

    def part(m: Any, j: int, t: int) -> Any:
        phases, options = range(trainings[j].num_phases), _options(m, trainings[j])
        return m.u[j, t] >= sum(m.z[j, t, q, a, k] for q in phases for a, k in options)

    model.whole = pyo.Constraint(model.there, rule=whole)  # (7)
    model.part = pyo.Constraint(model.there, rule=part)
    model.ended = pyo.Constraint(
        range(len(trainings)), rule=lambda m, j: m.c[j, length.size - 1, last[j]] == 1
    )
