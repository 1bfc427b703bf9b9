"""Roads with parts left out agree, POP is no better, recordings and searches can be repeated."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goodalloc.data import draw_workload
from goodalloc.data.library import make_round, parse_recipe, recipe_text
from goodalloc.data.topology import (
    tree_round_digest,
    tree_round_from_dict,
    tree_round_to_dict,
)
from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.library import search
from goodalloc.experiments.library.first_solvers import (
    FIRST_SOLVERS,
    LARGE_SOLVERS,
    POD_SOLVERS,
    TREE_SOLVERS,
    pod_kinds,
    pod_patterns,
)
from goodalloc.experiments.library.hard_search import SPACES, hardness_of
from goodalloc.experiments.library.make_library import line_of
from goodalloc.experiments.library.recorded_rounds import record, record_on_tree
from goodalloc.experiments.library.recordings import OnTree, Recording, recordings
from goodalloc.models.round.feasibility import violations
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.solvers import Stop, solve
from goodalloc.solvers.exact import solve_highs, solve_in_parts
from goodalloc.solvers.exact.ablated_roads import ROADS
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.exact.cp_sat import solve_cp_sat
from goodalloc.solvers.exact.parts import split_instance
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.pods import solve_pods
from tests.support.random_instances import random_pod_instance
from tests.support.small_rounds import gpu_round, mode_round

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.experiments.library.first_solvers import FirstSolver
    from goodalloc.solvers.interface.result import Answer

#: Rounds without modes and with modes, small enough for every road.
RECIPES = (
    "pollux seed=3 jobs=12 nodes=4 state=disturbed",
    "pollux seed=4 jobs=10 nodes=3 state=running power=0.0",
    "pollux seed=5 jobs=8 nodes=3 power=-inf",
    "equal seed=1 jobs=9 nodes=3 gpus=4 kinds=3",
    "awkward seed=1 jobs=6 nodes=2",
    "synergy seed=2 jobs=8 servers=1 several=yes",
)


@pytest.mark.parametrize("recipe", RECIPES)
def test_all_roads_lead_to_the_same_optimum(recipe: str) -> None:
    """That of the package, each with a bound that no allocation exceeds."""
    instance = make_round(recipe, "round")
    best = solve(instance)
    for name, road in ROADS.items():
        if road.suits(instance):
            answer = road.solve(instance, Stop(seconds=20.0))
            found = solve(instance, lambda _, answer=answer: answer)
            assert found.fitness == pytest.approx(best.fitness, rel=1e-7), name
            assert answer.bound >= best.fitness * (1 - 1e-7), name


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("draw", [gpu_round, mode_round])
def test_parts_of_a_round_never_beat_the_whole(draw: object, seed: int) -> None:
    """Their joint allocation obeys all rules; one part is the whole."""
    instance = (gpu_round if draw is gpu_round else mode_round)(seed)
    if any(job.pinned for job in instance.jobs):
        with pytest.raises(ValueError, match="not preemptible"):
            solve_in_parts(instance, solve_highs)
        return
    best = solve(instance).fitness
    for parts in (1, 2):
        answer = solve_in_parts(instance, solve_highs, seed=seed, parts=parts)
        assert not violations(instance, answer.require_allocation())
        reached = solve(instance, lambda _, answer=answer: answer).fitness
        assert reached <= best * (1 + 1e-9)
        if parts == 1:
            assert reached == pytest.approx(best, rel=1e-9)


def test_parts_share_out_nodes_and_jobs_evenly() -> None:
    """Every node and every job is in one part; equal seeds give equal parts."""
    instance = make_round("pollux seed=1 jobs=30 nodes=10 state=running", "round")
    parts = list(split_instance(instance, 4, seed=1))
    assert sorted(node for part in parts for node in part.nodes.tolist()) == list(range(10))
    assert sorted(job for part in parts for job in part.jobs.tolist()) == list(range(30))
    assert max(part.nodes.size for part in parts) - min(part.nodes.size for part in parts) <= 1
    again = list(split_instance(instance, 4, seed=1))
    assert [part.instance for part in parts] == [part.instance for part in again]


@pytest.mark.parametrize("parts", [0, -1, 4])
def test_a_number_of_parts_out_of_range_is_refused(parts: int) -> None:
    """There are at most as many as nodes."""
    with pytest.raises(ValueError, match="POP: parts"):
        list(split_instance(make_round(RECIPES[1], "round"), parts, seed=0))


@pytest.mark.parametrize("solvers", [FIRST_SOLVERS, LARGE_SOLVERS, POD_SOLVERS, TREE_SOLVERS])
def test_every_first_solver_is_found_where_it_is_installed(
    solvers: Mapping[str, FirstSolver],
) -> None:
    """By its path; each table has an exact one and another."""
    assert {found.exact for found in solvers.values()} == {True, False}
    for found in solvers.values():
        assert callable(find_solver(found.path))


@pytest.mark.parametrize("road", [pod_patterns, pod_kinds, solve_pods])
@pytest.mark.parametrize("seed", range(5))
def test_parts_of_the_road_of_pods_claim_what_holds(seed: int, road: Callable[..., Answer]) -> None:
    """Against the enumeration of all allocations."""
    instance = random_pod_instance(seed)
    optimum = solve_brute_force(instance, break_ties=False).bound
    found = solve(instance, lambda one: road(one, stop=Stop(seconds=20.0)))
    assert found.allocation is not None
    assert found.fitness <= optimum * (1 + 1e-12)
    answer = road(instance, stop=Stop(seconds=20.0))
    assert answer.bound >= optimum * (1 - 1e-12)
    assert not answer.proven or found.fitness == pytest.approx(optimum, rel=1e-8)


@pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="ortools is not installed")
def test_cp_sat_finds_the_optimum_of_small_rounds() -> None:
    """In its process, from a file."""
    instance = make_round("pollux seed=3 jobs=6 nodes=2 state=disturbed", "round")
    found = solve(instance, solve_cp_sat, stop=Stop(seconds=30.0))
    assert found.fitness == pytest.approx(solve(instance).fitness, rel=1e-7)


def test_a_recorded_round_can_be_repeated(tmp_path: Path) -> None:
    """Its recipe says how; jobs hold GPUs, and the rounds are those of the replay's instants."""
    folder = tmp_path / "pollux" / "workloads"
    folder.mkdir(parents=True)
    write_workload(draw_workload(seed=2, jobs=24), folder / "workload-1.csv")
    recording = Recording("pollux", "tiresias", 24, 1, nodes=2, rounds=2, least_jobs=3)
    first, second = (record(recording, tmp_path) for _ in range(2))
    assert [line_of(a, "pollux", r).sha256 for r, a in first] == [
        line_of(a, "pollux", r).sha256 for r, a in second
    ]
    assert len(first) == 2
    for recipe, instance in first:
        name, arguments = parse_recipe(recipe)
        assert (name, arguments["policy"]) == ("recorded", "tiresias")
        assert instance.num_jobs >= 3
        assert instance.current.replicas.sum() > 0
        assert not violations(instance, instance.current)


