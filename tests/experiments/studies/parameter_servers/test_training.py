"""Training with parameter servers: right on any number of processes, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.studies.parameter_servers.checkpoint import CHECKPOINT, read_checkpoint
from goodalloc.experiments.studies.parameter_servers.networks import (
    CLASSES,
    EXAMPLES,
    NETWORKS,
    batch_of,
    draw_examples,
    flat_network,
    summed_loss,
)
from goodalloc.experiments.studies.parameter_servers.process import part_of
from goodalloc.experiments.studies.parameter_servers.training import PsTraining
from goodalloc.experiments.studies.parameter_servers.training_job import TrainingJob
from goodalloc.experiments.support import extras

if TYPE_CHECKING:
    from pathlib import Path
from tests.support.few import few

JOB = TrainingJob("convolutional", batch_size=10, learning_rate=0.02)


def train_alone(torch: Any, job: TrainingJob, steps: int) -> list[Any]:
    """Parameters and momentum after steps of PyTorch's own optimiser, one process, whole batch."""
    network, examples = flat_network(job.network, job.seed), draw_examples(job.network, job.seed)
    optimiser = torch.optim.SGD(
        network.module.parameters(), lr=job.learning_rate, momentum=job.momentum
    )
    for step in range(steps):
        batch = batch_of(examples, step, job.batch_size, slice(0, job.batch_size))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network.module(batch.inputs), batch.classes).backward()
        optimiser.step()
    velocity = [optimiser.state[p]["momentum_buffer"] for p in network.module.parameters()]
    return [network.parameters.numpy(), torch.cat([v.reshape(-1) for v in velocity]).numpy()]


