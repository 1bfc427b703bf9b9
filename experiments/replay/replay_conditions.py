"""Conditions of a replay.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

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

#: Knowledge of a job when it starts: none (as published), the measurements of finished jobs of its
#: application, or a profile of the whole range.
Knowledge = Literal["explored", "history", "profiled"]

#: The cluster of Pollux's evaluation.
TESTBED = Cluster.uniform(16, 4)


class Outage(NamedTuple):
    """Outage of the last `nodes` nodes, from second `start` up to `end`, exclusive."""

    start: int
    end: int
    nodes: int


@dataclass(frozen=True)
class Setting:
    """Conditions of a replay; the defaults are those published with Pollux.

    Parameters
    ----------
    cluster
        The nodes, which may have GPUs of several types, and CPU cores.
    interval
        Seconds between decisions.
    restart_delay
        Seconds without progress after a change of allocation, for applications that do not state
        their own.
    interference
        Share of the goodput of a distributed job that is lost while it shares a node with another
        one.
    outages
        Periods in which nodes are missing; of overlapping ones that with the most nodes counts.
        Jobs on missing nodes lose all their GPUs and keep their progress.
    knowledge
        Knowledge of jobs about their application when they start.
    free_moves
        Whether a job that moves to other nodes of the same type, with as many GPUs on each,
        continues without a restart (as in the simulator of Sia).
    input_seed
        Seed of the input pipelines of the jobs, where nodes have cores.

    Raises
    ------
    ValueError
        If a node has a resource other than ``"cpu"`` or fewer cores than GPUs, a number is out of
        range, `interference` is 1 or more, `knowledge` is unknown, or an outage lies between two
        decisions.

    Examples
    --------
    >>> from goodalloc.experiments import Setting
    >>> from goodalloc.models.round import Cluster
    >>> setting = Setting(Cluster.uniform(4, 8), interval=120, knowledge="history")
    >>> setting.cluster.num_gpus, setting.restart_delay
    (32, 30.0)
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
