"""Command `verify`: check certificates with the stand-alone checkers."""

from __future__ import annotations

import csv
import json
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import pack_number, read_document, read_text
from goodalloc.data.files.format_names import ALLOCATION_FORMAT, RESULT_FORMAT
from goodalloc.data.files.instance import instance_to_dict, write_instance
from goodalloc.data.gavel.time_sharing_file import (
    SHARES_FORMAT,
    SHARING_FORMAT,
    read_time_shares,
    read_time_sharing,
)
from goodalloc.data.rounds.any_round import PARQUET
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.data.rounds.column_file import read_columns
from goodalloc.experiments.cli.output import (
    FAILED,
    Output,
    check_distinct,
    check_target,
)
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.cli.rounds.trees import read_tree
from goodalloc.experiments.reporting.report import percent
from goodalloc.experiments.verification import (
    verify,
    verify_columns,
    verify_hindsight,
    verify_mode_columns,
    verify_replays,
    verify_time_shares,
)
from goodalloc.models.support.validation import literal
from goodalloc.solvers.certificates.certificate_file import CERTIFICATE_FORMAT
from goodalloc.solvers.certificates.resolved_tree import resolved_to_dict, write_resolved
from goodalloc.solvers.gavel.share_certificate_file import read_share_certificate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from goodalloc.data.documents.json_file import Document

#: Formats of the files of traces, as their checkers name them.
PROBLEM_FORMAT, SCHEDULE_FORMAT, BOUND_FORMAT, LATE_FORMAT = (
    f"goodalloc-{form}" for form in verify_hindsight.KEYS
)
TRACE_BOUNDS = (BOUND_FORMAT, LATE_FORMAT, verify_replays.FORMAT)

#: Late jobs by which rounding in the safe direction is below a whole number.
ROUNDING = 1e-6

#: What the checker says of a certificate of another round, such as one with a tree that is missing.
OTHER_ROUND = "its digest is not that of the instance"

#: Hints where a certificate is of another round, without a tree and with one.
WITHOUT_TREE = "The certificate of a round on a tree is checked with --tree."
ON_A_TREE = (
    "The last digits of speeds on a tree are those of the processor: with AVX-512, set "
    "NPY_DISABLE_CPU_FEATURES='X86_V4 AVX512_ICL' to check certificates that ship."
)


@dataclass(frozen=True)
class CertificateVerdict:
    """Outcome of the check of a certificate.

    Parameters
    ----------
    verified
        Whether the certificate proves what it claims, and the answer is feasible.
    text
        The outcome for people, several lines.
    data
        The same numbers as JSON has them.

    Examples
    --------
    >>> CertificateVerdict(verified=True, text="verified", data={"bound": 0.5}).data["bound"]
    0.5
    """

    verified: bool
    text: str
    data: dict[str, Any]


def verify_certificate(
    problem: str | os.PathLike[str],
    answer: str | os.PathLike[str],
    certificate: str | os.PathLike[str],
    *,
    exact: bool = False,
    resolved: str | os.PathLike[str] | None = None,
    tree: str | os.PathLike[str] | None = None,
) -> CertificateVerdict:
    """Check a certificate of a round, a trace or time shares with the stand-alone checkers.

    Parameters
    ----------
    problem
        Instance file or name of an instance that ships; for traces and time shares, the file of the
        problem.
    answer
        Allocation, result, schedule or time shares; for a bound on replays, `jobs.csv` of a replay.
    certificate
        File that `write_certificate`, ``goodalloc solve --certificate`` or ``goodalloc hindsight``
        wrote.
    exact
        Whether to calculate in rational numbers (smaller rounds).
    resolved
        File for the instance that was checked, with all models and rules spelt out.
    tree
        Topology file of a round on a tree, or ``standard``.

    Raises
    ------
    ValueError
        If a file cannot be read, is malformed, or is of another problem, or `resolved` is given for
        a trace or time shares, which have no models, or `tree` for what is no round of jobs.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.solvers import solve, write_certificate, write_result
    >>> instance = load_benchmark("tiny-cold")
    >>> result = solve(instance, certificate=True)
    >>> write_result(result, instance, "result.json")
    >>> write_certificate(result.certificate, "certificate.json")
    >>> verify_certificate("tiny-cold", "result.json", "certificate.json").verified
    True
    """
    if os.fspath(problem).endswith(PARQUET):
        _refuse_tree(tree, "a round in columns has")
        return _verify_columns(problem, answer, certificate, exact=exact, resolved=resolved)
    found = read_document(certificate, (CERTIFICATE_FORMAT, *TRACE_BOUNDS))
    if found["format"] in TRACE_BOUNDS:
        _refuse_tree(tree, "traces have")
        if exact or resolved is not None:
            raise ValueError(
                "arguments --exact and --resolved: a bound on whole traces is checked in floating "
                "point, with safe rounding, and has no models; expected neither."
            )
        return _verify_trace(problem, answer, found)
    if found.get("kind") == "time shares":
        _refuse_tree(tree, "time shares have")
        if resolved is not None:
            raise ValueError("argument --resolved: time shares have no models; expected none.")
        return _verify_shares(problem, answer, certificate, exact=exact)
    instance = find_instance(os.fspath(problem))
    round_ = None if tree is None else read_tree(tree, instance)
    document = instance_to_dict(instance) if round_ is None else resolved_to_dict(round_)
    verdict = _verify_round(document, answer, found, exact=exact)
    if resolved is not None and round_ is not None:
        write_resolved(round_, resolved)
    elif resolved is not None:
        write_instance(instance, resolved)
    return verdict


