"""Rounds one after the other: jobs age, end and arrive, and hold what they were given last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.models.columns.round_columns import NEVER_RAN, stacked_model
from goodalloc.models.support.namespace import leaves
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.columns.round_columns import RoundColumns
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.support.array_types import Flags


def following_round(
    columns: RoundColumns,
    allocation: Allocation,
    seed: int,
    *,
    ends: float = 0.01,
    interval: float = 60.0,
    own: float = 0.0,
) -> RoundColumns:
    """Draw the round that follows another after an allocation.

    Jobs that go on are an interval older, have one more restart if their placement changed, and may
    have twice the GPUs that they hold. Jobs that end make room for as many new ones, with ages,
    models and limits as in a round under way.

    Parameters
    ----------
    columns
        The round.
    allocation
        What was allocated in it.
    seed
        Seed of what ends and begins.
    ends
        Probability of a job to end.
    interval
        Seconds between the rounds.
    own
        As in `generate_columns`, for the new jobs.

    Raises
    ------
    ValueError
        If a number is out of range, or the allocation is one of another round.

    Examples
    --------
    >>> from goodalloc.data.rounds import following_round, generate_columns
    >>> from goodalloc.solvers.columns import solve_columns
    >>> now = generate_columns(seed=0, jobs=40, nodes=10)
    >>> after = following_round(now, solve_columns(now).allocation, seed=1)
    >>> after.num_jobs, bool((after.current.job_replicas > 0).any())
    (40, True)
    """
    require_count("Following round: seed", seed, 0)
    for name, value in (("ends", ends), ("interval", interval)):
        require_number(f"Following round: {name}", value, minimum=0.0)
    if ends > 1.0:
        raise ValueError(f"Following round: ends is {ends:g}; expected a probability.")
    shape = allocation.num_jobs, allocation.num_nodes
    if shape != (columns.num_jobs, columns.cluster.num_nodes):
        raise ValueError(
            f"Following round: the allocation is of {shape[0]} jobs on {shape[1]} nodes; expected "
            f"{columns.num_jobs} on {columns.cluster.num_nodes}."
        )
    random = np.random.default_rng([seed, columns.num_jobs])
    gone = random.random(columns.num_jobs) < ends
    held = allocation.job_replicas
    moved = (held > 0) & ~allocation.unchanged(columns.current)
    most = np.minimum(np.maximum(columns.max_replicas, 2 * held), columns.cluster.num_gpus)
    stays = ~gone[allocation.job]
    after = replace(
        columns,
        age=columns.age + interval,
        restarts=columns.restarts + moved,
        max_replicas=most,
        current=replace(
            allocation,
            job=allocation.job[stays],
            node=allocation.node[stays],
            replicas=allocation.replicas[stays],
        ),
    )
    if not gone.any():
        return after
    # of the new round the jobs alone count, which are the same on any nodes
    new = generate_columns(seed, int(gone.sum()), state="running", rules=columns.rules, own=own)
    return _with_new(after, gone, new)


def _with_new(columns: RoundColumns, gone: Flags, new: RoundColumns) -> RoundColumns:
    """Return a round with new jobs in the place of those that are gone, and no unused model."""
    kind, age, restarts, most = (
        np.copy(getattr(columns, name)) for name in ("kind", "age", "restarts", "max_replicas")
    )
    kind[gone] = np.where(new.kind == NEVER_RAN, NEVER_RAN, new.kind + columns.num_kinds)
    age[gone], restarts[gone], most[gone] = new.age, new.restarts, new.max_replicas
    used = np.unique(kind[kind != NEVER_RAN])
    place = np.full(columns.num_kinds + new.num_kinds + 1, NEVER_RAN)  # the last for `NEVER_RAN`
    place[used] = np.arange(used.size)
    numbers = [
        np.concatenate([np.asarray(one), np.asarray(other)])[used]
        for one, other in zip(leaves(columns.models), leaves(new.models), strict=True)
    ]
    return replace(
        columns,
        models=stacked_model(numbers),
        kind=place[kind],
        age=age,
        restarts=restarts,
        max_replicas=most,
    )
