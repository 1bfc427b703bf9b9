"""Bounds on the averages that tables of other studies show."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data import draw_workload
from goodalloc.data.gavel import gavel_rates
from goodalloc.data.parameter_servers import PsWorkloadOptions, ps_workload
from goodalloc.experiments.replay import ReplayTask, Setting, summarise
from goodalloc.experiments.studies.classical.themis_searches import with_searches
from goodalloc.experiments.studies.comparisons.mixed_cluster import MIXED
from goodalloc.experiments.studies.gavel.replay import GavelTask
from goodalloc.experiments.studies.last_rows.bound_tasks import (
    DayTableTask,
    MiddleTask,
    PodsTableTask,
    counted_jobs,
    groups_of,
    on_any_nodes,
    table_bound,
    weights_in_groups,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsReplay
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.models.round import Cluster
from goodalloc.solvers.classical.search_auctions import search_of
from goodalloc.solvers.steady_jobs import price_search

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1e6)), min_size=1, max_size=12))
def test_the_weighted_mean_of_jobs_is_no_greater_than_the_mean_of_their_groups(
    jobs: list[tuple[int, float]],
) -> None:
    """A group completes with its last job, all groups count alike; alone, each is its own group."""
    groups, seconds = [group for group, _ in jobs], np.array([time for _, time in jobs])
    weights = np.array(weights_in_groups(groups))
    last = [seconds[np.array(groups) == group].max() for group in set(groups)]
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ seconds <= np.mean(last) * (1 + 1e-12)
    assert weights_in_groups(range(len(jobs))) == pytest.approx([1 / len(jobs)] * len(jobs))


@given(st.floats(1.0, 1e7), st.floats(1.0, 1e7))
def test_a_recorded_bound_is_rounded_down(bound: float, alone: float) -> None:
    """By less than its last digit; it is that of the jobs alone where that is greater."""
    found = table_bound(3, bound, alone)
    most = max(bound, alone) / 3600.0
    assert most * (1 - 1e-5) <= found.bound_hours <= most
    assert found.alone_hours <= found.bound_hours


def test_no_placement_of_a_job_of_gavel_is_faster_than_its_rate() -> None:
    """Consolidated or not; nothing runs that did not."""
    rates = gavel_rates(None)
    fastest = on_any_nodes(rates)
    for configuration in rates.configurations:
        for replicas in rates.replicas:
            for kind in rates.types:
                both = [rates.rate(configuration, replicas, kind, one) for one in (True, False)]
                assert fastest.rate(configuration, replicas, kind) == max(both)
    assert (fastest.alone > rates.alone[..., :1]).any()  # or it would make no difference


def test_jobs_in_the_middle_of_gavel_count() -> None:
    """Half of the jobs, from the first round after they came."""
    problem = MiddleTask(None, 3600.0, _gavel("max-min", None)).problem()  # type: ignore[arg-type]
    assert problem.weight == pytest.approx([1 / 8] * 8)
    assert problem.supply.tolist() == [4.0] * 3
    assert problem.begin == pytest.approx(360.0 * np.ceil(problem.release / 360.0))


def _gavel(contender: str, folder: Path | None) -> GavelTask:
    return GavelTask(folder, 3.0, 16, 0, None, 1, contender, blind=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("counted", ["all", "short", "long"])
def test_short_and_long_jobs_of_a_condition_are_told_apart_by_what_they_ask_for(
    counted: str,
) -> None:
    """The short ones need at most the median time with it; all are there where none is long."""
    jobs = ps_workload(11, replace(PsWorkloadOptions(), jobs=6))
    own = counted_jobs(jobs, counted)  # type: ignore[arg-type]
    assert len(own) == (6 if counted == "all" else 3)
    assert [job.name for job in own] == [job.name for job in jobs if job in own]
    alike = [replace(jobs[0], name=f"job-{number}") for number in range(3)]
    assert counted_jobs(alike, counted) == alike  # type: ignore[arg-type]


def test_cores_that_lack_are_left_out() -> None:
    """The problem of a cluster with cores is that of the one without."""
    few = tuple(replace(group, nodes=1, gpus=2) for group in MIXED.groups)
    bare = tuple(replace(group, resources=()) for group in few)
    jobs = draw_workload(1, jobs=3)
    problems = [
        DayTableTask(None, 300.0, _day(jobs, Setting(Cluster(groups))), (0, 1, 1)).problem()  # type: ignore[arg-type]
        for groups in (few, bare)
    ]
    assert [job.weight for job in problems[0].jobs] == [0.5, 0.25, 0.25]
    assert problems[0].jobs == problems[1].jobs
    assert problems[0].supply.gpus.tolist() == [[2.0, 2.0]]
    for one, other in zip(problems[0].trainings, problems[1].trainings, strict=True):
        assert (one.rates == other.rates).all()


def _day(jobs: object, setting: Setting, policy: str = "srtf", folder: object = None) -> ReplayTask:
    return ReplayTask(folder, policy, jobs, setting, gaps=False)  # type: ignore[arg-type]


@pytest.mark.slow
def test_no_policy_of_gavel_is_below_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one node of each type."""
    monkeypatch.setattr(price_search, "MOST_STEPS", 10)
    bound = MiddleTask(tmp_path / "bound", 3600.0, _gavel("max-min", tmp_path))
    bound.run()
    for contender in ("max-min", "completion", "queue"):
        replay = _gavel(contender, tmp_path / contender)
        replay.run()
        assert replay.hours().average_jct_hours >= bound.found().bound_hours