def _refuse_tree(tree: object, what: str) -> None:
    if tree is not None:
        raise ValueError(f"argument --tree: {what} no tree; expected none.")


def verify_command(arguments: argparse.Namespace) -> Output:
    """Check a certificate; exit code 1 if it is refused."""
    check_target(arguments.resolved)
    if arguments.resolved is not None:
        check_distinct(
            arguments.file,
            arguments.allocation,
            arguments.certificate,
            arguments.tree,
            arguments.resolved,
        )
    verdict = verify_certificate(
        arguments.file,
        arguments.allocation,
        arguments.certificate,
        exact=arguments.exact,
        resolved=arguments.resolved,
        tree=arguments.tree,
    )
    text = verdict.text
    if not verdict.verified and OTHER_ROUND in text:
        text += f"\n{WITHOUT_TREE if arguments.tree is None else ON_A_TREE}"
    if arguments.resolved is not None:
        text += f"\nwritten        {arguments.resolved}"
    return Output(text, verdict.data, 0 if verdict.verified else FAILED)


def _verify_round(
    document: Document,
    answer: str | os.PathLike[str],
    certificate: Document,
    *,
    exact: bool,
) -> CertificateVerdict:
    """Check a certificate of a round, all of whose models and rules are spelt out."""
    instance = json.loads(json.dumps(document))
    allocation = read_document(answer, (ALLOCATION_FORMAT, RESULT_FORMAT))
    verdict = verify.verify(instance, allocation, certificate, exact=exact)
    return CertificateVerdict(verdict.verified, verdict.text, verdict.data)


def _verify_columns(
    problem: str | os.PathLike[str],
    answer: str | os.PathLike[str],
    certificate: str | os.PathLike[str],
    *,
    exact: bool,
    resolved: object,
) -> CertificateVerdict:
    """Check a certificate of a round in columns, and an allocation in a CSV file."""
    if exact or resolved is not None:
        raise ValueError(
            "arguments --exact and --resolved: a round in columns is checked in floating point, "
            "with safe rounding, and has no names to resolve; expected neither."
        )
    require_reader(os.fspath(problem))
    found = read_document(certificate, (CERTIFICATE_FORMAT,))
    rows = _rows(answer, ("job", "node", "gpus"), "an allocation in columns is a table of these.")
    read_columns(problem)  # a malformed file is bad input, not a certificate that is refused
    table, digest = verify_columns.read_round(problem)
    with_modes = found.get("kind") == "mode-columns"
    check = verify_mode_columns.verify_mode_columns if with_modes else verify_columns.verify_columns
    verdict = check(table, digest, rows, found)
    return CertificateVerdict(verdict.verified, verdict.text, verdict.data)


def _rows(
    path: str | os.PathLike[str], columns: Sequence[str], expected: str
) -> list[dict[str, str]]:
    """Return the rows of a table with some columns."""
    try:
        table = csv.DictReader(read_text(path, "CSV").splitlines())
        rows = list(table)
    except csv.Error as error:
        raise ValueError(f"File '{path}' is no table ({error}).") from error
    named = table.fieldnames or ()
    if len({*named}) < len(named):
        raise ValueError(f"File '{path}': a column stands twice; expected each once.")
    for name in columns:
        if name not in named:
            raise ValueError(f"File '{path}' lacks the column '{name}'; {expected}")
    return rows


