"""A transformer that predicts the next token: Vaswani et al. (NIPS'17), the decoder alone.

Learned positions, normalisation before each part (Radford et al., 2019), no dropout, so that equal
steps do equal work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKENS, LENGTH = 1000, 64

#: Numbers of a token, attention heads, layers, and hidden numbers of a layer.
WIDTH, HEADS, LAYERS, HIDDEN = 128, 4, 2, 512


def transformer() -> TrainingTask:
    """Two layers of 128, texts of 64 random tokens of 1000, AdamW (0.66 million weights)."""
    return TrainingTask(_module, _draw, _loss, _optimiser, largest_batch=512)


def _module() -> Any:
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
    """Of the next token, of shape (examples, length, tokens): each sees those before it."""
    import torch
    from torch import nn

    length = texts.shape[1]
    embedded = module.tokens(texts) + module.places(torch.arange(length, device=texts.device))
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=texts.device)
    return module.head(module.layers(embedded, mask=mask, is_causal=True))


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    import torch

    return (torch.randint(TOKENS, (examples, LENGTH + 1), generator=generator),)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    from torch.nn.functional import cross_entropy

    (texts,) = batch
    logits = module(texts[:, :-1])
    return cross_entropy(logits.reshape(-1, TOKENS), texts[:, 1:].reshape(-1))


def _optimiser(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)
