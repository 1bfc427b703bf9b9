"""Jobs with parameter servers in discrete time: what they do, what they hold, where they are."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.data.workloads.loss_runs import draw_losses
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.experiments.studies.parameter_servers.simulator import PsSimulator, taken
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.service_feasibility import pod_violations
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.utilisation import busy_parts
from goodalloc.solvers.parameter_servers.aiturbo import PsAiturbo
from goodalloc.solvers.parameter_servers.optimus import PsOptimus
from goodalloc.solvers.parameter_servers.queueing import PsFirstCome, PsShortestFirst, PsTiresias
from tests.support.few import few

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.parameter_servers.workload import PsSubmission
    from goodalloc.experiments.studies.parameter_servers.simulator import PsRoundRecord
    from goodalloc.solvers.parameter_servers.policy import PsDecision, PsPolicy, PsView

SMALL = PsWorkloadOptions(jobs=12, mean_gap=300.0, hours=0.5)
SETTING = PsSetting(nodes=3)
POLICIES: Mapping[str, Callable[[], PsPolicy]] = {
    "fcfs": PsFirstCome,
    "srtf": PsShortestFirst,
    "tiresias": PsTiresias,
    "optimus": PsOptimus,
    "aiturbo": PsAiturbo,
    "aiturbo-service": lambda: PsAiturbo("service", "asked"),
    "aiturbo-log": lambda: PsAiturbo("log time"),
    "aiturbo-asked": lambda: PsAiturbo(others="asked"),
}


def replayed(
    policy: PsPolicy, seed: int = 0, setting: PsSetting = SETTING
) -> tuple[PsSimulator, list[PsRoundRecord]]:
    """A small workload under a policy."""
    simulator = PsSimulator(ps_workload(seed, SMALL), policy, setting)
    return simulator, list(simulator.run())


@cache
def replayed_once(name: str, seed: int) -> tuple[PsSimulator, list[PsRoundRecord]]:
    """The same by the name of a policy, for tests that only look at it."""
    return replayed(POLICIES[name](), seed)


class Switches:
    """Gives a lone job one cell, then another, then nothing, and so on."""

    def __init__(self, *cells: tuple[int, ...] | None) -> None:
        self.cells, self.round = cells, 0

    def decide(self, view: PsView) -> PsDecision:
        """The next."""
        cell = self.cells[self.round % len(self.cells)]
        self.round += 1
        return {} if cell is None else {view.jobs[0].name: cell}


def lone_job(hours: float = 1.0) -> PsSubmission:
    """A job of this many hours on what it asks for, submitted at once."""
    job = ps_workload(4, PsWorkloadOptions(jobs=1))[0]
    asked = PsConfiguration(1, 1, 2, 2, 1)
    step = float(seconds_per_step(job.step_time, asked, job.batch_size, 2.0))
    return dataclasses.replace(job, time=0.0, asked=asked, steps=hours * 3600.0 / step)


ASKED = (0, 0, 1, 1, 1)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", few([0, 1], 1))
def test_all_jobs_end_within_capacity_with_all_their_steps_done(name: str, seed: int) -> None:
    """Every round passes the independent checker; nobody ends before it could."""
    simulator, records = replayed_once(name, seed)
    for record in records:
        assert not pod_violations(record.tables, record.cells, record.pods, record.view.nodes)
        assert (record.utilisation >= 0).all()
        assert (record.utilisation <= 1 + 1e-9).all()
    for job in simulator.jobs:
        assert job.done == job.submission.steps
        assert job.completion is not None
        assert job.completion > job.submission.time
        assert job.pods is None


@pytest.mark.parametrize("name", few(POLICIES, 4))
def test_the_same_seed_gives_the_same_replay(name: str) -> None:
    """To the last bit."""
    runs = replayed_once(name, 0), replayed(POLICIES[name]())
    ends = [[job.completion for job in simulator.jobs] for simulator, _ in runs]
    assert ends[0] == ends[1]


def test_a_job_alone_takes_its_steps_and_nothing_else() -> None:
    """An hour on one node, where the bandwidth is twice that between nodes."""
    simulator = PsSimulator((lone_job(),), PsFirstCome(), SETTING)
    records = list(simulator.run())
    job = simulator.jobs[0]
    assert job.completion == pytest.approx(3600.0)
    assert job.attained == pytest.approx(3600.0 * (4 + 10))
    assert len(records) == 15
    assert job.starts == 1


def test_every_change_costs_a_restart_and_what_is_held_counts() -> None:
    """Also the return of what was stopped; the first start is free."""
    other = (0, 0, 2, 1, 1)
    simulator = PsSimulator((lone_job(),), Switches(ASKED, other, None, ASKED), SETTING)
    rounds = simulator.run()
    attained = []
    for _ in range(4):
        next(rounds)
        attained.append(simulator.jobs[0].attained)
    assert attained == pytest.approx([240.0 * s for s in (14, 29, 29, 43)])
    job = simulator.jobs[0]
    told = job.submission
    steps = [
        seconds / float(seconds_per_step(told.step_time, told.choices.at(c), told.batch_size, 2.0))
        for c, seconds in ((ASKED, 240.0), (other, 210.0), (ASKED, 210.0))
    ]
    assert job.done == pytest.approx(sum(steps))
    assert job.starts == 3


def test_a_job_whose_new_pods_fit_nowhere_keeps_what_it_has() -> None:
    """Without a restart; where it has nothing it waits."""
    large = (0, 2, 1, 1, 1)
    simulator = PsSimulator((lone_job(),), Switches(ASKED, large), PsSetting(nodes=1))
    rounds = simulator.run()
    next(rounds)
    next(rounds)
    (job,) = simulator.jobs
    assert (job.cell, job.starts) == (ASKED, 1)
    assert job.attained == pytest.approx(480.0 * 14)
    waits = PsSimulator((lone_job(),), Switches(large, ASKED), PsSetting(nodes=1))
    rounds = waits.run()
    assert next(rounds).tables == ()
    assert len(next(rounds).tables) == 1


def test_pods_on_several_nodes_have_less_bandwidth() -> None:
    """Three GPU workers on nodes of two GPUs: a step takes longer than on one node."""
    job = dataclasses.replace(lone_job(), asked=PsConfiguration(3, 3, 2, 2, 1))
    simulator = PsSimulator((job,), PsFirstCome(), SETTING)
    record = next(simulator.run())
    (pods,) = record.pods
    assert np.count_nonzero(pods.sum(axis=0)) == 2
    share = 1.0 - float(pods[0] @ pods[1]) / 9.0
    bandwidth = 1.0 / (share + (1.0 - share) / 2.0)
    expected = seconds_per_step(job.step_time, job.asked, job.batch_size, bandwidth)
    assert simulator.jobs[0].step_seconds == pytest.approx(float(expected))
    cell = job.choices.cell(job.asked)
    assert cell is not None
    assert taken(job, cell, pods).sum(axis=0).tolist() == [12.0, 3.0]


@pytest.mark.parametrize("name", POLICIES)
def test_jobs_that_cannot_do_without_gpus_end_too(name: str) -> None:
    """Of them the least configuration is not where they can train."""
    workload = [
        dataclasses.replace(
            job,
            step_time=dataclasses.replace(
                job.step_time, form=dataclasses.replace(job.step_time.form, cpu_slowdown=np.inf)
            ),
        )
        for job in ps_workload(1, dataclasses.replace(SMALL, jobs=5))
    ]
    simulator = PsSimulator(tuple(workload), POLICIES[name](), SETTING)
    for record in simulator.run():
        assert not pod_violations(record.tables, record.cells, record.pods, record.view.nodes)
    assert all(job.done == job.submission.steps for job in simulator.jobs)


def test_utilisation_is_what_the_pods_compute() -> None:
    """Of a job alone on its node, for a whole round."""
    job = lone_job()
    record = next(PsSimulator((job,), PsFirstCome(), SETTING).run())
    busy = busy_parts(job.step_time, job.asked, job.batch_size, 2.0)
    cores = 2 * busy.server_cores + 2 * busy.worker_cores
    assert record.utilisation.max(axis=0) == pytest.approx([cores / 16.0, busy.gpus / 2.0])
    assert np.count_nonzero(record.utilisation) == 2
    with pytest.raises(ValueError, match="does not train"):
        busy_parts(job.step_time, PsConfiguration(0, 0), job.batch_size)


def test_a_job_turns_predictable_when_its_losses_say_so_and_only_then() -> None:
    """Before, twenty epochs more are believed; and what seems to remain never falls to nothing."""
    job = lone_job()
    losses = draw_losses(np.random.default_rng(0), job.steps, "lawful", noise=0.0)
    job = dataclasses.replace(job, confidence=0.9, losses=losses)
    records = list(PsSimulator((job,), PsFirstCome(), SETTING).run())
    seen = [record.view.jobs[0] for record in records]
    known = [one.predictable for one in seen]
    assert not known[0]
    assert known == sorted(known)
    assert known[-1]
    assert seen[0].job.remaining_steps == pytest.approx(20 * losses.steps_per_epoch)
    for one in seen:
        left = job.steps - one.done
        if one.predictable and left > 0.1 * one.done:
            assert one.job.remaining_steps == pytest.approx(left, rel=0.3)
        assert one.job.remaining_steps >= 0.05 * one.done
    doubted = dataclasses.replace(job, confidence=0.4)
    records = list(PsSimulator((doubted,), PsFirstCome(), SETTING).run())
    assert not any(record.view.jobs[0].predictable for record in records)
    told = dataclasses.replace(job, losses=None)
    first = next(PsSimulator((told,), PsFirstCome(), SETTING).run()).view.jobs[0]
    assert first.predictable
    assert first.job.remaining_steps == job.steps


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        ({"nobody": ASKED}, "job 'nobody' is given something"),
        ({"job0": (0, 0, 0)}, "is given the cell"),
        ({"job0": (0, 0, 0, 0, 9)}, "is given the cell"),
        ({"job0": (-1, 0, 0, 0, 0)}, "is given the cell"),
        ({"job0": (0.5, 0, 0, 0, 0)}, "is given the cell"),
        ({"job0": None}, "is given the cell None"),
        ({"job0": PsConfiguration(1, 1, 2, 2, 1)}, "is given the cell PsConfiguration"),
        (None, "the decision at 0 s is None; expected a dictionary"),
        ([("job0", ASKED)], "expected a dictionary"),
        ({}, "no job made progress"),
        ({"job0": (7, 7, 3, 3, 1)}, "no job made progress"),
    ],
)
def test_decisions_that_make_no_sense_are_refused(decision: Any, message: str) -> None:
    """With the job, when, and what was expected; and a replay that goes nowhere ends."""

    class Stubborn:
        def decide(self, view: PsView) -> Any:
            return decision

    with pytest.raises(ValueError, match=message):
        list(PsSimulator((lone_job(),), Stubborn(), SETTING).run())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 0),
        ("nodes", 1.5),
        ("interval", 0.0),
        ("interval", float("nan")),
        ("restart_seconds", -1.0),
        ("restart_seconds", float("inf")),
        ("within_nodes", 0.5),
        ("within_nodes", float("nan")),
    ],
)
def test_settings_that_make_no_sense_are_refused(field: str, value: float) -> None:
    """By their name; as workloads are."""
    with pytest.raises(ValueError, match=f"Setting: {field} is"):
        PsSetting(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are no jobs"):
        PsSimulator((), PsFirstCome())
