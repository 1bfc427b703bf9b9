"""Schedulers of jobs with parameter servers: who goes first, with what; all have a turn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest

from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.experiments.studies.parameter_servers.simulator import PsSimulator
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.job import Measure, PsJob, service_table
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.solvers.parameter_servers.aiturbo import PsAiturbo, as_long_again, marginal_effect
from goodalloc.solvers.parameter_servers.optimus import PsOptimus
from goodalloc.solvers.parameter_servers.policy import (
    ActivePsJob,
    PsView,
    TurnClock,
    admit,
    as_asked,
)
from goodalloc.solvers.parameter_servers.queueing import PsFirstCome, PsShortestFirst, PsTiresias

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.solvers.parameter_servers.policy import PsPolicy

DRAWN = ps_workload(0, PsWorkloadOptions(jobs=6))
ONE_NODE = np.array([[16.0, 2.0]])


def active(
    index: int,
    workers: int = 1,
    *,
    attained: float = 0.0,
    predictable: bool = False,
    oracle: float = 1.0,
    runs: bool = False,
    steps: float = 1e4,
    done: float = 0.0,
) -> ActivePsJob:
    """A drawn job as a scheduler sees it, that asks for so many workers."""
    told = DRAWN[index]
    asked = PsConfiguration(workers, workers, 2, 2, 1)
    job = PsJob(
        told.name, steps, told.batch_size, told.step_time, told.choices, asked if runs else None
    )
    cell = told.choices.cell(asked)
    assert cell is not None
    return ActivePsJob(job, cell, done, attained, predictable, oracle)


def view(*jobs: ActivePsJob, time: float = 0.0, nodes: int = 1) -> PsView:
    """A round on Optimus's nodes."""
    return PsView(time, jobs, np.tile(ONE_NODE, (nodes, 1)))


def test_first_come_first_served_lets_nobody_overtake() -> None:
    """Unless told to."""
    round_ = view(active(0), active(1, 2), active(2))
    assert list(PsFirstCome().decide(round_)) == ["job0"]
    assert list(PsFirstCome(backfill=True).decide(round_)) == ["job0", "job2"]


def test_shortest_first_goes_by_what_truly_remains() -> None:
    """Running or not, whatever is believed."""
    jobs = active(0, oracle=9.0, runs=True, steps=1.0), active(1, oracle=2.0), active(2, oracle=5.0)
    assert list(PsShortestFirst().decide(view(*jobs))) == ["job1", "job2"]


def test_tiresias_serves_jobs_with_little_service_first_then_as_they_came() -> None:
    """An hour of a GPU and four cores is the border."""
    much, little = 3600.0 * 14, 3600.0 * 14 - 1
    jobs = active(0, attained=much), active(1, attained=little), active(2, attained=0.0)
    assert list(PsTiresias().decide(view(*jobs))) == ["job1", "job2"]
    assert list(PsTiresias(threshold=1e9).decide(view(*jobs))) == ["job0", "job1"]


def test_optimus_begins_with_a_server_and_a_worker_each_and_keeps_the_pods() -> None:
    """Then gives what is left to somebody; in increasing order of size."""
    round_ = view(active(0, 4), active(1, 4), active(2, 4), nodes=3)
    found = PsOptimus().decide(round_)
    assert found.keys() == {"job0", "job1", "job2"}
    assert all(cell[2:] == (1, 1, 1) for cell in found.values())
    sizes = [float((job.demand(found[job.name]) / round_.capacity).max()) for job in round_.jobs]
    by_name = dict(zip([job.name for job in round_.jobs], sizes, strict=True))
    assert [by_name[name] for name in found] == sorted(sizes)
    assert sum(cell[0] + cell[1] for cell in found.values()) > 0
    assert PsOptimus().decide(view()) == {}
    crowded = PsOptimus().decide(view(active(0), active(1), active(2)))
    assert crowded.keys() == {"job0", "job1"}


def test_unpredictable_jobs_have_what_they_ask_for_where_that_is_wanted() -> None:
    """And others what is left, more than the least, within the cluster."""
    round_ = view(active(0, 2), active(1, 2, predictable=True), nodes=2)
    found = PsAiturbo(others="asked").decide(round_)
    assert found["job0"] == round_.jobs[0].asked
    assert found["job1"] != (0, 0, 0, 0, 0)
    total = sum(job.demand(found[job.name]) for job in round_.jobs)
    assert (total <= round_.capacity + 1e-9).all()


def test_unpredictable_jobs_exchange_units_as_if_they_needed_as_long_again() -> None:
    """Whatever is believed of them."""
    done = [10.0, 1e6]
    doubted = [active(i, 2, steps=7.0, done=steps) for i, steps in enumerate(done)]
    for job, steps in zip(doubted, done, strict=True):
        least = as_long_again(job, 1e-3)
        assert least.remaining_steps == steps
        asked = job.job.choices.at(job.asked)
        step = float(seconds_per_step(job.job.step_time, asked, job.job.batch_size))
        assert as_long_again(job, 1e9).remaining_steps == pytest.approx(1e9 / step)
    known = [active(i, 2, predictable=True, steps=steps) for i, steps in enumerate(done)]
    policy = PsAiturbo(newcomer=1e-3)
    assert policy.decide(view(*doubted, nodes=2)) == policy.decide(view(*known, nodes=2))


