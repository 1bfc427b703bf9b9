"""A short workload on a small cluster, and its replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from goodalloc.experiments.replay.simulator import Simulator

    pass


#: Short jobs, so that a replay takes a moment.
SHORT = tuple(
    Submission(f"{name}-{index}", 40 + 100 * index, name, replicas, batch)
    for index, (name, replicas, batch) in enumerate(
        [("ncf", 1, 32768), ("cifar10", 4, 1024), ("ncf", 1, 32768), ("cifar10", 2, 512)]
    )
)


SMALL = Setting(Cluster.uniform(2, 4))


def finish(simulator: Simulator) -> Simulator:
    """Replay to the end."""
    while not simulator.finished:
        simulator.step()
    return simulator


#: Files that equal replays write to the byte.
SAME = ("rounds.csv", "samples.csv", "jobs.csv", "replay.json")
