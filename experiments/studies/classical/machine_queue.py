"""A queue before unrelated machines: jobs come, a rule starts them, and they run to their end.

At every arrival and every completion the rule is asked which of the waiting jobs start on which
free machines. Beside AlloX's there are the obvious ones (a documented reading of the paper's
baselines): shortest first, first come first served, each on the best machine for itself or on any
that is free, and dominant-resource fairness among users.
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


#: Which of the waiting jobs start on which machines.
Starts = tuple[tuple[int, int], ...]


class Queue(NamedTuple):
    """What a rule sees.

    Attributes
    ----------
    problem
        Jobs that wait, in the order in which they came, and all machines.
    user
        Whose every job is, shape (jobs,).
    held
        Machines of every type that every user has now, shape (users, types).
    """

    problem: UnrelatedMachines
    user: Indices
    held: Indices


Rule = Callable[[Queue], Starts]


def replay(arrivals: Arrivals, machine_type: Indices, rule: Rule) -> Floats:
    """Seconds from its arrival to its end for every job, shape (jobs,).

    Parameters
    ----------
    arrivals
        The jobs.
    machine_type
        Of every machine, all free at first.
    rule
        Who starts where; a job that it starts must wait, on a machine that is free.

    Raises
    ------
    ValueError
        If a rule starts a job on a machine that is not free, or jobs wait for ever.
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
    """AlloX with these options of `start_now`."""
    return lambda queue: start_now(queue.problem, alpha, busy=busy)


def shortest_first(queue: Queue) -> Starts:
    """Of all jobs and free machines the pair of the least seconds, again and again."""
    return _one_by_one(queue, lambda seconds, _: int(np.argmin(seconds.min(axis=1))))


def first_come(queue: Queue) -> Starts:
    """In the order of arrival, on the fastest free machine for each."""
    return _one_by_one(queue, lambda seconds, _: int(np.argmax(np.isfinite(seconds).any(axis=1))))


def dominant_share(queue: Queue) -> Starts:
    """The first job of the user whose dominant share of the machines is least (DRF, NSDI'11)."""
    total = np.bincount(queue.problem.machine_type, minlength=queue.held.shape[1])

    def choose(seconds: Floats, held: Indices) -> int:
        share = (held / np.maximum(total, 1)).max(axis=1)[queue.user]
        return int(np.argmin(np.where(np.isfinite(seconds).any(axis=1), share, np.inf)))

    return _one_by_one(queue, choose)


def on_best_type(rule: Rule) -> Rule:
    """A rule that starts every job only on the type of machine that is the fastest for it."""

    def limited(queue: Queue) -> Starts:
        problem = queue.problem
        best = problem.times[:, np.unique(problem.machine_type)].min(axis=1)
        times = np.where(problem.times > best[:, None], np.inf, problem.times)
        changed = UnrelatedMachines(times, problem.machine_type, problem.ready, problem.waited)
        return rule(queue._replace(problem=changed))

    return limited


def _one_by_one(queue: Queue, choose: Callable[[Floats, Indices], int]) -> Starts:
    """Start a job at a time, each on the fastest of the machines that are still free.

    Parameters
    ----------
    queue
        What there is.
    choose
        The next job, from the seconds of every job on every free machine, infinite for those that
        have started and machines that are taken, and from what users hold by then.
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
