"""Schedules with hindsight on the nodes: the plan is the replay, to the second."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.applications.application import ProfiledApplication, profiled_applications
from goodalloc.data.applications.traces import measured_applications
from goodalloc.data.workloads.generator import draw_workload
from goodalloc.experiments.hindsight.attainable import Attainable
from goodalloc.experiments.hindsight.day import look_back
from goodalloc.experiments.hindsight.day_search import DaySearch
from goodalloc.experiments.hindsight.known_batches import BestSplits
from goodalloc.experiments.hindsight.placed_replay import (
    Planner,
    plan_and_replay,
    plan_without_nodes,
    replay_placed,
)
from goodalloc.experiments.hindsight.problem_of_replay import replayed_problem
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay_bound.replay_bound import bound_replays, prove_replays
from goodalloc.models.goodput.statistical_efficiency import adascale_gain
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.hindsight.schedule_search import rule_of_thumb

if TYPE_CHECKING:
    from pathlib import Path

APPLICATIONS = profiled_applications()
SETTING = Setting(Cluster.uniform(2, 4))
JOBS = tuple(job for job in draw_workload(3, jobs=60) if job.application in {"ncf", "cifar10"})[:8]

LONG = ("bert", "deepspeech2", "yolov3")
LONG_JOBS = tuple(job for job in draw_workload(3, jobs=60) if job.application in LONG)[:5]

#: Settings of replays that the plan has to follow.
SETTINGS = {
    "usual": SETTING,
    "long rounds": replace(SETTING, interval=300),
    "long restarts": replace(SETTING, restart_delay=400.0),
    "lost nodes": replace(SETTING, outages=(Outage(3600, 9000, 1), Outage(12000, 12600, 1))),
    "many nodes": Setting(Cluster.uniform(6, 2)),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_every_job_ends_at_the_second_that_was_planned(name: str, seed: int) -> None:
    """By worths at random, in every setting, of jobs that come in any order."""
    setting, random = SETTINGS[name], np.random.default_rng(seed)
    jobs = tuple(JOBS[index] for index in random.permutation(len(JOBS)))
    problem = replayed_problem(jobs, APPLICATIONS, setting)
    thumb = rule_of_thumb(problem, 3.0, 0.5)
    worths = [worth * np.exp(random.normal(0.0, 1.0, worth.size)) for worth in thumb]
    planned, replayed = plan_and_replay(problem, jobs, APPLICATIONS, setting, worths, hold=200.0)
    assert np.isfinite(planned).all()
    assert planned.tolist() == replayed.tolist()


@pytest.mark.parametrize(
    "setting",
    [
        Setting(Cluster.uniform(2, 2)),
        Setting(Cluster.uniform(3, 1), outages=(Outage(1200, 9000, 1), Outage(9600, 30000, 2))),
    ],
    ids=["crowded", "lost nodes"],
)
@pytest.mark.parametrize("seed", range(2))
def test_jobs_of_equal_worths_end_at_the_second_that_was_planned(
    setting: Setting, seed: int
) -> None:
    """Jobs that differ in application, epoch, worth or GPUs alone, or in the nodes that are there.

    A plan decides such rounds apart, though it does not decide the same one twice.
    """
    jobs = tuple(replace(job, time=600 * place) for place, job in enumerate(JOBS))
    problem, random = replayed_problem(jobs, APPLICATIONS, setting), np.random.default_rng(seed)
    planner, ends = Planner(problem, jobs, APPLICATIONS, setting), set()
    scheduler = planner.scheduler(60.0)
    usual = [np.full(worth.size, worth.mean()) for worth in rule_of_thumb(problem, 3.0, 0.5)]
    alike = [np.ones(worth.size) for worth in usual]
    for worths in (usual, alike, usual, alike):
        factors = random.choice([0.5, 1.0, 1.0, 2.0], len(jobs)).tolist()
        own = [worth * factor for worth, factor in zip(worths, factors, strict=True)]
        planned = scheduler.run(own)
        assert planned.tolist() == planner.replayed(own, 60.0, lambda _: None).tolist()
        ends.add(tuple(planned.tolist()))
    assert len(ends) > 1


@pytest.mark.parametrize(
    "setting",
    [
        Setting(Cluster.uniform(7, 1), outages=(Outage(1200, 9000, 2), Outage(12000, 12600, 6))),
        Setting(
            Cluster.uniform(2, 4),
            outages=(Outage(1200, 1800, 1), Outage(3000, 9000, 1), Outage(12000, 12600, 1)),
        ),
    ],
)
def test_nodes_that_go_and_come_within_an_epoch_are_planned(setting: Setting) -> None:
    """Of jobs whose epochs take many rounds, so that nothing else happens in most of them."""
    problem = replayed_problem(LONG_JOBS, APPLICATIONS, setting)
    worths = rule_of_thumb(problem, 3.0, 0.5)
    planned, replayed = plan_and_replay(
        problem, LONG_JOBS, APPLICATIONS, setting, worths, hold=200.0
    )
    assert planned.tolist() == replayed.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_whole_days_end_at_the_second_that_was_planned(seed: int) -> None:
    """Of all applications, on clusters of several sizes."""
    random = np.random.default_rng(seed)
    setting = Setting(Cluster.uniform(int(random.integers(2, 9)), int(random.integers(2, 9))))
    jobs = draw_workload(seed, jobs=20)
    problem = replayed_problem(jobs, APPLICATIONS, setting)
    thumb = rule_of_thumb(problem, 3.0, 0.5)
    worths = [worth * np.exp(random.normal(0.0, 1.0, worth.size)) for worth in thumb]
    planned, replayed = plan_and_replay(problem, jobs, APPLICATIONS, setting, worths, hold=300.0)
    assert planned.tolist() == replayed.tolist()


def test_a_measured_day_ends_at_the_second_that_was_planned(reference: Path) -> None:
    """On the artifact's measurements, whose placements differ node by node."""
    applications = measured_applications(reference / "pollux" / "traces")
    setting, jobs = Setting(Cluster.uniform(4, 4)), draw_workload(1, jobs=16)
    problem = replayed_problem(jobs, applications, setting)
    worths = rule_of_thumb(problem, 3.0, 0.5)
    planned, replayed = plan_and_replay(problem, jobs, applications, setting, worths, hold=200.0)
    assert planned.tolist() == replayed.tolist()


