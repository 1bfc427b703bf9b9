"""`goodalloc hindsight`: bound, schedule and picture of a drawn day, and what is refused."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pandas as pd
import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.rounds.verify import LATE_FORMAT, _in_words
from goodalloc.experiments.replay_bound import day_and_replays
from goodalloc.experiments.reporting.report import percent
from goodalloc.experiments.support.workers import meanwhile
from tests.support.few import few

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

JOBS = """\
name,time,application,num_replicas,batch_size
a,0,cifar10,2,256
b,10,ncf,1,32768
c,61,cifar10,1,128
d,300,cifar10,4,512
"""

OPTIONS = ("--nodes", "1", "--steps", "5")

#: Two islands of two nodes.
ON_TREE = ("--nodes", "4", "--gpus-per-node", "1", "--tree", "standard")


def ended(*_: object) -> None:
    """End the process."""
    os._exit(9)


def refused(*_: object) -> None:
    """Refuse the work."""
    raise ValueError("Edges: expected fewer.")


def told_of(command: list[str]) -> Any:
    """What a command says as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert main([*command, "--json"]) == 0
    return json.loads(said.getvalue())


@pytest.fixture(scope="module")
def day_told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Folder of the files of a little day, and what was said of it."""
    folder = tmp_path_factory.mktemp("day")
    (folder / "jobs.in.csv").write_text(JOBS)
    command = ["hindsight", str(folder / "jobs.in.csv"), *OPTIONS]
    return folder, told_of([*command, "--out", str(folder)])


@pytest.fixture(scope="module")
def day(day_told: tuple[Path, Any]) -> Path:
    """The folder alone."""
    return day_told[0]


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays are bounded in a process of its own, as for many jobs where there are two cores."""
    monkeypatch.setattr(day_and_replays, "MEANWHILE", 1)
    monkeypatch.setattr(day_and_replays, "usable_cores", lambda: 2)


