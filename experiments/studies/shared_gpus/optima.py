"""Rounds of Gandiva and AntMan beside their optima.

A round of Gandiva compares the pairs of all jobs that ran before, of its heuristic and drawn at
random as in Gavel's implementation of Gandiva, without pairs that gain nothing; a round of AntMan
the hosts of all opportunistic jobs without GPUs of their own.
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

#: Time limit of an optimum.
STOP = Stop(seconds=60.0)


class Compared(NamedTuple):
    """Optimum of a round, and the objective value of each heuristic by name."""

    optimum: Maximum[Any]
    ways: Mapping[str, float]


def compare_pairs(record: RoundRecord, policy: Policy) -> Compared | None:
    """Return Gandiva's and random pairs beside the best; None where all jobs fit or none ran."""
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
    """Return AntMan's hosts of opportunistic jobs beside the best; None without such jobs."""
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


#: Comparison of a round by system.
COMPARE = {"gandiva": compare_pairs, "antman": compare_guests}
