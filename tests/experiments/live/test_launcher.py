"""The launcher, on programs that only pretend to train: who is started when, and who ends whom."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.job_state import JobState, write_job_state
from goodalloc.data.files.job_submission import (
    JobSubmission,
    read_job_submission,
    write_job_submission,
)
from goodalloc.experiments.agent.cluster_folder import (
    CLUSTER_VARIABLE,
    JOB_VARIABLE,
    LAUNCHER_VARIABLE,
    REPLICAS,
    STATE,
    SUBMISSION,
)
from goodalloc.experiments.agent.options import AgentOptions
from goodalloc.experiments.agent.report import AgentReport
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.live.launcher import Launcher, LaunchFailed
from goodalloc.experiments.live.replica_group import ReplicaGroup, replicas_left
from goodalloc.experiments.support import process_identity
from goodalloc.experiments.support.folder_lock import is_locked, locked
from goodalloc.experiments.support.process_identity import ProcessIdentity, this_system
from goodalloc.experiments.support.stop_request import stop_request
from goodalloc.models.goodput.model import BatchLimits
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Begins every program: where it stands, and how often its replica was started before.
BEGINNING = """
import os, pathlib, signal, subprocess, sys, time
rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder = pathlib.Path(os.environ["GOODALLOC_CLUSTER"]) / "jobs" / os.environ["GOODALLOC_JOB"]
mark = folder / f"starts-{rank}"
starts = len(mark.read_text()) if mark.exists() else 0
mark.write_text("x" * (starts + 1))
"""

#: Program that ends with 75 when its first allocation changes, and at once when started again.
LEAVES_ONCE = """
if starts == 0:
    import json
    given = folder.parent.parent / "allocation.json"
    while sum(json.loads(given.read_text())["placements"].get("mine", {}).values()) == count:
        time.sleep(0.01)
    sys.exit(75)
"""


def program(body: str) -> tuple[str, ...]:
    """A program of a few lines, without any import that takes time."""
    return sys.executable, "-S", "-c", BEGINNING + body


def allocate(cluster: Path, **placements: dict[str, int]) -> None:
    """What a scheduler would write."""
    document = {"format": "goodalloc-allocation", "version": 1, "instance": "now"}
    cluster.mkdir(exist_ok=True)
    target = cluster / "allocation.json"
    target.with_suffix(".new").write_text(json.dumps(document | {"placements": placements}))
    target.with_suffix(".new").replace(target)


def launcher(cluster: Path, body: str, **options: Any) -> Launcher:
    """Of a job called mine, quick to look and to lose patience."""
    usual: dict[str, Any] = {"glance": 0.01, "patience": 1.0}
    return Launcher(cluster, "mine", program(body), **usual | options)


def starts(cluster: Path) -> list[int]:
    """How often each replica was started."""
    marks = sorted((cluster / "jobs" / "mine").glob("starts-*"))
    return [len(mark.read_text(encoding="utf-8")) for mark in marks]


@pytest.fixture
def launch_process(environment: dict[str, str]) -> Iterator[Callable[..., Any]]:
    """Starts `goodalloc launch` as a process; none is left behind."""
    running: list[subprocess.Popen[str]] = []

    def start(cluster: Path, body: str, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "goodalloc.experiments.cli.main",
                "launch",
                "--cluster",
                str(cluster),
                "--name",
                "mine",
                *options,
                "--",
                *program(body),
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_replicas_get_torchruns_variables_and_end_the_job(tmp_path: Path) -> None:
    """One port for all; what they say is in the job's folder."""
    allocate(tmp_path, mine={"node-0": 2, "node-1": 1})
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "OMP_NUM_THREADS",
        "GOODALLOC_JOB",
        "GOODALLOC_CLUSTER",
        "GOODALLOC_LAUNCHER",
    )
    body = f"import json; print(json.dumps({{n: os.environ.get(n) for n in {names}}}))"
    found = launcher(tmp_path, body).run()
    assert (found.job, found.starts, found.failures) == ("mine", 1, 0)
    folder = tmp_path / "jobs" / "mine"
    said = [json.loads((folder / f"replica-{rank}.log").read_text()) for rank in range(3)]
    assert [one["RANK"] for one in said] == [one["LOCAL_RANK"] for one in said] == ["0", "1", "2"]
    assert {one["WORLD_SIZE"] for one in said} == {one["LOCAL_WORLD_SIZE"] for one in said} == {"3"}
    assert len({one["MASTER_PORT"] for one in said}) == 1
    assert said[0]["MASTER_ADDR"] == "127.0.0.1"
    assert said[0]["OMP_NUM_THREADS"] == os.environ.get("OMP_NUM_THREADS", "1")
    assert said[0]["GOODALLOC_CLUSTER"] == str(tmp_path)
    assert said[0]["GOODALLOC_LAUNCHER"] == str(ProcessIdentity.of(os.getpid()))
    assert not (folder / REPLICAS).exists()
    assert not is_locked(folder)


