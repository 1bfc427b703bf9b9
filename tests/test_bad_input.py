"""Whatever bad input is given, by file, argument or call: one sentence that names the item.

The sentence goes to standard error, the exit code is 2, nothing is printed and nothing written.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.files.instance import instance_from_dict, instance_to_dict, write_instance
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.gap.comparison import compare
from goodalloc.experiments.gap.gap import GapPlan
from goodalloc.experiments.reporting.statistics import performance_profile, shifted_geometric_mean
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop
from tests.support.documents import changed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.documents import Place

GOOD: dict[str, Any] = {
    "format": "goodalloc-instance",
    "version": 1,
    "name": "good",
    "cluster": [{"name": "node", "nodes": 3, "gpus": 4}],
    "rules": {"power": -1.0},
    "models": {
        "table": {"one_node": [1.0, 1.8], "several_nodes": [0.0, 1.5]},
        "net": {"application": "cifar10", "progress": 0.3},
        "goodput": {
            "throughput": {
                "alpha_grad": 0.1,
                "beta_grad": 0.01,
                "alpha_local": 0.1,
                "beta_local": 0.01,
                "alpha_node": 0.2,
                "beta_node": 0.02,
                "gamma": 1.5,
            },
            "gradient": {"square": 1.0, "variance": 2.0},
            "batch": {
                "initial": 8,
                "maximum": 64,
                "atomic_minimum": 2,
                "atomic_maximum": 16,
                "accumulation": True,
            },
        },
    },
    "jobs": [
        {"name": "a", "model": "table", "age": 100.0, "placement": {"node-0": 2}},
        {"name": "b", "model": None},
        {"name": "c", "model": "goodput", "max_replicas": 4},
    ],
}

#: The same with another group of nodes, and a job that has modes.
EQUIPPED: dict[str, Any] = {
    **GOOD,
    "cluster": [
        {"name": "node", "nodes": 3, "gpus": 4, "resources": {"cpu": 8}},
        {"name": "big", "nodes": 1, "gpus": 8, "gpu_type": "a100"},
    ],
    "jobs": [
        *GOOD["jobs"][:2],
        {
            "name": "d",
            "modes": {
                "fast": {"model": "table", "gpu_type": "a100"},
                "slim": {"model": "table", "resources": {"cpu": 2.0}},
            },
            "placement": {"node-1": 1},
            "mode": "slim",
        },
    ],
}

# Where in the document, what stands there, and words that the sentence must hold.
CHANGES: list[tuple[Place, Any, str]] = [
    (("format",), ..., "'format' is missing"),
    (("format",), "goodalloc-allocation", "format is 'goodalloc-allocation'"),
    (("format",), 7, "format is 7"),
    (("version",), ..., "'version' is missing"),
    (("version",), 2, "version is 2; expected 1"),
    (("version",), "1", "version is '1'; expected 1"),
    (("version",), True, "version is true"),
    (("cluster",), ..., "'cluster' is missing"),
    (("jobs",), ..., "'jobs' is missing"),
    (("comment",), "hello", "'comment' is unknown; expected one of"),
    (("job",), [], r"key 'job' is unknown \(did you mean 'jobs'\?\); expected one of"),
    (("name",), "", "name is ''"),
    (("name",), 5, "name is 5"),
    (("name",), "two\nlines", r"name is 'two\\nlines'"),
    (("name",), "\ud800", "name is"),
    (("cluster",), [], "at least one node group"),
    (("cluster",), {"nodes": 3}, "Cluster is"),
    (("cluster", 0), "node", "group 0 is 'node'"),
    (("cluster", 0, "gpus"), ..., "'gpus' is missing"),
    (("cluster", 0, "memory"), 5, "'memory' is unknown"),
    (("cluster", 0, "gpus"), 0, "Cluster: no node has a GPU"),
    (("cluster", 0, "gpus"), -1, "gpus is -1"),
    (("cluster", 0, "gpus"), 2.5, "gpus is 2.5"),
    (("cluster", 0, "gpus"), True, "gpus is true"),
    (("cluster", 0, "nodes"), -1, "nodes is -1"),
    (("cluster", 0, "nodes"), 10**15, "nodes is 1000000000000000"),
    (("cluster", 0, "nodes"), 10**400, "nodes is an integer of 1329 bits"),
    (("cluster",), [{"name": "x", "nodes": 1, "gpus": 1}] * 2, "'x' is named twice"),
    (("rules",), "osdi22", "preset is 'osdi22'"),
    (("rules",), 5, "Rules is 5"),
    (("rules", "speed"), 1, "'speed' is unknown"),
    (("rules", "power"), "large", "power is 'large'; expected a number, inf or -inf"),
    (("rules", "power"), None, "power is null"),
    (("rules", "power"), 10**320, "power is 1000.*; expected a number, inf or -inf"),
    (("rules", "power"), -(10**320), "power is -1000.*; expected a number, inf or -inf"),
    (("rules", "floor"), 0, "floor is 0"),
    (("rules", "floor"), -0.5, "floor is -0.5"),
    (("rules", "restart_delay"), "30 s", "restart_delay is '30 s'"),
    (("rules", "idle_utility"), 0, "idle_utility is 0.0; expected a finite number above 0"),
    (("rules", "idle_utility"), "none", "idle_utility is 'none'"),
    (
        ("rules", "restart_penalty"),
        "none",
        "restart_penalty is 'none'; expected one of all, running",
    ),
    (("rules", "max_nodes_per_job"), 0, "max_nodes_per_job is 0"),
    (("rules", "interference_avoidance"), "yes", "interference_avoidance is 'yes'"),
    (("rules", "fair_share"), "equal", "fair_share is 'equal'"),
    (("rules", "speedup_scale"), ["node"], r"speedup_scale is \['node'\]"),
    (("rules", "grid_points"), 1, "grid_points is 1"),
    (("models",), [], "models is"),
    (("models", "net"), "cifar10", "Model 'net' is 'cifar10'"),
    (("models", "net", "application"), "alexnet", "application is 'alexnet'"),
    (("models", "net", "application"), ["cifar10"], "application is"),
    (("models", "net", "progress"), ..., "'progress' is missing"),
    (("models", "net", "progress"), 1.5, "progress is 1.5"),
    (("models", "net", "progress"), -0.1, "progress is -0.1"),
    (("models", "net", "epoch"), 3, "'epoch' is unknown"),
    (("models", "table", "one_node"), [], "one_node is empty"),
    (("models", "table", "one_node"), [1.0, -2.0], "one_node speedup on 2 GPUs is -2.0"),
    (("models", "table", "one_node"), 3, "one_node is 3"),
    (("models", "table", "several_nodes"), ..., "'several_nodes' is missing"),
    (("models", "table", "several_nodes"), ["fast"], "several_nodes speedup on 1 GPUs is 'fast'"),
    (("models", "goodput", "throughput"), None, "Model 'goodput' is null"),
    (("models", "goodput", "throughput", "gamma"), 0.5, "gamma is 0.5"),
    (("models", "goodput", "throughput", "gamma"), ..., "'gamma' is missing"),
    (("models", "goodput", "throughput", "alpha_grad"), "1", "alpha_grad is '1'"),
    (("models", "goodput", "throughput", "alpha_grad"), 1e308, "alpha_grad is 1e\\+308; .*at most"),
    (("models", "goodput", "gradient", "square"), 1e308, "square is 1e\\+308; expected at most"),
    (("models", "goodput", "throughput", "delta"), 1.0, "'delta' is unknown"),
    (("models", "goodput", "gradient", "variance"), -1.0, "variance is -1.0"),
    (("models", "goodput", "batch", "initial"), 0, "initial is 0"),
    (("models", "goodput", "batch", "initial"), 8.5, "initial is 8.5"),
    (("models", "goodput", "batch", "initial"), 128, "initial is 128"),
    (("models", "goodput", "batch", "accumulation"), 1, "accumulation is 1"),
    (("jobs",), [], "at least one job"),
    (("jobs",), {"a": {}}, "jobs is"),
    (("jobs", 1), 5, "Job number 1 is 5"),
    (("jobs", 1), {"model": None}, "Job number 1"),
    (("jobs", 1, "name"), "a", "'a' is named twice"),
    (("jobs", 1, "name"), None, "name is null"),
    (("jobs", 1, "name"), "", "Job number 1: name is ''"),
    (("jobs", 1, "age"), True, "Job 'b': age is true"),
    (("jobs", 1, "model"), ..., "'model' is missing"),
    (("jobs", 1, "model"), "missing", "Job 'b': model is 'missing'"),
    (("jobs", 1, "model"), 3, "Job 'b': model is 3"),
    (("jobs", 1, "gpus"), 3, "Job 'b': key 'gpus' is unknown"),
    (("jobs", 1, "age"), -1, "Job 'b': age is -1"),
    (("jobs", 1, "age"), "old", "Job 'b': age is 'old'"),
    (("jobs", 1, "age"), 10**400, "Job 'b': age is 1000"),
    (("jobs", 1, "restarts"), 1.5, "Job 'b': restarts is 1.5"),
    (("jobs", 1, "min_replicas"), 99, "min_replicas is 99"),
    (("jobs", 1, "max_replicas"), 0, "max_replicas is 0"),
    (("jobs", 1, "max_replicas"), 2**70, "max_replicas is 1180591620717411303424"),
    (("jobs", 1, "preemptible"), 0, "preemptible is 0"),
    (("jobs", 1, "attained_service"), [], r"attained_service is \[\]"),
    (("jobs", 1, "application"), 7, "application"),
    (("jobs", 0, "placement"), [2, 0], "Job 'a': placement is"),
    (("jobs", 0, "placement"), {"node-3": 1}, "Job 'a': placement names node 'node-3'"),
    (("jobs", 0, "placement"), {"node-0": 0}, "Job 'a': GPUs on node 'node-0' is 0"),
    (("jobs", 0, "placement"), {"node-0": 1.0}, "Job 'a': GPUs on node 'node-0' is 1.0"),
    (
        ("jobs", 0, "placement"),
        {"node-0": 2**63},
        "'node-0' is 92233.*; expected .*at most 1000000",
    ),
    (("jobs", 0, "placement"), {"node-0": 5}, "Node 'node-0'.*hold 5 GPUs"),
]


#: What may be wrong about resources, types of GPU and modes.
EQUIPPED_CHANGES: list[tuple[Place, Any, str]] = [
    (("cluster", 0, "gpu_type"), 3, "gpu_type is 3"),
    (("cluster", 0, "resources"), [1], r"resources is \[1\]; expected an object"),
    (("cluster", 0, "resources"), {"cpu": 0}, "cpu is 0"),
    (("cluster", 0, "resources"), {"cpu": 1e13, "x": 1}, "cpu is 1e13|cpu is 1000"),
    (("cluster", 0, "resources"), {"cpu": "8"}, "cpu is '8'"),
    (("cluster", 0, "resources"), {"gpu": 8}, "resource 'gpu' is not one"),
    (("cluster", 0, "resources"), {"": 8}, "name is ''"),
    (("cluster", 0, "resources"), {"memory": 8}, "mode 'slim' takes 'cpu', which no node has"),
    (("cluster", 0, "resources"), {"cpu": 1.0}, "Node 'node-1': current placements take 2 of cpu"),
    (("jobs", 2, "modes"), [], r"Job 'd': modes is \[\]"),
    (("jobs", 2, "modes"), {}, r"Job 'd': modes is \{\}"),
    (("jobs", 2, "modes", "slim"), 1, "Job 'd': mode 'slim' is 1"),
    (("jobs", 2, "modes", "slim", "model"), ..., "mode 'slim': key 'model' is missing"),
    (("jobs", 2, "modes", "slim", "model"), "x", "mode 'slim': model is 'x'"),
    (("jobs", 2, "modes", "slim", "cpu"), 3, "mode 'slim': key 'cpu' is unknown"),
    (("jobs", 2, "modes", "slim", "gpu_type"), "t4", "mode 'slim' runs on 't4', which no node"),
    (("jobs", 2, "modes", "slim", "gpu_type"), "a100", "expects 'a100'"),
    (("jobs", 2, "modes", "slim", "gpu_type"), 4, "gpu_type is 4"),
    (("jobs", 2, "modes", "slim", "resources"), {"cpu": -1}, "cpu is -1"),
    (("jobs", 2, "modes", "slim", "resources"), 2, "resources is 2"),
    (("jobs", 2, "modes", "slim", "gpu_share"), 1.5, "gpu_share is 1.5; expected 0, or 0.001 to 1"),
    (("jobs", 2, "modes", "slim", "gpu_share"), -0.5, "gpu_share is -0.5"),
    (("jobs", 2, "modes", "slim", "gpu_share"), 1e-4, "gpu_share is 0.0001; expected 0, or"),
    (("jobs", 2, "modes", "slim", "gpu_share"), "half", "gpu_share is 'half'"),
    (("jobs", 2, "modes", "slim", "gpu_share"), True, "gpu_share is true"),
    (("jobs", 2, "modes", "fast", "gpu_share"), 0, "Mode 'fast': takes nothing at all"),
    (("jobs", 2, "mode"), ..., "Job 'd': runs in mode ''; expected one of fast, slim"),
    (("jobs", 2, "mode"), "big", "Job 'd': runs in mode 'big'"),
    (("jobs", 2, "mode"), 1, "Job 'd': mode: name is 1"),
    (("jobs", 2, "model"), "table", "Job 'd': key 'model' is unknown"),
    (("jobs", 1, "mode"), "slim", "Job 'b': mode is 'slim'; expected none"),
]


def is_one_sentence(text: str) -> bool:
    """One line that ends like a sentence."""
    return text.count("\n") == 0 and text.endswith((".", "?")) and "Traceback" not in text


def refused(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Assert that the command line refuses the arguments in one sentence with these words."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    prefix, sentence = "goodalloc: error: ", printed.err.rstrip("\n")
    assert sentence.startswith(prefix)
    assert is_one_sentence(sentence)
    assert len(sentence) < 700
    with pytest.raises(ValueError, match=words):
        raise ValueError(sentence)


@pytest.fixture
def good(tmp_path: Path) -> str:
    """Path of a good instance."""
    path = tmp_path / "good.json"
    path.write_text(json.dumps(GOOD))
    return str(path)


def test_the_good_document_is_accepted(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What all the bad ones are made of is itself in order."""
    assert main(["solve", good, "--solver", "greedy"]) == 0
    assert "status" in capsys.readouterr().out


