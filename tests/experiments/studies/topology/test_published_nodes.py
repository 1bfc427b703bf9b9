"""The study of rounds on nodes of a published cluster: its nodes, racks, rows and figure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.pods import draw_machines
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.topology import on_trees
from goodalloc.experiments.studies.topology import published_nodes as study
from goodalloc.experiments.studies.topology.drawn_rounds import cluster_in_order
from goodalloc.experiments.studies.topology.on_trees import GAP, ON_PUBLISHED_NODES, gap_percent

if TYPE_CHECKING:
    from pathlib import Path

#: GPUs of nodes, in ascending order.
NODES = st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=60).map(sorted)


@given(nodes=NODES)
def test_each_number_of_gpus_is_spread_evenly_over_the_nodes(nodes: list[int]) -> None:
    """Any first nodes have its share of it, but for half a node for each number that there is."""
    spread, sizes = study.spread_evenly(nodes), set(nodes)
    assert sorted(spread) == nodes
    for first in range(len(nodes) + 1):
        held = Counter(spread[:first])
        for gpus in sizes:
            share = first * nodes.count(gpus) / len(nodes)
            assert abs(held[gpus] - share) <= (len(sizes) + 1) / 2 + 1e-9


@given(order=st.permutations((1, 1, 2, 4, 4, 4, 8)))
def test_a_cluster_keeps_the_order_of_its_nodes(order: list[int]) -> None:
    """Equal neighbours are a group, and no others."""
    cluster = cluster_in_order(order)
    assert cluster.node_gpus.tolist() == order
    assert all(a.gpus != b.gpus for a, b in zip(cluster.groups, cluster.groups[1:], strict=False))


def test_every_node_with_gpus_is_of_one_type() -> None:
    """None is lost or counted twice."""
    machines = [machine for machine in draw_machines() if machine.gpus]
    types = {machine.model for machine in machines}
    assert {gpu_type for gpu_type, _ in study.LISTS} < types
    found = Counter(gpus for gpu_type in types for gpus in study.published_nodes(gpu_type))
    assert found == Counter(machine.gpus for machine in machines)


@pytest.mark.parametrize("gpu_type", ["", "H800"])
def test_a_type_that_the_list_has_not_is_refused(gpu_type: str) -> None:
    """Nodes without GPUs have no type to ask for."""
    with pytest.raises(
        ValueError, match=f"type is '{gpu_type}'; expected one of A10, G2, G3, P100"
    ):
        study.published_nodes(gpu_type)


def test_both_racks_hold_the_same_nodes_and_no_placement_is_above_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each way to make racks, and a panel."""
    monkeypatch.setattr(study, "QUICK_LISTS", (("V100M32", "alike"), ("V100M32", "mixed")))
    monkeypatch.setattr(study, "QUICK_LOADS", (0.25,))
    plan = Plan(tmp_path, workloads=(2,), quick=True)
    tasks = ON_PUBLISHED_NODES.tasks(plan)
    for task in tasks:
        task.run(lambda _: None)
    rows = ON_PUBLISHED_NODES.rows(plan)
    monkeypatch.setattr(on_trees, "tree_row", lambda _: pytest.fail("decided again"))
    for task in tasks:
        task.run(lambda _: None)
    assert [row.racks for row in rows] == ["alike", "mixed"]
    assert len({(row.gpu_type, row.nodes, row.gpus_per_node, row.jobs) for row in rows}) == 1
    for row in rows:
        assert row.bound * (1 - GAP) <= row.fitness <= row.certified_bound
        for name in ("best_fit", "least_free", "most_free", "balanced"):
            assert gap_percent(row, name) >= -1e-6
    shown = ON_PUBLISHED_NODES.shown(rows)
    assert [(line["gpu_type"], line["racks"], line["proved"]) for line in shown] == [
        ("V100M32", "alike", "1/1"),
        ("V100M32", "mixed", "1/1"),
    ]
    panels = ON_PUBLISHED_NODES.plot(plan, rows).axes
    assert [ax.get_title() for ax in panels] == ["V100M32, alike", "V100M32, mixed"]