def test_a_job_waits_for_an_allocation_and_is_started_again_on_another(tmp_path: Path) -> None:
    """First on one, then, after it ended with 75, on two, with nothing in between."""
    lines: list[str] = []
    done: list[Any] = []
    job = launcher(tmp_path, LEAVES_ONCE, say=lines.append)
    thread = threading.Thread(target=lambda: done.append(job.run()))
    thread.start()
    eventually(lambda: lines == ["mine: waits for an allocation; its cluster has no scheduler now"])
    with locked(tmp_path, patience=1.0):
        eventually(lambda: lines[1:] == ["mine: waits for an allocation"])
    (tmp_path / "allocation.json").write_text("{")
    eventually(lambda: "is not JSON" in lines[-1])
    assert is_locked(job.folder)
    with pytest.raises(ValueError, match="Job 'mine' has a launcher already; expected one for"):
        launcher(tmp_path, LEAVES_ONCE).run()
    allocate(tmp_path, mine={"a": 1})
    eventually(lambda: starts(tmp_path) == [1])
    allocate(tmp_path, other={"a": 1})
    eventually(lambda: lines[-1].startswith("mine: waits for an allocation"))
    time.sleep(0.05)
    assert starts(tmp_path) == [1]
    allocate(tmp_path, mine={"a": 1, "b": 1})
    eventually(lambda: starts(tmp_path) == [2, 1])
    allocate(tmp_path, mine={"b": 1})
    thread.join(20.0)
    assert done[0][:3] == ("mine", 3, 0)
    assert lines[-2:] == ["mine: 2 replicas (a: 1, b: 1)", "mine: 1 replica (b: 1)"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("rank and sys.exit(9); time.sleep(60)", "replica 1 ended with exit code 9"),
        ("print('x' * 9999); rank or sys.exit(1); time.sleep(9)", "exit code 1 (xxx"),
    ],
)
def test_a_job_that_makes_no_progress_is_given_up(tmp_path: Path, body: str, sentence: str) -> None:
    """After as many starts again as retries; whatever went wrong, in one sentence."""
    allocate(tmp_path, mine={"a": 2})
    lines: list[str] = []
    begin = time.monotonic()
    with pytest.raises(LaunchFailed) as failed:
        launcher(tmp_path, body, retries=2, say=lines.append).run()
    assert sentence in str(failed.value)
    assert "it failed 3 times without progress. Its replicas' last words" in str(failed.value)
    assert str(tmp_path / "jobs" / "mine") in str(failed.value)
    assert "\n" not in str(failed.value)
    assert len(str(failed.value)) < 600
    assert [line.partition(";")[2] for line in lines] == [
        "",
        " started again from the beginning",
    ] * 2 + [""]
    assert time.monotonic() - begin < 20.0


#: Program that ends with 75 as soon as it has nothing, until it was started three times.
LOSES_ALL = """
import json
given = folder.parent.parent / "allocation.json"
while starts < 3 and json.loads(given.read_text())["placements"].get("mine"):
    time.sleep(0.01)
sys.exit(75 if starts < 3 else 0)
"""


def test_a_job_that_lost_its_gpus_before_its_first_step_has_not_failed(tmp_path: Path) -> None:
    """However often, although it gets the same ones again."""
    done: list[Any] = []
    lines: list[str] = []

    def started(count: int) -> bool:
        return starts(tmp_path) == [count]

    job = launcher(tmp_path, LOSES_ALL, retries=0, say=lines.append)
    thread = threading.Thread(target=lambda: done.append(job.run()))
    allocate(tmp_path, mine={"a": 1})
    thread.start()
    for count in (1, 2, 3):
        eventually(partial(started, count))
        allocate(tmp_path, other={"a": 1})
        eventually(lambda: lines[-1].startswith("mine: waits for an allocation"))
        lines.append("")
        allocate(tmp_path, mine={"a": 1})
    thread.join(20.0)
    assert done[0][:3] == ("mine", 4, 0)


