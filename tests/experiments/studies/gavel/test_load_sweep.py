"""Replays of thousands of jobs, and what comes of them by the load."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.gavel.model import gavel_rates
from goodalloc.data.gavel.workload import GavelJob, GavelWorkload, draw_gavel_jobs
from goodalloc.experiments.studies.framework.records import columns_of
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.gavel import load_sweep
from goodalloc.experiments.studies.gavel.load_sweep import GAVEL_LOAD
from goodalloc.experiments.studies.gavel.load_task import Size
from goodalloc.experiments.studies.gavel.long_replay import RESET, ROUND, LongReplay
from goodalloc.experiments.studies.gavel.sustainable_load import mean_minutes, sustainable_load
from goodalloc.models.gavel.rate_table import Configuration, RateTable
from goodalloc.solvers.gavel.class_levels import ClassLevels

if TYPE_CHECKING:
    from pathlib import Path

NET, TREE = Configuration("net", 8), Configuration("tree", 8)

#: A net is twice as fast on the first type, a tree as fast on both.
RATES = RateTable(
    ("fast", "slow"),
    (NET, TREE),
    (1, 2),
    np.array([[[[2.0, 2.0], [1.0, 1.0]]] * 2, [[[1.0, 1.0], [1.0, 1.0]]] * 2]),
    np.zeros((2, 2, 2, 2)),
)


def transcribed(
    jobs: list[GavelJob], gpus: tuple[int, ...], reset: float, spare: bool
) -> dict[str, float]:
    """Completion times of all jobs, if the types are known; the mechanism on dictionaries."""
    kinds = sorted({(job.configuration, job.replicas) for job in jobs})
    rate = RATES.alone_rates([one for one, _ in kinds], [many for _, many in kinds])
    levels = ClassLevels(rate, np.array(gpus), np.array([many for _, many in kinds]))
    types, left, ends = range(len(gpus)), dict[str, float](), dict[str, float]()
    place = {job.name: kinds.index((job.configuration, job.replicas)) for job in jobs}
    share, had, lacks = (dict[tuple[str, int], float]() for _ in range(3))
    time, since, changed, coming = 0.0, -math.inf, False, list(jobs)
    while coming or left:
        while coming and coming[0].submission <= time:
            job = coming.pop(0)
            left[job.name], changed = job.steps, True
            for kind in types:
                share[job.name, kind], lacks[job.name, kind] = 0.0, 0.0
                had[job.name, kind] = ROUND / 2
        if left and changed and time - since >= reset:
            counts = np.bincount([place[name] for name in left], minlength=len(kinds))
            new = levels.solve(counts).shares
            for name in left:
                for kind in types:
                    due = share[name, kind] * (time - max(since, 0.0))
                    lacks[name, kind] += due - (had[name, kind] - ROUND / 2)
                    share[name, kind] = float(new[place[name], kind])
                    had[name, kind] = ROUND / 2
            since, changed = time, False
        runs = dict[str, int]()
        for kind in types:
            free = gpus[kind]
            for name in sorted(
                left,
                key=lambda name: (
                    -share[name, kind] / had[name, kind],
                    -lacks[name, kind],
                    -share[name, kind],
                ),
            ):
                wanted = kinds[place[name]][1]
                if name not in runs and wanted <= free and (spare or share[name, kind] >= 1e-4):
                    runs[name], free = kind, free - wanted
        for name, kind in runs.items():
            speed = float(rate[place[name], kind])
            had[name, kind] += ROUND
            if left[name] / speed <= ROUND:
                ends[name], changed = time + left.pop(name) / speed, True
            else:
                left[name] -= speed * ROUND
        time += ROUND
    return ends


@pytest.mark.parametrize(("reset", "spare"), [(RESET, True), (RESET, False), (0.0, True)])
@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_arrays_do_as_a_plain_transcription(
    reset: float, spare: bool, replicas: tuple[int, ...]
) -> None:
    """Every job ends at the same time, by any rounds."""
    draws = np.random.default_rng(3)
    jobs = [
        GavelJob(
            f"job-{place:02d}",
            600.0 * place,
            (NET, TREE)[draws.integers(2)],
            replicas[place % len(replicas)],
            float(draws.uniform(300.0, 9000.0)),
        )
        for place in range(30)
    ]
    never = GavelJob("later", 1e7, NET, 1, 1.0)
    found = LongReplay(
        [*jobs, never], RATES, (2, 3), False, 30, reset_seconds=reset, spare=spare
    ).run()
    ends = transcribed(jobs, (2, 3), reset, spare)
    assert found.unfinished == 0
    assert found.jct == pytest.approx([ends[job.name] - job.submission for job in jobs])


def test_a_job_alone_takes_its_steps_over_its_best_rate() -> None:
    """With the types known; taken for equal it has both in turn, at 1.5 steps a second."""
    jobs = [GavelJob("job", 0.0, NET, 1, 72_000.0), GavelJob("later", 1e6, NET, 1, 1.0)]
    known = LongReplay(jobs, RATES, (1, 1), False, 1).run()
    blind = LongReplay(jobs, RATES, (1, 1), True, 1).run()
    assert known.jct == pytest.approx([36_000.0])
    assert blind.jct == pytest.approx([48_000.0], rel=0.05)


def test_jobs_that_do_not_end_before_all_have_come_count_so_far() -> None:
    """They are told from the others."""
    jobs = [GavelJob(f"job-{place}", 3600.0 * place, NET, 1, 5000.0 * 9**place) for place in (0, 1)]
    found = LongReplay([*jobs, jobs[1]._replace(submission=9000.0)], RATES, (1, 1), False, 2).run()
    assert found.unfinished == 1
    assert found.jct[0] == pytest.approx(2500.0)
    assert found.jct[1] == found.seconds - 3600.0


def test_a_replay_of_none_is_refused() -> None:
    """And one that waits for more jobs than come."""
    with pytest.raises(ValueError, match="until"):
        LongReplay([GavelJob("job", 0.0, NET, 1, 1.0)], RATES, (1, 1), False, 2)


def test_one_type_sustains_as_many_jobs_as_its_gpus_can_serve() -> None:
    """However the types are taken."""
    rates = RateTable(("v100",), (NET,), (1,), np.array([[[[2.0, 2.0]]]]), np.zeros((1, 1, 1, 1)))
    workload = GavelWorkload(replicas=((1, 1.0),))
    found = sustainable_load(rates, workload, (36,))
    expected = 36 / (mean_minutes(workload) / 60.0)
    assert found == pytest.approx((expected, expected))


def test_work_of_drawn_jobs_is_what_the_sustainable_load_reckons_with() -> None:
    """The mean over many draws; knowing the types carries a higher load."""
    rates = gavel_rates(None)
    workload = GavelWorkload(jobs_per_hour=1.0, replicas=((1, 1.0),))
    jobs = draw_gavel_jobs(0, 4000, rates, workload)
    minutes = [job.steps / 60.0 / rates.rate(job.configuration, 1, "v100") for job in jobs]
    assert float(np.mean(minutes)) == pytest.approx(mean_minutes(workload), rel=0.05)
    found = sustainable_load(rates, workload, (36, 36, 36))
    assert found.blind < found.aware < 108 / (mean_minutes(workload) / 60.0)


def test_taking_types_for_equal_lengthens_the_queue_above_its_sustainable_load_more() -> None:
    """Of the same jobs, which one policy could serve for ever."""
    rates = gavel_rates(None)
    workload = GavelWorkload(jobs_per_hour=0.85, replicas=((1, 1.0),))
    most = sustainable_load(rates, workload, (6, 6, 6))
    assert most.blind < 0.85 < most.aware
    jobs = draw_gavel_jobs(0, 600, rates, workload)
    known, blind = (LongReplay(jobs, rates, (6, 6, 6), one, 300).run() for one in (False, True))
    assert float(blind.jct.mean()) > 1.3 * float(known.jct.mean())


@pytest.mark.slow
def test_rows_have_both_policies_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep by one way to shares and rounds, and the others at one load."""
    monkeypatch.setattr(load_sweep, "QUICK", Size(8, 40, 60, 80, 160, 2))
    plan = Plan(tmp_path, quick=True)
    for task in GAVEL_LOAD.tasks(plan):
        task.run(lambda _: None)
    rows = GAVEL_LOAD.rows(plan)
    assert [row.rounds for row in rows] == ["published"] * 3 + ["strict", "interior"]
    assert {"trace", "aware_jct_hours", "blind_over_aware_half_width"} <= set(columns_of(rows[0]))
    assert all(row.aware_of_sustainable_percent < row.blind_of_sustainable_percent for row in rows)
    assert all(row.blind_over_aware.mean > 1.0 for row in rows)
    assert len(GAVEL_LOAD.shown(rows)) == len(rows)
    assert GAVEL_LOAD.plot(plan, rows).axes
