"""Certificates of rounds on trees as versioned JSON files, documented in `data/FORMAT.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import rows_text
from goodalloc.formulations.certificates.tree_prices import TreePriceBound, TreePrices
from goodalloc.formulations.certificates.tree_standing import TreeStanding
from goodalloc.solvers.certificates.certificate_file import certificate_document, prices_to_dict
from goodalloc.solvers.certificates.resolved_tree import resolved_digest

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.formulations.certificates.certificate import Certificate
    from goodalloc.formulations.certificates.prices import Prices
    from goodalloc.models.support.array_types import Floats


def write_tree_certificate(certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Write a certificate of `certify_tree` to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.certificates import certify_tree, write_tree_certificate
    >>> from goodalloc.solvers.topology import solve_tree
    >>> round_ = generate_on_tree(1, nodes=16, load=0.5)
    >>> write_tree_certificate(certify_tree(round_, solve_tree(round_).fitness), "proof.json")
    >>> '"kind": "round"' in Path("proof.json").read_text()
    True
    """
    write_atomically(path, rows_text(tree_certificate_to_dict(certificate), {}))


def tree_certificate_to_dict(certificate: Certificate) -> Document:
    """Return a certificate of `certify_tree` as a JSON document; see `data/FORMAT.md`."""
    bounds = certificate.bounds
    assert isinstance(bounds, TreePriceBound)
    standing = TreeStanding(bounds.instance, bounds.choices, bounds.round_)
    digest = resolved_digest(bounds.round_)
    return certificate_document(certificate, digest, standing, _prices_to_dict)


def _prices_to_dict(prices: Prices) -> Document:
    """Return the prices of a leaf, among them those of what the levels hold."""
    document = prices_to_dict(prices)
    if not isinstance(prices, TreePrices):
        return document
    if any(level.any() for level in prices.domains):
        document["domains"] = [_by_size(level) for level in prices.domains]
    if any(prices.uplinks):
        document["uplinks"] = list(prices.uplinks)
    if prices.nested:
        document["nested"] = [
            {
                "one_node": _by_size(one.one_node),
                "levels": [_by_size(level) for level in one.levels],
                "above": one.above,
                "stays": one.stays.tolist(),
            }
            for one in prices.nested
        ]
    return document


def _by_size(price: Floats) -> list[list[Any]]:
    """Return sizes with their prices, those above 0."""
    sizes = np.flatnonzero(price > 0)
    return [
        [size, worth] for size, worth in zip(sizes.tolist(), price[sizes].tolist(), strict=True)
    ]
