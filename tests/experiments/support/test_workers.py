"""Replays on local processes and on clusters of Dask and Ray: the same bytes, or one sentence."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.cli.main import main
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.support.extras import MODULES
from goodalloc.experiments.support.tasks import run_tasks
from goodalloc.experiments.support.workers import (
    ALONE,
    Workers,
    _heard,
    _send,
    map_unordered,
    meanwhile,
    parse_workers,
)
from tests.support.replay.replays import SAME, SHORT, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import SpawnProcess

#: Programs that start a cluster, print its address, and end with their standard input.
CLUSTERS = {
    "dask": """
import sys
from distributed import LocalCluster

with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
""",
    "ray": """
import sys
import ray

with ray.init("local", num_cpus=2, include_dashboard=False) as cluster:
    print(cluster.address_info["gcs_address"], flush=True)
    sys.stdin.read()
""",
}

#: A program with two processes that say so and sleep.
ASLEEP = r"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from goodalloc.experiments.support.stop_request import whole_interrupt
from goodalloc.experiments.support.workers import Workers, map_unordered
nap = r"__import__('os').write(1, b'asleep\n') and __import__('time').sleep(60)"  # in one piece
try:
    with whole_interrupt():
        list(map_unordered(eval, [nap] * 3, Workers(2)))
except KeyboardInterrupt:
    raise SystemExit("interrupted")
"""

