"""Certificates by cases: branch and bound whose leaves are decided by prices alone.

Where one set of prices leaves a gap, the case with the greatest bound is split: the job whose
choices the relaxation mixes most takes one of its better choices, or none of them. Every leaf is
judged by `price_bound`, never by the word of a solver.
"""

from __future__ import annotations

import heapq
import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.formulations.basics.power_mean_cost import least_useful, safe_reference
from goodalloc.formulations.certificates.certificate import (
    Certificate,
    Leaf,
    Measure,
    Split,
    leaf_bound,
)
from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.certificates.prices import Prices
from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.solvers.certificates.choice_relaxation import relaxation_of
from goodalloc.solvers.interface.stop import proves

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.formulations.certificates.certificate import Tree
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Floats
    from goodalloc.solvers.certificates.choice_relaxation import ChoiceRelaxation
    from goodalloc.solvers.interface.watch import Watch


#: Leaves after which a search ends with what it has.
MOST_LEAVES = 5_000
#: Cases within cases; a file that is nested more deeply is refused by some readers of JSON.
MOST_DEPTH = 300
#: Most cuts that are sought at the root, and in every other case.
ROOT_CUTS, CASE_CUTS = 50, 2
#: Relative distance at which a bound is far from the known fitness, and most changes of the
#: measure.
FAR, MOST_RESCALED = 1e-3, 3
#: Weights of choices further than this from 0 and 1 count as mixed.
MIXED = 1e-6


class Division(NamedTuple):
    """Division of a case: inside, `job` takes one of the choices `chosen`; outside, none of them.

    `chosen` has the shape (choices,).
    """

    job: int
    chosen: Flags
    inside: Case
    outside: Case


@dataclass
class Case:
    """Node of the tree: a leaf until it is split.

    Parameters
    ----------
    allowed
        Whether each choice is allowed, shape (choices,).
    bound
        Proved upper bound on the fitness.
    leaf
        Its proof.
    weight
        Optimum of its relaxation, shape (choices,).
    depth
        Number of splits above it.
    division
        The job, its choices and the two cases that it was split into; None for a leaf.
    """

    allowed: Flags
    bound: float
    leaf: Leaf
    weight: Floats | None = None
    depth: int = 0
    division: Division | None = None

    def divide(self, job: int, chosen: Flags, choices: Choices) -> tuple[Case, Case]:
        """Split the case: the job takes one of the chosen choices, or none of them."""
        others = (choices.job == job) & ~chosen
        inside, outside = (
            Case(self.allowed & ~out, self.bound, self.leaf, depth=self.depth + 1)
            for out in (others, chosen)
        )
        self.division = Division(job, chosen, inside, outside)
        return inside, outside

    def tree(self) -> Tree:
        """Return the proof of the case and of the cases below it."""
        division = self.division
        if division is None:
            return self.leaf
        inside, outside = division.inside.tree(), division.outside.tree()
        return Split(division.job, division.chosen, inside, outside)

    def bound_of_leaves(self) -> float:
        """Return the largest bound of its leaves."""
        bound = 0.0
        waiting: list[Case] = [self]
        while waiting:
            case = waiting.pop()
            if case.division is None:
                bound = max(bound, case.bound)
            else:
                waiting += [case.division.inside, case.division.outside]
        return bound


def fitting_measure(utility: Floats, power: float, num_jobs: int, known: float) -> Measure:
    """Return the measure that separates a known fitness best from better ones.

    Parameters
    ----------
    utility
        Utilities of the allowed choices, at least one.
    power, num_jobs
        The power *p* and the number of jobs *n*.
    known
        The fitness, above 0.
    """
    if math.isinf(power):
        return Measure(power, known)
    least = float(utility.min())
    if power < 0:
        least = max(least, least_useful(known, num_jobs, power))
    return Measure(power, safe_reference(known, least, float(utility.max()), power))


def bounds_of(instance: Instance) -> PriceBound:
    """Return the price bounds of a round, over its choices without dominated ones.

    Where replicas take parts of GPUs no choice is known to dominate another; those whose parts fit
    on the GPUs of no node are left out.
    """
    grid = resource_grid(instance)
    if instance.plain:
        return PriceBound(instance, enumerate_choices(instance), grid)
    choices = enumerate_mode_choices(instance, prune=not instance.shares_gpus)
    if instance.shares_gpus:
        most = PriceBound(instance, choices, grid).pieces.fits.max(axis=1)
        fits = (choices.kind != Kind.ONE_NODE) | (choices.replicas <= most[choices.mode])
        choices = choices.where(fits)
    return PriceBound(instance, choices, grid)


def search_certificate(
    bounds: PriceBound,
    known: float,
    watch: Watch,
    *,
    most_leaves: int = MOST_LEAVES,
    relaxation: Callable[[], ChoiceRelaxation] | None = None,
) -> Certificate:
    """Return the strongest certificate found within limits.

    Parameters
    ----------
    bounds
        Price bounds of the round.
    known
        Fitness of a feasible allocation, above 0.
    watch
        The clock; its gap is the one to prove. Ctrl-C ends the search with the bound proved by
        then.
    most_leaves
        Most leaves; 1 for no split.
    relaxation
        Function that returns the relaxation whose dual values are prices; that of
        `relaxation_of` if None.
    """
    search = _Search(bounds, known, watch, relaxation or (lambda: relaxation_of(bounds, watch)))
    with suppress(KeyboardInterrupt):
        search.run(most_leaves)
    return Certificate(bounds, search.root.tree(), known, search.root.bound_of_leaves())


