"""Topologies as files: what is written is read, and what is wrong is refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.files.instance import write_instance
from goodalloc.data.topology.topology_file import (
    read_topology,
    topology_from_dict,
    topology_to_dict,
    write_topology,
)
from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.cli.main import main
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.rules import Rules
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.solvers.topology.exact_tree import solve_tree
from tests.support.house import ROOT
from tests.support.small_rounds import tiny_tree

if TYPE_CHECKING:
    from pathlib import Path

ROUND = Instance(Cluster.uniform(4, 2), (Job("a"), Job("b")))
GOOD = {
    "format": "goodalloc-topology",
    "version": 1,
    "levels": [{"name": "rack", "nodes": 2, "slowdown": 1.5, "uplink_jobs": 3}],
    "slowdown": 2,
    "requires": {"a": "rack"},
}


@pytest.mark.parametrize("seed", range(40))
def test_what_is_written_is_read(seed: int, tmp_path: Path) -> None:
    """Every kind of tree, and everything that jobs ask."""
    round_ = tiny_tree(seed)
    write_topology(round_, tmp_path / "tree.json")
    found = read_topology(tmp_path / "tree.json", round_.instance)
    assert found.topology == round_.topology
    assert found.discount == round_.discount
    assert (found.required == round_.required).all()
    assert (found.preferred == round_.preferred).all()


def test_equal_domains_need_no_names() -> None:
    """A number of nodes stands for domains of consecutive ones."""
    found = topology_from_dict(GOOD, ROUND)
    assert found.topology.domains == (("rack-0", "rack-0", "rack-1", "rack-1"),)
    assert found.requires == ("rack", "")
    assert topology_from_dict(topology_to_dict(found), ROUND) == found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version"),
        ({"format": "goodalloc-instance"}, "format"),
        ({"pods": []}, "pods"),
        ({"levels": {}}, "levels"),
        ({"levels": [{"nodes": 2}]}, "name"),
        ({"levels": [{"name": "rack"}]}, "expected either nodes"),
        ({"levels": [{"name": "rack", "nodes": 2, "domains": {}}]}, "expected either nodes"),
        ({"levels": [{"name": "rack", "nodes": 0}]}, "nodes"),
        ({"levels": [{"name": "rack", "nodes": 2, "slowdown": "fast"}]}, "slowdown"),
        ({"levels": [{"name": "rack", "nodes": 2, "uplink_jobs": 1.5}]}, "uplink_jobs"),
        ({"levels": [{"name": "rack", "domains": []}]}, "expected an object"),
        ({"levels": [{"name": "rack", "domains": {"r": ["x"]}}]}, "expected one of the cluster's"),
        ({"levels": [{"name": "rack", "domains": {"r": ["node-0"]}}]}, "is in no domain"),
        (
            {"levels": [{"name": "rack", "domains": {"r": ["node-0"], "s": ["node-0"]}}]},
            "is in 'r' and in 's'",
        ),
        ({"slowdown": -1}, "slowdown"),
        ({"discount": 2}, "discount"),
        ({"requires": []}, "requires"),
        ({"requires": {"c": "rack"}}, "names job 'c'"),
        ({"requires": {"a": "pod"}}, "expected one of node, rack, cluster"),
        ({"prefers": {"a": ""}}, "is empty"),
        ({"prefers": {"a": 3}}, "prefers"),
    ],
)
def test_a_wrong_document_is_refused(changes: dict[str, Any], message: str) -> None:
    """In one sentence that names the item."""
    with pytest.raises(ValueError, match=message):
        topology_from_dict({**GOOD, **changes}, ROUND)


def test_the_command_decides_a_round_and_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exactly, and by a scheduler's placement; a wrong file is one sentence."""
    round_ = generate_on_tree(1, 8, load=0.3)
    write_instance(round_.instance, tmp_path / "round.json")
    write_topology(round_, tmp_path / "tree.json")
    files = [str(tmp_path / "round.json"), str(tmp_path / "tree.json")]
    assert main(["topology", *files, "--out", str(tmp_path / "best.json")]) == 0
    assert "optimal: fitness" in capsys.readouterr().out
    assert main(["check", files[0], str(tmp_path / "best.json")]) == 0
    capsys.readouterr()
    assert main(["check", files[0], str(tmp_path / "best.json"), "--tree", files[1], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["fitness"] == pytest.approx(solve_tree(round_).fitness, rel=1e-9)
    assert main(["topology", *files, "--placement", "best_fit"]) == 0
    assert "without a bound" in capsys.readouterr().out
    assert main(["topology", files[0], files[0]]) == 2
    assert "named twice" in capsys.readouterr().err
    assert main(["topology", files[1], files[0]]) == 2


def test_the_check_knows_the_rules_of_a_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An allocation that is feasible without the tree breaks the level that its job requires."""
    instance = Instance(Cluster.uniform(nodes=4, gpus=1), (Job("a"),), Rules(max_nodes_per_job=4))
    racks = Topology.regular(4, [(Level("rack"), 2)])
    write_instance(instance, tmp_path / "round.json")
    write_topology(TopologyRound(instance, racks, requires=("rack",)), tmp_path / "tree.json")
    apart = Allocation.from_matrix([[1, 0, 1, 0]])
    write_allocation(apart, instance, tmp_path / "apart.json")
    files = [str(tmp_path / "round.json"), str(tmp_path / "apart.json")]
    assert main(["check", *files]) == 0
    assert main(["check", *files, "--tree", str(tmp_path / "tree.json")]) == 1
    assert "it requires one rack" in capsys.readouterr().out
    assert main(["check", *files, "--tree", files[0]]) == 2
    assert "expected" in capsys.readouterr().err


def test_the_example_of_the_format_is_read() -> None:
    """As it is printed."""
    text = (ROOT / "data" / "FORMAT.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(\{\n \"format\": \"goodalloc-topology\".*?)```", text, re.S)
    instance = Instance(Cluster.uniform(3, 4), (Job("job-1"), Job("job-2")))
    found = topology_from_dict(json.loads(example), instance)
    assert found.topology.level_names == ("node", "rack", "pod", "cluster")
