"""Network and length of a training (`parameter_servers/training.py`), and its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.studies.parameter_servers.networks import NETWORKS
from goodalloc.models.support.validation import require_choice, require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats


#: Examples of the largest batch.
LARGEST_BATCH = 2**16


@dataclass(frozen=True)
class TrainingJob:
    """Network, configuration and length of a training.

    Parameters
    ----------
    network
        One of `NETWORKS`.
    batch_size
        Examples of a step, of all workers together.
    learning_rate, momentum
        Learning rate and momentum of stochastic gradient descent.
    seed
        Seed of the initial weights and the data.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    network: str = "perceptron"
    batch_size: int = 64
    learning_rate: float = 0.01
    momentum: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice("Training: network", self.network, tuple(NETWORKS))
        require_count("Training: batch_size", self.batch_size, 1, LARGEST_BATCH)
        require_number("Training: learning_rate", self.learning_rate, 0.0, strict=True)
        require_number("Training: momentum", self.momentum, 0.0)
        if self.momentum >= 1:
            raise ValueError(f"Training: momentum is {self.momentum}; expected 0 to below 1.")
        require_count("Training: seed", self.seed, 0)


class StartSeconds(NamedTuple):
    """Seconds of the stages of a start, each until the last process has reached it.

    Attributes
    ----------
    interpreters
        Interpreters run.
    imports
        PyTorch is imported.
    connection
        Every worker is connected to every server.
    state
        Network and data are there, the state is read and pulled.
    processor
        Processor time of all processes together in all stages.
    """

    interpreters: float
    imports: float
    connection: float
    state: float
    processor: float


class StepSeconds(NamedTuple):
    """Seconds of the parts of steps, each of shape (steps,), means over the workers.

    Attributes
    ----------
    forward
        Forward pass, with reading the examples from the data set.
    backward
        Backward pass.
    push
        Until the gradient is sent.
    update
        Mean gradient and new parameters of the slowest server, while workers wait for it.
    pull
        Until the new parameters arrive, without the update; includes waiting for others.
    processor
        Processor time of all processes together, mean over the steps.
    """

    forward: Floats
    backward: Floats
    push: Floats
    update: Floats
    pull: Floats
    processor: float

    @property
    def total(self) -> Floats:
        """Seconds of the steps."""
        return self.forward + self.backward + self.push + self.update + self.pull
