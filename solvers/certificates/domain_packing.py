"""Packing of choices, in whole or in part, into the domains of a tree, and prices where it fails.

As `goodalloc.solvers.modes.pattern_master` does for nodes, with domains in their place: a *pattern*
is what one domain holds, jobs on one node, jobs on several by their level, GPUs for jobs of higher
levels, and jobs that stay. Where some choices stay unpacked, the dual values of the rows are prices
(`goodalloc.formulations.certificates.domain_values`) at which the choices pay more than all domains
are worth.

References
----------
Gilmore and Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations
    Research, 1961.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import highspy
import numpy as np

from goodalloc.formulations.certificates.domain_values import DomainPrices
from goodalloc.formulations.gpu_rounds.choices import Kind, keep_choices
from goodalloc.formulations.mode_rounds.value_cut import Cut
from goodalloc.models.support.tolerances import ROUNDING
from goodalloc.solvers.milp.highs_program import new_solver, run_in_time
from goodalloc.solvers.modes.pattern_master import PACKED, PRICED_OUT

if TYPE_CHECKING:
    from jaxtyping import Float

    from goodalloc.formulations.certificates.domain_values import DomainValues, Held
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.interface.watch import Watch

#: A cut counts if the choices exceed it by this share.
VIOLATED = 1e-7

#: Times that patterns are sought for one packing; prices that are not optimal yet may do, too.
MOST_ROUNDS = 150


class DomainCut(NamedTuple):
    """Cut of choices that no domains hold together, and the prices that it is made of."""

    cut: Cut
    prices: DomainPrices


@dataclass
class DomainPacking:
    """The packing program of a round, with the patterns found so far.

    Parameters
    ----------
    values
        The domains and their worth.
    watch
        The clock of the solve.
    """

    values: DomainValues
    watch: Watch
    _rows: _Rows = field(init=False)
    _solver: Any = field(init=False)

    def __post_init__(self) -> None:
        self._rows = _Rows.of(self.values)
        self._solver = new_solver(presolve="off", solver="simplex")
        none = np.zeros(0, dtype=np.int32)
        for _ in range(self._rows.number):
            self._solver.addRow(0.0, highspy.kHighsInf, 0, none, np.zeros(0))
        for _, count in self.values.classes:
            self._solver.addRow(-highspy.kHighsInf, float(count), 0, none, np.zeros(0))
        for row, gpus in enumerate(self._rows.gpus.tolist()):
            index = np.array([row], dtype=np.int32)
            self._solver.addCol(gpus, 0.0, highspy.kHighsInf, 1, index, np.ones(1))

    def find(self, weight: Float[Floats, " choices"]) -> DomainCut | None:
        """Return a cut that these weights of the choices violate; None where none is found.

        Parameters
        ----------
        weight
            Weight of every choice, 1 in all for every job.
        """
        rows, number = self._rows, self._rows.number
        demand = np.bincount(rows.row, rows.amount * weight[rows.choice], number)
        everything = np.arange(number, dtype=np.int32)
        most = np.full(number, highspy.kHighsInf)
        self._solver.changeRowsBounds(number, everything, demand, most)
        prices = None
        for _ in range(MOST_ROUNDS):
            if not run_in_time(self._solver, self.watch) or (
                self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal
            ):
                return None
            if float(self._solver.getInfo().objective_function_value) <= PACKED:
                return None
            dual = np.array(self._solver.getSolution().row_dual)
            prices = rows.prices(self.values, np.maximum(dual[:number], 0.0))
            rent = np.maximum(-dual[number:], 0.0).tolist()
            if not self._add(self.values.best(prices), rent) or self.watch.limit is not None:
                break
        return None if prices is None else self._cut(prices, weight)

    def _add(self, found: list[Held], rent: list[float]) -> bool:
        """Add the patterns that are worth more than their domain; return whether there are any."""
        added = False
        for index, (held, paid) in enumerate(zip(found, rent, strict=True)):
            if held.worth <= paid + PRICED_OUT * max(1.0, held.worth):
                continue
            content = self._rows.content(held)
            row = np.array([*content, self._rows.number + index], dtype=np.int32)
            amount = np.array([*content.values(), 1.0], dtype=float)
            self._solver.addCol(0.0, 0.0, highspy.kHighsInf, row.size, row, amount)
            added = True
        return added

    def _cut(self, prices: DomainPrices, weight: Floats) -> DomainCut | None:
        """Return the cut of some prices, with a largest coefficient of 1, if it is violated."""
        coefficient = self.values.charges(prices)
        upper, size = float(self.values.worth(prices).sum()), float(coefficient.max())
        if float(coefficient @ weight) <= upper * (1 + VIOLATED) or size <= 0.0:
            return None
        cut = Cut(coefficient / size, upper / size * (1 + ROUNDING))
        return DomainCut(cut, prices.times(1.0 / size))


@dataclass(frozen=True)
class _Rows:
    """Rows of the packing program: jobs on one node, on several, GPUs of others, and stays.

    Parameters
    ----------
    one_node, several
        Row of a job on so many GPUs of one node, and on several by level and GPUs.
    above
        Row of the GPUs of jobs that higher levels hold.
    stays
        Row of every entry of the present placements that may be kept.
    gpus
        GPUs of what a row counts.
    choice, row, amount
        Entries of the choices in the rows.
    """

    one_node: dict[int, int]
    several: dict[tuple[int, int], int]
    above: int
    stays: dict[int, int]
    gpus: Floats
    choice: Indices
    row: Indices
    amount: Floats

    @property
    def number(self) -> int:
        """Number of rows."""
        return self.gpus.size

    @classmethod
    def of(cls, values: DomainValues) -> _Rows:
        """Return the rows of a round."""
        choices, instance = values.choices, values.round_.instance
        one, several = choices.of(Kind.ONE_NODE), choices.of(Kind.SEVERAL_NODES)
        level = values.level
        low, high = (
            several[level[several] <= values.highest],
            several[level[several] > values.highest],
        )
        replicas = choices.replicas
        on_one = {gpus: row for row, gpus in enumerate(np.unique(replicas[one]).tolist())}
        pairs = list(zip(level[low].tolist(), replicas[low].tolist(), strict=True))
        on_several = {pair: len(on_one) + row for row, pair in enumerate(sorted(set(pairs)))}
        above = len(on_one) + len(on_several)
        current, keep_of = instance.current, keep_choices(instance, choices)
        entries = np.flatnonzero(values.may_keep)
        stays = {entry: above + 1 + row for row, entry in enumerate(entries.tolist())}
        gpus = [*on_one, *(pair[1] for pair in on_several), 1, *current.replicas[entries].tolist()]
        return cls(
            one_node=on_one,
            several=on_several,
            above=above,
            stays=stays,
            gpus=np.array(gpus, dtype=float),
            choice=np.concatenate([one, low, high, keep_of[current.job[entries]]]),
            row=np.array(
                [
                    *(on_one[gpus] for gpus in replicas[one].tolist()),
                    *(on_several[pair] for pair in pairs),
                    *([above] * high.size),
                    *stays.values(),
                ],
                dtype=np.int64,
            ),
            amount=np.concatenate(
                [np.ones(one.size + low.size), replicas[high].astype(float), np.ones(entries.size)]
            ),
        )

    def prices(self, values: DomainValues, dual: Floats) -> DomainPrices:
        """Return the prices that dual values of the rows are."""
        one_node = np.zeros(max(self.one_node, default=0) + 1)
        one_node[[*self.one_node]] = dual[: len(self.one_node)]
        levels = []
        for level in range(1, values.highest + 1):
            mine = {gpus: row for (place, gpus), row in self.several.items() if place == level}
            levels.append(np.zeros(max(mine, default=0) + 1))
            levels[-1][[*mine]] = dual[[*mine.values()]]
        stays = np.zeros(values.round_.instance.current.job.size)
        stays[[*self.stays]] = dual[[*self.stays.values()]]
        return DomainPrices(one_node, tuple(levels), float(dual[self.above]), stays)

    def content(self, held: Held) -> Counter[int]:
        """Return how much of each row a domain holds."""
        content = Counter(self.one_node[gpus] for gpus in held.one_node)
        content.update(self.several[pair] for pair in held.several)
        content.update(self.stays[entry] for entry in held.stays)
        if held.above:
            content[self.above] += held.above
        return content
