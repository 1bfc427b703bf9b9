"""Jobs whose losses fall on shared cores: conservation, the rules, the table and the command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.classical.loss_jobs import LossJob, draw_loss_jobs
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.classical import slaq_quality
from goodalloc.experiments.studies.classical.loss_cluster import (
    LEVELS,
    RULES,
    Decided,
    by_gain,
    fair,
    run_cluster,
)
from goodalloc.experiments.studies.classical.slaq_quality import (
    CASES,
    DELAYS,
    LABELS,
    QualityRow,
    QualityTask,
    change_percent,
    quality_row,
    summarise,
)
from goodalloc.solvers.classical.unit_shares import share_greedily

if TYPE_CHECKING:
    from pathlib import Path

FEW = draw_loss_jobs(3, 6)


def test_jobs_fall_from_all_to_nothing_by_both_laws() -> None:
    """What is left goes from 1 to 0; the losses follow; the seed decides everything."""
    for job in draw_loss_jobs(0, 40, noise=0.0):
        assert job.left[0] == 1.0
        assert job.left[-1] == 0.0
        assert (np.diff(job.left) < 0).all()
        assert (np.diff(job.losses) < 0).all()
        assert job.left_after(0.5) == pytest.approx((1.0 + job.left[1]) / 2)
        assert len(job.history(2.5).losses) == 3
    assert [job.work for job in FEW] == [job.work for job in draw_loss_jobs(3, 6)]
    assert [job.work for job in FEW] != [job.work for job in draw_loss_jobs(4, 6)]


def test_machines_change_nothing_but_the_exchange_between_them() -> None:
    """Up to 32 cores both are as fast; the 33rd makes a job slower where there are machines."""
    for one, other in zip(FEW, draw_loss_jobs(3, 6, machines=True), strict=True):
        assert (one.losses == other.losses).all()
        cores = np.arange(33.0)
        assert (one.rate(cores) == other.rate(cores)).all()
        assert one.rate(np.array(33.0)) > one.rate(np.array(32.0))
        assert other.rate(np.array(33.0)) < other.rate(np.array(32.0))
        assert one.rate(np.array(0.0)) == 0.0


@pytest.mark.parametrize("rule", list(RULES))
def test_every_job_ends_no_sooner_than_alone(rule: str) -> None:
    """Delays rise with the level; nobody outruns all cores; quality is a share."""
    course = run_cluster(FEW, 64, RULES[rule])
    assert course.delays.shape == (6, len(LEVELS) + 1)
    assert (np.diff(course.delays, axis=1) >= 0).all()
    for job, end in zip(FEW, course.delays[:, -1], strict=True):
        assert end >= job.iterations / float(job.rate(np.array(64.0))) - 1e-9
    assert ((course.loss >= 0) & (course.loss <= 1)).all()
    assert (course.active >= 1).all()
    assert np.isnan(course.gaps).all() == (rule != "slaq")


def test_a_job_alone_takes_what_its_rate_says() -> None:
    """From the decision after its arrival; the level in the middle by hand."""
    left = np.linspace(1.0, 0.0, 11)
    job = LossJob(1.0, 8.0, 0.0, 0.0, left, 1.0 + left)
    course = run_cluster([job], 4, fair)
    assert course.delays[0, 1] == pytest.approx(2.0 + 5 * 2.0)
    assert course.delays[0, -1] == pytest.approx(2.0 + 10 * 2.0)


def test_fair_shares_are_equal_and_use_all_cores() -> None:
    """What is left over goes to those that came first."""
    assert fair(FEW[:4], [0.0] * 4, 10).cores.tolist() == [3, 3, 2, 2]
    assert fair(FEW[:3], [0.0] * 3, 2).cores.tolist() == [1, 1, 0]


def test_the_greedy_has_no_gap_where_returns_diminish_and_one_on_machines() -> None:
    """Against the exact optimum of the same decision."""
    rule = by_gain(share_greedily, measure_gap=True)
    smooth, rough = (
        run_cluster(draw_loss_jobs(1, 3, machines=machines), 128, rule)
        for machines in (False, True)
    )
    assert np.nanmax(smooth.gaps) < 1e-3
    assert np.nanmax(rough.gaps) > 0.01


def test_cores_that_are_not_there_are_refused() -> None:
    """Whatever a rule says."""
    with pytest.raises(RuntimeError, match="Cores used: 9; there are 8"):
        run_cluster(FEW[:1], 8, lambda jobs, done, cores: Decided(np.array([9])))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"seed": -1, "jobs": 1}, "seed is -1"),
        ({"seed": 0, "jobs": 0}, "jobs is 0"),
        ({"seed": 0, "jobs": 1, "noise": -0.1}, "noise is -0.1"),
        ({"seed": 0, "jobs": 1, "apart": 0.0}, "apart is 0.0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, float], complaint: str) -> None:
    """With the item, the value and what was expected."""
    with pytest.raises(ValueError, match=f"Jobs: {complaint}"):
        draw_loss_jobs(**options)  # type: ignore[arg-type]


def rows_by_hand() -> list[QualityRow]:
    """Two seeds of fair shares and of a rule that is better by 50 and by 70 per cent."""
    rows: list[QualityRow] = []
    none: dict[str, Any] = {
        "decisions": 3,
        "gap_mean": None,
        "gap_max": None,
        "decision_seconds": None,
    }
    for seed, better in ((0, 0.5), (1, 0.3)):
        delays: dict[str, Any] = dict.fromkeys(DELAYS, 100.0)
        fair = QualityRow("few", 640, 2, seed, "fair", 0.2, 1.0, **delays, **none)
        slaq = fair._replace(
            rule="slaq",
            loss=0.2 * better,
            delay_90_seconds=80.0,
            gap_mean=0.01 * seed,
            gap_max=0.1,
        )
        rows += [fair, slaq]
    return rows


def test_changes_are_paired_by_seed_and_stand_beside_what_was_published() -> None:
    """60 per cent better on average, 20 per cent sooner."""
    rows = rows_by_hand()
    found = change_percent(rows, "few", "slaq", "loss")
    assert found.mean == pytest.approx(-60.0)
    assert found.half_width == pytest.approx(12.706 * 10.0, rel=1e-3)
    fair_row, slaq_row = summarise(rows)
    assert slaq_row["quality_%"].startswith("60 ± ")
    assert slaq_row["to_90_%"] == "-20 ± 0"
    assert (slaq_row["published_%"], slaq_row["published_delay_%"]) == (73.0, -44.0)
    assert (slaq_row["mean_gap"], slaq_row["worst_gap"]) == (0.005, 0.1)
    assert fair_row["quality_%"] == fair_row["published_%"] == ""


def test_a_task_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    """Its file stays as it is; another task is refused the folder."""
    task = QualityTask(tmp_path / "run", "few", 3, 0)
    shares: list[float] = []
    task.run(shares.append)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    found = task.rows()
    assert [row.rule for row in found] == list(RULES) == list(LABELS)
    task.run(shares.append)
    assert task.rows() == found
    with pytest.raises(ValueError, match=r"replay|folder"):
        QualityTask(tmp_path / "run", "few", 4, 0).run()
    course = run_cluster(draw_loss_jobs(0, 3), 640, fair)
    assert found[0] == quality_row(task, "fair", course, draw_loss_jobs(0, 3)[-1].arrival)


def test_reproduce_slaq_writes_rows_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row a case, seed and rule; whoever asks for workloads is told that it is no matter."""
    monkeypatch.setattr(slaq_quality, "QUICK_JOBS", 2)
    monkeypatch.setattr(slaq_quality, "QUICK_SEEDS", range(1))
    assert main(["reproduce", "slaq", "--quick", "--out", str(tmp_path)]) == 0
    assert "slaq: quality and delays" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "slaq-quick.csv")
    assert len(table) == len(CASES) * len(RULES)
    assert table.loss.between(0, 1).all()
    assert (tmp_path / "slaq-quick.png").read_bytes().startswith(b"\x89PNG")
    assert main(["reproduce", "slaq", "--workloads", "1,2", "--out", str(tmp_path)]) == 2
    assert "it makes no difference there" in capsys.readouterr().err
