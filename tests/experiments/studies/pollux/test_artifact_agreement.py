"""Agreement with the artifact's logs: to the second where nothing is random."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux.artifact_agreement import (
    AGREEMENT,
    PUBLISHED,
    AgreementRow,
    summarise_agreement,
)
from goodalloc.experiments.support.tasks import run_tasks
from tests.support.few import few

if TYPE_CHECKING:
    from pathlib import Path

ROW = AgreementRow("tiresias", 1.0, 1, 1, 100.0, 100.0, 0.0, 200.0, 200.0, 0.0, same=True)


def test_every_policy_has_eight_workloads_at_four_loads() -> None:
    """Averages are shorter than makespans, and longer at a higher load."""
    assert len(PUBLISHED) == 12
    for (policy, load), (averages, makespans) in PUBLISHED.items():
        assert len(averages) == len(makespans) == 8
        assert all(one < other for one, other in zip(averages, makespans, strict=True))
        if load < 2.0:
            assert sum(averages) < sum(PUBLISHED[policy, load + 0.5][0])


@pytest.mark.parametrize("workloads", few([(2,), (5, 8)], 1))
def test_tiresias_and_optimus_agree_to_the_second(
    reference: Path, tmp_path: Path, workloads: tuple[int, ...]
) -> None:
    """On workloads at half the load, which take seconds; the study replays all."""
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    for name in ("traces", "workloads"):
        (artifact / name).symlink_to(reference / "pollux" / name)
    for load in ("0.5", "1.5", "2.0"):
        name = f"workloads-{load}"
        (artifact / name).symlink_to(reference / "pollux-loads" / name)
    plan = AGREEMENT.own(Plan(tmp_path / "out", workloads=workloads, artifact=artifact))
    half = [task for task in AGREEMENT.tasks(plan) if len(task.workload) == 80]  # type: ignore[attr-defined]
    wanted = [task for task in half if task.policy in ("tiresias", "optimus")]  # type: ignore[attr-defined]
    assert len(wanted) == 2 * len(workloads)
    assert run_tasks(wanted) == {}
    shown = {key: value for key, value in PUBLISHED.items() if key[0] != "pollux" and key[1] == 0.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("goodalloc.experiments.studies.pollux.artifact_agreement.PUBLISHED", shown)
        rows = AGREEMENT.rows(plan)
        assert [row.same for row in rows] == [True] * 2 * len(workloads)
        assert [ax.get_title() for ax in AGREEMENT.plot(plan, rows).axes] == ["load 0.5"]


def test_the_summary_counts_what_agrees() -> None:
    """And names the largest deviation with its sign."""
    other = ROW._replace(workload=2, average_deviation_percent=-4.0, same=False)
    (row,) = summarise_agreement([ROW, other])
    assert (row["workloads"], row["same_to_the_second"]) == (2, 1)
    assert (row["average_deviation_%"], row["largest_%"]) == (-2.0, -4.0)


def test_drawn_workloads_and_other_numbers_are_refused(tmp_path: Path) -> None:
    """Nothing published stands beside them."""
    plan = Plan(tmp_path, workloads=(1,))
    with pytest.raises(ValueError, match="no artifact is given; expected --artifact"):
        AGREEMENT.require(plan)
    with pytest.raises(ValueError, match="Workload is 9; expected one of 1 to 8"):
        AGREEMENT.require(replace(plan, artifact=tmp_path, workloads=(1, 9)))
