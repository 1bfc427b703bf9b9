r"""Choices that no nodes can hold together, and the cut that excludes them.

Where the relaxed packing program packs choices in parts (`packing_cut`) that whole jobs do not fit,
no price shows the cause. Then a small *conflict* does: jobs :math:`j \in C` whose choices
:math:`i_j` cannot be placed together, while without any one of them they can (as long as time
allows to look). With :math:`x_i` for taking choice *i*, :math:`A_j` the choices of job *j*, and
:math:`H(i)` those of any job that are at least as hard to place as *i* (wherever they are placed,
*i* could be),

.. math::

    \sum_{j \in C} \sum_{i \in A_j \cap H(i_j)} x_i
    + \sum_{k \notin C} \sum_{i \in A_k \cap \bigcap_{j \in C} H(i_j)} x_i
    \le |C| - 1                                                                              (1)

cuts them off, and no allocation: of :math:`|C|` jobs with such choices, those in *C* could take
their own :math:`i_j` instead, and the rest of *C* what the others leave, which then idle. Pinned
jobs, that cannot, are neither in *C* nor counted. Finding a conflict, cutting it off and deciding
again is a logic-based Benders decomposition (Hooker and Ottosson, Mathematical Programming 96,
2003); that other jobs join is the extension of a cover inequality.

References
----------
Hooker and Ottosson, "Logic-based Benders decomposition", Mathematical Programming 96, 2003.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import Fits
from goodalloc.formulations.mode_rounds.value_cut import Cut
from goodalloc.formulations.node_indexed.alike_nodes import told_apart
from goodalloc.formulations.node_indexed.node_program import build_node_program, decode_nodes
from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.milp.highs_program import run_mixed_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Indices
    from goodalloc.solvers.interface.watch import Watch


@dataclass
class ConflictFinder:
    """Search for conflicts among the choices of an instance.

    Parameters
    ----------
    instance, choices
        The round, and all its choices.
    watch
        The clock of the solve.
    """

    instance: Instance
    choices: Choices
    watch: Watch
    _fits: Fits = field(init=False)

    def __post_init__(self) -> None:
        self._fits = Fits(self.instance, self.choices)

    def find(self, taken: Indices) -> Allocation | Sequence[Cut]:
        """Return an allocation with these choices, or cuts that exclude them, or no cuts.

        Parameters
        ----------
        taken
            One choice of every job.
        """
        allocation, proof = self._placed(taken)
        if not proof:
            return ()
        if allocation is not None:
            return allocation
        choices, instance = self.choices, self.instance
        running = taken[(choices.replicas[taken] > 0) & ~instance.pinned[choices.job[taken]]]
        kind = instance.mode_type[choices.mode[running]]
        kinds = [running[kind == code] for code in np.unique(kind)]
        conflict = self._least(taken, frozenset(running.tolist()), kinds)
        singles = running[np.argsort(choices.replicas[running], kind="stable")][:, None]
        found = {self._least(taken, conflict, order) for order in (singles, singles[::-1])}
        return [self._cut(sorted(least)) for least in sorted(found, key=sorted)]

    def _least(
        self, taken: Indices, conflict: frozenset[int], groups: Iterable[Indices]
    ) -> frozenset[int]:
        """Return the part of a conflict that remains without redundant groups, in this order."""
        for group in groups:
            without = conflict.difference(group.tolist())
            if without and without != conflict:
                allocation, proof = self._placed(self._only(taken, without))
                conflict = without if proof and allocation is None else conflict
        return conflict

    def _only(self, taken: Indices, kept: frozenset[int]) -> Indices:
        """Return some of these choices; other jobs idle, except the pinned ones."""
        choices = self.choices
        idle = choices.of(Kind.IDLE)
        wanted = np.isin(taken, list(kept)) | ~np.isin(choices.job[taken], choices.job[idle])
        chosen = taken[wanted]
        return np.sort(np.append(chosen, idle[~np.isin(choices.job[idle], choices.job[chosen])]))

    def _placed(self, taken: Indices) -> tuple[Allocation | None, bool]:
        """Return an allocation with these choices if any, and whether that is proved."""
        chosen = self.choices.where(taken)
        program = build_node_program(self.instance, chosen, np.zeros(len(chosen)))
        outcome = run_mixed_integer(told_apart(self.instance, program), self.watch, gap=1.0)
        if outcome.values is None:
            return None, outcome.finished
        allocation = decode_nodes(self.instance, program, outcome.values)
        # the solver's tolerance may be larger than the checker's
        return allocation, not violations(self.instance, allocation)

    def _cut(self, conflict: Sequence[int]) -> Cut:
        """Return the cut (1)."""
        job = self.choices.job
        harder = self._fits.wherever(np.array(conflict), np.arange(len(self.choices)))
        harder &= ~self.instance.pinned[job]
        own = job[list(conflict)][:, None] == job
        counted = (harder & own).any(axis=0) | (harder.all(axis=0) & ~own.any(axis=0))
        return Cut(counted.astype(float), len(conflict) - 1.0)
