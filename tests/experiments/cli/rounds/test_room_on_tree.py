"""`goodalloc room --tree --level`: plans within one domain, refusals, and what the check tells."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.instance import write_instance
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds.room_on_tree import AskedLevel
from goodalloc.models.making_room import Gang, Move, RoomPlan
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.topology import Level, Topology, TreeWishes, job_regions

if TYPE_CHECKING:
    from pathlib import Path

#: One job on each of four nodes but the first and the third, and a job on the fifth and sixth.
ROUND = Instance(
    Cluster.uniform(6, 2),
    (
        Job("a", placement=((1, 1),)),
        Job("b", placement=((3, 2),)),
        Job("wide", placement=((4, 1), (5, 1))),
    ),
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The command on a round, and a tree of three racks of two nodes."""
    write_instance(ROUND, tmp_path / "round.json")
    write_tree(tmp_path)
    tree = str(tmp_path / "tree.json")
    return ["room", str(tmp_path / "round.json"), "--tree", tree, "--gang", "2:2"]


def write_tree(folder: Path, **level: Any) -> None:
    """Write a tree with one level of racks."""
    racks = {"name": "rack", **({"nodes": 2} if "domains" not in level else {}), **level}
    document = {"format": "goodalloc-topology", "version": 1, "levels": [racks]}
    (folder / "tree.json").write_text(json.dumps(document))


