"""Transformer that predicts the next token: the decoder of Vaswani et al. alone.

It has learned positions, normalisation before each part as in Radford et al., and no dropout, so
that equal steps do equal work.

References
----------
Vaswani et al., "Attention Is All You Need", NIPS 2017
Radford et al., "Language Models are Unsupervised Multitask Learners", 2019
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Number of tokens, and length of a text.
TOKENS, LENGTH = 1000, 64

#: Size of the vector of a token, attention heads, layers, and hidden size of a layer.
WIDTH, HEADS, LAYERS, HIDDEN = 128, 4, 2, 512


def transformer() -> TrainingTask:
    """Return a task of two layers of 128 on texts of 64 of 1000 tokens (0.66 million weights)."""
    return TrainingTask(_module, _draw, _loss, _optimiser, largest_batch=512)


def _module() -> Any:
    """Return the network."""
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=True
    )
    return compose(
        _logits,
        tokens=nn.Embedding(TOKENS, WIDTH),
        places=nn.Embedding(LENGTH, WIDTH),
        layers=nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), False),
        head=nn.Linear(WIDTH, TOKENS),
    )


def _logits(module: Any, texts: Any) -> Any:
    """Return the logits of every next token, of shape (examples, length, tokens)."""
    import torch
    from torch import nn

    length = texts.shape[1]
    embedded = module.tokens(texts) + module.places(torch.arange(length, device=texts.device))
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=texts.device)
    return module.head(module.layers(embedded, mask=mask, is_causal=True))


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    """Draw a batch."""
    import torch

    return (torch.randint(TOKENS, (examples, LENGTH + 1), generator=generator),)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    (texts,) = batch
    logits = module(texts[:, :-1])
    return cross_entropy(logits.reshape(-1, TOKENS), texts[:, 1:].reshape(-1))


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)
