"""Choices that stand for others which were dropped because they are no better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.gpu_rounds.choices import Kind, enumerate_choices
from goodalloc.formulations.mode_rounds.mode_choices import Fits, enumerate_mode_choices

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Flags, Indices


#: What a choice is called whatever list it is in: mode of its job, kind, replicas.
Name = tuple[int, str, int]


@dataclass(frozen=True)
class Standing:
    """All choices of a round, and those that were kept of them.

    Parameters
    ----------
    instance, kept
        The round, and its choices but dominated ones.
    """

    instance: Instance
    kept: Choices

    @cached_property
    def _all(self) -> Choices:
        if self.instance.shares_gpus:  # of which none is known to dominate another
            return self.kept
        enumerate_all = enumerate_choices if self.instance.plain else enumerate_mode_choices
        return enumerate_all(self.instance, prune=False)

    def named(self, job: int, chosen: Bool[Flags, " choices"]) -> tuple[Name, ...]:
        """Return the names of some choices of a job and of the dropped ones that they stand for.

        A dropped choice belongs to a kept one that is worth no less and fits wherever it fits, to
        staying idle where that is worth as much. Then of some choices and of all others either
        contains all that any allocation needs.

        Parameters
        ----------
        job
            Index of the job.
        chosen
            Whether each kept choice is meant, shape (choices,).
        """
        first, last = np.searchsorted(self._all.job, [job, job + 1])
        mine = np.arange(first, last)
        full = self._all.where(mine)
        kept = np.flatnonzero(self.kept.job == job)
        found = {self._name(self.kept, i): bool(chosen[i]) for i in kept.tolist()}
        place = {self._name(full, index): index for index in range(mine.size)}
        own = np.array([place[self._name(self.kept, i)] for i in kept.tolist()])
        stands = self.fits(full, own) & (full.utility[own][:, None] >= full.utility)
        stands[full.kind[own] == Kind.IDLE] |= full.utility <= self.instance.rules.idle
        for index in range(mine.size):
            name = self._name(full, index)
            if name not in found:
                found[name] = bool(chosen[kept[int(np.argmax(stands[:, index]))]])
        return tuple(name for name, inside in found.items() if inside)

    def fits(self, full: Choices, own: Int[Indices, " kept"]) -> Bool[Flags, "kept all"]:
        """Return whether each kept choice of a job fits wherever each of all its choices does.

        Parameters
        ----------
        full, own
            All choices of the job, and the indices of the kept ones among them.
        """
        return Fits(self.instance, full).wherever(own, np.arange(len(full)))

    def _name(self, choices: Choices, index: int) -> Name:
        mode = int(choices.mode[index] - self.instance.first_mode[choices.job[index]])
        kind = Kind(choices.kind[index])
        if kind is Kind.IDLE:
            mode = 0
        return mode, kind.name.lower(), int(choices.replicas[index])
