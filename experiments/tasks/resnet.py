"""Residual networks of He et al.: a small one for 32 × 32 images, and ResNet-50 for 224 × 224.

The small one has a convolution and three stages of 16, 32 and 64 channels at 32, 16 and 8 pixels,
each of one block of two convolutions (section 4.2; with n blocks a stage there are 6n + 2 layers).
ResNet-50 has four stages of 3, 4, 6 and 3 blocks of three convolutions each, of which the first and
the last are 1 × 1 (table 1); its blocks are narrowed by their second convolution.

References
----------
He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4 and table 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Channels of an image.
COLOURS = 3

#: Channels of the output of a block of three convolutions, in those of its second one.
WIDENED = 4


@dataclass(frozen=True)
class ResidualNetwork:
    """Residual network.

    Parameters
    ----------
    pixels, classes
        Width of an image, and number of classes.
    channels, blocks
        Channels of the convolutions, and number of blocks, of each stage.
    bottleneck
        Whether a block has three convolutions, and the first layer, of 7 × 7 with pooling, divides
        the width by four.
    """

    pixels: int
    classes: int
    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    bottleneck: bool

    def make_module(self) -> Any:
        """Return the network."""
        from torch import nn

        inputs, layers = self.channels[0], list[Any]()
        for stage, (channels, blocks) in enumerate(zip(self.channels, self.blocks, strict=True)):
            for number in range(blocks):
                stride = 2 if stage and not number else 1
                layers.append(_block(inputs, channels, stride, bottleneck=self.bottleneck))
                inputs = channels * (WIDENED if self.bottleneck else 1)
        first = (
            [_convolution(COLOURS, self.channels[0], 2, 7), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
            if self.bottleneck
            else [_convolution(COLOURS, self.channels[0]), nn.ReLU()]
        )
        end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, self.classes))
        return nn.Sequential(*first, *layers, *end)

    def draw_batch(self, examples: int, generator: Any) -> tuple[Any, ...]:
        """Draw images and classes."""
        import torch

        images = torch.randn(examples, COLOURS, self.pixels, self.pixels, generator=generator)
        return images, torch.randint(self.classes, (examples,), generator=generator)

    def task(self, largest_batch: int) -> TrainingTask:
        """Return the task to train it with momentum."""
        return TrainingTask(
            self.make_module, self.draw_batch, _loss, _optimiser, largest_batch=largest_batch
        )


def resnet() -> TrainingTask:
    """Return a task of eight layers and ten classes (78 thousand weights)."""
    return ResidualNetwork(32, 10, (16, 32, 64), (1, 1, 1), bottleneck=False).task(1024)


def resnet50() -> TrainingTask:
    """Return ResNet-50 on images of 224 pixels of a thousand classes (25.6 million weights)."""
    return ResidualNetwork(224, 1000, (64, 128, 256, 512), (3, 4, 6, 3), bottleneck=True).task(1024)


def _convolution(inputs: int, outputs: int, stride: int = 1, size: int = 3) -> Any:
    """Return a convolution with batch normalisation."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


def _block(inputs: int, channels: int, stride: int, *, bottleneck: bool) -> Any:
    """Return two or three convolutions with a shortcut around them."""
    from torch import nn
    from torch.nn.functional import relu

    if bottleneck:
        outputs = WIDENED * channels
        layers = [
            _convolution(inputs, channels, size=1),
            nn.ReLU(),
            _convolution(channels, channels, stride),
            nn.ReLU(),
            _convolution(channels, outputs, size=1),
        ]
    else:
        outputs = channels
        layers = [
            _convolution(inputs, outputs, stride),
            nn.ReLU(),
            _convolution(outputs, outputs),
        ]
    changes = inputs != outputs or stride > 1
    return compose(
        lambda block, images: relu(block.layers(images) + block.shortcut(images)),
        layers=nn.Sequential(*layers),
        shortcut=_convolution(inputs, outputs, stride, size=1) if changes else nn.Identity(),
    )


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    images, classes = batch
    return cross_entropy(module(images), classes)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
