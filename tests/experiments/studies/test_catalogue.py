"""Reproductions: what is published, what is replayed for it, and how both are put side by side."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from goodalloc.data.workloads.generator import draw_workload
from goodalloc.data.workloads.workload import write_workload
from goodalloc.experiments.cli import replay as cli_replay
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.output import all_refused
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.estimates import estimate_of, shown_estimate
from goodalloc.experiments.studies.artifacts import NEEDED
from goodalloc.experiments.studies.catalogue import ENTRIES, GROUPS, REPRODUCTIONS
from goodalloc.experiments.studies.documents import stored_result
from goodalloc.experiments.studies.entry import Entry
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.pollux.published_cases import (
    AVERAGE,
    CASES,
    Case,
    published_cases,
)
from goodalloc.experiments.support.tasks import run_tasks
from goodalloc.experiments.support.workers import ALONE, Workers
from goodalloc.solvers.policies.policy_table import POLICIES
from tests.support.replay.replays import SAME, SHORT, SMALL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", list(ENTRIES))
def test_studies_that_need_published_data_are_marked(name: str, tmp_path: Path) -> None:
    """They refuse to run without it, and the others do not."""
    reproduction, plan = REPRODUCTIONS[name], Plan(tmp_path)
    try:
        reproduction.require(reproduction.own(plan))
        refused = ""
    except ValueError as error:
        refused = str(error)
    assert bool(refused) == (name in NEEDED)
    if refused:
        assert "artifact" in refused.lower()


@pytest.mark.parametrize("name", list(CASES))
def test_every_case_has_a_label_of_its_own_and_published_hours(name: str) -> None:
    """Labels tell the cases apart; averages are hours, below a day."""
    cases = CASES[name]
    assert len({case.label for case in cases}) == len(cases)
    for case in cases:
        assert 0.1 < case.published[AVERAGE] < 24


def test_a_case_is_replayed_under_its_own_conditions(tmp_path: Path) -> None:
    """Load, interval, interference, power and requests reach the replay."""

    def tasks_of(name: str) -> list[Any]:
        return list(REPRODUCTIONS[name].tasks(Plan(tmp_path)))

    assert {len(task.workload) for task in tasks_of("fig8a")} == {80, 160, 240, 320}
    assert {task.setting.interval for task in tasks_of("fig8b")} == {30, 60, 120, 240, 480}
    interference = [
        (task.setting.interference, task.interference_avoidance) for task in tasks_of("fig8c")
    ]
    assert interference == [(0.0, True), (0.0, False), (0.25, False), (0.5, False)]
    tasks = tasks_of("table2")
    assert [task.power for task in tasks] == [-1, -1, -1, -1, -1, 1, -10]
    assert [t.policy for t in tasks].count("pollux") == 3
    tuned, realistic = tasks[2].workload, tasks[4].workload
    assert tuned == draw_workload(6)
    assert realistic == draw_workload(6, requests="realistic")


def test_the_artifacts_folder_gives_workloads_and_traces(tmp_path: Path) -> None:
    """The published files by their published names; half of the jobs when quick."""
    for name in ("workloads", "workloads-realistic"):
        (tmp_path / name).mkdir()
        write_workload(SHORT, tmp_path / name / "workload-6.csv")
    plan = Plan(tmp_path / "out", artifact=tmp_path)
    assert plan.workload(6) == plan.workload(6, "realistic") == SHORT
    assert plan.traces == str(tmp_path / "traces")
    assert replace(plan, quick=True).workload(6) == SHORT[::2]


def test_equal_replays_share_a_folder_and_different_ones_do_not(tmp_path: Path) -> None:
    """So that a figure costs nothing after the table that it draws on."""
    plan = Plan(tmp_path)
    first = plan.replay("tiresias", SHORT)
    assert plan.replay("tiresias", SHORT).folder == first.folder
    others = (
        plan.replay("fifo", SHORT),
        plan.replay("tiresias", SHORT[:2]),
        plan.replay("tiresias", SHORT, power=1.0),
        plan.replay("tiresias", SHORT, setting=SMALL),
        replace(plan, gaps=True).replay("tiresias", SHORT),
    )
    assert len({first.folder, *(task.folder for task in others)}) == 6


@pytest.mark.parametrize("name", ["table2", "fig7", "fig8a", "exactness", "knowledge"])
def test_the_published_workloads_are_all_eight(name: str, tmp_path: Path) -> None:
    """One where it has to be quick, and those that are asked for."""
    own = REPRODUCTIONS[name].own
    assert own(Plan(tmp_path, workloads=())).workloads == (1, 2, 3, 4, 5, 6, 7, 8)
    assert own(Plan(tmp_path, workloads=(), quick=True)).workloads == (6,)
    assert own(Plan(tmp_path, workloads=(2, 3), quick=True)).workloads == (2, 3)


def test_the_genetic_algorithm_alone_is_replayed_with_every_seed(tmp_path: Path) -> None:
    """The others decide the same whatever the seed."""
    plan = Plan(tmp_path, pollux=("pollux", "pollux-genetic"), seeds=(0, 1, 2))
    (case,) = (case for case in CASES["table2"] if case.label == "Pollux (p = -1)")
    assert [task.seed for task in case.tasks(plan, "pollux")] == [0]
    assert [task.seed for task in case.tasks(plan, "pollux-genetic")] == [0, 1, 2]


def test_a_confidence_interval_is_students() -> None:
    """Three values 1, 2, 3: mean 2, half-width 4.303 / sqrt(3); one value has no interval."""
    found = estimate_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert math.isnan(estimate_of([1.0]).half_width)


def test_reproduce_puts_published_and_ours_side_by_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of two tiny cases over two workloads, its CSV and its picture."""
    tiny = (
        Case("first", "tiresias", {AVERAGE: 1.0}, load=0.02),
        Case("second", "pollux", {AVERAGE: 2.0}, load=0.02),
    )
    monkeypatch.setattr(Entry, "load", lambda _: published_cases("Table 2", tiny))
    command = [
        "reproduce",
        "table2",
        "--policies",
        "fifo",
        "--workloads",
        "1,2",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert main(command) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["case"], first["policy"], first["published"]) == ("first", "tiresias", 1.0)
    assert second["policy"] == "fifo"
    for row in (first, second):
        assert (row["replays"], row["workloads"]) == (2, 2)
        off = abs(row["ours"] - row["published"])
        assert row["published_within"] == (off <= row["ours_half_width"])
        assert 0 < row["least"] <= row["ours"] <= row["greatest"]
        change = 100 * (row["ours"] / row["published"] - 1)
        assert row["deviation_percent"] == pytest.approx(change, abs=0.1)
    assert len(pd.read_csv(tmp_path / "table2.csv")) == 2
    assert (tmp_path / "table2.png").read_bytes().startswith(b"\x89PNG")


