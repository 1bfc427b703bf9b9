"""Measuring real training: real processes, real limits, real ends (PyTorch)."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from goodalloc.data.files.measured_profile import FITS, NO_MEMORY, read_measured_profile, read_rows
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure import measured_configuration
from goodalloc.experiments.measure.crew import LocalCrew
from goodalloc.experiments.measure.devices import CPUS
from goodalloc.experiments.measure.measured_configuration import Configuration, measure
from goodalloc.experiments.measure.measuring import MeasurePlan
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.support.process_identity import ProcessIdentity
from goodalloc.experiments.support.process_messages import LEFT_ALONE
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.experiments.tasks.task import SMALL, find_task
from tests.support.few import few

torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")

#: A step against the gradient; an optimiser of PyTorch first imports its compiler, for seconds.
DESCENT = """
class Descent:
    def __init__(self, parameters):
        self.parameters = [*parameters]

    def step(self):
        for one in self.parameters:
            if one.grad is not None:
                one.data.sub_(one.grad, alpha=1e-3)

    def zero_grad(self):
        for one in self.parameters:
            one.grad = None
"""

#: A task of one's own: a linear layer whose batches may be made large, deadly or wrong.
MINE = f"""
import os
import time
from goodalloc.experiments.tasks.task import TrainingTask
{DESCENT}
def draw(examples, generator):
    import torch
    if examples == 65:
        os.kill(os.getpid(), 9)
    if examples == 19:
        time.sleep(60)
    if examples == 17:
        raise RuntimeError("shapes do not match")
    return (torch.randn(examples, 1024, generator=generator),)

def linear():
    import torch
    return TrainingTask(
        lambda: torch.nn.Linear(1024, 8), draw,
        lambda module, batch: module(*batch).square().mean(), Descent, 4, 2**20,
    )
"""

#: Examples of 16 MiB of address space each, which nobody touches.
HOARD = f"""
from goodalloc.experiments.tasks.task import TrainingTask
{DESCENT}
def hoard():
    import torch
    return TrainingTask(
        lambda: torch.nn.Linear(8, 1),
        lambda examples, generator: (torch.empty(examples, 2**22),),
        lambda module, batch: module(torch.zeros(1, 8)).sum(),
        Descent,
    )
"""

QUICK = ["--seconds", "0.05", "--error", "1", "--visits", "1"]


def task_in(folder: Path) -> str:
    """The name of that task, written to a folder."""
    path = folder / "mine.py"
    path.write_text(MINE, encoding="utf-8")
    return f"{path}:linear"


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """The name of that task."""
    return task_in(tmp_path)


class Measured(NamedTuple):
    """A measurement: its command, its file, and the rows that it wrote."""

    command: list[str]
    path: Path
    rows: list[dict[str, str]]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Of three batch sizes and of one that is deadly; what other programs do disturbs nothing."""
    folder = tmp_path_factory.mktemp("measured")
    path = folder / "profile.csv"
    command = ["measure", task_in(folder), "--batch-sizes", "4,16,64,65", "--out", str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured_configuration, "QUIET_CORE", 0.0)
        assert main([*command, *QUICK]) == 0
    return Measured([*command, *QUICK], path, [dict(row) for row in read_rows(path)])


def alive(process: int) -> bool:
    """Whether there is such a process, and not only its exit code."""
    return bool(ProcessIdentity.of(process).start)


#: Two processes at an order that takes a minute, one after the other's number on a line.
BUSY = """
import sys
from pathlib import Path
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.measure.crew import LocalCrew
from goodalloc.experiments.measure.devices import CPUS
from goodalloc.experiments.measure.measuring import MeasurePlan

with locked(Path(sys.argv[2])) as lock:
    crew = LocalCrew(MeasurePlan(sys.argv[1]), CPUS, keeps=lock)
    print(*crew.processes.values(), flush=True)
    crew.ask("waiting", 2, order="probe", atomic_batch_size=19)
"""

#: A process that has heard an order and is busy with it.
HEARING = """
import time
from goodalloc.experiments.support.process_messages import hear, say
say(**hear())
time.sleep(60)
"""


@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGTERM], 1))
def test_processes_end_at_once_with_the_one_that_started_them(
    mine: str, tmp_path: Path, environment: dict[str, str], number: signal.Signals
) -> None:
    """Whatever they are at; until then they hold the lock, and no other measurement begins."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", BUSY, mine, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert len(processes) == 2
        time.sleep(1.0)  # until they are at it
        assert all(map(alive, processes))
        parent.send_signal(number)
        parent.wait()
    with locked(tmp_path, patience=20.0):
        assert not any(map(alive, processes))


def test_a_process_ends_when_nobody_is_there_to_give_orders(environment: dict[str, str]) -> None:
    """Also where the system does not see to it."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HEARING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write('{"order": "wait"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"order": "wait"}
        process.stdin.close()
        assert process.wait(20.0) == LEFT_ALONE