def test_an_agent_that_read_another_allocation_is_started_where_it_belongs(tmp_path: Path) -> None:
    """The scheduler changed its mind while the program started: the agent sees no change later."""
    done: list[Any] = []
    job = launcher(tmp_path, "if not starts: time.sleep(60)", retries=0)
    thread = threading.Thread(target=lambda: done.append(job.run()))
    allocate(tmp_path, mine={"a": 1})
    thread.start()
    eventually(lambda: starts(tmp_path) == [1])
    allocate(tmp_path, mine={"b": 1})
    state = JobState("mine", BatchLimits(8, 8, 8, 8), 0.0, 1.0, placement={"b": 1})
    write_job_state(tmp_path / "jobs" / "mine" / STATE, state)
    thread.join(20.0)
    assert starts(tmp_path) == [2]
    assert done[0][:3] == ("mine", 2, 0)


def test_replicas_of_a_finished_job_are_not_killed_by_its_next_launcher(
    tmp_path: Path, launch_process: Callable[..., Any]
) -> None:
    """They may evaluate and save what they trained."""
    note = tmp_path / "saved"
    body = f"time.sleep(2.0)\npathlib.Path({str(note)!r}).write_text('x')"
    allocate(tmp_path, mine={"node": 1})
    first = launch_process(tmp_path, body)
    eventually(lambda: starts(tmp_path) == [1])
    state = JobState("mine", BatchLimits(8, 8, 8, 8), 0.0, 1.0, finished=True)
    write_job_state(tmp_path / "jobs" / "mine" / STATE, state)
    first.kill()
    first.wait()
    assert launcher(tmp_path, body, patience=0.2).run().starts == 0
    assert note.exists()


def test_a_job_that_is_finished_is_not_started_again(tmp_path: Path) -> None:
    """Its agent said so."""
    allocate(tmp_path, mine={"a": 1})
    job, lines = launcher(tmp_path, ""), list[str]()
    job.folder.mkdir(parents=True)
    limits = BatchLimits(1, 1, 1, 1)
    write_job_state(job.folder / STATE, JobState("mine", limits, 1.0, 2.0, finished=True))
    job.say = lines.append
    assert job.run().starts == 0
    assert lines == ["mine: is finished already"]
    assert not (job.folder / "submission.json").exists()  # what never ran was not submitted


def test_another_program_by_the_name_of_a_finished_job_is_refused(tmp_path: Path) -> None:
    """Rather than taken for that job; the same one is through at once."""
    allocate(tmp_path, mine={"a": 1})
    job = launcher(tmp_path, "(folder / 'new').rename(folder / 'state.json')")
    job.folder.mkdir(parents=True)
    limits = BatchLimits(1, 1, 1, 1)
    write_job_state(job.folder / "new", JobState("mine", limits, 1.0, 2.0, finished=True))
    assert job.run().starts == 1
    assert job.run().starts == 0
    with pytest.raises(ValueError, match="Job 'mine' is finished, and was another program"):
        launcher(tmp_path, "pass").run()


def test_a_program_that_leaves_before_its_agent_is_through_is_done_and_says_so(
    tmp_path: Path,
) -> None:
    """Its exit code counts."""
    allocate(tmp_path, mine={"a": 1})
    job, lines = launcher(tmp_path, ""), list[str]()
    job.folder.mkdir(parents=True)
    write_job_state(job.folder / STATE, JobState("mine", BatchLimits(1, 1, 1, 1), 1.0, 2.0))
    job.say = lines.append
    assert job.run()[:3] == ("mine", 1, 0)
    assert lines[-1].endswith("ended before its agent said `finish()`; taken for done")


def test_a_program_that_fails_after_the_training_is_not_started_again(tmp_path: Path) -> None:
    """A job that is finished gets nothing more."""
    allocate(tmp_path, mine={"a": 1})
    job = launcher(tmp_path, "(folder / 'new').rename(folder / 'state.json'); sys.exit(5)")
    job.folder.mkdir(parents=True)
    limits = BatchLimits(1, 1, 1, 1)
    write_job_state(job.folder / "new", JobState("mine", limits, 1.0, 2.0, finished=True))
    with pytest.raises(LaunchFailed, match="ended with exit code 5; its training was over"):
        job.run()


