"""Decisions of a policy, and their checks: known jobs and nodes, no GPU or core used twice.

Only a host and one of its guests may use the same GPU, if their memory fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from goodalloc.models.support.error_origin import described
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import require_count
from goodalloc.solvers.policies.decided_modes import check_modes
from goodalloc.solvers.policies.policy import Decision

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob, Policy, Round


def decide_round(policy: Policy, round_: Round) -> Decision:
    """Return the unchecked decision of a policy, which may be a user's own, for one round.

    Raises
    ------
    ValueError
        If the policy raises anything; the message names its class, the time, the file and line.

    Examples
    --------
    >>> from goodalloc.models import Cluster
    >>> from goodalloc.solvers.policies import EqualShare, Round, decide_round
    >>> decide_round(EqualShare(), Round(60, Cluster.uniform(1, 2), ())).placements
    {}
    """
    try:
        return policy.decide(round_)
    except Exception as error:
        name = type(policy).__name__
        raise ValueError(
            f"Policy '{name}' failed at {round_.time} s ({described(error)})."
        ) from error


def check_decision(round_: Round, decision: Decision, *, offloads: bool = False) -> None:
    """Refuse a decision with an unknown job or node, a repeated node, or a GPU used twice.

    Guests use GPUs of their hosts.

    Parameters
    ----------
    round_, decision
        The round, and the decision to check.
    offloads
        Whether guests keep in the memory of the host machine what does not fit on a GPU.

    Raises
    ------
    ValueError
        If the decision is impossible; the message states the time, the item and what was expected.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from goodalloc.models import Cluster
    >>> from goodalloc.solvers.policies import Decision, Round, check_decision
    >>> job = SimpleNamespace(name="a", modes=tuple)
    >>> round_ = Round(60, Cluster.uniform(1, 2), (job,))
    >>> check_decision(round_, Decision({"a": ((0, 2),)}))
    >>> check_decision(round_, Decision({"a": ((0, 3),)}))
    Traceback (most recent call last):
        ...
    ValueError: Decision at 60 s: node 0 is to hold 3 GPUs; it has 2.
    """
    at = f"Decision at {round_.time} s"
    if not isinstance(decision, Decision):
        raise ValueError(f"{at} is of type {type(decision).__name__}; expected a Decision.")
    for item, found, expected in (
        ("placements are", decision.placements, "names of jobs"),
        ("beside is", decision.beside, "names of guests to names of hosts"),
    ):
        if not isinstance(found, Mapping):
            raise ValueError(
                f"{at}: {item} a {type(found).__name__}; expected a mapping from {expected}."
            )
    _check_placements(at, round_, decision)
    if decision.nodes is not None:
        require_count(f"{at}: nodes", decision.nodes, minimum=1)
    _check_capacity(at, round_, decision)
    _check_mode_names(at, round_, decision)
    check_modes(at, round_, decision)
    if decision.beside:
        _check_guests(at, round_, decision, offloads)


def _check_placements(at: str, round_: Round, decision: Decision) -> None:
    """Refuse placements of unknown jobs, and malformed ones."""
    names, last = {job.name for job in round_.jobs}, round_.cluster.num_nodes - 1
    for name, placement in decision.placements.items():
        if name not in names:
            raise ValueError(f"{at}: job '{name}' is not active.")
        pairs = isinstance(placement, Sequence)
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in placement):
            raise ValueError(
                f"{at}: placement of job '{name}' is {placement!r}; expected (node, GPUs) pairs."
            )
        for node, gpus in placement:
            require_count(f"{at}: GPUs of job '{name}' on node {node}", gpus, minimum=1)
            require_count(f"{at}: node of job '{name}'", node, 0, last)
        if len({node for node, _ in placement}) < len(placement):
            raise ValueError(
                f"{at}: placement of job '{name}' is {placement!r}; expected each node once."
            )


def _check_capacity(at: str, round_: Round, decision: Decision) -> None:
    """Refuse nodes that are to hold more GPUs than they have; guests use those of their hosts."""
    used: Counter[int] = Counter()
    for name, placement in decision.placements.items():
        if name not in decision.beside:
            used.update(dict(placement))
    capacity = round_.cluster.node_gpus
    for node, gpus in used.items():
        if gpus > capacity[node]:
            raise ValueError(
                f"{at}: node {node} is to hold {gpus} GPUs; it has {int(capacity[node])}."
            )


def _check_mode_names(at: str, round_: Round, decision: Decision) -> None:
    """Refuse modes that are not names, or that belong to unknown jobs."""
    if not isinstance(decision.modes, Mapping):
        raise ValueError(
            f"{at}: modes are a {type(decision.modes).__name__}; expected a mapping from names of "
            "jobs to names of modes."
        )
    names = {job.name for job in round_.jobs}
    for name, mode in decision.modes.items():
        if name not in names:
            raise ValueError(f"{at}: job '{name}' has a mode and is not active.")
        if not isinstance(mode, str):
            raise ValueError(f"{at}: mode of job '{name}' is {mode!r}; expected its name.")


def _check_guests(at: str, round_: Round, decision: Decision, offloads: bool) -> None:
    """Refuse guests that are not on GPUs of their host, one on each, with memory for both.

    On a cluster of several types of GPU the memory that is known is that of another type, and the
    oracle decides whether two jobs fit together.
    """
    if round_.cluster.resource_names:
        raise ValueError(
            f"{at}: jobs share GPUs on nodes with {', '.join(round_.cluster.resource_names)}; "
            "expected nodes of GPUs only."
        )
    jobs = {job.name: job for job in round_.jobs}
    for guest, host in decision.beside.items():
        for name in (guest, host):
            if not decision.placements.get(name):
                raise ValueError(
                    f"{at}: job '{guest}' is beside '{host}' and '{name}' has no GPUs; expected "
                    "both to run."
                )
        if host in decision.beside:
            raise ValueError(
                f"{at}: job '{guest}' is beside '{host}', a guest itself; expected a host."
            )
        memory = jobs[guest].memory + jobs[host].memory
        if len(round_.cluster.gpu_types) > 1:
            _check_types(at, round_, jobs[guest], jobs[host], decision.placements[guest])
        elif memory > 1.0 + RESOURCE_TOLERANCE and not offloads:
            raise ValueError(
                f"{at}: jobs '{guest}' and '{host}' take {memory:g} of the memory of a GPU; "
                "expected at most 1."
            )
    by_host = sorted(decision.beside, key=decision.beside.__getitem__)
    for host, guests in groupby(by_host, decision.beside.__getitem__):
        left = Counter(dict(decision.placements[host]))
        for guest in guests:
            left.subtract(dict(decision.placements[guest]))
        for node, gpus in left.items():
            if gpus < 0:
                raise ValueError(
                    f"{at}: guests of job '{host}' are to hold {-gpus} GPUs too many on node "
                    f"{node}; expected at most the GPUs that it has there."
                )


def _check_types(
    at: str, round_: Round, guest: ActiveJob, host: ActiveJob, placement: Placement
) -> None:
    """Refuse two jobs on GPUs of a type that they cannot share."""
    cluster, gpus = round_.cluster, sum(count for _, count in placement)
    for kind in {cluster.node_types[node] for node, _ in placement}:
        if host.oracle.beside(guest.oracle, gpus, cluster.most_per_node[kind], kind) is None:
            raise ValueError(
                f"{at}: jobs '{guest.name}' and '{host.name}' are on the same GPUs of type "
                f"'{kind}'; expected two that can share them."
            )
