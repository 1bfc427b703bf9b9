"""Multi-layer perceptron, whose steps are dominated by the exchange of its many parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Sizes of the inputs, of a hidden layer, and of the output.
INPUTS, HIDDEN, CLASSES = 256, 1024, 10


def perceptron() -> TrainingTask:
    """Return a task of two hidden layers of 1024 and ten classes (1.3 million weights)."""
    return TrainingTask(_module, _draw, _loss, _optimiser, smallest_batch=32, largest_batch=4096)


def _module() -> Any:
    """Return the network."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(INPUTS, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    )


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    """Draw a batch."""
    import torch

    inputs = torch.randn(examples, INPUTS, generator=generator)
    return inputs, torch.randint(CLASSES, (examples,), generator=generator)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    inputs, classes = batch
    return cross_entropy(module(inputs), classes)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)
