"""AITurbo over the better baseline: what a condition changes, rows, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.parameter_servers.workload import PsWorkloadOptions, ps_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.parameter_servers import aiturbo_conditions
from goodalloc.experiments.studies.parameter_servers.aiturbo_conditions import (
    AITURBO_CONDITIONS,
    BANDWIDTHS,
    JOBS,
    LISTS,
    POLICIES,
    PUBLISHED,
    Condition,
    conditions,
    rows_of,
    shortened,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import PsOutcome, PsReplay
from goodalloc.experiments.studies.parameter_servers.setting import WITHIN_NODES, PsSetting
from goodalloc.experiments.studies.parameter_servers.simulator import PsSimulator
from goodalloc.solvers.parameter_servers.aiturbo import PsAiturbo
from tests.support.job_records import made_up_records, write_records


def outcome(short: float, long: float) -> PsOutcome:
    """Of which only the completion times matter."""
    return PsOutcome((short + long) / 2, short, long, 9.0, 10.0, 20.0, 30.0, 1.0, ())


def test_every_condition_changes_one_thing_of_the_base() -> None:
    """Network, place of the GPUs, requests or size; the totals stay where they are to stay."""
    found = conditions()
    base = found["base"]
    assert base == Condition(PsWorkloadOptions(jobs=JOBS), PsSetting(nodes=4))
    for name, bandwidth in BANDWIDTHS.items():
        assert found[name].drawn.bandwidth == bandwidth
        within = bandwidth * found[name].setting.within_nodes
        assert within == pytest.approx(max(bandwidth, WITHIN_NODES))
    apart = found["GPUs on half of the nodes"]
    assert apart.drawn == base.drawn
    totals = [one.setting.capacity.sum(axis=0).tolist() for one in (base, apart)]
    assert totals[0] == totals[1] == [64.0, 8.0]
    few = found["half of the GPUs, on one node"]
    assert few.setting.capacity[:, 1].tolist() == [4.0, 0.0, 0.0, 0.0]
    assert few.drawn.hours == base.drawn.hours / 2
    asked = [one.configuration.worker_gpus for one in found["half ask for no GPU"].drawn.requests]
    assert sorted(map(float, asked)) == [0.0] * 4 + [1.0] * 4
    larger = found["12 nodes, three times the jobs"]
    assert larger.drawn.jobs * larger.drawn.mean_gap == base.drawn.jobs * base.drawn.mean_gap
    assert conditions(quick=True)["base"].drawn.jobs == JOBS // 2


def test_conditions_whose_list_is_missing_are_left_out(tmp_path: Path) -> None:
    """But a folder with none of them is refused."""
    with pytest.raises(ValueError, match="expected a folder with some of chronus-philly"):
        AITURBO_CONDITIONS.require(Plan(tmp_path, artifact=tmp_path))
    (tmp_path / "aiturbo-jobs").mkdir()
    write_records(made_up_records(20), tmp_path / "aiturbo-jobs")
    AITURBO_CONDITIONS.require(Plan(tmp_path, artifact=tmp_path))
    found = conditions(tmp_path)
    assert [*found] == [*conditions(), "requests as in AITurbo's records"]
    weights = [one.weight for one in found["requests as in AITurbo's records"].drawn.requests]
    assert sum(weights) == 20


def test_all_lists_give_conditions(reference: Path) -> None:
    """One each, which differ from the base in requests or courses only."""
    found = conditions(reference)
    assert {*found} - {*conditions()} == set(LISTS)
    for name in LISTS:
        drawn, setting = found[name]
        assert setting == found["base"].setting
        assert bool(drawn.requests) != bool(drawn.courses)


def test_rows_show_the_better_baseline_over_every_policy() -> None:
    """By hand: of two workloads, Optimus is better in one, SRTF in the mean."""
    hours = {
        "aiturbo": [(1.0, 3.0), (1.0, 3.0)],
        "log-time": [(1.0, 1.0), (1.0, 1.0)],
        "optimus": [(2.0, 4.0), (4.0, 12.0)],
        "tiresias": [(9.0, 9.0), (9.0, 9.0)],
        "srtf": [(3.0, 5.0), (3.0, 5.0)],
    }
    task = PsReplay(Path("none"), "aiturbo", 50, 1, 6)
    found = rows_of("any", task, {name: [outcome(*one) for one in hours[name]] for name in hours})
    row = found[0]
    assert (row.policy, row.jobs, row.workloads, row.nodes) == ("aiturbo", 6, 2, 12)
    assert (row.better_baseline, row.published_ratio) == ("srtf", PUBLISHED)
    assert (row.better_ratio.mean, row.better_ratio.half_width) == (2.0, 0.0)
    assert row.optimus_ratio.mean == pytest.approx((1.5 + 4.0) / 2)
    assert row.better_short_ratio.mean == 3.0
    assert row.better_long_ratio.mean == pytest.approx(5 / 3, rel=1e-4)
    assert [one.published_ratio for one in found[1:]] == [None] * 4
    assert found[2].optimus_ratio.mean == 1.0
    shown = shortened(found)
    assert shown[0]["published"] == "≥ 2"
    assert shown[0]["that over it"] == "2.00 ± 0.00"


def test_jobs_end_where_gpus_are_on_some_nodes_only() -> None:
    """Nobody takes a GPU where there is none, and the use of none is no number."""
    workload = ps_workload(11, PsWorkloadOptions(jobs=6, hours=0.5))
    simulator = PsSimulator(workload, PsAiturbo(), PsSetting(4, node_gpus=(4, 0, 0, 0)))
    records = list(simulator.run())
    assert all(job.completion is not None for job in simulator.jobs)
    used = np.stack([record.utilisation for record in records])
    assert np.isnan(used[:, 1:, 1]).all()
    assert np.isfinite(used[:, :, 0]).all()
    assert used[:, 0, 1].max() > 0


def test_gpus_of_nodes_that_make_no_sense_are_refused() -> None:
    """One number a node, each a count."""
    with pytest.raises(ValueError, match="node_gpus has 2 numbers; expected one for each"):
        PsSetting(4, node_gpus=(4, 4))
    with pytest.raises(ValueError, match="node_gpus is -1"):
        PsSetting(2, node_gpus=(2, -1))


def test_reproduce_aiturbo_conditions_writes_a_row_for_every_policy_and_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two small conditions; a table, a CSV, a picture."""
    drawn = PsWorkloadOptions(jobs=3, hours=0.1)
    small = {
        "base": Condition(drawn, PsSetting(2)),
        "apart": Condition(drawn, PsSetting(2, node_gpus=(4, 0))),
    }
    monkeypatch.setattr(aiturbo_conditions, "conditions", lambda *_, **__: small)
    command = ["reproduce", "aiturbo-conditions", "--workloads", "3,4", "--out", str(tmp_path)]
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown) == 2 * len(POLICIES)
    table = pd.read_csv(tmp_path / "aiturbo-conditions.csv")
    assert list(table["policy"]) == [*POLICIES, *POLICIES]
    assert set(table["workloads"]) == {2}
    assert (table["short_jct_hours"] < table["long_jct_hours"]).all()
    assert (tmp_path / "aiturbo-conditions.png").read_bytes().startswith(b"\x89PNG")
