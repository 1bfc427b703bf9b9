"""Names of choices on a tree, and of the dropped ones that each stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.certificates.domination import Standing
from goodalloc.formulations.gpu_rounds.choices import Choices, Kind
from goodalloc.formulations.topology.tree_choices import topology_choices

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from goodalloc.models.support.array_types import Flags, Indices
    from goodalloc.models.topology.topology_round import TopologyRound


@dataclass(frozen=True)
class TreeStanding(Standing):
    """All choices of a round on a tree, and those that were kept of them; see `Standing`.

    Parameters
    ----------
    round_
        The round, of which `instance` is the `leveled` one.
    """

    round_: TopologyRound

    @cached_property
    def _all(self) -> Choices:
        """All choices; on one node a job has the same ones in the mode of every level."""
        found = topology_choices(self.round_, prune=False)
        one = found.of(Kind.ONE_NODE)
        levels = self.round_.domain.shape[0] - 1
        again = np.repeat(one, levels - 1)
        index = np.concatenate([np.arange(len(found)), again])
        mode = found.mode[index]
        mode[len(found) :] += np.tile(np.arange(1, levels), one.size)
        order = np.argsort(found.job[index], kind="stable")
        chosen = found.where(index[order])
        return Choices(chosen.job, chosen.kind, chosen.replicas, chosen.utility, mode[order])

    def fits(self, full: Choices, own: Int[Indices, " kept"]) -> Bool[Flags, "kept all"]:
        """Return whether each kept choice of a job fits wherever each of all its choices does.

        Fewer GPUs of one node do, one GPU wherever any are, and fewer of several nodes of the same
        level; of a higher level, too, where no level limits the jobs on its uplinks.

        Parameters
        ----------
        full, own
            As of `Standing.fits`.
        """
        kind, gpus, level = (part[own][:, None] for part in (full.kind, full.replicas, full.mode))
        several = (kind == Kind.SEVERAL_NODES) & (full.kind == Kind.SEVERAL_NODES)
        limited = bool(self.round_.topology.limited_levels)
        several &= level == full.mode if limited else level >= full.mode
        one = (kind == Kind.ONE_NODE) & ((full.kind == Kind.ONE_NODE) | (gpus == 1))
        anew = (full.kind == Kind.ONE_NODE) | (full.kind == Kind.SEVERAL_NODES)
        return np.asarray((one | several) & (gpus <= full.replicas) & anew)
