"""Devices of measured processes: the GPU of each, and how they exchange gradients (PyTorch)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Backends of `torch.distributed`: NCCL exchanges between GPUs of their own, Gloo through the host.
Backend = Literal["nccl", "gloo"]

#: Replicas that are measured on CPUs if nothing else is asked for.
ON_CPUS = (1, 2)


@dataclass(frozen=True)
class Devices:
    """Devices of one machine.

    Parameters
    ----------
    gpus
        Names of the GPUs that a process sees, in their order; none where CPUs compute.
    backend
        How the processes exchange gradients. By Gloo several may share a GPU.

    Raises
    ------
    ValueError
        If the backend is unknown, or NCCL without GPUs.

    Examples
    --------
    >>> from goodalloc.experiments.measure import Devices
    >>> Devices(("A100", "A100"), "nccl").of(1)
    'cuda:1'
    >>> Devices((), "gloo").of(1)
    'cpu'
    """

    gpus: tuple[str, ...]
    backend: Backend

    def __post_init__(self) -> None:
        require_choice("Devices: backend", self.backend, get_args(Backend))
        if self.backend == "nccl" and not self.gpus:
            raise ValueError("Devices: backend is 'nccl', but there is no GPU; expected 'gloo'.")

    @classmethod
    def here(cls, backend: Backend | None = None) -> Devices:
        """Return the devices that this process sees, which `CUDA_VISIBLE_DEVICES` limits.

        Parameters
        ----------
        backend
            The backend; None for NCCL with GPUs, and Gloo without.
        """
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        gpus = tuple(torch.cuda.get_device_name(index) for index in range(count))
        return cls(gpus, backend or ("nccl" if gpus else "gloo"))

    @property
    def usual_replicas(self) -> tuple[int, ...]:
        """Numbers of replicas to measure if none are given: 1, 2, 4, … and all GPUs."""
        return powers_to(len(self.gpus)) if self.gpus else ON_CPUS

    def of(self, local_rank: int) -> str:
        """Return the device of a process.

        Parameters
        ----------
        local_rank
            Index of the process on this machine.

        Raises
        ------
        ValueError
            If it has no GPU of its own, and they do not exchange by Gloo.
        """
        if not self.gpus:
            return "cpu"
        self.require_room(local_rank + 1)
        return f"cuda:{local_rank % len(self.gpus)}"

    def require_room(self, replicas: int) -> None:
        """Refuse more replicas on this machine than GPUs, unless they exchange by Gloo.

        Parameters
        ----------
        replicas
            Number of replicas.

        Raises
        ------
        ValueError
            If there are more.
        """
        if self.backend == "nccl" and replicas > len(self.gpus):
            raise ValueError(
                f"Replicas: {replicas} on {len(self.gpus)} GPUs; expected a GPU for each, or the "
                "backend gloo, by which several can share one."
            )


#: Processes on the CPUs of this machine.
CPUS = Devices((), "gloo")


def powers_to(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … below a number, and the number.

    Examples
    --------
    >>> from goodalloc.experiments.measure.devices import powers_to
    >>> powers_to(1), powers_to(6)
    ((1,), (1, 2, 4, 6))
    """
    return (*(2**k for k in range(most.bit_length()) if 2**k < most), most)


def joined_names(names: Iterable[str]) -> str:
    """Return the names of devices, each once, so that mixed machines are told apart.

    Examples
    --------
    >>> from goodalloc.experiments.measure.devices import joined_names
    >>> joined_names(["T4", "A100", "T4"])
    'A100 + T4'
    """
    return " + ".join(sorted(set(names)))
