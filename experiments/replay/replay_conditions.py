"""Under what conditions a workload is replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_flag,
    require_number,
)

#: What a job knows when it starts: nothing (as published), what jobs of its application that are
#: finished measured, or measurements of the whole range, as if it had been profiled beforehand.
Knowledge = Literal["explored", "history", "profiled"]


#: The cluster of Pollux's evaluation.
TESTBED = Cluster.uniform(16, 4)


class Outage(NamedTuple):
    """The last so many nodes are missing, from the start second up to the end, exclusive."""

    start: int
    end: int
    nodes: int


@dataclass(frozen=True)
class Setting:
    """Under what conditions a workload is replayed; the defaults are Pollux's published ones.

    Parameters
    ----------
    cluster
        The nodes; they may have GPUs of several types, and CPU cores.
    interval
        Seconds between decisions.
    restart_delay
        Seconds without progress after a change of allocation, of applications that do not say
        otherwise.
    interference
        Share of its goodput that a distributed job loses while it shares a node with another one.
    outages
        When nodes are missing; of several at a time the one that takes the most nodes counts.
        Their jobs lose all their GPUs and keep their progress.
    knowledge
        What jobs know of their application when they start.
    free_moves
        Whether a job that moves to other nodes of the same type, with as many GPUs on each, goes on
        without a restart (as in Sia's simulator).
    input_seed
        Seed of what the input of the jobs costs, where nodes have cores.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """

    cluster: Cluster = TESTBED
    interval: int = 60
    restart_delay: float = 30.0
    interference: float = 0.0
    outages: tuple[Outage, ...] = ()
    knowledge: Knowledge = "explored"
    free_moves: bool = False
    input_seed: int = 0

    def __post_init__(self) -> None:
        for name in self.cluster.resource_names:
            if name != "cpu":
                raise ValueError(f"Setting: nodes have '{name}'; expected no resource but 'cpu'.")
        for group in self.cluster.groups:
            cores = dict(group.resources).get("cpu")
            if cores is not None and cores < group.gpus:
                raise ValueError(
                    f"Setting: node group '{group.name}' has {cores:g} cores for {group.gpus} "
                    "GPUs; expected at least one for each."
                )
        require_flag("Setting: free_moves", self.free_moves)
        require_count("Setting: input_seed", self.input_seed, minimum=0)
        require_count("Setting: interval", self.interval, minimum=1)
        require_number("Setting: restart_delay", self.restart_delay, minimum=0.0)
        require_number("Setting: interference", self.interference, minimum=0.0)
        if self.interference >= 1.0:
            raise ValueError(f"Setting: interference is {self.interference}; expected below 1.")
        for start, end, nodes in self.outages:
            require_count("Outage: start", start, minimum=0)
            require_count("Outage: end", end, minimum=start + 1)
            require_count("Outage: nodes", nodes, 1, self.cluster.num_nodes - 1)
            if -(-start // self.interval) * self.interval >= end:
                raise ValueError(
                    f"Outage: {start} to {end} s lies between two decisions; expected one that "
                    f"covers a multiple of the interval, {self.interval} s."
                )
        require_choice("Setting: knowledge", self.knowledge, get_args(Knowledge))