def test_aiturbo_takes_units_from_a_job_for_one_that_gains_more() -> None:
    """Nothing is left; the job with a thousandth of the steps gives."""
    jobs = [
        active(0, 2, predictable=True, runs=True, steps=10.0),
        active(1, 2, predictable=True, steps=1e6),
    ]
    found = PsAiturbo().decide(view(*jobs))
    before, after = jobs[0].demand(jobs[0].asked), jobs[0].demand(found["job0"])
    assert after.sum() < before.sum()


def test_aiturbos_pods_stay_as_large_as_asked_where_that_is_wanted() -> None:
    """Whatever is counted."""
    jobs = [active(i, 2, predictable=True, steps=10.0**i) for i in range(1, 6)]
    for measure in get_args(Measure):
        policy = PsAiturbo(measure, "asked")
        for cell in policy.decide(view(*jobs, nodes=2)).values():
            assert all(cell[axis] >= 1 for axis in (2, 3, 4))


def test_the_exact_round_leaves_no_more_than_the_exchange() -> None:
    """In all, of the same jobs."""
    jobs = [active(i, 2, predictable=True, steps=10.0**i) for i in range(6)]
    tables = [service_table(job.job, "time") for job in jobs]

    def total(policy: PsAiturbo) -> float:
        found = policy.decide(view(*jobs, nodes=2))
        return sum(float(t.service[found[job.name]]) for t, job in zip(tables, jobs, strict=True))

    assert total(PsAiturbo(exact=True)) <= total(PsAiturbo()) * (1 + 1e-9)


def test_the_marginal_effect_is_that_of_the_best_unit() -> None:
    """And never negative."""
    table = service_table(active(0, predictable=True).job, "time")
    steps = [table.after((0,) * 5, axis, 1) for axis in range(5)]
    best = min(float(table.service[cell]) for cell in steps if cell is not None)
    assert marginal_effect(table, (0,) * 5) == pytest.approx(
        float(table.service[0, 0, 0, 0, 0]) - best
    )
    service = service_table(active(0, predictable=True).job, "service")
    assert marginal_effect(service, (7, 7, 3, 3, 1)) == 0.0


def test_jobs_are_admitted_with_the_first_cell_that_fits() -> None:
    """The order decides who is left with less."""
    round_ = view(active(0), active(1))
    large, small = (1, 1, 1, 1, 1), (0, 0, 1, 1, 0)
    wanted = {0: [large, small], 1: [large, small]}
    assert admit(round_, [1, 0], wanted) == {"job1": large, "job0": small}
    assert admit(round_, [0], as_asked(round_)) == {"job0": round_.jobs[0].asked}


def test_the_clock_counts_waiting_only_after_a_job_ran() -> None:
    """By rounds."""
    clock = TurnClock()
    clock.advance(view(active(0), active(1)))
    clock.advance(view(active(0, runs=True), active(1), time=240.0))
    clock.advance(view(active(0), active(1), time=600.0))
    assert clock.of(view(active(0), active(1))) == ([240.0, 0], [360.0, 0])


@pytest.mark.parametrize("policy", [PsTiresias, partial(PsAiturbo, others="asked")])
def test_with_the_knob_nobody_starves(policy: Callable[..., PsPolicy]) -> None:
    """A job that ran waits a few times as long at most, however many newcomers there are."""
    options = PsWorkloadOptions(jobs=20, mean_gap=240.0, hours=0.2, most_workers=2)
    setting = PsSetting(nodes=1)
    longest = {}
    for promote in (0.0, 1.0):
        simulator = PsSimulator(ps_workload(4, options), policy(promote=promote), setting)
        waits: dict[str, int] = {}
        worst = 0
        for record in simulator.run():
            for job in record.view.jobs:
                runs = job.name in {table.name for table in record.tables}
                began = job.attained > 0 and not runs
                waits[job.name] = waits.get(job.name, 0) + 1 if began else 0
                worst = max(worst, waits[job.name])
        longest[promote] = worst
    assert longest[1.0] < 0.5 * longest[0.0]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_knobs_that_make_no_sense_are_refused(bad: float) -> None:
    """By their name."""
    with pytest.raises(ValueError, match="Tiresias: threshold is"):
        PsTiresias(threshold=bad)
    with pytest.raises(ValueError, match="Tiresias: promote is"):
        PsTiresias(promote=bad)
    with pytest.raises(ValueError, match="AITurbo: promote is"):
        PsAiturbo(promote=bad)
    with pytest.raises(ValueError, match="AITurbo: measure is"):
        PsAiturbo(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AITurbo: newcomer is"):
        PsAiturbo(newcomer=bad)
    with pytest.raises(ValueError, match="AITurbo: others is"):
        PsAiturbo(others=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AITurbo: pods is"):
        PsAiturbo(pods=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="AITurbo: exact is"):
        PsAiturbo(exact=bad)  # type: ignore[arg-type]