def test_all_leaves_out_what_lacks_something_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures that compare with measurements are not there without the artifact."""
    monkeypatch.setattr(cli_replay, "GROUPS", {"all": ("fig1", "fig2")})
    assert main(["reproduce", "all", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "fig2 is left out. Figure 2 compares with measurements" in text
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["fig1.csv", "fig1.png"]
    assert main(["reproduce", "fig2", "--out", str(tmp_path)]) == 2
    assert "expected the folder of the artifact (--artifact)." in capsys.readouterr().err


def test_a_group_gives_each_what_concerns_it(tmp_path: Path) -> None:
    """Its own folder of several, and nothing that makes no difference to it."""
    plan = Plan(tmp_path, workloads=(1, 2), seeds=(3,), artifact=tmp_path, quick=True)
    for name in GROUPS["aiturbo"]:
        reproduction = REPRODUCTIONS[name]
        own = reproduction.own(plan)
        reproduction.refuse_ignored(own)
        told = {
            field
            for field in ("workloads", "seeds", "artifact", "quick")
            if getattr(own, field) == getattr(plan, field)
        }
        assert told == {"workloads", "seeds", "artifact", "quick"} - set(reproduction.ignores)
    steps = REPRODUCTIONS["step-times"]
    (tmp_path / "dl2-ps-worker-speed").mkdir()
    assert steps.own(plan).artifact == tmp_path / "dl2-ps-worker-speed"
    assert steps.own(steps.own(plan)) == steps.own(plan)


def test_aiturbo_without_measurements_leaves_out_what_needs_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says what was expected."""
    monkeypatch.setattr(cli_replay, "GROUPS", {"aiturbo": ("step-times",)})
    assert main(["reproduce", "aiturbo", "--out", str(tmp_path)]) == 0
    assert "step-times is left out." in capsys.readouterr().out


