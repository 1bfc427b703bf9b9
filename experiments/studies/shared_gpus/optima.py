"""Rounds of Gandiva and AntMan beside their optima, wherever there is something to decide.

For Gandiva those are the pairs of all jobs that ran before, also drawn at random as Gavel (OSDI'20)
does it, those without gain left out; for AntMan the hosts of all opportunistic jobs that have no
GPUs of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.models.shared_gpus.hosted_jobs import total_rate
from goodalloc.models.shared_gpus.pairing import Pairing, total_gain
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.shared_gpus.antman import AntMan, guest_problem, loads
from goodalloc.solvers.shared_gpus.gandiva import Gandiva, known_use
from goodalloc.solvers.shared_gpus.guests import best_hosts, least_loaded
from goodalloc.solvers.shared_gpus.pairing import best_pairs, first_pairs, gainful

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.replay.round_record import RoundRecord
    from goodalloc.solvers.milp.cheapest_core import Maximum
    from goodalloc.solvers.policies.policy import Policy

#: Seconds for an optimum.
STOP = Stop(seconds=60.0)


class Compared(NamedTuple):
    """A round beside its optimum.

    Attributes
    ----------
    optimum
        What is proved to be best.
    ways
        What others came to, by name.
    """

    optimum: Maximum[Any]
    ways: Mapping[str, float]


def compare_pairs(record: RoundRecord, policy: Policy) -> Compared | None:
    """Gandiva's and Gavel's pairs of all jobs that ran before; None where jobs fit or none did."""
    round_ = record.round_
    ran = [(job, use) for job in round_.jobs if (use := known_use(job))]
    if sum(job.replicas for job in round_.jobs) <= round_.cluster.num_gpus or len(ran) < 2:
        return None
    assert isinstance(policy, Gandiva)
    problem = Pairing.of([j.replicas for j, _ in ran], [use for _, use in ran], policy.sharing)
    busy = np.array([use.busy for _, use in ran])
    random = np.random.default_rng(round_.time).permutation(len(ran)).tolist()
    orders = {"heuristic": np.argsort(busy, kind="stable").tolist(), "random": random}
    ways = {
        name: total_gain(problem, gainful(problem, first_pairs(problem, order)))
        for name, order in orders.items()
    }
    return Compared(best_pairs(problem, stop=STOP), ways)


def compare_guests(record: RoundRecord, policy: Policy) -> Compared | None:
    """AntMan's hosts of all opportunistic jobs without GPUs of their own; None without any."""
    assert isinstance(policy, AntMan)
    round_, decision = record.round_, record.decision
    own = [name for name in decision.placements if name not in decision.beside]
    jobs = {job.name: job for job in round_.jobs}
    hosts = [jobs[n] for n in own if policy.has_guarantee(n) and jobs[n].busy is not None]
    guests = [job for n, job in jobs.items() if not policy.has_guarantee(n) and n not in own]
    if not guests:
        return None
    idle = round_.cluster.num_gpus - sum(jobs[name].replicas for name in own)
    room = [idle, *(host.replicas for host in hosts)]
    problem = guest_problem(guests, hosts, room, policy.sharing)
    found = least_loaded(problem, loads(hosts), policy.threshold)
    return Compared(best_hosts(problem, stop=STOP), {"heuristic": total_rate(problem, found)})


#: What the rounds of a system are compared by.
COMPARE = {"gandiva": compare_pairs, "antman": compare_guests}