@pytest.mark.parametrize("spread", [(1, 3, 4), (3, 4, 1), (4, 1, 3), (2, 1, 1, 1, 1)])
def test_placements_that_are_alike_have_the_rates_of_a_replay(
    spread: tuple[int, ...], reference: Path
) -> None:
    """Measured rates of the same nodes in another order, and of uneven numbers on many nodes."""
    application = measured_applications(reference / "pollux" / "traces")["cifar10"]
    splits = BestSplits(application, Cluster.uniform(5, 4), "")
    splits.rates((1, 3, 4))  # that of the first one is kept for the others
    for epoch in (0, application.epochs - 1):
        atomic, further = splits.split(spread, epoch)
        step, wait = application.step_times(spread, atomic)
        batch = sum(spread) * atomic * (1 + further)
        gradient = application.gradient_statistics(batch, epoch)
        gain = adascale_gain(gradient, float(application.batch.initial), batch)
        assert splits.rates(spread)[epoch] == gain / (step + further * (step - wait))


def test_a_schedule_that_goes_on_from_another_is_as_if_made_anew() -> None:
    """Of worths that change a little, in jobs that come early or late, as in the search."""
    problem, random = replayed_problem(JOBS, APPLICATIONS, SETTING), np.random.default_rng(0)
    again = Planner(problem, JOBS, APPLICATIONS, SETTING).scheduler(200.0)
    worths = rule_of_thumb(problem, 3.0, 0.5)
    for _ in range(30):
        row = int(random.integers(len(JOBS)))
        worths[row] = worths[row] * np.exp(random.normal())
        fresh = Planner(problem, JOBS, APPLICATIONS, SETTING).scheduler(200.0)
        assert again.run(worths).tolist() == fresh.run(worths).tolist()


def test_a_replay_is_above_the_bound_and_near_the_ideal_schedule() -> None:
    problem = replayed_problem(JOBS, APPLICATIONS, SETTING)
    day = look_back(problem, DaySearch(steps=20))
    shares: list[float] = []
    found = replay_placed(
        problem,
        day.schedule,
        JOBS,
        APPLICATIONS,
        SETTING,
        DaySearch(steps=50),
        report=shares.append,
    )
    assert found is not None
    assert problem.total(found.completion) == pytest.approx(found.value)
    assert found.planned == pytest.approx(found.value)
    assert float(day.certificate["bound"]) <= found.value < 2.0 * day.schedule.value
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    without_nodes = plan_without_nodes(
        problem, day.schedule, APPLICATIONS, SETTING, DaySearch(steps=50)
    )
    on_replays = float(bound_replays(day, SETTING).certificate["bound"])
    assert on_replays <= without_nodes < 1.1 * found.planned