def test_all_studies_beside_the_bound_of_a_day_are_one_group() -> None:
    """`hindsight` alone stays the name of the study."""
    beside = "loads", "objectives", "relaxations", "replays", "minute", "schedules"
    elsewhere = "types", "trees", "traces", "pods", "growth"
    names = {"family", "hindsight", *(f"hindsight-{name}" for name in (*beside, *elsewhere))}
    assert {*GROUPS["hindsight-all"]} == names
    assert not set(GROUPS) & set(ENTRIES)


def test_the_help_names_every_policy_and_every_reproduction(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The grammar loads neither table, so that it starts fast: it must not fall behind them."""
    for command, known in (("simulate", POLICIES), ("reproduce", {**GROUPS, **REPRODUCTIONS})):
        assert main([command, "--help"]) == 0
        unwrapped = re.sub(r"-\n\s+", "-", capsys.readouterr().out)
        words = set(re.split(r"[\s,;:)({}]+", unwrapped))
        assert not set(known) - words
    assert main(["reproduce", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split(" ")[0] for line in lines} >= {*REPRODUCTIONS, *GROUPS}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_leads_to_its_study(name: str) -> None:
    """Under the title that the list gives."""
    assert REPRODUCTIONS[name].title == ENTRIES[name].title


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.clocked])
def test_every_clocked_column_is_one_of_the_stored_result(name: str) -> None:
    """Others would be compared, though a clock tells them."""
    assert set(ENTRIES[name].clocked) <= set(stored_result(name).rows[0])


def test_what_else_was_refused_is_named(tmp_path: Path) -> None:
    """Folders that are refused for the same reason count as one; an empty one does not stay."""
    empty = tmp_path / "out"
    empty.mkdir()
    sentence = "Folder '{}' holds another replay."
    refused = {tmp_path / name: sentence.format(tmp_path / name) for name in ("fifo", "srtf")}
    first = refused[tmp_path / "fifo"]
    assert str(all_refused(refused, empty)) == first
    assert not empty.exists()
    refused[tmp_path / "themis"] = "Group 'a' is unknown."
    told = str(all_refused(refused, tmp_path))
    assert told == f"{first} (Refused for other reasons: themis.)"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (["fig9", "--workloads", "3"], "workloads is 3; it makes no difference there"),
        (["fig9", "--policies", "tiresias"], "policies is tiresias; it makes no difference"),
        (["fig1", "--seeds", "1-2"], "seeds is 1 2; it makes no difference"),
        (["exactness", "--policies", "fifo"], "policies is fifo; it makes no difference"),
    ],
)
def test_what_makes_no_difference_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], complaint: str
) -> None:
    """Rather than ignored."""
    assert main(["reproduce", *command, "--out", str(tmp_path)]) == 2
    assert complaint in capsys.readouterr().err


def test_workers_write_the_same_bytes_as_one_process(tmp_path: Path) -> None:
    """Two replays side by side in processes of their own."""

    def tasks(folder: str) -> list[ReplayTask]:
        return [
            ReplayTask(tmp_path / folder / policy, policy, SHORT, SMALL, gaps=False)
            for policy in ("tiresias", "fifo")
        ]

    shares: list[float] = []
    run_tasks(tasks("alone"), ALONE, shares.append)
    assert sum(shares) == pytest.approx(2.0)
    run_tasks(tasks("workers"), Workers(2))
    for policy in ("tiresias", "fifo"):
        for name in SAME:
            one, other = (tmp_path / folder / policy / name for folder in ("alone", "workers"))
            assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["table9"], "What to reproduce is 'table9'"),
        (["table2", "--artifact", "nowhere"], "'nowhere' is no folder"),
        (
            ["table2", "--artifact", "."],
            "it has no folder 'workloads'; expected the folder simulator of Pollux's artifact",
        ),
        (["table2", "--policies", "magic"], "Policy is 'magic'"),
        (["table2", "--workloads", "x"], "argument --workloads"),
        (["table2", "--workers", "0"], "argument --workers"),
    ],
)
def test_bad_reproductions_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """Exit code 2, and no traceback."""
    assert main(["reproduce", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_an_estimate_is_shown_with_its_interval_where_there_is_one() -> None:
    """One value has none."""
    three, one = (estimate_of(values) for values in ([1.0, 2.0, 3.0], [1.0]))
    assert shown_estimate(*three) == "2.0 ± 2.5"
    assert shown_estimate(*one, ".2f") == "1.00"
    assert shown_estimate(1.234, 0.056, "+.2f") == "+1.23 ± 0.06"
