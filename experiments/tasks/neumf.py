"""Neural matrix factorisation, equation (12) of He et al.

A user and an item have two vectors each: one pair is multiplied element by element, the other goes
through a perceptron; a linear layer of both gives the logit of their interaction. It is there in a
small size, and for the users and items of MovieLens-20M (Harper and Konstan 2015) with the layers
of the recommendation benchmark of MLPerf.

References
----------
He et al., "Neural Collaborative Filtering", WWW 2017
Mattson et al., "MLPerf Training Benchmark", MLSys 2020
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class MatrixFactorisation:
    """Neural matrix factorisation.

    Parameters
    ----------
    users, items
        Numbers of users and of items.
    factors, inputs
        Sizes of a vector that is multiplied, and of one that goes through the perceptron.
    layers
        Sizes of the layers of the perceptron.
    """

    users: int
    items: int
    factors: int
    inputs: int
    layers: tuple[int, ...]

    def make_module(self) -> Any:
        """Return the network."""
        from torch import nn

        sizes = (2 * self.inputs, *self.layers)
        layers = [
            part
            for inputs, outputs in itertools.pairwise(sizes)
            for part in (nn.Linear(inputs, outputs), nn.ReLU())
        ]
        return compose(
            _logits,
            user_factors=nn.Embedding(self.users, self.factors),
            item_factors=nn.Embedding(self.items, self.factors),
            users=nn.Embedding(self.users, self.inputs),
            items=nn.Embedding(self.items, self.inputs),
            perceptron=nn.Sequential(*layers),
            head=nn.Linear(self.factors + self.layers[-1], 1),
        )

    def draw_batch(self, examples: int, generator: Any) -> tuple[Any, ...]:
        """Draw users and items evenly, and whether they interacted."""
        import torch

        users = torch.randint(self.users, (examples,), generator=generator)
        items = torch.randint(self.items, (examples,), generator=generator)
        return users, items, torch.randint(2, (examples,), generator=generator).float()

    def task(self, largest_batch: int) -> TrainingTask:
        """Return the task to train it with Adam."""
        return TrainingTask(
            self.make_module, self.draw_batch, _loss, _optimiser, 256, largest_batch
        )


def neumf() -> TrainingTask:
    """Return a task of 6000 users and 4000 items (0.4 million weights)."""
    return MatrixFactorisation(6000, 4000, 8, 32, (32, 16, 8)).task(32768)


def neumf_20m() -> TrainingTask:
    """Return a task of the users and items of MovieLens-20M (31.8 million weights)."""
    return MatrixFactorisation(138_493, 26_744, 64, 128, (256, 128, 64)).task(2**20)


def _logits(module: Any, users: Any, items: Any) -> Any:
    """Return the logits of the interactions, of shape (examples,)."""
    import torch

    factors = module.user_factors(users) * module.item_factors(items)
    hidden = module.perceptron(torch.cat([module.users(users), module.items(items)], dim=1))
    return module.head(torch.cat([factors, hidden], dim=1)).squeeze(1)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    users, items, interacted = batch
    return binary_cross_entropy_with_logits(module(users, items), interacted)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.Adam(parameters, lr=1e-3, fused=True)
