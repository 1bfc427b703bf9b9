"""A queue before unrelated machines: laws that hold under every rule, and its experiment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.classical.machine_jobs import (
    MACHINES,
    MEDIAN,
    MOST_SPEEDUP,
    SPREAD,
    Arrivals,
    draw_arrivals,
    most_jobs_a_second,
)
from goodalloc.experiments.studies.classical.allox import (
    LINES,
    RULES,
    SHORT,
    QueueRows,
    below_percent,
    clock_row,
    plot_queues,
    queue_row,
    summarise_queues,
)
from goodalloc.experiments.studies.classical.machine_queue import Queue, replay
from goodalloc.experiments.studies.framework.recorded_task import RECORD
from goodalloc.models.classical.unrelated_machines import UnrelatedMachines
from goodalloc.solvers.classical.matching import least_total_completion

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.classical.allox import (
        QueueRow,
    )
    from goodalloc.experiments.studies.classical.machine_queue import Starts

KINDS = np.repeat([0, 1], MACHINES)


@pytest.mark.parametrize("rule", RULES)
def test_every_job_runs_once_and_to_its_end_on_a_machine_that_nobody_has(rule: str) -> None:
    """At least its least seconds each; the machines do no more than they can; equal on repeat."""
    arrivals = draw_arrivals(3, 60, 2.0)
    seconds = replay(arrivals, KINDS, RULES[rule])
    assert (seconds >= arrivals.times.min(axis=1) * (1 - 1e-12)).all()
    work = arrivals.times.min(axis=1).sum()
    assert work <= KINDS.size * (arrivals.time + seconds).max()
    assert np.array_equal(replay(arrivals, KINDS, RULES[rule]), seconds)


@pytest.mark.parametrize("jobs", [20, 60])
@pytest.mark.parametrize("rule", RULES)
def test_no_rule_beats_the_matching_where_all_jobs_are_there(rule: str, jobs: int) -> None:
    """Its bound holds for all of them, and AlloX is at it, event by event."""
    arrivals = draw_arrivals(1, jobs, np.inf)
    found = least_total_completion(UnrelatedMachines.idle(arrivals.times, MACHINES))
    total = replay(arrivals, KINDS, RULES[rule]).sum()
    assert total >= found.bound * (1 - 1e-9)
    if rule == "allox":
        assert total == pytest.approx(found.total, rel=1e-9)


def queue_of(*jobs: tuple[float, float, int], held: tuple[int, int] = (0, 0)) -> Queue:
    """Jobs of seconds on a processor and on the GPU, and of a user; one of each machine is free."""
    times = np.array([job[:2] for job in jobs])
    problem = UnrelatedMachines.idle(times, (1, 1))
    return Queue(problem, np.array([job[2] for job in jobs]), np.diag(held))


@pytest.mark.parametrize(
    ("rule", "started"),
    [
        ("allox", ((1, 1),)),  # the second on the GPU, then the first there: 2 + 5 + 21 in all
        ("shortest", ((1, 1), (2, 0))),
        ("shortest_best", ((1, 1),)),
        ("fifo", ((0, 1), (1, 0))),
        ("fair", ((2, 1), (0, 0))),
        ("fair_best", ((2, 1),)),
    ],
)
def test_the_rules_start_whom_they_should(rule: str, started: Starts) -> None:
    """Three jobs, all faster on the GPU; the first user holds a machine, the second none."""
    queue = queue_of((30.0, 3.0, 0), (20.0, 2.0, 0), (16.0, 16.0 - 1e-9, 1), held=(1, 0))
    if rule == "allox":
        queue = queue_of((30.0, 3.0, 0), (20.0, 2.0, 0), (40.0, 16.0, 1))
    assert RULES[rule](queue) == started


def test_a_rule_that_starts_on_a_busy_machine_is_refused_and_one_that_never_starts() -> None:
    """With the job and the machine."""
    arrivals = Arrivals(np.zeros(2), np.ones((2, 1)), np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="Job 1 is to start on machine 0, which is not free"):
        replay(arrivals, np.array([0]), lambda _: ((0, 0), (1, 0)))
    with pytest.raises(ValueError, match="2 jobs wait for ever; expected none"):
        replay(arrivals, np.array([0]), lambda _: ())


def test_at_load_one_the_machines_have_just_enough_to_do() -> None:
    """By a large sample, divided at the speedup where both kinds are equally busy."""
    drawn = draw_arrivals(0, 200_000, 1.0)
    speedup = drawn.times[:, 0] / drawn.times[:, 1]
    order = np.argsort(speedup)
    processors, gpus = drawn.times[order, 0].cumsum(), drawn.times[order[::-1], 1].cumsum()[::-1]
    busy = np.maximum(processors / MACHINES[0], gpus / MACHINES[1]).min()
    assert busy == pytest.approx(drawn.time[-1], rel=0.05)
    mean = MEDIAN * np.exp(SPREAD**2 / 2)
    assert MACHINES[1] / mean < most_jobs_a_second() < sum(MACHINES) / mean
    assert 1.0 <= speedup.min() <= speedup.max() <= MOST_SPEEDUP
    for jobs, load in ((0, 1.0), (1, 0.0), (1, float("nan"))):
        with pytest.raises(ValueError, match=r"Arrivals: (jobs|load) is"):
            draw_arrivals(0, jobs, load)


@pytest.fixture(scope="module")
def rows() -> list[QueueRow]:
    """Two workloads a load, a batch, and the clock."""
    found = [queue_row(40, load, seed) for load in (0.5, 2.0, np.inf) for seed in range(2)]
    return [*found, *(clock_row(50, seed) for seed in range(2))]


def test_the_clock_shows_two_exact_roads_of_the_same_value(rows: list[QueueRow]) -> None:
    """And no gap."""
    for row in rows[-2:]:
        assert row.program == pytest.approx(row.allox, rel=1e-9)
        assert row.gap is not None
        assert row.gap <= 1e-12


def test_the_table_has_a_row_for_every_load_and_batch(rows: list[QueueRow]) -> None:
    """With ratios to AlloX."""
    table = summarise_queues(rows)
    assert [(row["case"], row["load"]) for row in table] == [
        ("queue", 0.5),
        ("queue", 2.0),
        ("batch", ""),
    ]
    for row in table:
        key = (row["case"], row["load"])
        group = [r for r in rows if (r.case, r.load or "") == key]
        most = max(below_percent(r, "fair") for r in group)
        assert row["most_%"] == pytest.approx(most, rel=1e-2)
    ratios = [f"{SHORT.get(name, name)}_x" for name in RULES if name != "allox"]
    assert all(table[-1][ratio] >= 1 - 1e-9 for ratio in ratios)


def test_the_picture_has_all_lines(rows: list[QueueRow], tmp_path: Path) -> None:
    """Three panels, written as a file."""
    figure = plot_queues(rows)
    assert len(figure.axes) == 3
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == len(LINES)
    figure.savefig(tmp_path / "queues.png")
    assert (tmp_path / "queues.png").stat().st_size > 10_000


@pytest.mark.parametrize("load", [2.0, np.inf, None])
def test_a_task_that_is_done_is_not_done_again(tmp_path: Path, load: float | None) -> None:
    """Its file stays as it is; another task is refused the folder."""
    jobs = 50 if load is None else 10
    task = QueueRows(tmp_path / "rows", jobs, 2, load)
    shares: list[float] = []
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    file = tmp_path / "rows" / RECORD
    assert [row["seed"] for row in json.loads(file.read_text(encoding="utf-8"))] == [0, 1]
    file.write_text("[]", encoding="utf-8")
    task.run(shares.append)
    assert shares == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"replay|folder"):
        QueueRows(tmp_path / "rows", jobs, 3, load).run()
