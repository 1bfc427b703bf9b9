"""What allocations, choices and programs have in common, for the tests of the exact road."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.exact.brute_force import enumerate_allocations
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.milp.highs_program import Outcome


def every_choice(instance: Instance, seed: int) -> tuple[Choices, Floats]:
    """All choices, none pruned, with costs drawn at random: nothing about them is monotone."""
    choices = enumerate_choices(instance, prune=False)
    cost = np.random.default_rng(seed).uniform(-1.0, 1.0, size=len(choices))
    return choices, cost.round(3)


def least_cost(instance: Instance, choices: Choices, cost: Floats) -> float:
    """The least sum of costs over all feasible allocations; infinite if the choices allow none.

    A job that ends up exactly where it is counts as kept or as placed anew, whichever is cheaper.
    """
    keys = zip(choices.job.tolist(), choices.kind.tolist(), choices.replicas.tolist(), strict=True)
    price = dict(zip(keys, cost.tolist(), strict=True))
    found = enumerate_allocations(instance)
    total = np.zeros(len(found.row))
    for job, rows in enumerate(found.rows):
        costs = np.empty(len(rows))
        for at, row in enumerate(rows.tolist()):
            held, nodes = sum(row), sum(1 for count in row if count)
            kind = Kind.SEVERAL_NODES if nodes > 1 else Kind.ONE_NODE if held else Kind.IDLE
            costs[at] = price.get((job, kind, held), np.inf)
            placement = tuple((node, count) for node, count in enumerate(row) if count)
            if placement and placement == instance.jobs[job].placement:
                costs[at] = min(costs[at], price.get((job, Kind.KEEP, held), np.inf))
        total += costs[found.row[:, job]]
    return float(total.min())


def decide_whole(program: Program) -> Outcome:
    """Minimise a program in one go, as tightly as HiGHS can."""
    return run_mixed_integer(program, Watch(Stop()), gap=1e-9)


def has_choices(instance: Instance, taken: Choices, allocation: Allocation) -> bool:
    """Whether an allocation obeys the rules and gives every job the choice taken for it.

    Placed anew, a job may come to lie exactly where it is.
    """
    if violations(instance, allocation):
        return False
    unchanged = allocation.unchanged(instance.current)
    nodes = allocation.job_nodes
    for job, kind, replicas in zip(taken.job, taken.kind, taken.replicas, strict=True):
        fits = {
            Kind.IDLE: nodes[job] == 0,
            Kind.ONE_NODE: nodes[job] == 1,
            Kind.SEVERAL_NODES: nodes[job] > 1,
            Kind.KEEP: unchanged[job],
        }
        if not fits[Kind(kind)] or allocation.job_replicas[job] != replicas:
            return False
    return True


def chosen(choices: Choices, values: Floats) -> Choices:
    """The choices that a solution takes."""
    return choices.where(np.flatnonzero(values[: len(choices)] > 0.5))


def choices_of(instance: Instance, choices: Choices, allocation: Allocation) -> Indices:
    """Index, among all choices, of what each job has under an allocation; -1 where absent."""
    unchanged = allocation.unchanged(instance.current) & (allocation.job_replicas > 0)
    kind = np.where(
        allocation.job_replicas == 0,
        Kind.IDLE,
        np.where(
            unchanged,
            Kind.KEEP,
            np.where(allocation.job_nodes > 1, Kind.SEVERAL_NODES, Kind.ONE_NODE),
        ),
    )
    width = int(max(choices.replicas.max(), allocation.job_replicas.max())) + 1
    known = (choices.job * 4 + choices.kind) * width + choices.replicas
    wanted = (np.arange(instance.num_jobs) * 4 + kind) * width + allocation.job_replicas
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], wanted), known.size - 1)
    return np.where(known[order][at] == wanted, order[at], -1)
