"""Commands that run as replicas on the nodes of a Ray cluster on this machine."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.measured_profile import read_rows
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.live.on_nodes import equal_slots, run_on_nodes
from goodalloc.models.round.cluster import Cluster, NodeGroup
from tests.support.live.ray_nodes import FORKS

if TYPE_CHECKING:
    from tests.support.live.ray_nodes import Nodes

    pass

ray = pytest.importorskip("ray", reason="needs goodalloc[ray]")

pytestmark = FORKS


#: Two nodes with four GPUs each, and one with two.
UNEQUAL = Cluster((NodeGroup("big", 2, 4, "T4"), NodeGroup("small", 1, 2, "T4")))


@pytest.mark.parametrize(
    ("replicas", "per_node", "slots"),
    [
        (1, None, {"big-0": 4}),
        (4, None, {"big-0": 4}),
        (5, None, {"big-0": 4, "big-1": 4}),
        (8, None, {"big-0": 4, "big-1": 4}),
        (None, None, {"big-0": 2, "big-1": 2, "small-0": 2}),
        (2, 1, {"big-0": 1, "big-1": 1}),
        (3, 1, {"big-0": 1, "big-1": 1, "small-0": 1}),
        (None, 1, {"big-0": 1, "big-1": 1, "small-0": 1}),
    ],
)
def test_replicas_get_equally_many_slots_on_as_few_nodes_as_they_need(
    replicas: int | None, per_node: int | None, slots: dict[str, int]
) -> None:
    """The nodes with most slots first."""
    assert equal_slots(UNEQUAL, replicas, per_node) == slots
    assert equal_slots(UNEQUAL, replicas, per_node, "T4") == slots


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((9,), "too few slots for 9 replicas (big-0: 4, big-1: 4, small-0: 2); expected more"),
        ((4, 1), "too few slots for 4 replicas, 1 of each node ("),
        ((None, 5), "too few slots for any replicas, 5 of each node ("),
        ((1, None, "A100"), "Nodes with GPUs of type 'A100' have too few slots for 1 replicas (no"),
    ],
)
def test_nodes_without_room_are_refused(arguments: tuple[Any, ...], sentence: str) -> None:
    """With what there is."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        equal_slots(UNEQUAL, *arguments)


def test_the_type_is_named_where_nodes_differ() -> None:
    """Speeds of one type are measured at a time."""
    mixed = Cluster((NodeGroup("a", 1, 4, "T4"), NodeGroup("b", 1, 2, "V100")))
    with pytest.raises(ValueError, match="GPUs of the types T4, V100; expected one of them"):
        equal_slots(mixed, 2)
    assert equal_slots(mixed, 2, gpu_type="V100") == {"b-0": 2}


def test_a_command_runs_in_every_slot_to_its_end(nodes: Nodes, tmp_path: Path) -> None:
    """In the folder where it was given; a replica that fails is told with its last words."""
    body = "import os; open(os.environ['RANK'], 'w').write(os.getcwd()); print('was here')"
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {body}"]
    placement = nodes.named(middle=1, small=1)
    run_on_nodes(nodes.engine, command, placement, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    failing = [sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"]
    with pytest.raises(ValueError, match=r"of 2 ended with exit code 3 \(no such thing\)"):
        run_on_nodes(nodes.engine, failing, placement, tmp_path)
    with pytest.raises(ValueError, match=r"taken or gone \(nobody: 1\)"):
        run_on_nodes(nodes.engine, failing, {"nobody": 1}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.slow
def test_a_training_is_measured_on_two_nodes(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One replica on each, in a file that is given relative to here; a second time it is there."""
    monkeypatch.chdir(tmp_path)
    there = ["--on", f"ray:{nodes.address}", "--per-node=1", "--gpu-type", "V100"]
    what = ["--replicas", "1,2", "--batch-sizes", "32", "--accumulation", "0", "--seconds", "1"]
    for _ in range(2):
        assert main(["measure", "perceptron", *there, *what, "--out", "p.csv"]) == 0
    rows = [(int(row["nodes"]), int(row["replicas"])) for row in read_rows(Path("p.csv"))]
    assert rows == [(1, 1), (2, 2)]
    assert [path.name for path in tmp_path.glob("*") if path.is_dir()] == []
