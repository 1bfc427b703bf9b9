"""Certificates as versioned JSON files, documented in `data/FORMAT.md`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import pack_number, rows_text
from goodalloc.data.files.instance import instance_digest
from goodalloc.formulations.certificates.certificate import Leaf
from goodalloc.formulations.certificates.counted_prices import CountedPrices
from goodalloc.formulations.certificates.domination import Standing

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from goodalloc.data.documents.json_file import Document
    from goodalloc.formulations.certificates.certificate import Certificate, Tree
    from goodalloc.formulations.certificates.prices import Prices, WeightedValues

CERTIFICATE_FORMAT = "goodalloc-certificate"
VERSION = 1


def write_certificate(certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Write a certificate to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.models import Cluster, Instance, Job, SpeedupTable
    >>> from goodalloc.solvers import solve, write_certificate
    >>> job = Job("a", SpeedupTable((1.0, 1.8), (1.0, 1.5)), age=3600.0)
    >>> result = solve(Instance(Cluster.uniform(1, 2), (job,)), certificate=True)
    >>> write_certificate(result.certificate, "certificate.json")
    >>> '"kind": "round"' in Path("certificate.json").read_text()
    True
    """
    document = certificate_to_dict(certificate)
    write_atomically(path, rows_text(document, {}))


def certificate_to_dict(certificate: Certificate) -> Document:
    """Return a certificate as a JSON document; see `data/FORMAT.md`."""
    bounds = certificate.bounds
    standing = Standing(bounds.instance, bounds.choices)
    return certificate_document(
        certificate, instance_digest(bounds.instance), standing, prices_to_dict
    )


def certificate_document(
    certificate: Certificate,
    digest: str,
    standing: Standing,
    price_document: Callable[[Prices], Document],
) -> Document:
    """Return a certificate as a JSON document.

    Parameters
    ----------
    certificate
        The certificate.
    digest
        Digest of the round that it is of.
    standing
        All choices of the round.
    price_document
        Function that returns the prices of a leaf as a document.
    """
    bounds = certificate.bounds
    instance = bounds.instance
    # only bounds with counts have any; their class is at the end of a long chain of imports
    proofs = [
        {"level": one.level, "least": one.least, "prices": price_document(one.proof)}
        for one in getattr(bounds, "counts", ())
    ]
    units = bounds.linear_units.tolist()
    if instance.shares_gpus:
        units[0] = bounds.pieces.share_unit
    return {
        "format": CERTIFICATE_FORMAT,
        "version": VERSION,
        "kind": "round",
        "instance": instance.name,
        "digest": digest,
        "bound": pack_number(certificate.bound),
        "units": units,
        "grid": bounds.grid.unit.tolist(),
        "tree": _tree(certificate.tree, standing, price_document),
        **({"counts": proofs} if proofs else {}),
    }


def _tree(tree: Tree, standing: Standing, price_document: Callable[[Prices], Document]) -> Document:
    """Return a case and the cases it was split into as a document, without recursion."""
    root: Document = {}
    waiting: list[tuple[Tree, Document]] = [(tree, root)]
    while waiting:
        node, document = waiting.pop()
        if isinstance(node, Leaf):
            if math.isfinite(node.measure.power):
                document["reference"] = node.measure.mark
            document["prices"] = price_document(node.prices)
            continue
        document["job"] = node.job
        document["choices"] = [list(name) for name in standing.named(node.job, node.chosen)]
        for name, case in (("inside", node.inside), ("outside", node.outside)):
            document[name] = {}
            waiting.append((case, document[name]))
    return root


def prices_to_dict(prices: Prices) -> Document:
    """Return the prices of a leaf as a document; see `data/FORMAT.md`."""
    document: Document = {}
    if prices.resources is not None and prices.resources.any():
        document["resources"] = prices.resources.tolist()
    values = [_values(one) for one in prices.values]
    if any(values):
        document["values"] = [one for one in values if one]
    if prices.stays is not None and prices.stays.any():
        document["stays"] = prices.stays.tolist()
    if prices.parts:
        document["parts"] = [
            [[int(units), float(price)] for units, price in zip(*part, strict=True) if price > 0]
            for part in prices.parts
        ]
    if isinstance(prices, CountedPrices) and any(prices.counts):
        document["counts"] = list(prices.counts)
    return document


def _values(values: WeightedValues) -> Document:
    """Return value functions by their pieces; empty where no piece has a price."""
    document: Document = {
        "pieces": [_seeds(one.size, one.worth * values.weight) for one in values.by_group],
        "distributed": [
            _seeds(one.extra, one.extra_worth * values.weight) for one in values.by_group
        ],
    }
    return {name: seeds for name, seeds in document.items() if any(seeds)}


def _seeds(units: NDArray[np.int64], price: NDArray[np.float64]) -> list[list[Any]]:
    return [
        [*size, worth]
        for size, worth in zip(units.tolist(), price.tolist(), strict=True)
        if worth > 0
    ]