@pytest.mark.parametrize(("place", "value", "words"), CHANGES)
def test_a_bad_value_in_a_file_is_refused(
    place: Place, value: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names the file and the item."""
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(GOOD, place, value)))
    refused(["solve", str(path), "--solver", "greedy"], f"bad.json': .*{words}", capsys)


def places(value: Any, place: Place = ()) -> list[Place]:
    """All places of a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[Place] = []
    for key, entry in inside:
        found.append((*place, key))
        if isinstance(entry, (dict, list)):
            found += places(entry, (*place, key))
    return found


@pytest.mark.parametrize(
    "value",
    ["x" * 5000, "é\n" * 2500, int("9" * 4000), ["x" * 5000]],
    ids=["word", "lines", "number", "list"],
)
def test_a_long_value_is_cut_short(value: Any) -> None:
    """Wherever it stands, a name of something included; the sentence stays one for people."""
    for place in places(EQUIPPED):
        if place == ("jobs", 0, "application") and isinstance(value, str):
            continue  # for people, as long as they like
        with pytest.raises(ValueError, match=r"[.?]$") as caught:
            instance_from_dict(changed(EQUIPPED, place, value))
        assert is_one_sentence(str(caught.value)), place
        assert len(str(caught.value)) < 600, place
    names = ("", " ", "x" * 256, "a\nb")
    for name in names:
        with pytest.raises(ValueError, match="at most 255 printable characters"):
            Job(name)
    assert Job("x" * 255).name


def test_a_long_argument_is_cut_short(good: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a command, and what it is called with."""
    long = "x" * 5000
    for arguments in (
        [long],
        ["solve", long],
        ["solve", good, "--seconds", long],
        ["solve", good, "--solver", long],
        ["solve", f"{good}/{long}.json"],
        ["solve", good, f"--{long}"],
        ["check", good, f"{long}.json"],
    ):
        assert main(arguments) == 2
        assert len(capsys.readouterr().err) < 2100


def test_a_solver_that_knows_gpus_only_refuses_modes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The instance is in order, and others decide it."""
    path = tmp_path / "equipped.json"
    path.write_text(json.dumps(EQUIPPED))
    for solver in ("highs", "pyomo"):
        assert main(["solve", str(path), "--solver", solver]) == 0
        assert "optimal" in capsys.readouterr().out
    assert main(["solve", str(path), "--solver", "knapsack"]) == 0
    capsys.readouterr()
    for solver in ("local_search", "convex"):
        words = "Job 'd' has modes, as 'fast', which this solver does not know; expected one that"
        refused(["solve", str(path), "--solver", solver], words, capsys)


@pytest.mark.parametrize(("place", "value", "words"), EQUIPPED_CHANGES)
def test_modes_that_make_no_sense_are_refused(place: Place, value: Any, words: str) -> None:
    """The sentence names the group, or the job and its mode."""
    with pytest.raises(ValueError, match=words) as caught:
        instance_from_dict(changed(EQUIPPED, place, value))
    assert is_one_sentence(str(caught.value))


@pytest.mark.parametrize(("place", "value", "words"), CHANGES)
def test_a_bad_value_in_a_dictionary_is_refused(place: Place, value: Any, words: str) -> None:
    """Without a file, the same sentence without its name."""
    with pytest.raises(ValueError, match=words):
        instance_from_dict(changed(GOOD, place, value))


TEXT = json.dumps(GOOD)

RAW: list[tuple[bytes, str]] = [
    (b"", "is empty"),
    (b"  \n ", "is empty"),
    (b"hello", "line 1, column 1 is not JSON"),
    (b"{'name': 1}", "is not JSON"),
    (TEXT[:-20].encode(), "is not JSON"),
    (TEXT.encode() + b"}", "is not JSON"),
    (TEXT.encode("utf-16"), "not UTF-8"),
    (bytes(range(256)), "not UTF-8"),
    (b"\x00" * 10, "is not JSON"),
    (b"\xef\xbb\xbf" + TEXT.encode(), "is not JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b"[]", r"the document is \[\]"),
    (b"null", "the document is null"),
    (b'"text"', "the document is 'text'"),
    (TEXT.replace('"age": 100.0', '"age": NaN').encode(), "Job 'a': age is NaN"),
    (TEXT.replace('"age": 100.0', '"age": Infinity').encode(), "Job 'a': age is Infinity"),
    (TEXT.replace('"age": 100.0', '"age": -Infinity').encode(), "Job 'a': age is -Infinity"),
    (TEXT.replace('"age": 100.0', '"age": 1e999').encode(), "Job 'a': age is inf"),
    (TEXT.replace('"age": 100.0', '"age": 1' + "0" * 5000).encode(), "digits"),
    (TEXT.replace('"power": -1.0', '"power": 1e999').encode(), "power is inf"),
    (TEXT.replace('"power": -1.0', '"power": NaN').encode(), "power is NaN"),
    (TEXT.replace('"gamma": 1.5', '"gamma": NaN').encode(), "gamma is NaN"),
    (TEXT.replace("1.0, 1.8", "1.0, NaN").encode(), "on 2 GPUs is NaN"),
    (TEXT.replace('"nodes": 3', '"nodes": Infinity').encode(), "nodes is Infinity"),
    (TEXT.replace('"age": 100.0', '"age": 1, "age": 2').encode(), "'age' of 'a' is given twice"),
    (TEXT.replace('"node-0": 2', '"node-0": 2, "node-0": 1').encode(), "'node-0' is given twice"),
    (TEXT.replace('"version": 1', '"version": 1, "version": 1').encode(), "'version'.*twice"),
]


@pytest.mark.parametrize(("content", "words"), RAW)
def test_a_bad_file_is_refused(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no JSON, or JSON only almost, is refused wherever a file is read."""
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    refused(["solve", str(path)], f"bad.json'.*{words}", capsys)


def _allocation(**changes: Any) -> dict[str, Any]:
    document = {
        "format": "goodalloc-allocation",
        "version": 1,
        "instance": "good",
        "placements": {"a": {"node-0": 2}},
    }
    return {k: v for k, v in (document | changes).items() if v is not ...}


ALLOCATIONS: list[tuple[dict[str, Any], str]] = [
    (_allocation(format="goodalloc-instance"), "format is 'goodalloc-instance'"),
    (_allocation(version=3), "version is 3"),
    (_allocation(instance="other"), "instance is 'other'; expected 'good'"),
    (_allocation(placements=...), "'placements' is missing"),
    (_allocation(placements=[1]), r"placements is \[1\]"),
    (_allocation(placements={"z": {}}), "job 'z' is unknown"),
    (_allocation(placements={"a": {"node-9": 1}}), "Job 'a': placement names node 'node-9'"),
    (_allocation(placements={"a": {"node-0": -1}}), "Job 'a': GPUs on node 'node-0' is -1"),
    (_allocation(placements={"a": {"node-0": 2**63}}), "'node-0' is 9223372036854775808; expected"),
    (_allocation(placements={"a": {"node-0": 10**30}}), "'node-0' is an integer of 100 bits"),
    (_allocation(placements={"a": {"node-0": -(2**63) - 1}}), "'node-0' is -9223372036854775809"),
    (_allocation(placements={"a": {"node-0": 10**6 + 1}}), "'node-0' is 1000001; .*most 1000000"),
    (_allocation(placements={"a": {"node-0": 2.0}}), "Job 'a': GPUs on node 'node-0' is 2.0"),
    (_allocation(placements={"a": {"node-0": True}}), "Job 'a': GPUs on node 'node-0' is true"),
    (_allocation(placements={"a": {"node-0": "2"}}), "Job 'a': GPUs on node 'node-0' is '2'"),
    (_allocation(placements={"a": 2}), "Job 'a': placement is 2"),
    (_allocation(note="x"), "'note' is unknown"),
    (_allocation(format="goodalloc-result", placements=None), "holds no allocation"),
]


@pytest.mark.parametrize(("document", "words"), ALLOCATIONS)
@pytest.mark.parametrize("command", ["check", "solve"])
def test_a_bad_allocation_file_is_refused(
    command: str,
    document: dict[str, Any],
    words: str,
    good: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both where an allocation is checked and where it is the start of a search."""
    path = tmp_path / "allocation.json"
    path.write_text(json.dumps(document))
    option = [] if command == "check" else ["--solver", "greedy", "--start"]
    refused([command, good, *option, str(path)], f"allocation.json': .*{words}", capsys)


def test_an_infeasible_start_is_refused(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says which rule it breaks."""
    path = tmp_path / "start.json"
    path.write_text(json.dumps(_allocation(placements={"a": {"node-0": 9}})))
    words = "start.json' is no feasible start: .*9 replicas"
    refused(["solve", good, "--start", str(path)], words, capsys)


ARGUMENTS: list[tuple[list[str], str]] = [
    (["simlate"], "got 'simlate' .did you mean simulate..; expected one of solve, "),
    (["frobnicate"], "got 'frobnicate'; expected one of solve, "),
    (["solve"], "required: file"),
    (["solve", "GOOD", "--fast"], "unrecognized arguments: --fast"),
    (["solve", "GOOD", "--sovler", "highs"], "arguments: --sovler highs .did you mean --solver.."),
    (["library", "list", "--feture=tree"], "arguments: --feture=tree .did you mean --feature.."),
    (["solve", "nowhere.json"], "'nowhere.json' does not exist"),
    (["solve", "no-such-name"], "'no-such-name' is neither a file nor one that ships"),
    (["solve", "GOOD/x"], "cannot be read"),
    (["solve", "FOLDER"], "is a directory"),
    (["solve", "a\0b.json"], "cannot be read|does not exist|neither"),
    (["solve", "GOOD", "--solver", "magic"], "Solver 'magic' is unknown; expected"),
    (["solve", "GOOD", "--solver", "higs"], "'higs' is unknown .did you mean highs.."),
    (["solve", "GOOD", "--solver", "no.such:thing"], "'no.such:thing' cannot be loaded"),
    (["solve", "GOOD", "--solver", "math:tau"], "is a float"),
    (["solve", "GOOD", "--solver", ""], "Solver ''"),
    (["solve", "GOOD", "--seconds", "0"], "--seconds: got '0'"),
    (["solve", "GOOD", "--seconds", "-3"], "--seconds"),
    (["solve", "GOOD", "--seconds", "nan"], "--seconds: got 'nan'"),
    (["solve", "GOOD", "--seconds", "inf"], "--seconds: got 'inf'"),
    (["solve", "GOOD", "--seconds", "soon"], "--seconds: got 'soon'"),
    (["solve", "GOOD", "--gap=-1"], "--gap: got '-1'"),
    (["solve", "GOOD", "--gap", "nan"], "--gap: got 'nan'"),
    (["solve", "GOOD", "--seed", "1.5"], "--seed: got '1.5'"),
    (["solve", "GOOD", "--seed=-1"], "--seed: got '-1'"),
    (["solve", "GOOD", "--seed", "9" * 30], "--seed: got '9999"),
    (["solve", "GOOD", "--out", "FOLDER"], "is a directory"),
    (["solve", "GOOD", "--out", "FOLDER/none/r.json"], "no directory"),
    (["solve", "GOOD", "--start", "nowhere.json"], "'nowhere.json' does not exist"),
    (["check", "GOOD"], "required: allocation"),
    (["check", "GOOD", "GOOD"], "format is 'goodalloc-instance'"),
    (["export", "GOOD"], "required: --to"),
    (["export", "GOOD", "--to", "FOLDER/model.txt"], "ends in .mps or .lp"),
    (["export", "GOOD", "--to", "FOLDER/none/model.mps"], "no directory"),
    (["export", "GOOD", "--to", "FOLDER/m.lp", "--formulation", "x"], "--formulation"),
    (["generate", "--jobs", "0"], "--jobs: got '0'"),
    (["generate", "--jobs", "many"], "--jobs: got 'many'"),
    (["generate", "--jobs", "5", "--load", "1"], "jobs is 5 and load is 1.0"),
    (["generate", "--load", "-1"], "--load"),
    (["generate", "--load", "1e9"], "load 1000000000.0"),
    (["generate", "--nodes", "0"], "--nodes: got '0'"),
    (["generate", "--nodes", "2000000"], "nodes is 2000000"),
    (["generate", "--gpus-per-node", "0"], "--gpus-per-node"),
    (["generate", "--group", "a:3"], "--group: got 'a:3'"),
    (["generate", "--group", "a:3:x"], "--group"),
    (["generate", "--group", "a:3:4:"], "--group: got 'a:3:4:'"),
    (["generate", "--group", "a:3:4:h100"], "'a' has GPUs of type 'h100'; expected one of t4"),
    (["generate", "--group", "a:1:1", "--group", "a:1:1"], "'a' is named twice"),
    (["generate", "--state", "warm"], "state is 'warm'"),
    (["generate", "--rules", "none"], "--rules: got 'none'"),
    (["generate", "--name", "", "--jobs", "1"], "name is ''"),
    (["generate", "--out", "FOLDER/none/x.json"], "no directory"),
    (["compare", "GOOD", "--solvers", "greedy,magic"], "Solver 'magic' is unknown"),
    (["compare", "GOOD", "--solvers", "greedy,greedy"], "'greedy' is named twice"),
    (["compare", "GOOD", "--solvers", "greedy,"], "--solvers: got 'greedy,'"),
    (["compare", "GOOD", "--seeds", "0,0"], "0 is given twice"),
    (
        ["compare", "GOOD", "--seeds", "5-1"],
        "got '5-1'; expected a range that goes upwards, as 1-5",
    ),
    (["compare", "GOOD", "--seeds", "-1"], "got '-1'; expected whole numbers of at least 0, as"),
    (["compare", "GOOD", "--seeds", "-3-1"], "got '-3-1'; expected whole numbers of at least 0"),
    (["compare", "GOOD", "--seeds", "3-"], "got '3-'; expected whole numbers of at least 0"),
    (["simulate", "--outages", "-5-10:3"], "got '-5-10:3'; expected FROM-TO:NODES"),
    (["simulate", "--policies", "tiresas"], "'tiresas' .did you mean tiresias..; expected one"),
    (["reproduce", "gandva"], "'gandva' .did you mean gandiva..; expected one of list"),
    (["reproduce", "gavel", "--artifact", "FOLDER"], "neither simulation_throughputs.json nor"),
    (["solve", "smal-running"], "one that ships .did you mean small-running..; expected"),
    (["compare", "GOOD", "--seeds", "x"], "--seeds"),
    (["compare", "GOOD", "--solvers", "greedy", "--out", "GOOD"], "cannot be created"),
    (["gap", "--instances", "nothing", "--out", "FOLDER/g"], "'nothing' is neither"),
    (["gap", "--solvers", "magic", "--out", "FOLDER/g"], "'magic' is unknown"),
    (["gap", "--instances", "GOOD", "--out", "GOOD"], "cannot be created"),
    (["gap", "--instances", "GOOD", "--solvers", "greedy", "--out", "TABLE"], "is not a table"),
    (["reproduce", "sia", "--artifact", "FOLDER/none", "--out", "FOLDER/r"], "is no folder"),
    (
        ["simulate", "--group", "a:2:4:v100", "--policies", "sia", "--out", "FOLDER/s"],
        "Group 'a': gpu_type is 'v100'",
    ),
    (
        [
            "simulate",
            "--group",
            "a:2:4:t4",
            "--policies",
            "autoscaling-goodput",
            "--out",
            "FOLDER/s",
        ],
        "'autoscaling-goodput' knows GPUs only and the nodes have t4",
    ),
    (
        ["measure", "perceptron", "--replicas", "4096", "--out", "FOLDER/m.csv"],
        "--replicas: got 4096; expected at most [0-9]+, 8 on each of the",
    ),
    (["simulate", "UNIX", "--out", "FOLDER/s"], "submitted at 1,700,000,000 s; expected seconds"),
    (["hindsight", "UNIX", "--out", "FOLDER/s"], "at most 31,622,400 .a year.. Subtract"),
    (
        ["simulate", "--load", "1e6"],
        "got '1e6'; expected a finite number above 0 and at most 6,250",
    ),
    (["simulate", "--age-error", "4"], "of at least 0 and at most 3"),
    (["simulate", "--restart-delay", "1e7"], "of at least 0 and at most 86,400"),
    (["hindsight", "--price-interval", "1e9"], "above 0 and at most 86,400"),
    (["solve", "FOLDER/no.parquet"], "does not exist"),
    (["check", "GOOD", "FOLDER/placements.csv"], "expected an allocation or a result in JSON"),
    (["room", "large-settled", "--gang", "3:2", "--out", "FOLDER/r"], "expected it with --front"),
    (["report", "--check", "GOOD"], "expected a Markdown document"),
    (["demo", "--seconds", "0"], "--seconds"),
    (["demo", "--out", "GOOD"], "cannot be created"),
    (["demo", "--solvers", "magic", "--out", "FOLDER/d"], "'magic' is unknown"),
]


@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS)
def test_a_bad_argument_is_refused(
    arguments: list[str], words: str, good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GOOD stands for a good file, FOLDER for a folder, TABLE for one with a foreign gap.csv, UNIX
    for a workload submitted in seconds of the epoch.
    """
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "gap.csv").write_text("precious,data\n1,2")
    (tmp_path / "unix.csv").write_text(
        "name,time,application,num_replicas,batch_size\na,1700000000,cifar10,1,128\n"
    )
    stands = {"GOOD": good, "FOLDER": str(tmp_path), "TABLE": str(tmp_path / "table")}
    stands["UNIX"] = str(tmp_path / "unix.csv")
    for word, path in stands.items():
        arguments = [argument.replace(word, path) for argument in arguments]
    refused(arguments, words, capsys)
    assert (tmp_path / "table" / "gap.csv").read_text() == "precious,data\n1,2"
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read and write everything")
def test_a_file_without_permission_is_refused(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither reading nor writing without permission ends in a traceback."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    refused(["solve", good, "--out", str(locked / "r.json")], "no permission", capsys)
    os.chmod(good, 0)
    refused(["solve", good], "permission denied", capsys)


JOB = Job("a", SpeedupTable((1.0,), (0.0,)))
ONE = Instance(Cluster.uniform(2, 2), (JOB,))

CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: NodeGroup("", 1, 1), "name is ''"),
    (lambda: NodeGroup("n", 0, 1), "nodes is 0"),
    (lambda: Cluster(()), "at least one node group"),
    (lambda: Cluster((NodeGroup("a", 1, 1), NodeGroup("a", 2, 1))), "'a' is named twice"),
    (lambda: Instance(Cluster.uniform(1, 1), (JOB,), name=" "), "name is ' '"),
    (lambda: Rules(power=math.nan), "power is nan"),
    (lambda: Rules(floor=math.inf), "floor is inf"),
    (lambda: Job("a", age=math.nan), "age is nan"),
    (lambda: Job("a", age=math.inf), "age is inf"),
    (lambda: Job("a", placement=((1, 1), (0, 1))), "node 0 after node 1"),
    (lambda: Job("a", SpeedupTable((), ())), "one_node speedups are empty"),
    (lambda: Job("a", SpeedupTable((math.nan,), ())), "on 1 GPUs is nan"),
    (lambda: Instance(Cluster.uniform(1, 1), ()), "at least one job"),
    (lambda: ONE.replace(jobs=(JOB, JOB)), "'a' is named twice"),
    (lambda: ONE.replace(jobs=(JOB.replace(placement=((5, 1),)),)), "names node 5"),
    (lambda: Allocation.from_matrix([[0.5]]), "entry is 0.5"),
    (lambda: Allocation.from_placements([((0, 0.5),)], 1), "entry is 0.5"),  # type: ignore[list-item]
    (lambda: Allocation.from_placements([((0, math.inf),)], 1), "entry is inf"),  # type: ignore[list-item]
    (lambda: Allocation.from_placements([((0, 2**63),)], 1), "entry is 9.22337e"),
    (lambda: Allocation.from_placements([((0, 2**64),)], 1), "entry is 18446744073709551616"),
    (lambda: Allocation.from_placements([((0, -(2**70)),)], 1), "entry is -118059"),
    (lambda: Allocation.from_placements([((2**70, 1),)], 1), "node 118059.* is unknown"),
    (lambda: Allocation.from_matrix([[-1]]), "entry is -1"),
    (lambda: Allocation.from_matrix([[math.nan]]), "not finite"),
    (lambda: Allocation.from_matrix(np.zeros(3)), r"shape \(3,\)"),
    (lambda: Stop(seconds=-1.0), "seconds is -1.0"),
    (lambda: Stop(gap=math.nan), "gap is nan"),
    (lambda: solve(ONE, "magic"), "'magic' is unknown"),
    (lambda: generate(-1), "seed is -1"),
    (lambda: generate(0, 5, load=1.0), "expected one of them"),
    (lambda: generate(0, load=math.nan), "load is nan"),
    (lambda: generate(0, state="warm"), "state is 'warm'"),  # type: ignore[arg-type]
    (lambda: generate(0, mix={"alexnet": 1.0}), "'alexnet'"),
    (lambda: generate(0, mix={"bert": 0.0}), "weight above 0"),
    (lambda: generate(0, mix={"bert": -1.0}), "'bert' is -1.0"),
    (lambda: compare(ONE, []), "got none"),
    (lambda: GapPlan((), ("greedy",)), "got none"),
    (lambda: GapPlan(("tiny-cold",), ("greedy",), (1, 1)), "given twice"),
    (lambda: GapPlan(("tiny-cold",), ("greedy",), seconds=math.nan), "Seconds is nan"),
    (lambda: shifted_geometric_mean([], 1.0), "got no values"),
    (lambda: shifted_geometric_mean([1.0, -1.0], 1.0), "value is -1.0"),
    (lambda: shifted_geometric_mean([math.nan], 1.0), "value is nan"),
    (lambda: shifted_geometric_mean([1.0], 0.0), "shift is 0.0"),
    (lambda: performance_profile([1.0]), "expected problems by solvers"),  # type: ignore[list-item]
    (lambda: performance_profile([[0.0]]), "cost is 0.0"),
    (lambda: write_instance(ONE, "/no/such/folder/x.json"), "cannot be written"),
    (lambda: write_instance(ONE, "/"), "is a directory"),
    (lambda: instance_from_dict(instance_to_dict(ONE) | {"jobs": 3}), "jobs is 3"),
]


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_a_bad_call_is_refused(call: Callable[[], object], words: str) -> None:
    """The library raises ValueError with one sentence."""
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert is_one_sentence(str(caught.value))