def test_a_lock_that_a_child_was_given_is_held_until_it_ends(tmp_path: Path) -> None:
    """So that what outlives a measurement keeps the next one away."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    with locked(tmp_path) as lock:
        child = subprocess.Popen(command, pass_fds=lock)
    with pytest.raises(ValueError, match="is being written by another run"), locked(tmp_path):
        pass
    child.kill()
    child.wait()
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("name", SMALL)
def test_a_small_task_learns_a_batch_by_heart(name: str) -> None:
    """Its batches are as large as asked for and drawn by their seed; the loss of one falls."""
    task = find_task(name)
    examples = 2 * task.smallest_batch

    def drawn(seed: int) -> tuple[object, ...]:
        return task.draw_batch(examples, torch.Generator().manual_seed(seed))

    batch = task.draw_batch(examples, torch.Generator().manual_seed(1))
    assert {len(part) for part in batch} == {examples}
    assert all(torch.equal(*pair) for pair in zip(batch, drawn(1), strict=True))
    assert not torch.equal(batch[0], drawn(2)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = task.make_module()
    optimiser = task.make_optimiser(module.parameters())
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = task.loss(module, batch)
        loss.backward()
        assert all(piece.grad is not None for piece in module.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_a_transformer_does_not_see_what_comes_next() -> None:
    """Other tokens at the end change no logit before it."""
    module = find_task("transformer").make_module().eval()
    texts = torch.randint(1000, (2, 64), generator=torch.Generator().manual_seed(0))
    other = texts.clone()
    other[:, 40:] = 0
    with torch.no_grad():
        first, second = module(texts), module(other)
    torch.testing.assert_close(first[:, :40], second[:, :40])
    assert not torch.allclose(first[:, 40:], second[:, 40:])


def test_two_replicas_are_measured_written_fitted_and_not_measured_again(
    measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows with the machine, the versions and the parts of a step; a step synchronises."""
    command, path, _ = measured
    rows = [row for row in measured.rows if row["outcome"] == FITS]
    assert len(rows) == 12
    assert all(torch.__version__.startswith(row["torch"]) for row in rows)
    assert {row["weights"] for row in rows} == {"8200"}
    assert all(int(row["cores"]) >= 1 and row["device"] and row["load"] for row in rows)
    for row in rows:
        averaged = row["replicas"] == "2" and row["accumulation_steps"] == "0"
        assert (float(row["synchronisation_s"] or 0) > 0) == averaged
        assert (row["forward_s"] == "") == (row["accumulation_steps"] == "1")
    profile = read_measured_profile(path)
    assert all(float(row["quiet"]) > 0 for row in rows)
    assert set(profile.replicas) == {1, 2}
    assert profile.left_out < len(rows)
    assert main(["fit", str(path)]) == 0
    before, begin = path.read_bytes(), time.monotonic()
    assert main(command) == 0
    assert path.read_bytes() == before
    assert time.monotonic() - begin < 20.0
    Path(command[1].rpartition(":")[0]).write_text(MINE + "\n", encoding="utf-8")
    capsys.readouterr()
    assert main(command) == 2
    assert "source is" in capsys.readouterr().err