def test_a_submission_keeps_its_time(tmp_path: Path) -> None:
    """Not its command, nor what its user asks for."""
    allocate(tmp_path, mine={"a": 1})
    first = launcher(tmp_path, "")
    first.run()
    path = first.folder / SUBMISSION
    submitted = read_job_submission(path).submitted
    assert 0.0 <= time.time() - submitted < 60.0
    launcher(tmp_path, "pass", replicas=2).run()
    assert read_job_submission(path) == JobSubmission("mine", program("pass"), submitted, 2)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"the document is \[\]"):
        launcher(tmp_path, "").run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_launcher_that_is_asked_to_end_ends_its_replicas(
    tmp_path: Path, launch_process: Callable[..., Any], number: signal.Signals
) -> None:
    """Exit code 130, a sentence, and nothing left behind."""
    allocate(tmp_path, mine={"a": 2})
    process = launch_process(tmp_path, "time.sleep(60)")
    folder = tmp_path / "jobs" / "mine"
    eventually(lambda: starts(tmp_path) == [1, 1])
    left = replicas_left(folder)
    assert len(left) == 2
    process.send_signal(number)
    said = process.communicate(timeout=20.0)
    assert process.returncode == 130, said
    assert "goodalloc: error: Job 'mine' was stopped; the same command goes on" in said[1]
    assert not any(one.alive for one in left)
    assert not (folder / REPLICAS).exists()


def test_who_asks_twice_to_end_leaves_nothing_behind_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request waits for a good moment, the second does not."""
    with stop_request() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN); mark.write_text('ready'); time.sleep(60)"
    variables = {JOB_VARIABLE: "mine", CLUSTER_VARIABLE: str(tmp_path)}
    folder = tmp_path / "jobs" / "mine"
    folder.mkdir(parents=True)
    group = ReplicaGroup(program(body), 2, folder, variables)
    with group:
        eventually(lambda: starts(tmp_path) == [5, 5])
        left = replicas_left(folder)
        monkeypatch.setattr(time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            group.end()
    assert len(left) == 2
    assert group.codes == [-signal.SIGKILL] * 2
    assert not any(one.alive for one in left)


def test_a_launcher_waits_for_the_replicas_of_one_that_was_killed(
    tmp_path: Path, launch_process: Callable[..., Any]
) -> None:
    """And ends those that do not end by themselves, before it starts its own."""
    allocate(tmp_path, mine={"a": 2})
    body = """
if starts == 0:
    while rank or os.getppid() > 1 and not (folder / "go").exists():
        time.sleep(0.01)
    sys.exit(75)
(folder / f"second-{rank}").touch()
"""
    process = launch_process(tmp_path, body)
    folder = tmp_path / "jobs" / "mine"
    eventually(lambda: starts(tmp_path) == [1, 1])
    process.kill()
    process.wait()
    assert not is_locked(folder)
    former = replicas_left(folder)
    assert len(former) == 2
    lines: list[str] = []
    job = launcher(tmp_path, body, patience=0.3, say=lines.append)
    (folder / "go").touch()
    found = job.run()
    assert found.starts == 1
    assert lines[0] == "mine: waits for replicas of its former launcher"
    assert not any(one.alive for one in former)
    assert (folder / "second-1").exists()


def test_an_agent_leaves_when_its_launcher_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it is given something else; not while it is there, whoever stands between."""
    sleeper = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    monkeypatch.setenv(JOB_VARIABLE, "mine")
    monkeypatch.setenv(CLUSTER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(LAUNCHER_VARIABLE, str(ProcessIdentity.of(sleeper.pid)))
    allocate(tmp_path, mine={"a": 1})
    options = AgentOptions.of_launcher(BatchLimits(8, 64, 1, 8), look_seconds=0.0, seed=3)
    assert (options.name, options.seed) == ("mine", 3)
    assert options.file(STATE) == tmp_path / "jobs" / "mine" / STATE
    report = AgentReport(options, 1)
    assert not report.look()
    allocate(tmp_path, mine={"a": 2})
    assert report.look()
    allocate(tmp_path, mine={"a": 1})
    assert not report.look()
    sleeper.kill()  # and its exit code not yet asked for
    eventually(report.look)
    sleeper.wait()
    assert report.look()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"format": "goodalloc-allocation", "version": 1}', None],
)
def test_an_allocation_that_cannot_be_read_is_no_news_to_an_agent(
    tmp_path: Path, content: bytes | None
) -> None:
    """Damaged or a folder: it goes on; what it reads first is what its launcher had read."""
    path, here = tmp_path / "allocation.json", ProcessIdentity.of(os.getpid())

    def damage() -> None:
        path.unlink(missing_ok=True)
        path.mkdir() if content is None else path.write_bytes(content)

    def mend(**nodes: int) -> None:
        if path.is_dir():
            path.rmdir()
        allocate(tmp_path, mine=nodes)

    damage()
    options = AgentOptions("mine", tmp_path, allocation=path, look_seconds=0.0, launcher=here)
    report = AgentReport(options, 2)
    assert not report.stale
    assert not report.look()
    mend(a=1, b=1)
    assert not report.look()
    assert report.nodes == 2
    damage()
    assert not report.look()
    mend(a=1, b=1)
    assert not report.look()
    mend(a=2)
    assert report.look()
    damage()
    late = AgentReport(options, 2)
    mend(a=1)
    assert late.look()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {JOB_VARIABLE: ""},
            "GOODALLOC_JOB is not set; expected a program that `goodalloc launch`",
        ),
        ({CLUSTER_VARIABLE: ""}, "GOODALLOC_CLUSTER is not set"),
        ({LAUNCHER_VARIABLE: ""}, "GOODALLOC_LAUNCHER is not set"),
        ({LAUNCHER_VARIABLE: "17"}, "Process is '17'; expected NUMBER:START@SYSTEM"),
        ({LAUNCHER_VARIABLE: "17:3"}, "Process is '17:3'; expected"),
        ({LAUNCHER_VARIABLE: "x:17@here"}, "Process is 'x:17@here'"),
        ({LAUNCHER_VARIABLE: "17:@here"}, "Process is '17:@here'"),
        ({LAUNCHER_VARIABLE: "17:3@"}, "Process is '17:3@'"),
        ({JOB_VARIABLE: "../other"}, "Job name is '../other'"),
    ],
)
def test_an_agent_that_no_launcher_started_says_so(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], sentence: str
) -> None:
    """In one sentence."""
    usual = {JOB_VARIABLE: "mine", CLUSTER_VARIABLE: "there", LAUNCHER_VARIABLE: "1:1@x"}
    for name, value in (usual | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=sentence):
        AgentOptions.of_launcher()


