"""Language models that ship: sizes, where they fit, and the fitted seconds of their passes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.plans.sharded_training import LanguageModel, PassCoefficients, ShardedTimes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.documents.json_file import Document

FORMAT, VERSION, SHIPPED = "goodalloc-language-models", 1, "profiles/language_models.json"

#: Tokens of the sequences by which models are said to fit.
TOKENS = 2048


class Fit(NamedTuple):
    """How a language model fits on GPUs of a type, as far as it was measured.

    Attributes
    ----------
    gpus
        Fewest GPUs.
    sequences
        Most sequences of `TOKENS` tokens on a GPU.
    recomputes
        Whether activations are computed again.
    """

    gpus: int
    sequences: int
    recomputes: bool


def _document() -> Document:
    return parse_document(read_shipped(SHIPPED), FORMAT, VERSION)


@cache
def shipped_language_models() -> Mapping[str, LanguageModel]:
    """Return the language models by name, from 125 M to 70 B parameters.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_language_models
    >>> round(shipped_language_models()["7b"].parameters / 1e9, 1)
    6.7
    """
    return {name: LanguageModel(*sizes) for name, sizes in _document()["models"].items()}


@cache
def shipped_llm_fits() -> Mapping[str, Mapping[str, Fit]]:
    """Return where each language model fits, by its name and the type of GPU."""
    return {
        name: {
            gpu_type: Fit(gpus, sequences, bool(recomputes))
            for gpu_type, (gpus, sequences, recomputes) in fits.items()
        }
        for name, fits in _document()["fits"].items()
    }


@cache
def shipped_llm_times() -> ShardedTimes:
    """Return the fitted seconds of passes.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_llm_times
    >>> sorted(shipped_llm_times().coefficients)
    ['a100_40gb', 'a100_80gb', 'h100_80gb']
    """
    found = _document()["coefficients"]
    return ShardedTimes({name: PassCoefficients(**numbers) for name, numbers in found.items()})
