r"""AlloX's matching of jobs to machines and places, and the same optimum without places.

A job of :math:`p_{jt}` seconds that is *l*-th from the end of its machine delays itself and the
*l - 1* jobs after it (`models/classical/unrelated_machines.py` has the symbols). So the least total
completion time is a matching of jobs with places *(k, l)*,

.. math::

    \min_x \sum_j a_j + \sum_j \sum_{k, l} (l \, p_{j, t(k)} + r_k) \, x_{jkl}
    \quad \text{s.t.} \quad \sum_{k, l} x_{jkl} = 1 \;\; \forall j, \qquad
    \sum_j x_{jkl} \le 1 \;\; \forall k, l, \qquad x \ge 0,                                   (1)

whose vertices are integral (AlloX, EuroSys'20, section 4; the delay :math:`r_k` of a machine that
is still busy is a documented reading). At an optimum a place *(k, l)* is taken only if on all
:math:`N_k` machines of the type that are free no later the places 1 to *l - 1* are: a job would
rather move there. Hence

.. math:: (l - 1) N_k < J \quad \Rightarrow \quad l \le \lceil J / N_k \rceil,               (2)

which leaves few places. Machines of one type and one :math:`r_k` are alike: (1) counts them.

Without places a schedule is a machine for every job, each with the shortest job first:

.. math::

    \min_{x, y} \sum_j a_j + \sum_{j, k} (p_{j, t(k)} + r_k) x_{jk} + \sum_{i < j, k}
    \min(p_{i, t(k)}, p_{j, t(k)}) \, y_{ijk} \quad \text{s.t.} \quad
    \sum_k x_{jk} = 1, \quad y_{ijk} \ge x_{ik} + x_{jk} - 1, \quad x \in \{0, 1\}, y \ge 0.  (3)

Both are *exact*; (1) is a matching, (3) a mixed-integer program to test it with.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020. doi:10.1145/3342195.3387547
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.program import ProgramBuilder
from goodalloc.models.classical.unrelated_machines import MachineSchedule

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from goodalloc.formulations.basics.program import Program
    from goodalloc.models.classical.unrelated_machines import UnrelatedMachines
    from goodalloc.models.support.array_types import Floats, Indices


class Places(NamedTuple):
    """Places on machines, counted from the end; one entry of each array a place.

    Attributes
    ----------
    machine
        Machine of every place.
    from_end
        Number of jobs that a job in the place delays, itself included, *l*: 1 for the last.
    """

    machine: Int[Indices, " places"]
    from_end: Int[Indices, " places"]


def places_of(problem: UnrelatedMachines) -> Places:
    """Return the places that (2) leaves, machine by machine.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import places_of
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> problem = UnrelatedMachines.idle(np.array([[3.0, 1.0], [4.0, 2.0]]), (1, 1))
    >>> len(places_of(problem).machine)  # last and last but one on each machine
    4
    """
    alike = problem.machine_type[:, None] == problem.machine_type
    no_later = (alike & (problem.ready <= problem.ready[:, None])).sum(axis=1)
    most = -(-problem.num_jobs // no_later)
    first = np.cumsum(most) - most
    machine = np.repeat(np.arange(problem.num_machines), most)
    return Places(machine, np.arange(machine.size) - first[machine] + 1)


def place_costs(problem: UnrelatedMachines, places: Places) -> Float[Floats, "jobs places"]:
    """Return the costs in (1) without the time waited so far, infinite for never; (jobs,
    places).

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import place_costs, places_of
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> problem = UnrelatedMachines.idle(np.array([[3.0, 1.0], [4.0, 2.0]]), (1, 1))
    >>> place_costs(problem, places_of(problem)).min(axis=1).tolist()
    [1.0, 2.0]
    """
    machine, from_end = places
    return from_end * problem.machine_times[:, machine] + problem.ready[machine]


def schedule_of(
    problem: UnrelatedMachines, places: Places, taken: Int[Indices, " jobs"]
) -> MachineSchedule:
    """Return the schedule in which every job has the place of this number.

    Jobs equally far from the end on machines of one type may change places at no cost: the
    shortest, and of equals the one that waited longest, is where it starts first.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import places_of, schedule_of
    >>> from goodalloc.models.classical import UnrelatedMachines, total_completion
    >>> problem = UnrelatedMachines.idle(np.array([[3.0, 1.0], [4.0, 2.0]]), (1, 1))
    >>> places = places_of(problem)
    >>> last = [np.flatnonzero(places.machine == machine)[0] for machine in (1, 0)]
    >>> schedule = schedule_of(problem, places, np.array(last))  # job 0 on machine 1
    >>> total_completion(problem, schedule)  # 1 + 4
    5.0
    """
    machine, from_end = places.machine[taken], places.from_end[taken]
    kind, end = problem.machine_type[machine], problem.ready.copy()
    order = np.lexsort(
        (-problem.waited, problem.times[np.arange(kind.size), kind], kind, -from_end)
    )
    alike = np.flatnonzero(np.diff(kind[order], prepend=-1) | np.diff(from_end[order], prepend=0))
    for jobs in np.split(order, alike[1:]):
        first = machine[jobs][np.argsort(end[machine[jobs]], kind="stable")]
        machine[jobs] = first
        end[first] += problem.times[jobs, kind[jobs]]
    return in_order(machine, np.lexsort((-from_end, machine)))


def in_order(machine: Int[Indices, " jobs"], order: Int[Indices, " jobs"]) -> MachineSchedule:
    """Return the schedule of jobs on their machines that keeps an order of them, machine by
    machine.
    """
    rank = np.empty(machine.size, dtype=np.int64)
    first = np.searchsorted(machine[order], machine[order])
    rank[order] = np.arange(machine.size) - first
    return MachineSchedule(machine.astype(np.int64), rank)


def build_matching(problem: UnrelatedMachines) -> Program:
    """Build the linear program (1), in which equal machines are counted; all columns are
    continuous.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.formulations.classical import build_matching
    >>> from goodalloc.models.classical import UnrelatedMachines
    >>> program = build_matching(UnrelatedMachines.idle(np.array([[3.0, 1.0], [4.0, 2.0]]), (1, 1)))
    >>> program.num_columns, program.integer.any().item()
    (8, False)
    """
    machine, from_end = places_of(problem)
    _, late = np.unique(problem.ready, return_inverse=True)
    rows = np.stack([problem.machine_type[machine], late[machine], from_end])
    _, first, count = np.unique(rows, axis=1, return_index=True, return_counts=True)
    cost = place_costs(problem, Places(machine[first], from_end[first]))
    job, kind = np.nonzero(np.isfinite(cost))
    builder = ProgramBuilder()
    columns = builder.add_columns("place", job.size, cost=cost[job, kind], integer=False)
    one_each = builder.add_rows("one_each", problem.num_jobs, lower=1.0, upper=1.0)
    room = builder.add_rows("room", count.size, upper=count)
    builder.add_entries(one_each[job], columns, 1.0)
    builder.add_entries(room[kind], columns, 1.0)
    return builder.build(offset=float(problem.waited.sum()))


def build_pairs(problem: UnrelatedMachines) -> Program:
    """Build the program (3); its columns begin with the machines on which every job can run."""
    times = problem.machine_times
    job, machine = np.nonzero(np.isfinite(times))
    builder = ProgramBuilder()
    cost = times[job, machine] + problem.ready[machine]
    columns = builder.add_columns("machine", job.size, cost=cost, upper=1.0)
    one_each = builder.add_rows("one_each", problem.num_jobs, lower=1.0, upper=1.0)
    builder.add_entries(one_each[job], columns, 1.0)
    one, other = np.nonzero((machine[:, None] == machine) & (job[:, None] < job))
    shorter = np.minimum(times[job, machine][one], times[job, machine][other])
    both = builder.add_columns("both", one.size, cost=shorter, integer=False)
    rows = builder.add_rows("both", one.size, upper=1.0)
    for column, value in ((columns[one], 1.0), (columns[other], 1.0), (both, -1.0)):
        builder.add_entries(rows, column, value)
    return builder.build(offset=float(problem.waited.sum()))


def schedule_of_pairs(
    problem: UnrelatedMachines, values: Float[Floats, " columns"]
) -> MachineSchedule:
    """Return the schedule of a solution of (3): on every machine the shortest job first."""
    times = problem.machine_times
    job, machine = np.nonzero(np.isfinite(times))
    of_job = np.zeros(problem.num_jobs, dtype=np.int64)
    taken = values[: job.size] > 0.5
    of_job[job[taken]] = machine[taken]
    shortest = times[np.arange(problem.num_jobs), of_job]
    return in_order(of_job, np.lexsort((shortest, of_job)))
