"""What a tiny round is worth, worked out anew: rational utilities, means in 80 digits.

Shares no code with the objective, the checker or any solver: every way to put the jobs on the nodes
is walked through, utilities are fractions of whole numbers, and their power mean comes from
`decimal`. Knows tables of speedups and jobs that never ran.
"""

from __future__ import annotations

import itertools
import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.round.mode import Mode, SpeedupTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.models.round.allocation import Allocation, Placement
    from goodalloc.models.round.instance import Instance

#: Arithmetic in 80 digits; no power of a utility is too large or too small for it.
DIGITS = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)

#: What runs is worth at least so much where nothing is added to its speedup.
LEAST = Fraction(1e-7)

#: Excess over what a node has that is rounding.
EXCESS = 1 + Fraction(1e-9)


#: What every node has left: GPUs, whether no distributed job is on it, amounts by name.
State = tuple[tuple[int, bool, tuple[tuple[str, Fraction], ...]], ...]


class Row(NamedTuple):
    """One way to put a job on the nodes: where, in which of its modes, and what it is worth."""

    placement: Placement
    mode: int
    utility: Fraction


def rows_of(instance: Instance, index: int) -> Iterator[Row]:
    """Every way that the rules on one job allow."""
    job, rules = instance.jobs[index], instance.rules
    if job.placement and not job.preemptible:
        mode = job.mode_index
        yield Row(job.placement, mode, _utility(instance, index, job.placement, mode))
        return
    yield Row((), 0, _idle(instance))
    nodes = [group for group in instance.cluster.groups for _ in range(group.nodes)]
    for mode, equipped in enumerate(job.modes or (Mode("gpu"),)):
        most = [node.gpus * (equipped.gpu_type in ("", node.gpu_type)) for node in nodes]
        for counts in itertools.product(*(range(count + 1) for count in most)):
            placement = tuple((node, count) for node, count in enumerate(counts) if count)
            enough = max(job.min_replicas, 1) <= sum(counts) <= job.max_replicas
            if enough and len(placement) <= rules.max_nodes_per_job:
                yield Row(placement, mode, _utility(instance, index, placement, mode))


def _idle(instance: Instance) -> Fraction:
    rules = instance.rules
    return Fraction(rules.floor if rules.idle_utility is None else rules.idle_utility)


def _utility(instance: Instance, index: int, placement: Placement, mode: int) -> Fraction:
    """``max(scale * weight * speedup * rho + floor, the least)``."""
    job, rules = instance.jobs[index], instance.rules
    if not placement:
        return _idle(instance)
    nodes = sum(group.nodes for group in instance.cluster.groups)
    gpus = sum(group.nodes * group.gpus for group in instance.cluster.groups)
    value = Fraction(job.weight) * _speedup(instance, index, placement, mode)
    if rules.speedup_scale == "node":
        value *= Fraction(nodes, gpus)
    same = placement == job.placement and (not job.modes or job.modes[mode].name == job.mode)
    value = value if same else value * _left_by_a_restart(instance, index)
    floor = Fraction(rules.floor)
    return max(value + floor, floor or LEAST)


def _speedup(instance: Instance, index: int, placement: Placement, mode: int) -> Fraction:
    job, replicas = instance.jobs[index], sum(count for _, count in placement)
    model = job.modes[mode].model if job.modes else job.model
    if isinstance(model, SpeedupTable):
        known = model.several_nodes if len(placement) > 1 else model.one_node
        return Fraction(known[replicas - 1]) if replicas <= len(known) else Fraction(0)
    assert model is None, "goodput models need a search for the best batch size"
    gpus = sum(group.nodes * group.gpus for group in instance.cluster.groups)
    single = instance.rules.fair_share in ("one_gpu", "least")
    return Fraction(replicas, 1 if single else math.ceil(Fraction(gpus, len(instance.jobs))))


def _left_by_a_restart(instance: Instance, index: int) -> Fraction:
    """``max(age - delay * restarts, 0) / (age + delay)``, of the jobs that pay."""
    job, rules = instance.jobs[index], instance.rules
    age = Fraction(job.age)
    delay = Fraction(rules.restart_delay if job.restart_delay is None else job.restart_delay)
    pays = rules.restart_penalty == "all" or (bool(job.placement) and age >= delay)
    if not pays or age + delay == 0:
        return Fraction(1)
    return max(age - delay * job.restarts, Fraction(0)) / (age + delay)


