"""BERT-base, which predicts tokens that are masked (Devlin et al.).

The encoder of a transformer with normalisation behind each part; the embedding of the tokens is the
matrix of the logits, too. There is no dropout, so that equal steps do equal work, and no next
sentence is predicted, as in what followed BERT.

References
----------
Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    NAACL 2019
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Number of tokens, of kinds of sentences, and length of a text.
TOKENS, KINDS, LENGTH = 30522, 2, 512

#: Size of the vector of a token, attention heads, layers, and hidden size of a layer.
WIDTH, HEADS, LAYERS, HIDDEN = 768, 12, 12, 3072

#: The token in the place of one that is masked, part of the tokens that are, and the class of the
#: others, which PyTorch's loss leaves out.
MASK, MASKED, OTHER = 103, 0.15, -100


def bert_base() -> TrainingTask:
    """Return a task on texts of 512 tokens (109.5 million weights), with AdamW."""
    return TrainingTask(_module, _draw, _loss, _optimiser, largest_batch=512)


def _module() -> Any:
    """Return the network."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True
    )
    return compose(
        _logits,
        tokens=nn.Embedding(TOKENS, WIDTH),
        places=nn.Embedding(LENGTH, WIDTH),
        kinds=nn.Embedding(KINDS, WIDTH),
        norm=nn.LayerNorm(WIDTH),
        layers=nn.TransformerEncoder(layer, LAYERS, None, False),
        head=nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH)),
        bias=nn.ParameterList([nn.Parameter(torch.zeros(TOKENS))]),
    )


def _logits(module: Any, texts: Any) -> Any:
    """Return the logits of every token, of shape (examples, length, tokens)."""
    import torch
    from torch.nn.functional import linear

    places = torch.arange(texts.shape[1], device=texts.device)
    embedded = module.tokens(texts) + module.places(places) + module.kinds.weight[0]
    hidden = module.head(module.layers(module.norm(embedded)))
    return linear(hidden, module.tokens.weight, module.bias[0])


def _draw(examples: int, generator: Any) -> tuple[Any, ...]:
    """Draw texts with masks, and the tokens that are masked."""
    import torch

    texts = torch.randint(TOKENS, (examples, LENGTH), generator=generator)
    masked = torch.rand(texts.shape, generator=generator) < MASKED
    return texts.where(~masked, MASK), texts.where(masked, OTHER)


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of the masked tokens."""
    from torch.nn.functional import cross_entropy

    texts, tokens = batch
    return cross_entropy(module(texts).flatten(0, 1), tokens.flatten(), ignore_index=OTHER)


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