@dataclass
class _Search:
    """State of a search; parameters as of `search_certificate`."""

    bounds: PriceBound
    known: float
    watch: Watch
    relaxation: Callable[[], ChoiceRelaxation]
    root: Case = field(init=False)
    _relaxation: ChoiceRelaxation = field(init=False)

    def __post_init__(self) -> None:
        allowed = np.ones(len(self.bounds.choices), dtype=bool)
        power = self.bounds.instance.rules.power
        cap = float(power_mean(self.bounds.best, power))
        leaf = Leaf(Measure(power, cap), Prices())  # each job alone
        bound = leaf_bound(self.bounds, leaf, self.known, allowed)
        self.root = Case(allowed, bound, leaf)
        self._relaxation = self.relaxation()

    def _measure(self, allowed: Flags) -> Measure:
        instance = self.bounds.instance
        utility = self.bounds.choices.utility[allowed]
        return fitting_measure(utility, instance.rules.power, instance.num_jobs, self.known)

    def run(self, most_leaves: int) -> None:
        """Split the case with the greatest bound until the fitness is proved, or nothing helps."""
        self._decide(self.root, ROOT_CUTS)
        order = itertools.count()
        waiting = [(-self.root.bound, next(order), self.root)]
        for _ in range(1, most_leaves):
            _, _, case = heapq.heappop(waiting)
            if self.watch.limit is not None or self._proved(case):
                return
            branch = _branch(self.bounds, case)
            if branch is None:
                return  # whole choices that do not fit, and no prices say so
            for part in case.divide(*branch, self.bounds.choices):
                self._decide(part, CASE_CUTS)
                heapq.heappush(waiting, (-part.bound, next(order), part))

    def _proved(self, case: Case) -> bool:
        return proves(case.bound, self.known, self.watch.stop.gap)

    def _decide(self, case: Case, most_cuts: int) -> None:
        """Find prices for a case, with at most `most_cuts` more cuts.

        Far from the known fitness the reference that tells it from better ones proves little, and
        at large powers nothing: the bound itself is then a better one.
        """
        measure = self._measure(case.allowed)
        self._price(case, measure, most_cuts)
        for _ in range(MOST_RESCALED):
            before = case.bound
            far = math.isfinite(measure.power) and before > self.known * (1 + FAR)
            if not far or case.weight is None:
                return
            self._price(case, Measure(measure.power, before), 0)
            if case.bound > before * (1 - FAR):
                return

    def _price(self, case: Case, measure: Measure, most_cuts: int) -> None:
        """Find prices for a case by one measure."""
        choices, num_jobs = self.bounds.choices, self.bounds.instance.num_jobs
        cost = measure.cost(choices.utility, self.known, num_jobs)
        cost = np.where(case.allowed, cost, np.inf)
        for cuts in range(most_cuts + 1):
            relaxed = self._relaxation.solve(cost)
            if relaxed is None:
                return
            least = self.bounds.least_cost(cost, relaxed.prices)
            bound = measure.bound(least, num_jobs, self.known)
            if bound < case.bound:
                case.bound, case.leaf = bound, Leaf(measure, relaxed.prices)
            if case.weight is None or measure == case.leaf.measure:
                case.weight = relaxed.weight
            if cuts == most_cuts or self._proved(case):
                return
            if not self._relaxation.tighten(relaxed.weight):
                return


def _branch(bounds: PriceBound, case: Case) -> tuple[int, Flags] | None:
    """Return a job and the better of its choices to split a case by; None where nothing helps.

    The job is the one whose choices are mixed most. Where none are mixed, but choices that are not
    taken make the scale too large to separate the others, it is the job with the greatest of those.
    """
    if case.weight is None or case.depth == MOST_DEPTH:
        return None
    choices, power = bounds.choices, bounds.instance.rules.power
    found = _most_mixed(choices, case.weight)
    if found is None and 0 < power < math.inf:
        found = _off_scale(choices, case.weight, case.allowed)
    if found is None:
        return None
    job, threshold = found
    return job, np.asarray((choices.job == job) & (choices.utility > threshold))


def _most_mixed(choices: Choices, weight: Floats) -> tuple[int, float] | None:
    """Return the job whose choices are mixed most, and a utility that divides them."""
    mixed = (weight > MIXED) & (weight < 1 - MIXED)
    best: tuple[float, int, float] | None = None
    for job in np.unique(choices.job[mixed]).tolist():
        mine = np.flatnonzero((choices.job == job) & mixed)
        mine = mine[np.argsort(choices.utility[mine], kind="stable")]
        below, worth = np.cumsum(weight[mine])[:-1], choices.utility[mine]
        if not below.size or worth[0] == worth[-1]:
            continue
        score = np.minimum(below, 1 - below) * np.diff(np.log(worth))
        at = int(np.argmax(score))
        if best is None or score[at] > best[0]:
            best = (float(score[at]), job, 0.5 * float(worth[at] + worth[at + 1]))
    return None if best is None else best[1:]


def _off_scale(choices: Choices, weight: Floats, allowed: Flags) -> tuple[int, float] | None:
    """Return the job with the greatest choice not taken, and the utility reached without it."""
    reached = float(np.max(choices.utility * (weight > MIXED)))
    possible = np.where(allowed, choices.utility, 0.0)
    greatest = int(np.argmax(possible))
    if possible[greatest] <= reached:
        return None
    return int(choices.job[greatest]), reached