def test_with_a_limit_the_proof_is_as_fine_as_there_is_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The seconds of the first proof tell those of the others; of two, the greater is kept."""
    problem = replayed_problem(JOBS[:2], APPLICATIONS, SETTING)
    day = look_back(problem, DaySearch(steps=1))
    now, spacings = 0.0, list[float]()

    def proof(*_: object, spacing: float) -> dict[str, Any]:
        nonlocal now
        now += 80.0 / spacing
        spacings.append(spacing)
        return {"bound": 1000.0 - spacing, "spacing": spacing}

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr("goodalloc.experiments.replay_bound.replay_bound.SPACING", 1.0)
    monkeypatch.setattr(
        "goodalloc.experiments.replay_bound.replay_bound.replay_bound_document", proof
    )
    for left, made in ((1.0, [8.0]), (29.9, [8.0]), (31.0, [8.0, 4.0]), (91.0, [8.0, 1.0])):
        spacings.clear()
        found = prove_replays(problem, day.bound, 0.0, SETTING, until=now + left)
        assert spacings == made
        assert found["spacing"] == made[-1]
    now, doubtful = 0.0, iter([900.0, 800.0, 700.0, 1200.0])

    def worse(*_: object, spacing: float) -> dict[str, Any]:
        return {"bound": next(doubtful), "spacing": spacing}

    monkeypatch.setattr(
        "goodalloc.experiments.replay_bound.replay_bound.replay_bound_document", worse
    )
    found = prove_replays(problem, day.bound, 1000.0, SETTING, until=100.0)
    assert found == {"bound": 1200.0, "spacing": 1.0}  # by the prices of the bound on schedules


def test_nothing_is_replayed_on_several_types() -> None:
    problem = replayed_problem(JOBS, APPLICATIONS, SETTING)
    day = look_back(problem, DaySearch(steps=1))
    supply = replace(problem.supply, types=("a", "b"), gpus=np.repeat(problem.supply.gpus, 2, 1))
    trainings = tuple(
        replace(training, rates=np.repeat(training.rates, 2, 0)) for training in problem.trainings
    )
    typed = replace(problem, trainings=trainings, supply=supply)
    assert replay_placed(typed, day.schedule, JOBS, APPLICATIONS, SETTING) is None


@pytest.mark.parametrize("gpu_type", ["", "a100"])
@pytest.mark.parametrize("slowdown", [1.0, 1.5])
@pytest.mark.parametrize("name", ["cifar10", "yolov3"])
def test_rates_are_those_of_a_replay_in_every_epoch(
    name: str, gpu_type: str, slowdown: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the batch size of that epoch, to the last bit."""
    monkeypatch.setattr(ProfiledApplication, "slowdown", slowdown)
    cluster = Cluster((NodeGroup("all", 4, 4, gpu_type),))
    splits = BestSplits(APPLICATIONS[name], cluster, gpu_type)
    application = APPLICATIONS[name].on(gpu_type)
    for spread in ((1,), (2, 1), (4, 4)):
        for epoch, rate in enumerate(splits.rates(spread)):
            atomic, further = splits.split(spread, epoch)
            step, wait = application.step_times(spread, atomic)
            batch = sum(spread) * atomic * (1 + further)
            gradient = application.gradient_statistics(batch, epoch)
            gain = adascale_gain(gradient, float(application.batch.initial), batch)
            assert rate == gain / ((step + further * (step - wait)) * slowdown)


@pytest.mark.parametrize("name", ["cifar10", "ncf", "bert"])
def test_no_batch_size_is_faster_than_the_best_one(name: str) -> None:
    """Whatever the epoch, on one node and on several; and that rate is the attainable one."""
    application, cluster = APPLICATIONS[name], Cluster.uniform(4, 4)
    splits, attainable = BestSplits(application, cluster, ""), Attainable(APPLICATIONS, cluster)
    limits, random = application.batch, np.random.default_rng(0)
    for spread in ((1,), (4,), (2, 2), (4, 4, 4)):
        for epoch in (0, application.epochs - 1):
            best = splits.rates(spread)[epoch]
            for _ in range(50):
                most = min(int(limits.atomic_maximum), int(limits.maximum) // sum(spread))
                atomic = int(random.integers(int(limits.atomic_minimum), most + 1))
                further = 1 if spread == (1,) else 0
                batch = sum(spread) * atomic * (1 + further)
                if not limits.initial <= batch <= limits.maximum:
                    continue
                step, wait = application.step_times(spread, atomic)
                gradient = application.gradient_statistics(batch, epoch)
                gain = float(adascale_gain(gradient, float(limits.initial), batch))
                assert gain / (step + further * (step - wait)) <= best * (1 + 1e-9)
    fastest = attainable.spreads(name, 8)[0]
    rates = splits.at(8).rates[0]
    assert splits.rates(fastest) == pytest.approx(rates.tolist())


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"interval": 0}, "interval is 0"),
        ({"restart_delay": -1.0}, "restart_delay is -1"),
        ({"hold": 0.0}, "hold is 0"),
    ],
)
def test_seconds_that_make_no_sense_are_refused(changes: dict[str, Any], complaint: str) -> None:
    from goodalloc.solvers.foresight.placed_schedule import PlacedScheduler

    problem = replayed_problem(JOBS[:1], APPLICATIONS, SETTING)
    with pytest.raises(ValueError, match=complaint):
        PlacedScheduler(problem, [], {}, lambda _: SETTING.cluster, **changes)