#: Ray's: it neither reports to its makers nor leaves a token in the home directory.
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, environment: dict[str, str]) -> Iterator[Workers]:
    """A cluster of two workers on this machine, in processes that are not the tests'."""
    kind = request.param
    pytest.importorskip(MODULES[kind][0], reason=f"needs goodalloc[{kind}]")
    with subprocess.Popen(
        [sys.executable, "-P", "-c", CLUSTERS[kind]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment | SETTINGS,
    ) as process:
        assert process.stdout is not None
        yield parse_workers(f"{kind}:{process.stdout.readline().strip()}")
        process.communicate()


def replay_tasks(folder: Path) -> list[ReplayTask]:
    """Two tiny replays."""
    return [
        ReplayTask(folder / policy, policy, SHORT, SMALL, gaps=False)
        for policy in ("tiresias", "fifo")
    ]


def test_a_cluster_writes_the_same_bytes_as_one_process(cluster: Workers, tmp_path: Path) -> None:
    """Every replay is reported once, and its records do not tell who made them."""
    run_tasks(replay_tasks(tmp_path / "alone"))
    done: list[float] = []
    run_tasks(replay_tasks(tmp_path / "cluster"), cluster, done.append)
    assert done == [1.0, 1.0]
    for task in replay_tasks(Path()):
        for name in SAME:
            one, other = (tmp_path / who / task.folder / name for who in ("alone", "cluster"))
            assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("workers", [ALONE, Workers(2)], ids=["alone", "processes"])
def test_a_complaint_of_a_process_arrives_as_it_is(workers: Workers, tmp_path: Path) -> None:
    """A replay that is refused by a process is refused in the same words here; others go on."""
    check_complaint(workers, tmp_path)


@pytest.mark.slow
def test_a_complaint_of_a_cluster_arrives_as_it_is(cluster: Workers, tmp_path: Path) -> None:
    """A replay that is refused by a cluster is refused in the same words here."""
    check_complaint(cluster, tmp_path)


def check_complaint(workers: Workers, folder: Path) -> None:
    """One of two replays finds its folder taken by another."""
    tasks = replay_tasks(folder)
    tasks[1].folder.mkdir(parents=True)
    (tasks[1].folder / "replay.json").write_text("another")
    tasks.reverse()
    refused = run_tasks(tasks, workers)
    (complaint,) = refused.values()
    assert list(refused) == [tasks[0].folder]
    assert re.match(r"^Folder '.*' holds another replay: .*cluster, format, .*\.$", complaint)
    assert (tasks[1].folder / "jobs.csv").is_file()
    with pytest.raises(ValueError, match="invalid literal") as caught:
        list(map_unordered(int, ["x"], workers))
    assert type(caught.value) is ValueError


def test_work_meanwhile_has_its_outcome_or_its_complaint() -> None:
    """From a process of its own, whenever it is asked for."""
    with meanwhile(os.path.realpath, "/proc/self") as found:
        assert found() not in ("/proc/self", f"/proc/{os.getpid()}")
    with pytest.raises(ValueError, match="invalid literal"), meanwhile(int, "x") as number:
        number()


def test_work_for_a_process_that_has_ended_is_told_where_it_is_heard() -> None:
    """And not by a broken pipe, which a command would take for that of its output."""
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    _send(ours, (abs, 1))
    with pytest.raises(ChildProcessError, match="ended with exit code 0 before its work was done"):
        _heard(ours, ended_process())


def ended_process() -> SpawnProcess:
    """Return a process that has nothing to do."""
    process = multiprocessing.get_context("spawn").Process()
    process.start()
    return process


def test_work_meanwhile_ends_with_its_context() -> None:
    """Nobody waits for what is not asked for."""
    begin, others = time.perf_counter(), multiprocessing.active_children()
    with meanwhile(time.sleep, 60.0):
        (process,) = set(multiprocessing.active_children()).difference(others)
        assert process.is_alive()
    assert not process.is_alive()
    assert time.perf_counter() - begin < 30.0


@pytest.mark.slow
def test_a_cluster_is_left_in_the_middle(cluster: Workers) -> None:
    """What waits is not begun any more: the two workers are free at once, or after a nap."""
    begin = time.perf_counter()
    with closing(map_unordered(time.sleep, [0.0, *[4.0] * 10], cluster)) as results:
        assert next(results) is None
    assert [*map_unordered(abs, [-1], cluster)] == [1]
    assert time.perf_counter() - begin < 12.0


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("1", ALONE),
        ("4", Workers(4)),
        ("dask:tcp://host:8786", Workers(kind="dask", address="tcp://host:8786")),
        ("dask:host:8786", Workers(kind="dask", address="host:8786")),
        ("ray:auto", Workers(kind="ray", address="auto")),
        ("ray:[::1]:6379", Workers(kind="ray", address="[::1]:6379")),
        ("ray:ray://host:10001", Workers(kind="ray", address="ray://host:10001")),
    ],
)
def test_workers_are_named_in_one_word(
    text: str, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number, or a cluster and its address; nothing is asked of the cluster yet."""
    monkeypatch.setattr("goodalloc.experiments.support.workers.require_extra", lambda *_: None)
    assert parse_workers(text) == workers


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0", "Number of workers is 0; expected an integer of at least 1 and at most 1024"),
        ("many", "got 'many'; expected a whole number, 1 to 1024, dask:ADDRESS or ray:ADDRESS"),
        ("slurm:host:1", "got 'slurm:host:1'"),
        ("dask:", "Cluster 'dask:' has no address; expected host:port or an existing scheduler"),
        ("dask:gone.json", "expected host:port or an existing scheduler file"),
        ("dask:tcp://host:many", "expected host:port or an existing scheduler file"),
        ("ray:host", "Cluster 'ray:host' has no address; expected host:port or auto"),
    ],
)
def test_bad_workers_are_refused_in_one_sentence(
    text: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is replayed."""
    monkeypatch.setattr("goodalloc.experiments.support.workers.require_extra", lambda *_: None)
    with pytest.raises(ValueError, match=re.escape(complaint)) as caught:
        parse_workers(text)
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("kind", CLUSTERS)
def test_what_is_not_installed_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says which extra brings it."""
    monkeypatch.setitem(sys.modules, MODULES[kind][0], None)
    assert main(["simulate", "--workers", f"{kind}:localhost:1"]) == 2
    error = capsys.readouterr().err
    assert f"needs the module {MODULES[kind][0]}, which is not installed" in error
    assert f"'goodalloc[{kind}]'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "address",
    ["dask:tcp://127.0.0.1", "dask:nothing://127.0.0.1", "ray:127.0.0.1", "ray:ray://127.0.0.1"],
)
def test_a_cluster_that_does_not_answer_is_no_hang(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port where nobody listens is given up in seconds, in one sentence."""
    kind = address.partition(":")[0]
    pytest.importorskip(MODULES[kind][0], reason=f"needs goodalloc[{kind}]")
    monkeypatch.setattr("goodalloc.experiments.support.workers.PATIENCE", 0.5)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        name = f"{address}:{nobody.getsockname()[1]}"
        with pytest.raises(ValueError, match=rf"^Cluster '{name}' cannot be reached \(.+\)\.$"):
            run_tasks(replay_tasks(tmp_path), parse_workers(name))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_one_that_started_them(
    number: int, environment: dict[str, str]
) -> None:
    """Ctrl-C, to the whole group and twice, is one sentence; kill -9 leaves nobody behind."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ASLEEP],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["asleep\n", "asleep\n"]
        begin = time.perf_counter()
        for _ in range(2):
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        error = process.stderr.read()  # which ends when nobody is there to write it
        assert time.perf_counter() - begin < 10.0
    if number == signal.SIGINT:
        assert (process.returncode, error) == (1, "interrupted\n")


@pytest.mark.parametrize("lost", [KeyboardInterrupt, BaseException], ids=["solver", "callback"])
def test_an_interrupt_is_neither_a_decision_nor_lost(
    lost: type[BaseException], tmp_path: Path
) -> None:
    """What a solver would end early for, or a callback of a library swallow, ends the replays."""

    class Interrupting:
        folder = tmp_path

        def run(self, report: Callable[[float], None]) -> None:
            with suppress(lost):
                signal.raise_signal(signal.SIGINT)
            report(0.5)
            (tmp_path / "record").write_text("")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tasks([Interrupting()])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert not (tmp_path / "record").exists()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_process_that_dies_is_one_sentence() -> None:
    """As when the system kills it for its memory."""
    sentence = r"^process \d+ ended with exit code 3 before its work was done$"
    with pytest.raises(ChildProcessError, match=sentence):
        list(map_unordered(os._exit, [3, 3], Workers(2)))
