"""Pages of rounds: whose bound they show, modes, and trees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("bokeh", reason="needs goodalloc[view]")

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.files.instance import write_instance
from goodalloc.data.rounds.generator import generate
from goodalloc.data.topology.topology_file import write_topology
from goodalloc.data.topology.tree_rounds import generate_on_tree
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.pages.gpus_of_nodes import Bound, round_page
from goodalloc.experiments.pages.tree_of_nodes import borders, counted_domains, order_of_nodes
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound, topology_fitness
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.result_file import write_result
from goodalloc.solvers.topology.exact_tree import solve_tree

if TYPE_CHECKING:
    from pathlib import Path

ROUND = generate(seed=1, jobs=8, nodes=4, gpus_per_node=4)


def test_a_page_shows_whose_bound_its_gap_is_to(tmp_path: Path) -> None:
    """One pool of GPUs where nothing else is known; a result's solver; a certificate."""
    write_instance(ROUND, tmp_path / "round.json")
    names = ("round", "best", "certificate", "page")
    round_, best, certificate, page = (str(tmp_path / f"{name}.json") for name in names)
    assert main(["solve", round_, "--out", best, "--certificate", certificate]) == 0
    view = ["view", round_, "--out", page]
    assert main(view) == 0
    assert "by one pool of all GPUs" in (tmp_path / "page.json").read_text("utf-8")
    assert main([*view, "--allocation", best]) == 0
    told = (tmp_path / "page.json").read_text("utf-8")
    assert "by highs, as " in told
    assert "at most 0.0001 %" in told
    assert main([*view, "--allocation", best, "--certificate", certificate]) == 0
    assert "by a certificate that was checked" in (tmp_path / "page.json").read_text("utf-8")


def test_certificates_that_prove_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the checker's words, and without a page."""
    write_instance(ROUND, tmp_path / "round.json")
    other = generate(seed=2, jobs=8, nodes=4, gpus_per_node=4)
    write_instance(other, tmp_path / "other.json")
    names = ("round", "other", "best", "certificate", "page")
    round_, strange, best, certificate, page = (str(tmp_path / f"{name}.json") for name in names)
    assert main(["solve", strange, "--out", best, "--certificate", certificate]) == 0
    write_result(solve(ROUND, "greedy"), ROUND, best)
    view = ["view", round_, "--out", page]
    assert main([*view, "--allocation", best, "--certificate", certificate]) == 2
    assert "is refused: its digest is not" in capsys.readouterr().err
    assert main([*view, "--certificate", certificate]) == 2
    assert "argument --certificate: expected --allocation with it" in capsys.readouterr().err
    assert not (tmp_path / "page.json").exists()


def test_a_bound_below_the_fitness_is_no_bound() -> None:
    """One sentence names both."""
    best = solve(ROUND)
    assert best.allocation is not None
    assert "at most 50 % by me" in round_page(ROUND, best.allocation, Bound(2 * best.fitness, "me"))
    with pytest.raises(ValueError, match="the bound by me; expected one of this round"):
        round_page(ROUND, best.allocation, Bound(0.9 * best.fitness, "me"))


def test_the_mode_of_every_job_that_runs_is_shown() -> None:
    """A column that rounds without modes do not have."""
    table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    modes = (Mode("slow plan", table), Mode("fast plan", table))
    jobs = tuple(Job(name, modes=modes, age=3600.0) for name in "ab")
    instance = Instance(Cluster.uniform(1, 2), jobs)
    found = solve(instance).allocation
    assert found is not None
    text = round_page(instance, found)
    assert '"field":"mode"' in text
    assert "slow plan" in text or "fast plan" in text
    assert '"field":"mode"' not in round_page(ROUND, ROUND.current)


def test_a_round_on_a_tree_is_valued_by_its_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its fitness, its domains, and the level that holds each job."""
    round_ = generate_on_tree(0, nodes=16, load=0.5)
    result = solve_tree(round_)
    assert result.allocation is not None
    text = round_page(round_, result.allocation)
    assert f"{topology_fitness(round_, result.allocation):,.6g}" in text
    assert json.dumps("8 × island, 4 × rack, 2 × pod")[1:-1] in text
    assert '"held_within"' in text
    write_instance(round_.instance, tmp_path / "round.json")
    write_topology(round_, tmp_path / "tree.json")
    write_allocation(result.allocation, round_.instance, tmp_path / "best.json")
    view = ["view", str(tmp_path / "round.json"), "--out", str(tmp_path / "page.html")]
    tree = ["--tree", str(tmp_path / "tree.json"), "--allocation", str(tmp_path / "best.json")]
    assert main([*view, *tree]) == 0
    assert json.dumps("8 × island")[1:-1] in (tmp_path / "page.html").read_text("utf-8")
    assert main([*view, "--tree", "standard"]) == 0
    assert main(["view", str(tmp_path), *tree, "--out", str(tmp_path / "other.html")]) == 2
    assert "expected an instance with it, not a folder" in capsys.readouterr().err


def test_allocations_that_break_a_rule_of_the_tree_are_not_shown() -> None:
    """Here a job in two racks that requires one."""
    table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    job = Job("a", table, placement=((0, 1), (1, 1)))
    instance = Instance(Cluster.uniform(2, 1), (job,))
    topology = Topology((Level("rack"),), (("x", "y"),), slowdown=2.0)
    with pytest.raises(ValueError, match="rack"):
        round_page(TopologyRound(instance, topology, requires=("rack",)), instance.current)


@given(st.data(), st.integers(1, 12))
def test_nodes_of_a_domain_stand_beside_each_other(data: st.DataObject, nodes: int) -> None:
    """And each line is between the highest domains that differ."""
    pods = data.draw(st.lists(st.sampled_from("PQ"), min_size=nodes, max_size=nodes))
    racks = [
        pod + data.draw(st.sampled_from("abc")) for pod in pods
    ]  # racks of different pods differ
    topology = Topology((Level("rack"), Level("pod")), (tuple(racks), tuple(pods)))
    round_ = TopologyRound(Instance(Cluster.uniform(nodes, 1), (Job("a"),)), topology)
    order = order_of_nodes(round_)
    assert sorted(order.tolist()) == list(range(nodes))
    level = borders(round_, order)
    for place, domains in ((1, racks), (2, pods)):
        changes = int(np.count_nonzero(level >= place))
        assert changes == len(set(domains)) - 1
    assert counted_domains(round_) == f"{len(set(racks))} × rack, {len(set(pods))} × pod"
