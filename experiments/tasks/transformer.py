"""Transformers that predict the next token: the decoder of Vaswani et al. alone, as GPT-2 has it.

Positions are learned, and normalisation is before each part. There is no dropout, so that equal
steps do equal work.

References
----------
Vaswani et al., "Attention Is All You Need", NIPS 2017
Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.tasks.modules import compose
from goodalloc.experiments.tasks.task import TrainingTask

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Hidden size of a layer, in sizes of a vector.
HIDDEN = 4


@dataclass(frozen=True)
class LanguageModel:
    """Transformer over texts of equal length.

    Parameters
    ----------
    tokens, length
        Number of tokens, and length of a text.
    width, heads, layers
        Size of the vector of a token, attention heads of a layer, and layers.
    activation
        Activation between the two matrices of a layer.
    tied
        Whether the embedding of the tokens is the matrix of the logits, too.
    """

    tokens: int
    length: int
    width: int
    heads: int
    layers: int
    activation: str = "gelu"
    tied: bool = True

    def make_module(self) -> Any:
        """Return the network."""
        from torch import nn

        layer = nn.TransformerEncoderLayer(
            self.width,
            self.heads,
            HIDDEN * self.width,
            dropout=0.0,
            activation=self.activation,
            batch_first=True,
            norm_first=True,
        )
        tokens = nn.Embedding(self.tokens, self.width)
        head = nn.Linear(self.width, self.tokens, bias=not self.tied)
        if self.tied:
            head.weight = tokens.weight
        return compose(
            _logits,
            tokens=tokens,
            places=nn.Embedding(self.length, self.width),
            layers=nn.TransformerEncoder(layer, self.layers, nn.LayerNorm(self.width), False),
            head=head,
        )

    def draw_batch(self, examples: int, generator: Any) -> tuple[Any, ...]:
        """Draw texts, of one more token than the network reads."""
        import torch

        return (torch.randint(self.tokens, (examples, self.length + 1), generator=generator),)

    def task(self, largest_batch: int) -> TrainingTask:
        """Return the task to train it with AdamW."""
        return TrainingTask(
            self.make_module, self.draw_batch, _loss, _optimiser, largest_batch=largest_batch
        )


def transformer() -> TrainingTask:
    """Return a task of two layers of 128 on texts of 64 of 1000 tokens (0.66 million weights)."""
    small = LanguageModel(1000, 64, width=128, heads=4, layers=2, activation="relu", tied=False)
    return small.task(512)


def gpt_124m() -> TrainingTask:
    """Return the smallest GPT-2 on texts of 1024 tokens (124 million weights)."""
    return LanguageModel(tokens=50257, length=1024, width=768, heads=12, layers=12).task(256)


def gpt_350m() -> TrainingTask:
    """Return the second GPT-2 on texts of 1024 tokens (355 million weights)."""
    return LanguageModel(tokens=50257, length=1024, width=1024, heads=16, layers=24).task(256)


def _logits(module: Any, texts: Any) -> Any:
    """Return the logits of every next token, of shape (examples, length, tokens)."""
    import torch
    from torch import nn

    length = texts.shape[1]
    embedded = module.tokens(texts) + module.places(torch.arange(length, device=texts.device))
    mask = nn.Transformer.generate_square_subsequent_mask(length, device=texts.device)
    return module.head(module.layers(embedded, mask=mask, is_causal=True))


def _loss(module: Any, batch: tuple[Any, ...]) -> Any:
    """Return the mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    (texts,) = batch
    logits = module(texts[:, :-1])
    return cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())


def _optimiser(parameters: Iterable[Any]) -> Any:
    """Return the optimiser."""
    import torch

    return torch.optim.AdamW(parameters, lr=1e-3, fused=True)