def test_a_gang_gets_the_nodes_of_one_rack(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a tree it would get the two free nodes, of different racks."""
    assert main(["room", files[1], "--gang", "2:2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gang_nodes"] == ["node-0", "node-2"]
    assert main([*files, "--level", "rack", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["gang_nodes"], data["cost"]) == (["node-0", "node-1"], 1.0)
    assert (data["level"], data["domain"], data["proven"]) == ("rack", "rack-0", True)
    assert main([*files, "--level", "rack"]) == 0
    assert "the gang gets node-0, node-1, within rack-0" in capsys.readouterr().out
    assert main([*files, "--level", "rack", "--by", "stops", "--cost", "gpus", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["job"] for one in data["stops"]] == ["a"]


def test_node_and_cluster_are_levels_and_standard_is_a_tree(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One node for a gang of one; the cluster as without a tree."""
    for level, gang, domain in (
        ("node", "1:2", "node-0"),
        ("cluster", "2:2", "cluster"),
    ):
        assert main([*files[:-1], gang, "--level", level, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["domain"], data["cost"]) == (domain, 0.0)
    files[3] = "standard"
    assert main([*files, "--level", "island", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["domain"] == "island-0"


@pytest.mark.parametrize(
    ("gang", "options", "sentence"),
    [
        ("3:2", ["--level", "rack"], "none has more than 2 nodes of 2 GPUs, and the gang needs 3"),
        ("2:2", ["--level", "node"], "within one node: none has more than 1 node"),
        ("2:3", ["--level", "rack"], "0 nodes have 3 GPUs, and the gang needs 2"),
    ],
)
def test_that_there_is_no_room_is_an_answer(
    gang: str,
    options: list[str],
    sentence: str,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With exit code 1, and as data."""
    assert main([*files[:-1], gang, *options]) == 1
    assert sentence in capsys.readouterr().out
    assert main([*files[:-1], gang, *options, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["found"], data["proven"], data["domain"]) == (False, True, None)
    assert (data["cost"], data["gang_nodes"], data["moves"]) == (None, [], [])


def test_no_room_within_any_rack_is_proved(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes are free, but of different racks, and nothing fits elsewhere."""
    jobs = tuple(Job(f"job{node}", placement=((node, 2),)) for node in (1, 3, 4, 5))
    stay = tuple(Job(job.name, placement=job.placement, preemptible=False) for job in jobs)
    write_instance(Instance(ROUND.cluster, stay), tmp_path / "round.json")
    assert main([*files, "--level", "rack"]) == 1
    assert "no moves make room for the gang within one rack, which is proved" in (
        capsys.readouterr().out
    )
    assert main([*files, "--level", "rack", "--by", "stops"]) == 1
    assert "no stops make room for the gang within one rack" in capsys.readouterr().out
    assert main([*files, "--level", "rack", "--seconds", "0.000001"]) == 1
    assert "within one rack was found within the time limit" in capsys.readouterr().out


def test_uplinks_that_are_full_are_not_crossed(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By moves; stops could free the uplink, and are refused where that matters."""
    wide = Job("wide", placement=((1, 1), (3, 1)))
    write_instance(Instance(ROUND.cluster, (wide,)), tmp_path / "round.json")
    write_tree(tmp_path, uplink_jobs=1)
    for gang, code in (("2:1", 0), ("3:1", 1)):
        assert main([*files[:-1], gang, "--level", "cluster", "--json"]) == code
        data = json.loads(capsys.readouterr().out)
        assert len({*data["gang_nodes"]} & {"node-0", "node-1"}) != 1
    assert main([*files, "--level", "cluster", "--by", "stops"]) == 2
    assert "expected moves, since stops could free the uplink" in capsys.readouterr().err
    assert main([*files, "--level", "rack", "--by", "stops"]) == 0


@pytest.mark.parametrize(
    ("level", "options", "sentence"),
    [
        ({}, ["--level", "rak"], "argument --level is 'rak'; expected one of node, rack, cluster"),
        ({}, [], "argument --tree: expected --level with it"),
        ({}, ["--level", "rack", "--greedy"], "argument --greedy: expected none with --tree"),
        ({}, ["--level", "rack", "--front", "1-3"], "argument --front: expected none with --tree"),
        ({"domains": {}}, ["--level", "rack"], "node 'node-0' is in no domain"),
        (
            {"domains": {"r": [f"node-{node}" for node in range(5)]}},
            ["--level", "rack"],
            "node 'node-5' is in no domain",
        ),
        ({"domains": {"r": ["node-9"]}}, ["--level", "rack"], "has node 'node-9'; expected one of"),
        ({"nodes": 0}, ["--level", "rack"], "nodes is 0"),
    ],
)
def test_wrong_trees_and_levels_are_refused(
    level: dict[str, Any],
    options: list[str],
    sentence: str,
    tmp_path: Path,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In one sentence, exit code 2."""
    write_tree(tmp_path, **level)
    assert main([*files, *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_level_without_a_tree_or_with_a_missing_one_is_refused(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["room", files[1], "--gang", "2:2", "--level", "rack"]) == 2
    assert "argument --level: expected --tree with it" in capsys.readouterr().err
    assert main([*files, "--level", "rack", "--tree", "none.json"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_plans_that_break_a_rule_of_the_tree_are_not_printed() -> None:
    """A gang of two racks, and one more job on an uplink; the names of jobs do not matter."""
    topology = Topology.regular(6, [(Level("rack", uplink_jobs=1), 2)])
    wide = Job("gang", placement=((1, 1), (3, 1)))
    tree = TreeWishes(topology)
    round_ = tree.round_of(Instance(ROUND.cluster, (wide, Job("small", placement=((0, 1),)))))

    def check(level: str, nodes: tuple[int, ...], *victims: int) -> None:
        asked = AskedLevel(tree, round_, level, job_regions(round_, level))
        asked.check(Gang(2, 1), RoomPlan(nodes, (Move(1, 0, 5),), victims, 1.0, 1.0, 0.0))

    check("rack", (0, 1))
    check("cluster", (4, 5))
    check("cluster", (0, 2), 0)
    for level, nodes, told in (
        ("rack", (0, 4), "Job 'gang'' is in rack-0, rack-2; it requires one rack."),
        ("cluster", (0, 2), "The uplink of rack-0 is shared by gang, gang'"),
    ):
        with pytest.raises(AssertionError, match=re.escape(told)):
            check(level, nodes)
