"""Residual network for 32 × 32 images, section 4.2 of He et al., with one block per stage.

It has a convolution and three stages of 16, 32 and 64 channels at 32, 16 and 8 pixels (with n
blocks per stage there are 6n + 2 layers; here n = 1), batch normalisation, and a shortcut by a
1 × 1 convolution where the shape changes.

References
----------
He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Channels and width of an image, and number of classes.
COLOURS, PIXELS, CLASSES = 3, 32, 10

#: Channels of the stages.
CHANNELS = (16, 32, 64)


def resnet() -> TrainingTask:
    """Return a task of eight layers and ten classes, with momentum (78 thousand weights)."""
    return TrainingTask(_module, _draw, _loss, _optimiser, largest_batch=1024)


def _module() -> Any:
    """Return the network."""
    from torch import nn

    first = CHANNELS[0]
    stages = [
        _block(inputs, outputs)
        for inputs, outputs in zip((first, *CHANNELS[:-1]), CHANNELS, strict=True)
    ]
    return nn.Sequential(
        _convolution(COLOURS, first),
        nn.ReLU(),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(CHANNELS[-1], CLASSES),
    )


def _convolution(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> Any:
    """Return a convolution with batch normalisation."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


def _block(inputs: int, outputs: int) -> Any:
    """Return two convolutions with a shortcut around them."""
    from torch import nn
    from torch.nn.functional import relu

    changes = inputs != outputs
    stride = 2 if changes else 1
    return compose(
        lambda block, images: relu(block.layers(images) + block.shortcut(images)),
        layers=nn.Sequential(
            _convolution(inputs, outputs, stride), nn.ReLU(), _convolution(outputs, outputs)
        ),
        shortcut=_convolution(inputs, outputs, stride, size=1) if changes else nn.Identity(),
    )


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    """Draw a batch."""
    import torch

    images = torch.randn(examples, COLOURS, PIXELS, PIXELS, generator=generator)
    return images, torch.randint(CLASSES, (examples,), generator=generator)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    images, classes = batch
    return cross_entropy(module(images), classes)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
