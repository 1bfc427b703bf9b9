r"""Scheduling of jobs on unrelated machines, R || sum C_j: problem, price and checker.

Machine *k* of type *t(k)* is free after :math:`r_k` seconds and then does one job after the other,
each to its end; job *j* takes :math:`p_{jt}` seconds on type *t* and has waited :math:`a_j` seconds
so far. A schedule is the machine of every job and its place in the order there, and costs

.. math::

    \sum_j (a_j + C_j), \qquad C_j = r_{k} + \sum_{i \text{ on } k, \text{ not after } j}
    p_{i, t(k)} \quad \text{for } j \text{ on } k.                                            (1)

It is what AlloX (EuroSys'20) minimises, with processors and GPUs as the types. `completion_times`
prices a schedule from (1) alone and shares nothing with what decides.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020. doi:10.1145/3342195.3387547
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import as_numbers, require_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Int
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class UnrelatedMachines:
    """Waiting jobs, and the machines available.

    Parameters
    ----------
    times
        Seconds of every job on every type of machine, above 0 and infinite where it cannot run;
        shape (jobs, types).
    machine_type
        The type of every machine, a column of `times`; shape (machines,).
    ready
        Seconds until every machine is free, shape (machines,).
    waited
        Seconds that every job has waited, shape (jobs,).

    Raises
    ------
    ValueError
        If there are no jobs or machines, shapes differ, a time is not above 0, a type is unknown,
        `ready` or `waited` is negative or not finite, or a job can run on no machine.
    """

    times: Float[Floats, "jobs types"]
    machine_type: Int[Indices, " machines"]
    ready: Float[Floats, " machines"]
    waited: Float[Floats, " jobs"]

    def __post_init__(self) -> None:
        times = as_numbers("Jobs on machines", "times", self.times).astype(float)
        if times.ndim != 2 or not times.size:
            raise ValueError(
                f"Jobs on machines: times have shape {times.shape}; expected jobs by types."
            )
        kinds = as_numbers("Machine", "machine_type", self.machine_type)
        if kinds.ndim != 1 or not kinds.size or kinds.dtype.kind not in "iu":
            raise ValueError(
                f"Jobs on machines: machine_type is {self.machine_type!r}; expected the column of "
                "`times` of every machine, at least one."
            )
        require_all(times > 0, "Job", "time", times, "a number above 0, infinite for never")
        inside = (kinds >= 0) & (kinds < times.shape[1])
        require_all(inside, "Machine", "type", kinds, f"0 to {times.shape[1] - 1}")
        able = np.isfinite(times[:, np.unique(kinds)]).any(axis=1)
        require_all(able, "Job", "least time", np.inf, "a finite one on some machine")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "machine_type", kinds.astype(np.int64))
        object.__setattr__(self, "ready", _seconds("Machine", "ready", self.ready, kinds.size))
        object.__setattr__(self, "waited", _seconds("Job", "waited", self.waited, len(times)))

    @classmethod
    def idle(cls, times: ArrayLike, counts: Sequence[int]) -> UnrelatedMachines:
        """Return the problem of new jobs on `counts` free machines of each type."""
        found = as_numbers("Jobs on machines", "times", times).astype(float)
        kinds = np.repeat(np.arange(len(counts)), counts)
        return cls(found, kinds, np.zeros(kinds.size), np.zeros(len(found)))

    @property
    def num_jobs(self) -> int:
        """Number of waiting jobs."""
        return len(self.times)

    @property
    def num_machines(self) -> int:
        """Number of machines, free or not."""
        return self.machine_type.size

    @property
    def machine_times(self) -> Float[Floats, "jobs machines"]:
        """Seconds of every job on every machine, shape (jobs, machines)."""
        return self.times[:, self.machine_type]

    def of(self, jobs: Indices, machines: Indices | None = None) -> UnrelatedMachines:
        """Return the problem restricted to `jobs`, and to `machines` if given."""
        chosen = np.arange(self.num_machines) if machines is None else machines
        return UnrelatedMachines(
            self.times[jobs], self.machine_type[chosen], self.ready[chosen], self.waited[jobs]
        )


def _seconds(item: str, name: str, value: Floats, size: int) -> Floats:
    """Validate `size` finite numbers of at least 0."""
    numbers: Floats = as_numbers("Jobs on machines", name, value).astype(float)
    if numbers.shape != (size,):
        raise ValueError(f"Jobs on machines: {name} has shape {numbers.shape}; expected {(size,)}.")
    right = np.isfinite(numbers) & (numbers >= 0)
    require_all(right, item, name, numbers, "finite seconds from 0")
    return numbers


class MachineSchedule(NamedTuple):
    """Machine of every job and its place in the order there.

    Attributes
    ----------
    machine
        Its machine, shape (jobs,).
    position
        Number of jobs before it there, shape (jobs,).
    """

    machine: Int[Indices, " jobs"]
    position: Int[Indices, " jobs"]


def schedule_violations(problem: UnrelatedMachines, schedule: MachineSchedule) -> tuple[str, ...]:
    """Return a sentence for each fault of a schedule; none if it is feasible."""
    found = []
    shapes = [np.shape(part) for part in schedule]
    if shapes != [(problem.num_jobs,)] * 2:
        return (f"The schedule has shapes {shapes}; expected ({problem.num_jobs},) twice.",)
    on: dict[int, list[int]] = {}
    for job, (machine, position) in enumerate(zip(*schedule, strict=True)):
        if not 0 <= machine < problem.num_machines:
            found.append(
                f"Job {job} is on machine {machine}; expected 0 to {problem.num_machines - 1}."
            )
            continue
        on.setdefault(int(machine), []).append(int(position))
        if not np.isfinite(problem.times[job, problem.machine_type[machine]]):
            found.append(f"Job {job} is on machine {machine}, where it cannot run.")
    for machine, positions in sorted(on.items()):
        if sorted(positions) != list(range(len(positions))):
            found.append(
                f"Machine {machine}: positions are {sorted(positions)}; expected 0 to "
                f"{len(positions) - 1}, each once."
            )
    return tuple(found)


def completion_times(
    problem: UnrelatedMachines, schedule: MachineSchedule
) -> Float[Floats, " jobs"]:
    """Return the seconds from now until each job ends, C of (1).

    Raises
    ------
    ValueError
        If the schedule is infeasible.
    """
    broken = schedule_violations(problem, schedule)
    if broken:
        raise ValueError(broken[0])
    ends = np.empty(problem.num_jobs)
    for machine, kind in enumerate(problem.machine_type.tolist()):
        here = np.flatnonzero(schedule.machine == machine)
        now = float(problem.ready[machine])
        for job in here[np.argsort(schedule.position[here])].tolist():
            now += float(problem.times[job, kind])
            ends[job] = now
    return ends


def total_completion(problem: UnrelatedMachines, schedule: MachineSchedule) -> float:
    """Return the price (1) of a schedule, in seconds.

    Raises
    ------
    ValueError
        As `completion_times`.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.models.classical import MachineSchedule, UnrelatedMachines, total_completion
    >>> problem = UnrelatedMachines.idle([[1.0], [2.0]], counts=[1])
    >>> total_completion(problem, MachineSchedule(np.array([0, 0]), np.array([0, 1])))  # 1 + 3
    4.0
    """
    return float(np.sum(problem.waited + completion_times(problem, schedule)))