def alive(process: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@given(total=st.integers(0, 1000), parts=st.integers(1, 64))
def test_parts_make_up_the_whole_and_are_of_one_size(total: int, parts: int) -> None:
    """One after the other, every number once, lengths that differ by at most 1."""
    found = [part_of(total, parts, index) for index in range(parts)]
    assert [i for part in found for i in range(total)[part]] == list(range(total))
    lengths = [part.stop - part.start for part in found]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    ("servers", "workers"), [(2, 1), pytest.param(2, 3, marks=pytest.mark.slow)]
)
def test_servers_and_workers_train_as_one_process_does(
    torch: Any, tmp_path: Path, servers: int, workers: int
) -> None:
    """The same parameters and momentum after four steps, and after a restart with other numbers."""
    with PsTraining(JOB, servers, workers) as training:
        training.train(4)
        training.save(tmp_path)
        training.stop()
    found = read_checkpoint(tmp_path)
    assert (found.network, found.steps) == ("convolutional", 4)
    for ours, theirs in zip(found.numbers, train_alone(torch, JOB, 4), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    with PsTraining(JOB, workers, servers, tmp_path) as training:
        training.train(2)
        training.train(1)
        training.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(ValueError, match="its processes have ended"):
        training.train(1)
    for ours, theirs in zip(
        read_checkpoint(tmp_path).numbers, train_alone(torch, JOB, 7), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_learn_their_data(torch: Any, name: str) -> None:
    """The loss falls below that of guessing, ln 10, within an epoch or two."""
    network, examples = flat_network(name, 0), draw_examples(name, 0)
    optimiser = torch.optim.SGD(network.module.parameters(), lr=0.02, momentum=0.9)
    losses = []
    for step in range(EXAMPLES // 64 * 2):
        network.gradients.zero_()
        loss = summed_loss(network.module, batch_of(examples, step, 64, slice(0, 64))) / 64
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * np.log(CLASSES) < losses[0]


def test_the_same_seed_gives_the_same_network_and_data_and_leaves_the_other_seeds_alone(
    torch: Any,
) -> None:
    """Another one gives others; PyTorch's own generator stays where it was."""
    before = torch.random.get_rng_state()
    weights = [flat_network("perceptron", seed).parameters.numpy() for seed in (1, 1, 2)]
    inputs = [draw_examples("perceptron", seed).inputs.numpy() for seed in (1, 1, 2)]
    assert torch.equal(before, torch.random.get_rng_state())
    for one, same, other in (weights, inputs):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)


@pytest.mark.usefixtures("torch")
def test_the_parts_of_a_step_are_not_negative_and_make_up_the_step() -> None:
    """Five parts of every step, well below a second; a start has four stages."""
    with PsTraining(TrainingJob("perceptron"), 1, 2) as training:
        assert list(training.processes) == ["server 0", "worker 0", "worker 1"]
        seconds = training.train(5)
        start = training.start
    assert np.shape(seconds[:-1]) == (5, 5)
    assert (np.array(seconds[:-1]) >= 0).all()
    np.testing.assert_allclose(seconds.total, np.sum(seconds[:-1], axis=0))
    assert (seconds.total < 1).all()
    assert 0 < seconds.processor < 1
    assert min(start) > 0
    assert start.imports == max(start[:-1])
    assert start.processor > 0.1


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("victim", few(["server 1", "worker 0"], 1))
def test_a_killed_process_ends_all_others_with_one_sentence(victim: str) -> None:
    """Before the steps are made; the sentence names the one that was killed."""
    with PsTraining(JOB, 2, 1) as training:
        training.train(1)
        processes = training.processes
        os.kill(processes[victim], signal.SIGKILL)
        with pytest.raises(ChildProcessError) as raised:
            training.train(1000)
    assert str(raised.value) == (
        "Training with parameter servers (2) and workers (1): "
        f"{victim} ended with exit code -9 while training; all others were ended."
    )
    assert not any(map(alive, processes.values()))


@pytest.mark.usefixtures("torch")
@pytest.mark.slow
def test_a_process_that_hangs_ends_all_with_one_sentence() -> None:
    """After the patience that was given: a stopped worker keeps everybody waiting."""
    with PsTraining(JOB, 1, 2, patience=20.0) as training:
        training.patience = 1.0
        processes = training.processes
        os.kill(processes["worker 1"], signal.SIGSTOP)
        with pytest.raises(ChildProcessError, match=r"no answer from .*worker 1 within 1 s while"):
            training.train(3)
    assert not any(map(alive, processes.values()))


@pytest.mark.usefixtures("torch")
def test_what_a_process_says_before_it_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words: here there is a folder where the state is to be written."""
    monkeypatch.setattr(
        "goodalloc.experiments.studies.parameter_servers.training.new_state", lambda _: tmp_path
    )
    told = r"server 0 ended with exit code 1 \(IsADirectoryError: .*\) while writing a checkpoint"
    with PsTraining(JOB, 1, 1) as training, pytest.raises(ChildProcessError, match=told):
        training.save(tmp_path)


@pytest.mark.usefixtures("torch")
def test_processes_end_when_the_one_that_started_them_is_killed(
    environment: dict[str, str],
) -> None:
    """Even by a signal that it cannot handle."""
    program = (
        "from goodalloc.experiments.studies.parameter_servers.training import PsTraining\n"
        "from goodalloc.experiments.studies.parameter_servers.training_job import TrainingJob\n"
        "training = PsTraining(TrainingJob(), 1, 1)\n"
        "print(*training.processes.values(), flush=True)\n"
        "training.train(10**6)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert len(processes) == 2
        parent.kill()
    deadline = time.monotonic() + 20.0
    while any(map(alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, processes))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"network": "resnet"}, "network is 'resnet'; expected one of perceptron, convolutional"),
        ({"batch_size": 0}, "batch_size is 0; expected an integer of at least 1"),
        ({"batch_size": 2**17}, "batch_size is 131072"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected a finite number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"momentum": -0.1}, "momentum is -0.1; expected a finite number of at least 0"),
        ({"momentum": 1.0}, "momentum is 1.0; expected 0 to below 1"),
        ({"seed": -1}, "seed is -1; expected an integer of at least 0"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(fields: dict[str, Any], sentence: str) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        TrainingJob(**fields)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("servers", "workers", "patience", "sentence"),
    [
        (0, 1, 1.0, "servers is 0"),
        (1, 0, 1.0, "workers is 0"),
        (65, 1, 1.0, "servers is 65"),
        (1, 11, 1.0, "workers is 11; expected an integer of at least 1 and at most 10"),
        (1, True, 1.0, "workers is true"),
        (1, 1, 0.0, "patience is 0.0"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(
    servers: int, workers: int, patience: float, sentence: str
) -> None:
    """Before anything is started; every worker needs an example."""
    with pytest.raises(ValueError, match=sentence):
        PsTraining(JOB, servers, workers, patience=patience)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "does not exist"),
        ("", "is empty"),
        ("{", "is not JSON"),
        ('{"format": "other", "version": 1}', "format is 'other'"),
        ('{"format": "goodalloc-ps-checkpoint", "version": 1}', "key 'network' is missing"),
        (
            '{"format": "goodalloc-ps-checkpoint", "version": 1, "network": "perceptron", '
            '"steps": 1, "state": "state-1.bin", "bytes": 8}',
            "expected 'convolutional'",
        ),
        (
            '{"format": "goodalloc-ps-checkpoint", "version": 1, "network": "convolutional", '
            '"steps": 1, "state": "state-1.bin", "bytes": 16}',
            "has 8 bytes; expected 16",
        ),
        (
            '{"format": "goodalloc-ps-checkpoint", "version": 1, "network": "convolutional", '
            '"steps": -1, "state": "state-1.bin", "bytes": 8}',
            "steps is -1",
        ),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    """Before anything is started."""
    (tmp_path / "state-1.bin").write_bytes(bytes(8))
    if text is not None:
        (tmp_path / CHECKPOINT).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        PsTraining(JOB, 1, 1, tmp_path)


def test_where_pytorch_is_not_installed_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before anything is started."""
    monkeypatch.setitem(extras.MODULES, "measure", ("no_such_module",))
    with pytest.raises(ValueError, match=r"expected an environment with 'goodalloc\[measure\]'"):
        PsTraining(JOB, 1, 1)
