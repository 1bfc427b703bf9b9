"""Checking certificates of time shares, for the command line."""

from __future__ import annotations

from goodalloc.data.documents.json_file import pack_number, read_document
from goodalloc.data.gavel.time_sharing_file import (
    SHARES_FORMAT,
    SHARING_FORMAT,
    read_time_shares,
    read_time_sharing,
)
from goodalloc.experiments.cli.output import FAILED, Output
from goodalloc.experiments.reporting.report import percent
from goodalloc.experiments.verification.verify_time_shares import verify
from goodalloc.solvers.certificates.certificate_file import CERTIFICATE_FORMAT
from goodalloc.solvers.gavel.share_certificate_file import read_share_certificate


def verify_shares(problem: str, shares: str, certificate: str, *, exact: bool = False) -> Output:
    """Check a certificate of time shares; exit code 1 if it is refused.

    Parameters
    ----------
    problem, shares, certificate
        The three files, of which `data/FORMAT.md` tells.
    exact
        Whether to calculate in rational numbers.

    Raises
    ------
    ValueError
        If a file cannot be read, makes no sense, or is of other jobs.
    """
    read_time_shares(shares, read_time_sharing(problem).sharing)
    read_share_certificate(certificate)
    asked = read_document(problem, (SHARING_FORMAT,))
    answer = read_document(shares, (SHARES_FORMAT,))
    claim = read_document(certificate, (CERTIFICATE_FORMAT,))
    try:
        verdict = verify(asked, answer, claim, exact)
    except ValueError as error:
        raise ValueError(f"Certificate '{certificate}': {error}") from error
    lines = [
        ("verdict", "verified" if verdict.verified else "refused"),
        ("because", verdict.message),
    ]
    if verdict.verified:
        lines += [("status", verdict.status), ("bound", f"{verdict.bound:.12g} (proved)")]
    if verdict.verified and verdict.status != "infeasible":
        lines += [("value", f"{verdict.value:.12g}"), ("gap", percent(verdict.gap))]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    numbers = {name: pack_number(getattr(verdict, name)) for name in ("value", "bound", "gap")}
    return Output(text, verdict._asdict() | numbers, 0 if verdict.verified else FAILED)