@pytest.mark.parametrize(
    "content",
    ["", "[", "{}", "[1]", '["1"]', '["1:0"]', "null", '["a:b@c"]', "[" * 99999, '["1:0@x"]'],
)
def test_a_record_of_replicas_that_makes_no_sense_is_nobody(tmp_path: Path, content: str) -> None:
    """Nobody is waited for or ended by mistake."""
    (tmp_path / REPLICAS).write_text(content, encoding="utf-8")
    assert replicas_left(tmp_path) == []


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group, as a shell's job or a service does, and is no replica."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(60)"],
        start_new_session=True,
        env=dict(os.environ) | {JOB_VARIABLE: "other"},
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("change", [{}, {"start": "1"}, {"system": "another"}])
def test_a_process_that_is_no_replica_is_never_ended(
    tmp_path: Path, innocent: subprocess.Popen[bytes], change: dict[str, Any]
) -> None:
    """A forged record is refused in words; one of another boot, or of a former process, is void."""
    allocate(tmp_path, mine={"a": 1})
    job = launcher(tmp_path, "", patience=0.1)
    job.folder.mkdir(parents=True)
    recorded = ProcessIdentity.of(innocent.pid)._replace(**change)
    (job.folder / REPLICAS).write_text(json.dumps([str(recorded)]), encoding="utf-8")
    if change:
        assert job.run().starts == 1
    else:
        with pytest.raises(ValueError, match=f"names process {innocent.pid}, which is not known"):
            job.run()
        assert starts(tmp_path) == []
    assert innocent.poll() is None


def test_a_number_that_was_given_again_gets_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, innocent: subprocess.Popen[bytes]
) -> None:
    """Of a replica that ended long before the others."""
    started: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Kept)
    with ReplicaGroup((sys.executable, "-S", "-c", ""), 1, tmp_path, {}):
        (replica,) = started
        replica.wait()
        replica.pid = innocent.pid
    assert innocent.poll() is None


def test_a_process_is_known_by_its_number_its_start_and_its_system() -> None:
    """Another one of the same number is another one."""
    here = ProcessIdentity.of(os.getpid())
    assert here.alive
    assert ProcessIdentity.parse(str(here)) == here
    for other in (here._replace(start=here.start + "1"), here._replace(system="other")):
        assert not other.alive
        other.kill()
    assert not ProcessIdentity.of(2**22 + 1).alive