def test_a_replay_with_too_few_jobs_is_refused(tmp_path: Path) -> None:
    """With how many rounds there are."""
    folder = tmp_path / "pollux" / "workloads"
    folder.mkdir(parents=True)
    write_workload(draw_workload(seed=2, jobs=3), folder / "workload-1.csv")
    with pytest.raises(ValueError, match="0 rounds have 12 jobs or more"):
        record(Recording("pollux", "fifo", 3, 1), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": ""},
        {"policy": ""},
        {"jobs": 0},
        {"seed": -1},
        {"nodes": 0},
        {"gpus": 0},
        {"rounds": 0},
        {"least_jobs": 0},
        {"power": float("nan")},
    ],
)
def test_a_bad_recording_is_refused(changes: dict[str, object]) -> None:
    """Each value where it enters."""
    given: dict[str, object] = {"trace": "philly", "policy": "fifo", "jobs": 9, "seed": 1}
    with pytest.raises(ValueError, match="Recording"):
        Recording(**(given | changes))  # type: ignore[arg-type]


def test_recordings_are_of_many_origins() -> None:
    """All traces that there are."""
    origins = {one.origin for one in recordings()}
    assert {"pollux", "philly", "itp", "tiresias", "elasticflow"} <= origins
    assert {"helios", "pai", "philly-plans", "openb"} <= origins


