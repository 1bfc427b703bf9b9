"""Neural matrix factorisation, equation (12) of He et al.

A user and an item have two vectors each: one pair is multiplied element by element, the other goes
through a perceptron; a linear layer of both gives the logit of their interaction.

References
----------
He et al., "Neural Collaborative Filtering", WWW 2017
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Numbers of users and of items.
USERS, ITEMS = 6000, 4000

#: Sizes of a vector that is multiplied, of one that goes through the perceptron, and of the layers
#: of the perceptron.
FACTORS, INPUTS, LAYERS = 8, 32, (32, 16, 8)


def neumf() -> TrainingTask:
    """Return a task of 6000 users and 4000 items drawn evenly, with Adam (0.4 million weights)."""
    return TrainingTask(_module, _draw, _loss, _optimiser, smallest_batch=256, largest_batch=32768)


def _module() -> Any:
    """Return the network."""
    from torch import nn

    sizes = (2 * INPUTS, *LAYERS)
    layers = [
        part
        for inputs, outputs in itertools.pairwise(sizes)
        for part in (nn.Linear(inputs, outputs), nn.ReLU())
    ]
    return compose(
        _logits,
        user_factors=nn.Embedding(USERS, FACTORS),
        item_factors=nn.Embedding(ITEMS, FACTORS),
        users=nn.Embedding(USERS, INPUTS),
        items=nn.Embedding(ITEMS, INPUTS),
        perceptron=nn.Sequential(*layers),
        head=nn.Linear(FACTORS + LAYERS[-1], 1),
    )


def _logits(module: Any, users: Any, items: Any) -> Any:
    """Return the logits of the interactions, of shape (examples,)."""
    import torch

    factors = module.user_factors(users) * module.item_factors(items)
    hidden = module.perceptron(torch.cat([module.users(users), module.items(items)], dim=1))
    return module.head(torch.cat([factors, hidden], dim=1)).squeeze(1)


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    """Draw a batch."""
    import torch

    users = torch.randint(USERS, (examples,), generator=generator)
    items = torch.randint(ITEMS, (examples,), generator=generator)
    return users, items, torch.randint(2, (examples,), generator=generator).float()


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import binary_cross_entropy_with_logits

    users, items, interacted = batch
    return binary_cross_entropy_with_logits(module(users, items), interacted)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.Adam(parameters, lr=1e-3, fused=True)
