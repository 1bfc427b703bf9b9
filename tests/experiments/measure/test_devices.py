"""Which GPU a measured process has, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.experiments.cli import measure as cli_measure
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure.devices import CPUS, Devices, joined_names, powers_to
from goodalloc.experiments.measure.machine_state import device_name, hardware

if TYPE_CHECKING:
    from pathlib import Path


def test_every_process_has_a_gpu_of_its_own() -> None:
    """By its index on the machine, not among all processes."""
    devices = Devices(("A100",) * 4, "nccl")
    assert [devices.of(rank) for rank in range(4)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    with pytest.raises(ValueError, match="Replicas: 5 on 4 GPUs; expected a GPU for each"):
        devices.of(4)


def test_by_gloo_processes_can_share_a_gpu() -> None:
    """One after the other from the first GPU on."""
    devices = Devices(("T4", "A100"), "gloo")
    devices.require_room(5)
    assert [devices.of(rank) for rank in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [device_name(devices, rank) for rank in range(3)] == ["T4", "A100", "T4"]


def test_replicas_are_as_many_as_there_is_something_for() -> None:
    """One on one GPU, two on CPUs."""
    assert Devices(("T4",), "nccl").usual_replicas == (1,)
    assert Devices(("T4",) * 3, "nccl").usual_replicas == (1, 2, 3)
    assert Devices(("T4",) * 8, "nccl").usual_replicas == (1, 2, 4, 8)
    assert CPUS.usual_replicas == (1, 2)
    assert powers_to(4) == (1, 2, 4)


def test_mixed_machines_are_told_apart() -> None:
    """A profile names every kind of device that took part, whatever the order."""
    mixed = Devices(("T4", "A100"), "nccl")
    assert hardware(mixed, 1)["device"] == "T4"
    assert hardware(mixed, 2)["device"] == "A100 + T4" == joined_names(["A100", "T4"])
    assert hardware(CPUS, 2)["device"] == hardware(CPUS)["device"] != ""
    assert (hardware(mixed)["backend"], hardware(CPUS)["backend"]) == ("nccl", "gloo")


@pytest.mark.parametrize(
    ("gpus", "backend", "sentence"),
    [
        ((), "nccl", "backend is 'nccl', but there is no GPU"),
        (("T4",), "mpi", "backend is 'mpi'; expected one of nccl, gloo"),
    ],
)
def test_a_backend_that_cannot_be_is_refused(
    gpus: tuple[str, ...], backend: Any, sentence: str
) -> None:
    """Before a process is started."""
    with pytest.raises(ValueError, match=sentence):
        Devices(gpus, backend)


def test_on_one_gpu_the_default_measures_and_two_replicas_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence that says what else there is."""
    one = Devices(("H100",), "nccl")
    monkeypatch.setattr(Devices, "here", lambda *_: one)
    planned: list[Any] = []

    def started(plan: Any, *_: Any) -> Any:
        planned.append(plan)
        raise ValueError("that is enough")

    monkeypatch.setattr(cli_measure, "_measure", started)
    command = ["measure", "perceptron", "--out", str(tmp_path / "x.csv")]
    assert main(command) == 2
    assert planned[0].replicas == (1,)
    capsys.readouterr()
    assert main([*command, "--replicas", "2"]) == 2
    assert "Replicas: 2 on 1 GPUs; expected a GPU for each" in capsys.readouterr().err
    monkeypatch.setattr(Devices, "here", lambda *_: Devices(("H100",), "gloo"))
    assert main([*command, "--replicas", "2"]) == 2
    assert planned[-1].replicas == (2,)


@pytest.mark.gpu
def test_the_gpus_that_are_there_have_names() -> None:
    """And exchange by NCCL unless Gloo is asked for."""
    found = Devices.here()
    assert found.gpus
    assert all(found.gpus)
    assert found.backend == "nccl"
    assert Devices.here("gloo").backend == "gloo"
