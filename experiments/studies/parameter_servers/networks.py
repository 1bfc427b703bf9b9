"""Small networks, and data made up for them, to measure the training of (PyTorch, on one core).

One is mostly parameters and hardly computes, so that its steps are spent on exchanging them; of the
other the reverse is true. The examples are Gaussian, around a centre of their class. Nothing of
PyTorch is imported before it is needed, and nothing else of this package: the processes that train
import this module, and what it costs them is measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Networks by name, and the shape of an example.
NETWORKS: dict[str, tuple[int, ...]] = {"perceptron": (256,), "convolutional": (3, 32, 32)}

CLASSES = 10

#: Neurons of each hidden layer of the perceptron; channels of the convolutions.
HIDDEN = 1024
CHANNELS = (16, 32)

#: Examples of a data set.
EXAMPLES = 1024

#: Distance of an example from the centre of its class, over that of the centre from the origin.
NOISE = 2.0


class FlatNetwork(NamedTuple):
    """Network whose parameters are one contiguous vector.

    Attributes
    ----------
    module
        The network.
    parameters, gradients
        Vectors of shape (parameters,) in single precision. What is written there the network has;
        the backward pass adds to the gradients, so they must be zeroed before.
    """

    module: Any
    parameters: Any
    gradients: Any


class Examples(NamedTuple):
    """Inputs of shape (examples, ...) and classes of shape (examples,)."""

    inputs: Any
    classes: Any


def flat_network(name: str, seed: int) -> FlatNetwork:
    """Return a network with PyTorch's usual initial weights.

    Parameters
    ----------
    name
        One of `NETWORKS`.
    seed
        Seed of the weights.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = _layers(name)
    pieces = list(module.parameters())
    parameters = torch.cat([piece.detach().reshape(-1) for piece in pieces])
    gradients = torch.zeros_like(parameters)
    begin = 0
    for piece in pieces:
        part = slice(begin, begin + piece.numel())
        piece.data = parameters[part].view_as(piece)
        piece.grad = gradients[part].view_as(piece)
        begin = part.stop
    return FlatNetwork(module, parameters, gradients)


def _layers(name: str) -> Any:
    from torch import nn

    if name == "perceptron":
        (inputs,) = NETWORKS[name]
        return nn.Sequential(
            nn.Linear(inputs, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, CLASSES),
        )
    (colours, height, width), (few, many) = NETWORKS[name], CHANNELS
    return nn.Sequential(
        nn.Conv2d(colours, few, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(few, many, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(many * (height // 4) * (width // 4), CLASSES),
    )


def draw_examples(name: str, seed: int) -> Examples:
    """Draw the data set of a network.

    Parameters
    ----------
    name
        One of `NETWORKS`.
    seed
        Seed of the examples.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, *NETWORKS[name], generator=generator)
    classes = torch.randint(CLASSES, (EXAMPLES,), generator=generator)
    noise = torch.randn(EXAMPLES, *NETWORKS[name], generator=generator)
    return Examples((centres[classes] + NOISE * noise) / NOISE, classes)


def batch_of(examples: Examples, step: int, batch_size: int, part: slice) -> Examples:
    """Return a part of the batch of a step; batches repeat the data set in order.

    Parameters
    ----------
    examples
        The data set.
    step
        Number of the step, from 0.
    batch_size
        Examples of the whole batch.
    part
        Number of the step.
    """
    import torch

    rows = (torch.arange(part.start, part.stop) + step * batch_size) % len(examples.classes)
    return Examples(examples.inputs[rows], examples.classes[rows])


def summed_loss(module: Any, batch: Examples) -> Any:
    """Return the cross-entropy of a batch, summed over its examples."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(module(batch.inputs), batch.classes, reduction="sum")