@pytest.fixture(scope="module")
def slowdown_told(day: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The same of its average slowdown."""
    folder = tmp_path_factory.mktemp("slowdown")
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--objective", "slowdown"]
    return folder, told_of([*command, "--out", str(folder)])


def test_it_writes_what_verify_checks(day: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problem, schedule and bound; a tampered bound is refused with exit code 1."""
    names = [str(day / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verified"]
    assert 0.0 < told["claimed"] <= told["proved"] * (1 + 1e-12) <= told["value"]
    bound = json.loads((day / "bound.json").read_text())
    (day / "more.json").write_text(json.dumps({**bound, "bound": 1.1 * bound["bound"]}))
    assert main(["verify", *names[:2], str(day / "more.json")]) == 1
    assert "the prices prove a smaller bound" in capsys.readouterr().out


def test_a_replay_is_above_the_bound_on_replays(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is above that on schedules; by the rows of its jobs, with a gap."""
    command = ["simulate", str(day / "jobs.in.csv"), "--nodes", "1", "--policies", "tiresias"]
    assert main([*command, "--out", str(tmp_path), "--json"]) == 0
    capsys.readouterr()
    names = [day / "problem.json", tmp_path / "tiresias" / "jobs.csv", day / "replay-bound.json"]
    assert main(["verify", *map(str, names), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verified"]
    assert json.loads((day / "bound.json").read_text())["bound"] < told["claimed"] <= told["value"]
    assert 0.0 <= told["gap"] < 1.0
    bound = json.loads((day / "replay-bound.json").read_text())
    (tmp_path / "more.json").write_text(json.dumps({**bound, "bound": 1.01 * bound["bound"]}))
    assert main(["verify", *map(str, names[:2]), str(tmp_path / "more.json")]) == 1
    assert "the prices prove a smaller bound" in capsys.readouterr().out
    assert main(["verify", str(names[0]), str(day / "jobs.in.csv"), str(names[2])]) == 2
    assert "lacks the column 'completion'; a bound on replays goes" in capsys.readouterr().err
    assert main(["verify", *map(str, names[:2]), str(day / "bound.json")]) == 2
    assert "is a table; a bound on all schedules goes with schedule" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--outages", "130-240:1"), "nodes are missing from 130 to 240 s; expected multiples"),
        (("--restart-delay", "30.5"), "a restart takes 30.5 s; expected whole seconds"),
    ],
)
def test_conditions_of_which_nothing_is_bounded_are_refused(
    day: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str], words: str
) -> None:
    """A replay counts nodes in whole rounds, and epochs in whole seconds."""
    command = ["hindsight", str(day / "jobs.in.csv"), "--nodes", "2", "--steps", "5", *options]
    assert main([*command, "--out", str(day / "refused")]) == 2
    assert words in capsys.readouterr().err


def test_no_job_ends_before_it_could_alone(day: Path) -> None:
    """A row for every job."""
    jobs = pd.read_csv(day / "jobs.csv")
    assert jobs.job.tolist() == [*"abcd"]
    assert (jobs.completion_s >= jobs.alone_s - 1e-6).all()
    prices = pd.read_csv(day / "prices.csv")
    assert (prices.GPU >= 0).all()
    assert (day / "hindsight.png").stat().st_size > 10_000


def test_the_same_seeds_give_the_same_numbers(day_told: tuple[Path, Any], tmp_path: Path) -> None:
    """As JSON; another seed of the search may give another schedule."""
    day, told = day_told
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert told_of([*command, "--out", str(tmp_path)]) == told
    assert told["jobs"] == 4
    assert 0.5 < told["bound_over_schedule"] <= 1.0
    bound, replays = (
        told[f"{name}_average_completion_s"] for name in ("bound", "bound_on_replays")
    )
    assert bound < replays
    assert 0.5 < told["bound_on_replays_over_replayable"] <= 1.0


@pytest.mark.usefixtures("two_processes")
def test_a_bound_on_replays_that_is_proved_meanwhile_is_the_same(
    day_told: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own, as for days of many jobs."""
    day, told = day_told
    monkeypatch.setattr(day_and_replays, "bound_replays", None)  # not in this process
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert told_of([*command, "--out", str(tmp_path)]) == told
    alone, meanwhile = (folder / "replay-bound.json" for folder in (day, tmp_path))
    assert alone.read_bytes() == meanwhile.read_bytes()


@pytest.mark.usefixtures("two_processes")
def test_a_process_that_is_lost_leaves_its_work_to_the_other(
    day_told: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is killed for its memory."""
    day, told = day_told
    begun: list[str | None] = []

    def lost(_function: object, traces: str | None) -> AbstractContextManager[object]:
        begun.append(traces)
        return meanwhile(ended, traces)

    monkeypatch.setattr(day_and_replays, "meanwhile", lost)
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert told_of([*command, "--out", str(tmp_path)]) == told
    assert begun == [None]


@pytest.mark.usefixtures("two_processes")
def test_where_no_process_can_be_started_all_is_done_in_this_one(
    day_told: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for want of memory."""
    day, told = day_told
    refusal = mock.Mock(side_effect=OSError("Cannot allocate memory"))
    monkeypatch.setattr(day_and_replays, "meanwhile", refusal)
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert told_of([*command, "--out", str(tmp_path)]) == told
    refusal.assert_called_once()


@pytest.mark.usefixtures("two_processes")
def test_what_a_process_refuses_is_one_sentence(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the traceback of the process."""
    monkeypatch.setattr(
        day_and_replays, "meanwhile", lambda _function, item: meanwhile(refused, item)
    )
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert main([*command, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith("goodalloc: error: Edges: expected fewer.\n")


@pytest.mark.parametrize("beside", [False, True])
def test_with_little_time_all_is_proved_and_the_searches_are_short(
    *, beside: bool, day: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """In one process or two."""
    if beside:
        request.getfixturevalue("two_processes")
    command = ["hindsight", str(day / "jobs.in.csv"), "--nodes", "1", "--seconds", "0.01"]
    told = told_of([*command, "--out", str(tmp_path)])
    assert told["schedule_steps"] == told["replayable_steps"] == 0
    bound, on_replays, replayed = (
        told[f"{name}_average_completion_s"] for name in ("bound", "bound_on_replays", "replayable")
    )
    assert 0.0 < bound <= on_replays <= replayed
    names = [str(tmp_path / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names]) == 0


def test_what_a_limit_left_of_the_searches_is_told(
    day_told: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with enough time all is as without a limit."""
    day, told = day_told
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--seconds", "10000"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "schedules were searched for by 5 of 5 steps, 1 of 1 with restarts." in said
    assert "also cuts short the searches of prices: without it bounds may be greater." in said
    assert (tmp_path / "schedule.json").read_bytes() == (day / "schedule.json").read_bytes()
    assert told["schedule_steps"] == 5
    assert told["replayable_steps"] == 1
    alone, limited = (
        json.loads((folder / "replay-bound.json").read_text()) for folder in (day, tmp_path)
    )
    assert limited["prices"] == alone["prices"]
    assert alone["bound"] <= limited["bound"] == pytest.approx(alone["bound"], rel=1e-4)
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--seconds", "0"]
    assert main([*command, "--out", str(tmp_path)]) == 2
    assert "--seconds: got '0'; expected a finite number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("objective", [("late-jobs", "--due", "1.1"), ("makespan",)])
def test_searches_for_deadlines_end_in_time(
    objective: tuple[str, ...], day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And tell how far they came."""
    command = ["hindsight", str(day / "jobs.in.csv"), "--nodes", "1", "--objective", *objective]
    assert main([*command, "--seconds", "0.01", "--out", str(tmp_path)]) == 0
    assert "schedules were searched for by 0 of 1,000 steps." in capsys.readouterr().out
    names = [str(tmp_path / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names]) == 0


@pytest.mark.usefixtures("two_processes")
def test_a_worker_proves_all_by_itself(
    day_told: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it may not start another process."""
    day, told = day_told
    monkeypatch.setattr(day_and_replays, "meanwhile", None)
    monkeypatch.setattr(day_and_replays, "current_process", lambda: mock.Mock(daemon=True))
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert told_of([*command, "--out", str(tmp_path)]) == told


@pytest.mark.usefixtures("two_processes")
def test_an_interrupt_tells_which_files_there_are(
    day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of those of this run: while its replays are bounded, all but the bound on these."""

    @contextlib.contextmanager
    def interrupted(*_: object) -> Iterator[object]:
        yield mock.Mock(side_effect=KeyboardInterrupt)

    (tmp_path / "replay-bound.json").write_text("{}")
    monkeypatch.setattr(day_and_replays, "meanwhile", interrupted)
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS]
    assert main([*command, "--out", str(tmp_path)]) == 130
    names = "problem.json, schedule.json, bound.json, prices.csv, jobs.csv, delays.csv"
    assert capsys.readouterr().err.endswith(f"interrupted; {tmp_path} has {names}.\n")
    assert not (tmp_path / "replay-bound.json").exists()
    monkeypatch.setattr(day_and_replays, "day_by", mock.Mock(side_effect=KeyboardInterrupt))
    assert main([*command, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.endswith("interrupted before anything was found.\n")


def test_an_unknown_application_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the known ones."""
    (tmp_path / "jobs.csv").write_text(f"{JOBS}e,400,gpt5,1,8\n")
    command = ["hindsight", str(tmp_path / "jobs.csv"), "--out", str(tmp_path / "day")]
    assert main(command) == 2
    told = "Job 'e': application 'gpt5' is unknown; expected one of "
    assert told in capsys.readouterr().err


def test_verify_says_in_words_what_is_proved(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of averages, late jobs and the makespan."""
    names = [str(day / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names]) == 0
    said = capsys.readouterr().out
    numbers = dict(line.split(None, 1) for line in said.splitlines()[2:4])
    above = float(numbers["value"]) / float(numbers["bound"]) - 1.0
    assert f"no schedule is below the bound; this one is {percent(above)} above it" in said
    for objective in (("late-jobs", "--due", "0.5"), ("makespan",)):
        command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path)]
        told = told_of([*command, "--objective", *objective])
        names = [str(tmp_path / f"{name}.json") for name in ("problem", "schedule", "bound")]
        assert main(["verify", *names]) == 0
        if objective[0] == "makespan":
            end = f"{told['bound_makespan_s']:,.0f}"
            words = f"not all jobs can end by {end} s; later end at least 1, in this schedule "
        else:
            words = (
                f"of 4 jobs end after they are due at least {told['bound_late_jobs']}, "
                f"in this schedule {told['schedule_late_jobs']}"
            )
        assert words in capsys.readouterr().out


def test_late_weight_is_not_told_as_late_jobs() -> None:
    """A job of a weight of five is one job."""
    asked = {"jobs": [{"weight": 5.0}, {"weight": 1.0}]}
    late = {"format": LATE_FORMAT, "due": {"a": 10.0}}
    told = "not all jobs can end by 10 s; later end at least 1, in this schedule those of a weight"
    assert _in_words(asked, late, 5.0, 6.0) == f"{told} of 6"
    assert "at least 2" in _in_words(asked, late, 6.0, 6.0)


def test_deadlines_that_are_none_are_refused(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(day / f"{name}.json") for name in ("problem", "schedule", "bound")]
    claim = json.loads((day / "bound.json").read_text(encoding="utf-8"))
    names[2] = str(tmp_path / "bound.json")
    (tmp_path / "bound.json").write_text(json.dumps(claim | {"format": LATE_FORMAT, "due": None}))
    assert main(["verify", *names]) == 2
    assert "due is null; expected an object" in capsys.readouterr().err


def test_who_is_delayed_by_whom_adds_up(day: Path) -> None:
    """The file of pairs has what the rows of the jobs tell, but for less than a second each."""
    jobs, pairs = pd.read_csv(day / "jobs.csv"), pd.read_csv(day / "delays.csv")
    assert pairs.seconds.is_monotonic_decreasing
    assert pairs.seconds.min() >= 1.0
    total = jobs.delayed_by_others_s.sum()
    assert total > 0.0
    assert total == pytest.approx(jobs.delays_others_s.sum())
    assert total - len(jobs) ** 2 <= pairs.seconds.sum() <= total + 1e-6


def test_the_slowdown_is_bounded_by_the_same_prices(slowdown_told: tuple[Path, Any]) -> None:
    """Completion over the time alone on the requested GPUs, averaged over the jobs."""
    folder, told = slowdown_told
    assert 0.0 < told["bound_average_slowdown"] <= told["schedule_average_slowdown"]
    problem = json.loads((folder / "problem.json").read_text())
    alone = {}
    for training in problem["trainings"]:
        for row, gpus in enumerate(training["gpus"]):
            rates = [max(own[: row + 1]) for own in training["rates"][0]]
            seconds = [work / rate for work, rate in zip(training["work"], rates, strict=True)]
            alone[training["name"], gpus] = sum(seconds)
    jobs = pd.read_csv(folder / "jobs.csv")
    requested = [2, 1, 1, 4]
    slowdowns = [
        completion / alone[application, gpus]
        for completion, application, gpus in zip(
            jobs.completion_s, jobs.application, requested, strict=True
        )
    ]
    assert told["schedule_average_slowdown"] == pytest.approx(sum(slowdowns) / 4)
    names = [str(folder / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names]) == 0


@pytest.mark.parametrize("objective", few(["slowdown", "completion"], 1))
def test_weights_make_the_average_a_weighted_one(
    objective: str, day: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Jobs without a row have the weight 1; certificate and checker have the weights, too."""
    (tmp_path / "weights.csv").write_text("job,weight\nb,5\nd,0.5\n")
    folder, plain = request.getfixturevalue(
        "day_told" if objective == "completion" else "slowdown_told"
    )
    command = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--objective", objective]
    weights = ["--weights", str(tmp_path / "weights.csv")]
    told = told_of([*command, *weights, "--out", str(tmp_path)])
    key = "average_completion_s" if objective == "completion" else "average_slowdown"
    assert f"bound_{key}" in plain
    assert f"bound_{key}" not in told
    first, second = (
        [job["weight"] for job in json.loads((own / "problem.json").read_text())["jobs"]]
        for own in (folder, tmp_path)
    )
    assert [own / 7.5 for own in (1.0, 5.0, 1.0, 0.5)] == pytest.approx(
        [after / before / 4 for before, after in zip(first, second, strict=True)]
    )
    for name in ("bound", "schedule", "replayable"):
        assert told[f"{name}_weighted_{key}"] > 0.0
    jobs = pd.read_csv(tmp_path / "jobs.csv")
    found = float((jobs.completion_s * second).sum())
    assert told[f"schedule_weighted_{key}"] == pytest.approx(found)
    assert 0.0 < told[f"bound_weighted_{key}"] <= found
    names = [str(tmp_path / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main(["verify", *names]) == 0


def test_equal_weights_are_none(
    day_told: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same numbers, whatever their size, under the name of a weighted average."""
    (tmp_path / "weights.csv").write_text("weight,job\n7,a\n7,b\n7,c\n7,d\n")
    day, plain = day_told
    base = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path)]
    base += ["--weights", str(tmp_path / "weights.csv")]
    told = told_of(base)
    for name in ("bound", "schedule", "replayable"):
        found = told[f"{name}_weighted_average_completion_s"]
        assert found == pytest.approx(plain[f"{name}_average_completion_s"], rel=1e-6)
    assert main(base) == 0
    assert "has a weighted average completion time below" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,weight\na,0\n", "line 2: weight is '0'; expected a finite number above 0"),
        ("job,weight\na,-1\n", "line 2: weight is '-1'; expected a finite number above 0"),
        ("job,weight\na,nan\n", "line 2: weight is 'nan'; expected a finite number above 0"),
        ("job,weight\na,many\n", "line 2: weight is 'many'; expected a finite number above 0"),
        ("job,weight\na,1\na,1\n", "line 3: job is 'a'; expected every job once"),
        ("job,weight\n", "it has no rows"),
        ("job,weights\na,1\n", "column 'weight' is missing"),
        ("job,weight\nz,1\n", "job 'z' is none of the workload; expected the names of its jobs"),
    ],
)
def test_weights_that_make_no_sense_are_refused(
    text: str, words: str, day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, with exit code 2."""
    (tmp_path / "weights.csv").write_text(text)
    base = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path / "out")]
    assert main([*base, "--weights", str(tmp_path / "weights.csv")]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("objective", [["late-jobs", "--due", "2"], ["makespan"]])
def test_weights_are_for_averages_only(
    objective: list[str], day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Late jobs and the makespan count every job alike; a file that is not there is named."""
    (tmp_path / "weights.csv").write_text("job,weight\na,2\n")
    base = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path / "out")]
    given = ["--weights", str(tmp_path / "weights.csv"), "--objective", *objective]
    assert main([*base, *given]) == 2
    assert f"weights for the objective {objective[0]}; expected none" in capsys.readouterr().err
    assert main([*base, "--weights", str(tmp_path / "missing.csv")]) == 2
    assert "missing.csv' does not exist" in capsys.readouterr().err


def test_late_jobs_and_the_makespan_are_bounded_and_verified(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON, for people, with files that `verify` checks, and a picture."""
    base = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path)]
    files = [str(tmp_path / f"{name}.json") for name in ("problem", "schedule", "bound")]
    assert main([*base, "--objective", "late-jobs", "--due", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert 1 <= told["bound_late_jobs"] <= told["schedule_late_jobs"] <= 4
    assert pd.read_csv(tmp_path / "jobs.csv").late.sum() == told["schedule_late_jobs"]
    assert (tmp_path / "hindsight.png").stat().st_size > 10_000
    assert main(["verify", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == told["schedule_late_jobs"]
    assert main([*base, "--objective", "makespan"]) == 0
    assert "No schedule of these 4 jobs ends all of them by" in capsys.readouterr().out
    jobs = pd.read_csv(tmp_path / "jobs.csv")
    assert jobs.due_s.nunique() == 1
    assert jobs.due_s[0] < jobs.end_s.max()
    assert main(["verify", *files]) == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--restart-delay", "0"], "a restart takes 0 s; expected whole seconds, at least 1"),
        (["--cores", "8"], "unrecognized arguments: --cores"),
        (["missing.csv"], "missing.csv' does not exist"),
        (["--steps", "0"], "--steps"),
        (["--price-interval", "0"], "--price-interval"),
        (["--objective", "fairness"], "--objective"),
        (
            ["--objective", "late-jobs"],
            "argument --due: expected with --objective late-jobs, and only with it",
        ),
        (
            ["--objective", "makespan", "--due", "2"],
            "argument --due: expected with --objective late-jobs, and only with it",
        ),
        (["--objective", "late-jobs", "--due", "0"], "--due"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_sentence(
    given: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2 and nothing computed."""
    base = ["hindsight", "--out", str(tmp_path)]
    assert main([*base, *given]) == 2
    assert words in capsys.readouterr().err


def test_several_types_of_gpu_have_bound_and_schedule(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With shorter intervals, which are no worse."""
    groups = ["--group", "t4:1:4:t4", "--group", "a100:1:4:a100"]
    found = []
    for seconds in ("600", "60"):
        options = ["--steps", "5", "--json", "--price-interval", seconds, "--out", str(tmp_path)]
        assert main(["hindsight", *groups, str(day / "jobs.in.csv"), *options]) == 0
        found.append(json.loads(capsys.readouterr().out))
    coarse, fine = (one["bound_average_completion_s"] for one in found)
    assert 0.0 < coarse < fine <= found[1]["schedule_average_completion_s"]


def test_on_a_tree_no_replay_is_below_its_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where islands are faster than the network; nothing is replayed with hindsight."""
    (tmp_path / "jobs.csv").write_text(JOBS)
    base = [str(tmp_path / "jobs.csv"), *ON_TREE]
    out = ["--out", str(tmp_path / "day"), "--json"]
    assert main(["hindsight", *base, "--steps", "5", *out]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["replayable_average_completion_s"] is None
    bound = told["bound_on_replays_average_completion_s"]
    assert told["bound_average_completion_s"] <= bound
    policies = ["--policies", "pollux@exact,srtf@best_fit", "--no-gaps"]
    assert main(["simulate", *base, *policies, "--out", str(tmp_path / "on"), "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert bound <= 3600 * row["average_jct_hours"]
        jobs = tmp_path / "on" / row["policy"] / "jobs.csv"
        files = [tmp_path / "day" / "problem.json", jobs, tmp_path / "day" / "replay-bound.json"]
        assert main(["verify", *map(str, files), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["verified"]


def test_trees_that_do_not_suit_the_nodes_are_refused(
    day: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence, with exit code 2."""
    base = ["hindsight", str(day / "jobs.in.csv"), *OPTIONS, "--out", str(tmp_path / "out")]
    assert main([*base, "--tree", str(tmp_path / "none.json")]) == 2
    assert "none.json' does not exist" in capsys.readouterr().err
    tree = {"format": "goodalloc-topology", "version": 1, "slowdown": 2.0, "levels": []}
    (tmp_path / "tree.json").write_text(json.dumps({**tree, "requires": {"z": "node"}}))
    assert main([*base, "--tree", str(tmp_path / "tree.json")]) == 2
    assert "'z'" in capsys.readouterr().err