def test_a_killed_process_is_recorded_as_lack_of_memory_and_others_go_on(
    measured: Measured,
) -> None:
    """The system kills without a word where memory ends."""
    outcomes = [(row["atomic_batch_size"], row["outcome"]) for row in measured.rows]
    whole = [(size, FITS) for size in ("4", "16", "64") for _ in range(4)]
    assert outcomes == [*whole, ("65", NO_MEMORY)]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_memory_ends_where_its_limit_says_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 GiB of address space hold some examples of 16 MiB, but not all."""
    monkeypatch.setattr(measured_configuration, "QUIET_CORE", 0.0)
    path, model = tmp_path / "profile.csv", tmp_path / "hoard.py"
    model.write_text(HOARD, encoding="utf-8")
    limits = ["--memory", "4", "--replicas", "1", "--accumulation", "0", "--out", str(path)]
    # a longest step of a tenth of a second, which a busy machine keeps
    often = ["--seconds", "1", "--error", "1", "--visits", "1"]
    assert main(["measure", f"{model}:hoard", *limits, *often]) == 0
    profile = read_measured_profile(path)
    fits = [row for row in read_rows(path) if row["outcome"] == FITS]  # disturbed ones, too
    most = max(int(row["atomic_batch_size"]) for row in fits)
    assert profile.out_of_memory is not None
    assert most < profile.out_of_memory <= most + most // 8 + 1
    assert 16 <= most < 256


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_a_limit_below_the_model_itself_is_bad_input(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, no row."""
    path = tmp_path / "profile.csv"
    assert main(["measure", mine, "--memory", "0.2", "--out", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert "memory is 0.2 GiB; expected enough to import PyTorch" in complaint
    assert complaint.count("\n") == 1
    assert not path.exists()


def test_what_fails_otherwise_is_said_in_a_sentence_and_leaves_no_process(mine: str) -> None:
    """With the words of the process; the others were ended."""
    with LocalCrew(MeasurePlan(mine), CPUS, patience=60.0) as crew:
        processes = crew.processes
        sentence = "RuntimeError: shapes do not match.* while training 2 replicas with 17 examples"
        with pytest.raises(ProcessEnded, match=sentence):
            measure(crew, Configuration(2, 17, 0), 1.0, 0.1)
    assert not any(map(alive, processes.values()))


def test_a_measurement_that_is_killed_leaves_no_process_and_goes_on(
    mine: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Even by a signal that it cannot handle; its rows are whole, the undisturbed ones kept."""
    path = tmp_path / "profile.csv"
    command = [
        "measure",
        mine,
        "--replicas",
        "2",
        "--accumulation",
        "0",
        "--visits",
        "1",
        "--seconds",
        "0.3",
        "--error",
        "1e-9",
        "--batch-sizes",
        "4,5,6",
        "--out",
        str(path),
    ]
    program = "import sys; from goodalloc.experiments.cli.main import main; main(sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, *command], env=environment, stdout=subprocess.DEVNULL
    ) as parent:
        deadline = time.monotonic() + 60.0
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        told = children.read_text() if children.exists() else ""
        processes = [int(word) for word in told.split()]
        parent.kill()
        assert processes or not children.exists()
    first = read_rows(path)
    assert 1 <= len(first) < 3
    deadline = time.monotonic() + 20.0
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, processes))
    command[command.index("1e-9")] = "1"
    assert main(command) == 0
    second = read_rows(path)
    assert [row["atomic_batch_size"] for row in second] == ["4", "5", "6"]
    for before, after in zip(first, second, strict=False):
        # What other processes disturbed all the time is measured again on purpose.
        assert after == before or float(before["quiet"]) == 0.0


def test_processes_that_torchrun_started_measure_together(
    mine: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Two nodes of one process each, by torchrun's variables; the first one writes."""
    path = tmp_path / "profile.csv"
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = str(door.getsockname()[1])
    program = (
        "import sys; from goodalloc.experiments.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = ["measure", mine, "--batch-sizes", "4", "--out", str(path), *QUICK]
    launched = environment | {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", program, *command],
            env=launched | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert "process 1 of 2 is done" in said[1]
    found = sorted((row["nodes"], row["replicas"]) for row in read_rows(path))
    assert found == [("1", "1")] * 2 + [("2", "2")] * 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["alexnet"], "Model 'alexnet' is unknown"),
        (["perceptron", "--replicas", "0"], "argument --replicas"),
        (["perceptron", "--replicas", "1,1"], "replicas has 1 twice"),
        (["perceptron", "--replicas", "one"], "argument --replicas"),
        (["perceptron", "--batch-sizes", "1,,2"], "argument --batch-sizes"),
        (["perceptron", "--accumulation", "-1"], "argument --accumulation"),
        (["perceptron", "--error", "0"], "argument --error"),
        (["perceptron", "--seconds", "nan"], "argument --seconds"),
        (["perceptron", "--memory", "0"], "argument --memory"),
        (["perceptron", "--seed", "x"], "argument --seed"),
        (["perceptron", "--out", "none/profile.csv"], "cannot be written"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one sentence, before anything is started."""
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "profile.csv")]
    assert main(["measure", *arguments, *out]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert sentence in complaint


def test_a_file_that_another_measurement_writes_is_left_alone(
    mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two at once would disturb each other besides."""
    from goodalloc.experiments.support.folder_lock import locked

    with locked(tmp_path):
        assert main(["measure", mine, "--out", str(tmp_path / "profile.csv")]) == 2
    assert "is being written by another run" in capsys.readouterr().err
