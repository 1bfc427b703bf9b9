r"""The least and the greatest utility as the objective of one program: the means of infinite power.

They are no sums of costs, but each is decided by one mixed-integer program. With the costs
:math:`c_{ji} = -\log(u_{ji} / r)` of the choices (`power_cost` at p = 0, any reference *r*), the
worst job's cost is least, at :math:`p = -\infty`, in

.. math::

    \min z \quad \text{s.t.} \quad z \ge \sum_{i \in A_j} \max(c_{ji}, \bar c) \, x_{ji}
    \;\; \forall j, \qquad \bar c = \max_j \min_{i \in A_j} c_{ji},                           (1)

and the best job's, at :math:`p = \infty`, where the weights *y* pick one of the choices taken, in

.. math::

    \min \sum_{j, i} c_{ji} y_{ji} \quad \text{s.t.} \quad \sum_{j, i} y_{ji} = 1, \qquad
    0 \le y_{ji} \le x_{ji} \;\; \forall j, i,                                                (2)

and an objective *z* of either is the fitness :math:`r e^{-z}`. Nothing is better for the worst job
than the best choice of some job, hence :math:`\bar c`, which makes the relaxation of (1) tighter.
Logarithms order the utilities as they are and turn a solver's absolute tolerance into a relative
one: utilities from 1e-9 to 1e9 are all told apart to the same number of digits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import fitness_from_cost, power_cost
from goodalloc.formulations.basics.program import ProgramBuilder

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import ArrayLike

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.support.array_types import Floats, Indices


def program_cost(utility: ArrayLike, power: float, reference: float) -> Float[Floats, ...]:
    """Return the cost of a utility in a program for any power: `power_cost`, at p = 0 for infinite
    powers.

    Examples
    --------
    >>> from math import inf
    >>> from goodalloc.formulations.basics import program_cost
    >>> program_cost([1.0, 2.0], power=-inf, reference=1.0).round(4).tolist()  # -log(u)
    [-0.0, -0.6931]
    """
    return power_cost(utility, power if math.isfinite(power) else 0.0, reference)


def program_fitness(objective: float, num_jobs: int, power: float, reference: float) -> float:
    """Return the fitness that an objective of such a program stands for.

    Parameters
    ----------
    objective
        Sum of costs for a finite power, *z* of (1) or (2) for an infinite one; or a bound on it.
    num_jobs, power, reference
        Number of jobs, the power *p*, and the utility that costs 0.

    Examples
    --------
    >>> from math import inf, log
    >>> from goodalloc.formulations.basics import program_fitness
    >>> round(program_fitness(log(2.0), num_jobs=3, power=-inf, reference=1.0), 6)
    0.5
    """
    if math.isfinite(power):
        return fitness_from_cost(objective, num_jobs, power, reference)
    return fitness_from_cost(objective, 1, 0.0, reference)


def least_worst(job: Int[Indices, " choices"], cost: Float[Floats, " choices"]) -> float:
    """Return the cap of (1): the cost of the job whose cheapest choice costs most.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import least_worst
    >>> least_worst(job=np.array([0, 0, 1]), cost=np.array([3.0, 1.0, 2.0]))
    2.0
    """
    cheapest = np.full(int(job.max()) + 1, np.inf)
    np.minimum.at(cheapest, job, cost)
    return float(cheapest.max())


def with_extreme_cost(
    program: Program, job: Int[Indices, " choices"], cost: Float[Floats, " choices"], power: float
) -> Program:
    """Return the program with the objective (1) or (2) in place of its own.

    Parameters
    ----------
    program
        Its first columns are the choices of the jobs.
    job, cost
        Of every choice: whose it is, every job having some, and what it costs; shape (choices,).
    power
        Minus infinity or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.basics import ProgramBuilder, with_extreme_cost
    >>> builder, job = ProgramBuilder(), np.array([0, 0, 1])
    >>> x = builder.add_columns("x", 3, upper=1.0)
    >>> builder.add_entries(builder.add_rows("one", 2, lower=1.0, upper=1.0)[job], x, 1.0)
    >>> cost = np.array([3.0, 1.0, 2.0])
    >>> worst = with_extreme_cost(builder.build(), job, cost, power=-np.inf)
    >>> worst.num_columns, worst.cost.tolist()
    (4, [0.0, 0.0, 0.0, 1.0])
    """
    choice = np.arange(job.size)
    builder = ProgramBuilder.extending(replace(program, cost=np.zeros(program.num_columns)))
    if power < 0:
        cap = least_worst(job, cost)
        worst = builder.add_columns("worst", 1, cost=1.0, lower=cap, integer=False)
        rows = builder.add_rows("worst", int(job.max()) + 1, upper=0.0)
        builder.add_entries(rows[job], choice, np.maximum(cost, cap))
        builder.add_entries(rows, worst, -1.0)
        return builder.build(program.offset)
    counts = builder.add_columns("counts", job.size, cost=cost, upper=1.0, integer=False)
    rows = builder.add_rows("counts", job.size, upper=0.0)
    builder.add_entries(rows, counts, 1.0)
    builder.add_entries(rows, choice, -1.0)
    builder.add_entries(builder.add_rows("one_counts", 1, lower=1.0, upper=1.0), counts, 1.0)
    return builder.build(program.offset)
