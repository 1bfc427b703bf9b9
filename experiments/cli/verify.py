"""The command that checks a certificate; the checkers themselves stand alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import read_document
from goodalloc.data.files.format_names import ALLOCATION_FORMAT, RESULT_FORMAT
from goodalloc.data.files.instance import instance_to_dict, write_instance
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.cli.output import FAILED, Output, check_distinct, check_target
from goodalloc.experiments.cli.verify_shares import verify_shares
from goodalloc.experiments.verification.verify import verify
from goodalloc.solvers.certificates.certificate_file import CERTIFICATE_FORMAT

if TYPE_CHECKING:
    import argparse

    from goodalloc.data.documents.json_file import Document


def verify_command(arguments: argparse.Namespace) -> Output:
    """Check a certificate of a round or of time shares; exit code 1 if it is refused."""
    check_target(arguments.resolved)
    if arguments.resolved is not None:
        check_distinct(
            arguments.file, arguments.allocation, arguments.certificate, arguments.resolved
        )
    certificate = read_document(arguments.certificate, (CERTIFICATE_FORMAT,))
    if certificate.get("kind") == "time shares":
        if arguments.resolved is not None:
            raise ValueError("argument --resolved: time shares have no models; expected none.")
        return verify_shares(
            arguments.file, arguments.allocation, arguments.certificate, exact=arguments.exact
        )
    return _verify_round(arguments, certificate)


def _verify_round(arguments: argparse.Namespace, certificate: Document) -> Output:
    """Check a certificate of a round, of which shipped names and models are resolved first."""
    found = find_instance(arguments.file)
    instance = json.loads(json.dumps(instance_to_dict(found)))
    allocation = read_document(arguments.allocation, (ALLOCATION_FORMAT, RESULT_FORMAT))
    verdict = verify(instance, allocation, certificate, exact=arguments.exact)
    text = verdict.text
    if arguments.resolved is not None:
        write_instance(found, arguments.resolved)
        text += f"\nwritten        {arguments.resolved}"
    return Output(text, verdict.data, 0 if verdict.verified else FAILED)