def test_the_search_finds_what_is_hardest_and_can_be_repeated() -> None:
    """Among all recipes; here the hardness is the number of jobs."""

    def jobs(recipe: str) -> float:
        arguments = parse_recipe(recipe)[1]
        return float(arguments.get("jobs", arguments.get("pods", 0)))

    found = search(seed=3, trials=80, hardness=jobs)
    assert found == search(seed=3, trials=80, hardness=jobs)
    assert found != search(seed=4, trials=80, hardness=jobs)
    assert found[0].hardness == 250
    assert [one.hardness for one in found] == sorted((one.hardness for one in found), reverse=True)


def test_a_proved_round_is_as_hard_as_its_seconds() -> None:
    """Well below the limit where it is easy."""
    assert 0 < hardness_of("pollux seed=1 jobs=4 nodes=2", seconds=10.0) < 5.0


@pytest.mark.parametrize("recipe", sorted(SPACES))
def test_every_recipe_of_the_search_makes_a_round(recipe: str) -> None:
    """With the first and with the last value of every parameter."""
    for place in (0, -1):
        values = {name: choices[place] for name, choices in SPACES[recipe].items()}
        assert make_round(recipe_text(recipe, {"seed": 1, **values}), "round").num_jobs > 0


@pytest.mark.parametrize("gangs", [False, True])
def test_a_round_on_a_tree_is_recorded_and_can_be_repeated(tmp_path: Path, gangs: bool) -> None:
    """Jobs hold GPUs where the tree allows that; gangs run on what they requested or not at all."""
    folder = tmp_path / "pollux" / "workloads"
    folder.mkdir(parents=True)
    jobs = draw_workload(seed=2, jobs=24)
    write_workload(jobs, folder / "workload-1.csv")
    tree = OnTree(requiring=0.5, uplink_jobs=2, gangs=gangs)
    recording = Recording(
        "pollux", "tiresias@best_fit", 24, 1, nodes=4, rounds=2, least_jobs=3, tree=tree
    )
    first, second = (record_on_tree(recording, tmp_path) for _ in range(2))
    assert [tree_round_digest(a) for _, a in first] == [tree_round_digest(a) for _, a in second]
    assert len(first) == 2
    requested = {job.name: job.replicas for job in jobs}
    for recipe, round_ in first:
        name, arguments = parse_recipe(recipe)
        assert (name, arguments["uplinks"], arguments["gangs"]) == ("recorded", 2, gangs)
        assert round_.topology.limited_levels
        assert not topology_violations(round_, round_.instance.current)
        assert tree_round_from_dict(tree_round_to_dict(round_)) == round_
        for job in round_.instance.jobs:
            limits = (job.min_replicas, job.max_replicas)
            assert not gangs or limits == (requested[job.name],) * 2
    assert any(any(round_.requires) for _, round_ in first)
    assert any(job.placement for _, round_ in first for job in round_.instance.jobs)


def test_rounds_on_trees_are_recorded_of_recordings_on_trees() -> None:
    """Others have no tree to record."""
    with pytest.raises(ValueError, match="it has no tree; expected one"):
        record_on_tree(Recording("pollux", "tiresias", 24, 1), Path())


@pytest.mark.parametrize(
    "given", [{"requiring": 1.5}, {"requiring": float("nan")}, {"uplink_jobs": 0}]
)
def test_a_tree_of_a_recording_that_makes_no_sense_is_refused(given: dict[str, float]) -> None:
    """With the name of the value."""
    with pytest.raises(ValueError, match=f"Recording: {next(iter(given))} is"):
        OnTree(**given)  # type: ignore[arg-type]