@pytest.mark.slow
@pytest.mark.parametrize("counted", ["all", "short", "long"])
@pytest.mark.parametrize("within", [1.0, 20.0])
def test_no_policy_of_a_condition_is_below_the_bounds(
    counted: str, within: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two nodes, one without GPUs, with fast and slow transfers between them."""
    monkeypatch.setattr(price_search, "MOST_STEPS", 10)
    setting = PsSetting(2, within_nodes=within, node_gpus=(4, 0))
    drawn = replace(PsWorkloadOptions(), jobs=6)
    for policy in ("optimus", "srtf"):
        replay = PsReplay(tmp_path / policy, policy, 50, 11, 6, setting, drawn)
        replay.run()
        bound = PodsTableTask(tmp_path / "bound", 1200.0, replay, counted)  # type: ignore[arg-type]
        bound.run()
        outcome = replay.record()._asdict()
        average = outcome[f"{counted}_jct_hours".replace("all", "average")]
        assert bound.found().bound_hours <= average


@pytest.mark.slow
def test_no_policy_is_below_the_bound_of_a_day_of_searches(tmp_path: Path) -> None:
    """Whose average is over the last trials of the searches."""
    jobs = with_searches(draw_workload(1, jobs=10), 1)
    setting = Setting(Cluster.uniform(4, 4))
    groups = groups_of(jobs, search_of)
    bound = DayTableTask(tmp_path / "bound", 600.0, _day(jobs, setting), groups)
    bound.run()
    assert len(set(groups)) < len(jobs)
    for policy in ("srtf", "tiresias", "optimus"):
        replay = _day(jobs, setting, policy, tmp_path / policy)
        replay.run()
        lines = (tmp_path / policy / "jobs.csv").read_text(encoding="utf-8").splitlines()
        columns = lines[0].split(",")
        took: dict[str, float] = {}
        for line in lines[1:]:
            cells = dict(zip(columns, line.split(","), strict=True))
            seconds = float(cells["completion"]) - float(cells["submission"])
            search = search_of(cells["job"])
            took[search] = max(took.get(search, 0.0), seconds)
        assert np.mean(list(took.values())) >= 3600.0 * bound.found().bound_hours


@pytest.mark.slow
def test_no_policy_is_below_the_bound_of_a_day_with_few_cores(tmp_path: Path) -> None:
    """On two types of GPU."""
    jobs = draw_workload(2, jobs=12)
    bound = DayTableTask(
        tmp_path / "bound", 600.0, _day(jobs, Setting(MIXED)), tuple(range(len(jobs)))
    )
    bound.run()
    for policy in ("pollux-proportional", "synergy-tune"):
        replay = _day(jobs, Setting(MIXED), policy, tmp_path / policy)
        replay.run()
        found = summarise(policy, tmp_path / policy)
        assert found["average_jct_hours"] >= bound.found().bound_hours
