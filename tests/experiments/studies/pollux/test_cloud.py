"""Figure 9: bounds on growth, and what nodes cost while they start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux import cloud
from goodalloc.experiments.studies.pollux.cloud import STEPWISE, BoundedGrowth, Growth, measured
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy import Decision, Round

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.solvers.policies.policy import BatchSizes


@dataclass
class Wanting:
    """Policy that always wants the same number of nodes."""

    nodes: int | None
    batch_sizes: BatchSizes = "goodput"

    def decide(self, round_: Round) -> Decision:
        """Decide nothing but the nodes."""
        del round_
        return Decision({}, self.nodes)


@pytest.mark.parametrize(
    ("wanted", "time", "granted"),
    [(9, 360, 6), (9, 300, None), (5, 360, 5), (2, 300, 2), (4, 360, 4), (None, 360, None)],
)
def test_nodes_are_added_in_steps_and_removed_at_once(
    wanted: int | None, time: int, granted: int | None
) -> None:
    """Of four nodes at most two more every 180 seconds; fewer, or as many, whenever wanted."""
    policy = BoundedGrowth(Wanting(wanted), Growth(nodes=2, delay=180))
    assert policy.decide(Round(time, Cluster.uniform(4, 4), ())).nodes == granted


def test_a_node_costs_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three minutes for each that was added; a replay grows by one node at most each time."""
    monkeypatch.setattr(cloud, "JOB", (Submission("short", 0, "cifar10", 1, 128),))
    bounded = cloud.Variant("bounded", growth=STEPWISE)
    task = bounded.task(Plan(tmp_path), "throughput")
    task.run()
    rounds = pd.read_csv(task.folder / "rounds.csv")
    grown = rounds.nodes.diff().clip(lower=0).fillna(0)
    assert grown.max() == 1
    assert (rounds.time[grown > 0] % STEPWISE.delay == 60).all()
    free, paid = (measured(task.folder, delay)["node_hours"] for delay in (0, STEPWISE.delay))
    assert paid == pytest.approx(free + grown.sum() * 180 / 3600)
    assert task.description()["growth"] == {"nodes": 1, "delay": 180}
