"""Certificates of time shares as files, documented in `data/FORMAT.md`.

They hold prices that prove a bound; `experiments/verification/verify_time_shares.py` checks them
independently of this library.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    check_format,
    check_keys,
    in_file,
    pack_number,
    read_document,
    rows_text,
    shown,
    unpack_number,
)
from goodalloc.data.gavel.time_sharing_file import digest_of, numbers, time_sharing_to_dict
from goodalloc.formulations.gavel.share_certificate import SharePrices
from goodalloc.models.support.validation import real_array, require_choice
from goodalloc.solvers.certificates.certificate_file import CERTIFICATE_FORMAT, VERSION

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.data.gavel.time_sharing_file import ShareProblem
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.gavel.time_shares import ShareResult


KIND = "time shares"


class ShareCertificate(NamedTuple):
    """Contents of a file; `experiments/verification/verify_time_shares.py` checks the proof.

    Attributes
    ----------
    digest
        Digest of the problem, by `digest_of`.
    bound
        Claimed bound.
    prices
        Prices that are to prove it.
    """

    digest: str
    bound: float
    prices: SharePrices


def read_share_certificate(path: str | os.PathLike[str]) -> ShareCertificate:
    """Return the certificate in a file.

    Raises
    ------
    ValueError
        If the file cannot be read, or an entry is missing, unknown or invalid; the message names
        the file and the item.

    Examples
    --------
    >>> from goodalloc.data.gavel import ShareProblem
    >>> from goodalloc.models.gavel import TimeSharing, max_min
    >>> from goodalloc.solvers.gavel import best_shares, read_share_certificate
    >>> from goodalloc.solvers.gavel.share_certificate_file import write_share_certificate
    >>> sharing = TimeSharing(["a", "b"], [[2.0], [1.0]], [1], [1, 1])  # two jobs, one GPU
    >>> problem = ShareProblem(sharing, max_min(sharing))
    >>> result = best_shares(sharing, problem.goal)
    >>> write_share_certificate(problem, result, "certificate.json")
    >>> read_share_certificate("certificate.json").bound == result.bound
    True
    """
    document = read_document(path, (CERTIFICATE_FORMAT,))
    try:
        return share_certificate_from_dict(document)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def write_share_certificate(
    problem: ShareProblem, result: ShareResult, path: str | os.PathLike[str]
) -> None:
    """Write the certificate of a result to a file, atomically.

    Parameters
    ----------
    problem, result, path
        Arguments of `share_certificate_to_dict`, and the file.

    Raises
    ------
    ValueError
        If the file cannot be written, or the result proves nothing.
    """
    document = share_certificate_to_dict(problem, result)
    tables = {"prices": document.pop("prices")}
    write_atomically(path, rows_text(document, tables))


def share_certificate_to_dict(problem: ShareProblem, result: ShareResult) -> Document:
    """Return the proof of a result's bound as a JSON document; see `data/FORMAT.md`.

    Parameters
    ----------
    problem
        The problem that was solved.
    result
        Its result by `best_shares` or `best_shares_with_pairs`.

    Raises
    ------
    ValueError
        If the result proves nothing, or the goal or the promises are of other jobs.
    """
    if result.prices is None:
        raise ValueError("Certificate: the result has no prices; expected one with a proved bound.")
    return {
        "format": CERTIFICATE_FORMAT,
        "version": VERSION,
        "kind": KIND,
        "digest": digest_of(time_sharing_to_dict(problem)),
        "bound": pack_number(result.bound),
        "prices": {name: price.tolist() for name, price in result.prices._asdict().items()},
    }


def share_certificate_from_dict(document: object) -> ShareCertificate:
    """Return the certificate in a JSON document; reverse of `share_certificate_to_dict`.

    Raises
    ------
    ValueError
        If an entry is missing, unknown or invalid; the message names the item.
    """
    checked = check_format(document, (CERTIFICATE_FORMAT,), VERSION)
    check_keys("Certificate", checked, ("format", "version", "kind", "digest", "bound", "prices"))
    require_choice("Certificate: kind", checked["kind"], (KIND,))
    if not isinstance(checked["digest"], str):
        raise ValueError(f"Certificate: digest is {shown(checked['digest'])}; expected a string.")
    bound = unpack_number("Certificate: bound", checked["bound"])
    if math.isnan(bound):
        raise ValueError("Certificate: bound is null; expected a number, 'inf' or '-inf'.")
    check_keys("Prices", checked["prices"], SharePrices._fields)
    prices = SharePrices(*(_prices(name, checked["prices"]) for name in SharePrices._fields))
    return ShareCertificate(checked["digest"], bound, prices)


def _prices(name: str, table: Document) -> Floats:
    array = real_array(f"Prices: {name}", numbers(f"Prices: {name}", table[name]))
    wrong = array[~(np.isfinite(array) & (array >= 0))]
    if array.ndim != 1 or wrong.size:
        found = wrong[0] if wrong.size else f"a table of shape {array.shape}"
        raise ValueError(f"Prices: {name} has {found}; expected finite numbers of at least 0.")
    return array
