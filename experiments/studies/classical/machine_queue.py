"""Queue of jobs before unrelated machines, which a rule starts and which run to completion.

At every arrival and every completion the rule chooses which waiting jobs start on which free
machines. Besides AlloX's rule these are our reading of the paper's baselines: shortest job first
and first come first served, each either on any free machine or only on the job's fastest type, and
dominant resource fairness among users.

References
----------
Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020.
    doi:10.1145/3342195.3387547
Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.classical.unrelated_machines import UnrelatedMachines
from goodalloc.solvers.classical.matching import start_now

if TYPE_CHECKING:
    from goodalloc.data.classical.machine_jobs import Arrivals
    from goodalloc.models.support.array_types import Floats, Indices


#: Pairs (index of a waiting job, machine on which it starts).
Starts = tuple[tuple[int, int], ...]


class Queue(NamedTuple):
    """State of the queue on which a rule decides.

    Attributes
    ----------
    problem
        Waiting jobs in the order of their arrival, and all machines.
    user
        User of each waiting job, shape (jobs,).
    held
        Machines of each type that each user holds now, shape (users, types).
    """

    problem: UnrelatedMachines
    user: Indices
    held: Indices


Rule = Callable[[Queue], Starts]


def replay(arrivals: Arrivals, machine_type: Indices, rule: Rule) -> Floats:
    """Return the completion time of every job under `rule`, in seconds, shape (jobs,).

    Parameters
    ----------
    arrivals
        Jobs with their arrival times, users and running times.
    machine_type
        Type of each machine, shape (machines,); all machines are free at the start.
    rule
        Rule that starts waiting jobs on free machines.

    Raises
    ------
    ValueError
        If `rule` starts a job on a machine that is not free, or leaves a job waiting for ever.
    """
    number = arrivals.time.size
    free_at, holder = np.zeros(machine_type.size), np.full(machine_type.size, -1)
    start, end = np.full(number, np.inf), np.full(number, np.inf)
    users = int(arrivals.user.max()) + 1
    now = -np.inf
    while np.isinf(start).any():
        ahead = np.concatenate([arrivals.time[arrivals.time > now], free_at[free_at > now]])
        if not ahead.size:
            raise ValueError(f"{int(np.isinf(start).sum())} jobs wait for ever; expected none.")
        now = float(ahead.min())
        waiting = np.flatnonzero((arrivals.time <= now) & np.isinf(start))
        busy = free_at > now
        if not waiting.size or busy.all():
            continue
        held = np.zeros((users, arrivals.times.shape[1]), dtype=np.int64)
        np.add.at(held, (holder[busy], machine_type[busy]), 1)
        problem = UnrelatedMachines(
            arrivals.times[waiting],
            machine_type,
            np.maximum(free_at - now, 0.0),
            now - arrivals.time[waiting],
        )
        for index, machine in rule(Queue(problem, arrivals.user[waiting], held)):
            job = waiting[index]
            if free_at[machine] > now or not np.isinf(start[job]):
                raise ValueError(f"Job {job} is to start on machine {machine}, which is not free.")
            start[job] = now
            end[job] = free_at[machine] = now + arrivals.times[job, machine_type[machine]]
            holder[machine] = arrivals.user[job]
    return end - arrivals.time


def allox(alpha: float = 1.0, *, busy: bool = True) -> Rule:
    """Return the rule of AlloX with these options of `start_now`."""
    return lambda queue: start_now(queue.problem, alpha, busy=busy)


def shortest_first(queue: Queue) -> Starts:
    """Start the pair of job and free machine with the shortest running time, repeatedly."""
    return _one_by_one(queue, lambda seconds, _: int(np.argmin(seconds.min(axis=1))))


def first_come(queue: Queue) -> Starts:
    """Start jobs in the order of arrival, each on its fastest free machine."""
    return _one_by_one(queue, lambda seconds, _: int(np.argmax(np.isfinite(seconds).any(axis=1))))


def dominant_share(queue: Queue) -> Starts:
    """Start the first job of the user with the least dominant share of the machines (DRF)."""
    total = np.bincount(queue.problem.machine_type, minlength=queue.held.shape[1])

    def choose(seconds: Floats, held: Indices) -> int:
        share = (held / np.maximum(total, 1)).max(axis=1)[queue.user]
        return int(np.argmin(np.where(np.isfinite(seconds).any(axis=1), share, np.inf)))

    return _one_by_one(queue, choose)


def on_best_type(rule: Rule) -> Rule:
    """Return `rule` limited to the fastest type of machine of each job."""

    def limited(queue: Queue) -> Starts:
        problem = queue.problem
        best = problem.times[:, np.unique(problem.machine_type)].min(axis=1)
        times = np.where(problem.times > best[:, None], np.inf, problem.times)
        changed = UnrelatedMachines(times, problem.machine_type, problem.ready, problem.waited)
        return rule(queue._replace(problem=changed))

    return limited


def _one_by_one(queue: Queue, choose: Callable[[Floats, Indices], int]) -> Starts:
    """Start one job after another, each on its fastest free machine.

    Parameters
    ----------
    queue
        State of the queue.
    choose
        Function that returns the next job, given the running time of every job on every free
        machine (infinite for started jobs and taken machines) and the machines that users hold.
    """
    problem, held = queue.problem, queue.held.copy()
    machines = np.flatnonzero(problem.ready <= 0)
    seconds, started = problem.machine_times[:, machines].copy(), []
    while np.isfinite(seconds).any():
        job = choose(seconds, held)
        place = int(np.argmin(seconds[job]))
        machine = int(machines[place])
        started.append((job, machine))
        held[queue.user[job], problem.machine_type[machine]] += 1
        seconds[job], seconds[:, place] = np.inf, np.inf
    return tuple(started)
