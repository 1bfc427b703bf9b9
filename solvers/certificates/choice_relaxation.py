"""Linear relaxations over choices that give prices, solved repeatedly with other costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import highspy
import numpy as np

from goodalloc.formulations.certificates.dual_prices import (
    aggregate_prices,
    pattern_prices,
    with_cuts,
)
from goodalloc.formulations.certificates.shared_gpu_relaxation import build_shared, shared_prices
from goodalloc.formulations.gpu_rounds.patterns import build_patterns
from goodalloc.formulations.mode_rounds.aggregate import build_aggregate
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR
from goodalloc.solvers.milp.highs_program import new_solver, run_in_time
from goodalloc.solvers.modes.packing_cut import CutFinder

if TYPE_CHECKING:
    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.certificates.price_bound import PriceBound
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.formulations.mode_rounds.value_cut import Cut
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.interface.watch import Watch


#: Largest cost after scaling, so that a solver's absolute tolerances are adequate.
LARGEST_COST = 1e6
#: Cost of a job that takes none of its choices, a multiple of the largest cost; the factor by which
#: it grows while such jobs remain; and its limit.
NO_CHOICE, DEARER, MOST_NO_CHOICE = 4e6, 1e3, 1e10
#: Values below this count as 0.
PRESENT = 1e-9


class Relaxed(NamedTuple):
    """Optimum of a relaxation.

    Attributes
    ----------
    weight
        Weight of every choice, shape (choices,).
    prices
        Prices that its duals stand for.
    """

    weight: Floats
    prices: Prices


@dataclass
class ChoiceRelaxation:
    """Relaxation of a round.

    Every job may go without a choice, at a price, so that there is always an optimum.

    Parameters
    ----------
    bounds
        The round, its choices and units.
    watch
        The clock.
    """

    bounds: PriceBound
    watch: Watch
    program: Program = field(init=False)
    _solver: Any = field(init=False)
    _cuts: list[Cut] = field(init=False, default_factory=list)
    _finder: CutFinder | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.program = self.build()
        self._solver = new_solver(presolve="off", solver="simplex")
        self._solver.passModel(self.program.highs_model(relaxed=True))
        jobs = self.instance.num_jobs
        row = np.arange(jobs, dtype=np.int32)  # the first rows are those of the jobs
        self._solver.addCols(
            jobs,
            np.full(jobs, NO_CHOICE),
            np.zeros(jobs),
            np.full(jobs, np.inf),
            jobs,
            row,
            row,
            np.ones(jobs),
        )

    @property
    def instance(self) -> Instance:
        """The round."""
        return self.bounds.instance

    @property
    def choices(self) -> Choices:
        """The choices of the round."""
        return self.bounds.choices

    def build(self) -> Program:
        """Return the program, without costs; columns of choices and rows of jobs come first."""
        raise NotImplementedError

    def prices(self, duals: Floats) -> Prices:
        """Return the prices that the duals of the rows stand for."""
        raise NotImplementedError

    def extended(self, prices: Prices, weights: Floats) -> Prices:
        """Return prices with those of the cuts that `tighten` added, by their dual values."""
        return with_cuts(self.instance, prices, self._cuts, weights)

    def find_cuts(self) -> None:
        """Let `tighten` find value cuts."""
        self._finder = CutFinder(self.instance, self.choices, self.bounds.grid, self.watch)

    def tighten(self, weight: Floats) -> bool:
        """Add a value cut that an optimum violates; return False where none is found.

        Parameters
        ----------
        weight
            The optimum, shape (choices,).
        """
        if self._finder is None:
            return False
        cut = self._finder.find(np.where(weight > PRESENT, weight, 0.0))
        if cut is None:
            return False
        self._cuts.append(cut)
        self.add_cut(cut)
        return True

    def add_cut(self, cut: Cut) -> None:
        """Add the row of a cut."""
        used = np.flatnonzero(cut.coefficient)
        self._solver.addRow(
            -math.inf, cut.upper, used.size, used.astype(np.int32), cut.coefficient[used]
        )

    def solve(self, cost: Floats) -> Relaxed | None:
        """Return an optimum; None where none is found in time.

        Parameters
        ----------
        cost
            Cost of every choice, infinite where it is not to be taken: shape (choices,).
        """
        allowed, size = np.isfinite(cost), cost.size
        finite = np.where(allowed, cost, 0.0)
        scale = LARGEST_COST / max(float(np.abs(finite).max()), SMALLEST_DIVISOR)
        columns = np.arange(size, dtype=np.int32)
        self._solver.changeColsBounds(size, columns, np.zeros(size), allowed.astype(np.float64))
        self._solver.changeColsCost(size, columns, finite * scale)
        price = NO_CHOICE
        while True:
            if not run_in_time(self._solver, self.watch):
                return None
            if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
                return None
            solution = self._solver.getSolution()
            values, duals = np.array(solution.col_value), np.array(solution.row_dual)
            missing = values[self.program.num_columns :].max(initial=0.0)
            if missing < PRESENT or price * DEARER > MOST_NO_CHOICE:
                break
            price *= DEARER
            self._charge(price)
        if price > NO_CHOICE:
            self._charge(NO_CHOICE)
        rows = self.program.num_rows
        weights = np.maximum(-duals[rows:], 0.0)
        prices = self.extended(self.prices(duals[:rows]), weights)
        return Relaxed(values[:size], prices.times(1.0 / scale))

    def _charge(self, price: float) -> None:
        """Set the cost of a job that takes no choice."""
        jobs, first = self.instance.num_jobs, self.program.num_columns
        columns = np.arange(first, first + jobs, dtype=np.int32)
        self._solver.changeColsCost(jobs, columns, np.full(jobs, price))


@dataclass
class PatternRelaxation(ChoiceRelaxation):
    """Relaxation of the pattern program, for jobs without modes."""

    def build(self) -> Program:
        """Return the pattern program, the pieces of every distributed job by themselves."""
        nothing = np.zeros(len(self.choices))
        self._patterns = build_patterns(self.instance, self.choices, nothing, exact=True)
        return self._patterns.program

    def prices(self, duals: Floats) -> Prices:
        """Return prices of pieces and stays."""
        return pattern_prices(self.instance, self._patterns, self.bounds.grid, duals)


@dataclass
class AggregateRelaxation(ChoiceRelaxation):
    """Relaxation of the aggregate with its value cuts, for jobs with modes."""

    def build(self) -> Program:
        """Return the aggregate without cuts."""
        self.find_cuts()
        return build_aggregate(self.instance, self.choices, np.zeros(len(self.choices)))

    def prices(self, duals: Floats) -> Prices:
        """Return prices of resources, and of nodes for distributed jobs."""
        grid = self.bounds.grid
        return aggregate_prices(self.instance, self.choices, self.program, (), grid, duals)


@dataclass
class SharedRelaxation(ChoiceRelaxation):
    """Relaxation by groups of nodes, for replicas that take parts of GPUs."""

    def build(self) -> Program:
        """Return the program by groups."""
        self.find_cuts()
        self._shared = build_shared(self.bounds)
        return self._shared.program

    def prices(self, duals: Floats) -> Prices:
        """Return prices of resources and of parts of GPUs."""
        return shared_prices(self._shared, duals)


def relaxation_of(bounds: PriceBound, watch: Watch) -> ChoiceRelaxation:
    """Return the relaxation that suits a round; arguments as of `ChoiceRelaxation`."""
    instance = bounds.instance
    if instance.plain:
        return PatternRelaxation(bounds, watch)
    if instance.shares_gpus:
        return SharedRelaxation(bounds, watch)
    return AggregateRelaxation(bounds, watch)
