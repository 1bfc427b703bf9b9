"""Shipped quantiles of a classifier's confidence in predictable and in other jobs.

They are of a random forest with what is known when a job is submitted, of jobs that it was not
trained on (`experiments/studies/predictability/study.py`,
`experiments/studies/predictability/fit_confidence.py`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.json_file import as_float, check_keys, shown
from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.support.validation import require_share

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "goodalloc-confidence"
VERSION = 1

#: Where they ship.
SHIPPED = "profiles/confidence.json"

#: Kinds of jobs.
KINDS = ("predictable", "unpredictable")


def parse_confidence(text: str) -> Mapping[str, tuple[float, ...]]:
    """Read quantiles, at equal distances, by the kind of job.

    Raises
    ------
    ValueError
        If the format or version differs, a kind is missing, or a number is out of range.
    """
    document = parse_document(text, FORMAT, VERSION)
    check_keys("Confidence", document, ("format", "version", "source", "quantiles"))
    quantiles = check_keys("Confidence: quantiles", document["quantiles"], KINDS)
    return {kind: _ascending(f"Confidence: {kind}", quantiles[kind]) for kind in KINDS}


def _ascending(item: str, values: object) -> tuple[float, ...]:
    """Return at least two ascending probabilities, checked."""
    if not isinstance(values, list) or len(values) < 2:
        raise ValueError(f"{item} is {shown(values)}; expected a list of at least two numbers.")
    numbers = tuple(as_float(value) for value in values)
    for number in numbers:
        require_share(item, number)
    if list(numbers) != sorted(numbers):
        raise ValueError(f"{item} does not ascend; expected quantiles.")
    return numbers


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, tuple[float, ...]]:
    """Return the shipped quantiles, read once."""
    return parse_confidence(read_shipped(SHIPPED))


def confidence_at(quantile: float, *, predictable: bool) -> float:
    """Return the classifier's confidence that a job is predictable.

    Parameters
    ----------
    quantile
        From 0 to 1: which part of the jobs of its kind the classifier is less sure of.
    predictable
        Its kind.

    Raises
    ------
    ValueError
        If the quantile is not from 0 to 1.
    """
    require_share("Confidence: quantile", quantile)
    values = _shipped()[KINDS[0] if predictable else KINDS[1]]
    return float(np.interp(quantile, np.linspace(0.0, 1.0, len(values)), values))