def outcomes(instance: Instance) -> set[tuple[Fraction, ...]]:
    """The utilities of the jobs under every feasible allocation."""
    nodes = [group for group in instance.cluster.groups for _ in range(group.nodes)]
    amounts = [{name: Fraction(has) * EXCESS for name, has in node.resources} for node in nodes]
    free = tuple(
        (node.gpus, True, tuple(sorted(had.items())))
        for node, had in zip(nodes, amounts, strict=True)
    )
    states: dict[State, set[tuple[Fraction, ...]]] = {free: {()}}
    for index in range(len(instance.jobs)):
        rows = list(rows_of(instance, index))
        following: dict[State, set[tuple[Fraction, ...]]] = {}
        for state, reached in states.items():
            for row in rows:
                left = _after(instance, state, index, row)
                if left is not None:
                    more = {(*utilities, row.utility) for utilities in reached}
                    following.setdefault(left, set()).update(more)
        states = following
    return set().union(*states.values())


def _after(instance: Instance, state: State, index: int, row: Row) -> State | None:
    """What the nodes have left once a job has its row; None if it does not fit."""
    job, nodes = instance.jobs[index], list(state)
    takes = job.modes[row.mode].resources if job.modes else ()
    spread = len(row.placement) > 1 and instance.rules.interference_avoidance
    for node, count in row.placement:
        gpus, undisturbed, amounts = nodes[node]
        left = dict(amounts)
        for name, amount in takes:
            left[name] = left.get(name, Fraction(0)) - Fraction(amount) * count
        if (
            gpus < count
            or (spread and not undisturbed)
            or any(amount < 0 for amount in left.values())
        ):
            return None
        nodes[node] = (gpus - count, undisturbed and not spread, tuple(sorted(left.items())))
    return tuple(nodes)


def utilities_of(instance: Instance, allocation: Allocation) -> tuple[Fraction, ...]:
    """The utilities of an allocation, which must be among the rows of every job."""
    found = []
    for index in range(len(instance.jobs)):
        mine = (allocation.placement(index), int(allocation.mode[index]))
        rows = {(row.placement, row.mode): row.utility for row in rows_of(instance, index)}
        found.append(rows[mine])
    return tuple(found)


def mean_of(utilities: tuple[Fraction, ...], power: float) -> Decimal:
    """Their power mean."""
    if math.isinf(power):
        return _decimal(max(utilities) if power > 0 else min(utilities))
    return _mean(_total([_term(utility, power) for utility in utilities]), len(utilities), power)


def shortfall(value: Decimal | float, optimum: Decimal) -> float:
    """How much less a value is than the optimum, relative to it; negative if it is more."""
    if math.isinf(value):
        return -math.inf
    return float(DIGITS.subtract(Decimal(1), DIGITS.divide(Decimal(value), optimum)))


def best_mean(instance: Instance) -> Decimal:
    """The optimum: the greatest power mean of all feasible allocations."""
    power, found = instance.rules.power, outcomes(instance)
    if math.isinf(power):
        return max(mean_of(utilities, power) for utilities in found)
    terms = {utility: _term(utility, power) for utilities in found for utility in utilities}
    totals = {_total([terms[utility] for utility in utilities]) for utilities in found}
    best = min(totals) if power < 0 else max(totals)
    return _mean(best, len(instance.jobs), power)


def _term(utility: Fraction, power: float) -> Decimal:
    """``u^p``, or its logarithm at p = 0."""
    logarithm = DIGITS.ln(_decimal(utility))
    if power == 0:
        return logarithm
    return DIGITS.exp(DIGITS.multiply(Decimal(power), logarithm))


def _total(terms: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for term in terms:
        total = DIGITS.add(total, term)
    return total


def _mean(total: Decimal, count: int, power: float) -> Decimal:
    """``(total / count)^(1 / p)``."""
    each = DIGITS.divide(total, Decimal(count))
    if power == 0:
        return DIGITS.exp(each)
    return DIGITS.exp(DIGITS.divide(DIGITS.ln(each), Decimal(power)))


def _decimal(number: Fraction) -> Decimal:
    return DIGITS.divide(Decimal(number.numerator), Decimal(number.denominator))