def _verify_trace(
    problem: str | os.PathLike[str], answer: str | os.PathLike[str], certificate: Document
) -> CertificateVerdict:
    """Check a bound on all schedules of a trace and a schedule, or on all replays and a replay."""
    asked = read_document(problem, (PROBLEM_FORMAT,))
    try:
        if certificate["format"] == verify_replays.FORMAT:
            needed = ("completion", "job", "submission")
            rows = _rows(answer, needed, "a bound on replays goes with jobs.csv of a replay.")
            verdict = verify_replays.verify(asked, rows, certificate)
        else:
            if os.fspath(answer).endswith(".csv"):
                raise ValueError(
                    f"File '{answer}' is a table; a bound on all schedules goes with "
                    "schedule.json, one on replays with jobs.csv of a replay."
                )
            if not isinstance(certificate.get("due", {}), dict):
                raise ValueError(f"due is {literal(certificate['due'])}; expected an object.")
            schedule = read_document(answer, (SCHEDULE_FORMAT,))
            verdict = verify_hindsight.verify(asked, schedule, certificate)
    except KeyError as error:
        raise ValueError(f"Files of the trace: key {error} is missing.") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"Files of the trace: a value is of a wrong kind ({error}).") from error
    except ValueError as error:
        raise ValueError(f"Files of the trace: {error}") from error
    lines = [
        ("verdict", "verified" if verdict.verified else "refused"),
        ("because", verdict.message),
    ]
    if verdict.verified:
        lines += [
            ("bound", f"{verdict.claimed:.12g}"),
            ("value", f"{verdict.value:.12g}"),
            ("gap", percent(verdict.gap)),
            ("in words", _in_words(asked, certificate, verdict.claimed, verdict.value)),
        ]
    text = "\n".join(f"{name:<12} {value}" for name, value in lines)
    names = ("value", "proved", "claimed", "gap")
    numbers = {name: pack_number(getattr(verdict, name)) for name in names}
    return CertificateVerdict(verdict.verified, text, verdict._asdict() | numbers)


def _in_words(asked: Document, certificate: Document, bound: float, value: float) -> str:
    """Return what a bound on schedules or replays of a trace proves, for people.

    Parameters
    ----------
    asked, certificate
        The problem, and a certificate that was verified.
    bound, value
        Its bound, and the objective of the schedule or replay.
    """
    if certificate["format"] != LATE_FORMAT:
        whose = "replay by these rounds" if certificate["format"] != BOUND_FORMAT else "schedule"
        above = "" if bound <= 0.0 else f"; this one is {percent(value / bound - 1.0)} above it"
        return f"no {whose} is below the bound{above}"
    weights = {float(job["weight"]) for job in asked["jobs"]}
    due, heaviest = {*certificate["due"].values()}, max(weights)
    least = max(math.ceil(bound / heaviest - ROUNDING), 0) if heaviest else 0
    if len(due) == 1 and least > 0:
        told = f"not all jobs can end by {due.pop():,.0f} s; later end at least {least}"
    else:
        told = f"of {len(certificate['due'])} jobs end after they are due at least {least}"
    here = f"{value:g}" if weights == {1.0} else f"those of a weight of {value:g}"
    return f"{told}, in this schedule {here}"


def _verify_shares(
    problem: str | os.PathLike[str],
    answer: str | os.PathLike[str],
    certificate: str | os.PathLike[str],
    *,
    exact: bool,
) -> CertificateVerdict:
    """Check a certificate of time shares (`data/FORMAT.md`)."""
    read_time_shares(answer, read_time_sharing(problem).sharing)
    read_share_certificate(certificate)
    asked = read_document(problem, (SHARING_FORMAT,))
    shares = read_document(answer, (SHARES_FORMAT,))
    claim = read_document(certificate, (CERTIFICATE_FORMAT,))
    try:
        verdict = verify_time_shares.verify(asked, shares, claim, exact)
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
    return CertificateVerdict(verdict.verified, text, verdict._asdict() | numbers)