@pytest.mark.parametrize("by_ps", [False, True])
def test_what_a_process_was_started_with_is_asked_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, innocent: subprocess.Popen[bytes], by_ps: bool
) -> None:
    """By `ps` where there is no /proc."""
    if by_ps:
        monkeypatch.setattr(process_identity, "PROC", tmp_path)
        this_system.cache_clear()
    identity = ProcessIdentity.of(innocent.pid)
    assert identity.alive
    assert ProcessIdentity.parse(str(identity)) == identity
    eventually(
        lambda: identity.started_with({JOB_VARIABLE: "other"})
    )  # just after it began not yet
    assert not identity.started_with({JOB_VARIABLE: "oth"})
    assert not identity.started_with({JOB_VARIABLE: "other", "ABSENT": ""})
    identity.kill()
    innocent.wait()
    assert not identity.alive
    assert not identity.started_with({})
    this_system.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--name", "a/b"], "Job name is 'a/b'; expected at most 100 letters"),
        (["--name", ".."], "Job name is '..'"),
        (["--name", ""], "Job name is ''"),
        (["--name", "-x"], "argument --name: expected one argument"),
        (["--name", "ü"], "Job name is 'ü'"),
        (["--name", "x" * 101], "Job name is 'xxx"),
        (["--name", "a", "--retries", "-1"], "expected a whole number, 0 to"),
        (["--name", "a", "--replicas", "0"], "expected a whole number, 1 to"),
        ([], "the following arguments are required: --name"),
        (["--name", "a", "--cluster", "file"], "cannot be created"),
        (["--name", "a", "--colour", "red"], "unrecognized arguments: --colour"),
    ],
)
def test_a_launch_that_makes_no_sense_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    """Exit code 2, one sentence, and no folder."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["launch", "--cluster", "there", *arguments, "--", sys.executable]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("there").exists()


def test_a_program_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is made."""
    there = ["launch", "--cluster", str(tmp_path / "x"), "--name", "a"]
    assert main([*there, "--", "no-such-program", "--flag"]) == 2
    assert "Command 'no-such-program' is not there" in capsys.readouterr().err
    assert main(there) == 2
    assert "arguments are required: COMMAND" in capsys.readouterr().err


def test_launch_tells_what_became_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Done, exit code 0; given up, 1."""
    allocate(tmp_path, mine={"a": 1})
    there = ["launch", "--cluster", str(tmp_path), "--name", "mine", "--retries", "0"]
    assert main([*there, "--", *program("")]) == 0
    assert "mine is done after 0 s, starts: 1, failures: 0" in capsys.readouterr().out
    assert main([*there, "--json", "--", *program("sys.exit(4)")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "replica 0 ended with exit code 4; it failed 1 times" in found["error"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": "other"}, "format is 'other'"),
        ({"version": 2}, "version is 2"),
        ({"name": "a b"}, "Job name is 'a b'"),
        ({"name": 3}, "Job name is 3"),
        ({"command": []}, r"command is \[\]; expected a program"),
        ({"command": [1]}, r"command is \[1\]"),
        ({"command": "ls"}, "expected a list"),
        ({"submitted": "now"}, "submitted is 'now'"),
        ({"submitted": -1}, "submitted is -1.0"),
        ({"replicas": 0}, "replicas is 0"),
        ({"replicas": 1.5}, "replicas is 1.5"),
        ({"colour": 1}, "key 'colour' is unknown"),
    ],
)
def test_a_submission_file_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """With the name of the file; what is written and read back is equal."""
    path, whole = tmp_path / SUBMISSION, JobSubmission("mine", ("ls", "-l"), 17.5, 2)
    write_job_submission(path, whole)
    assert read_job_submission(path) == whole
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))
    with pytest.raises(ValueError, match=sentence) as raised:
        read_job_submission(path)
    assert str(raised.value).startswith(f"File '{path}'")


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who locks and by who only looks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    told = f"Folder '{tmp_path}' cannot be locked (Function not implemented); expected a file"
    with pytest.raises(ValueError, match=re.escape(told)), locked(tmp_path):
        pass
    with pytest.raises(ValueError, match=re.escape(told)):
        is_locked(tmp_path)


def test_a_lock_that_is_let_go_in_time_is_taken(tmp_path: Path) -> None:
    """Who only looks does not keep a launcher away."""
    assert not is_locked(tmp_path / "none")
    with locked(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(ValueError, match="taken"), locked(tmp_path, "taken", 0.1):
            pass
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    threading.Timer(0.2, lambda: os.close(handle)).start()
    with locked(tmp_path, patience=10.0):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
