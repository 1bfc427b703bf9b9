"""Cluster and rules of a replay of jobs with parameter servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.parameter_servers.rounds import NODE
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats

#: Bandwidth within a node over that between nodes, the 2 of (1) in `simulator.py`.
WITHIN_NODES = 2.0


@dataclass(frozen=True)
class PsSetting:
    """Cluster and rules of a replay.

    Parameters
    ----------
    nodes
        Of Optimus's artifact, each of 16 cores and 2 GPUs.
    interval
        Seconds of a round.
    restart_seconds
        Seconds of a change; 30 s as in Pollux, since none is published for AITurbo.
    within_nodes
        Bandwidth within a node over between nodes, the 2 of (1) in `simulator.py`.
    node_gpus
        GPUs of every node in place of 2 each; none for these.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    nodes: int = 12
    interval: float = 240.0
    restart_seconds: float = 30.0
    within_nodes: float = WITHIN_NODES
    node_gpus: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_count("Setting: nodes", self.nodes, 1)
        require_number("Setting: interval", self.interval, 0.0, strict=True)
        require_number("Setting: restart_seconds", self.restart_seconds, 0.0)
        require_number("Setting: within_nodes", self.within_nodes, 1.0)
        for gpus in self.node_gpus:
            require_count("Setting: node_gpus", gpus, 0)
        if self.node_gpus and len(self.node_gpus) != self.nodes:
            raise ValueError(
                f"Setting: node_gpus has {len(self.node_gpus)} numbers; expected one for each of "
                f"the {self.nodes} nodes."
            )

    @property
    def capacity(self) -> Floats:
        """Cores and GPUs of every node, shape (nodes, 2)."""
        found = np.tile(NODE, (self.nodes, 1))
        if self.node_gpus:
            found[:, 1] = self.node_gpus
        return found
