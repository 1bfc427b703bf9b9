"""Commands that write an instance for any solver (export), or a page to look at (view)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import read_document
from goodalloc.data.files.allocation import read_allocation
from goodalloc.data.files.format_names import ALLOCATION_FORMAT, RESULT_FORMAT
from goodalloc.data.rounds.any_round import read_round
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, counted, flat
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.cli.rounds.trees import read_tree
from goodalloc.experiments.support.extras import require_extra
from goodalloc.formulations.exported.program_file import export_program
from goodalloc.formulations.exported.round_program import CLAIMS
from goodalloc.solvers.interface.result_file import read_result

if TYPE_CHECKING:
    import argparse

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound


def view_command(arguments: argparse.Namespace) -> Output:
    """Write a page to look at."""
    check_target(arguments.out)
    check_distinct(
        arguments.path,
        arguments.allocation,
        arguments.certificate,
        arguments.tree,
        arguments.out,
    )
    require_extra("view", "Command view")
    require_reader(arguments.path)
    found = _page(arguments)
    write_atomically(Path(arguments.out), found)
    size = len(found.encode("utf-8"))
    text = f"{arguments.out}: {size / 1e6:.1f} MB, opens in any browser"
    return Output(text, {"file": arguments.out, "bytes": size})


def _page(arguments: argparse.Namespace) -> str:
    """Return the page of what a path names."""
    from goodalloc.experiments.library.submission import DESCRIPTION

    path, policies = arguments.path, flat(arguments.policies)
    submitted = (Path(path) / DESCRIPTION).is_file()
    for option in ("allocation", "tree", "certificate"):
        if getattr(arguments, option) is None:
            continue
        if submitted:
            raise ValueError(f"argument --{option}: a submission has none; expected none with it.")
        if Path(path).is_dir():
            raise ValueError(f"argument --{option}: expected an instance with it, not a folder.")
        if policies:
            raise ValueError("argument --policies: expected a folder of replays with it.")
        return _page_of_round(arguments)
    if submitted:
        from goodalloc.experiments.library.ranking_page import submission_page

        if policies:
            raise ValueError("argument --policies: a submission has none; expected none with it.")
        return submission_page(Path(path))
    from goodalloc.experiments.pages.view import view

    return view(path, policies)


def _page_of_round(arguments: argparse.Namespace) -> str:
    """Return the page of an allocation of a round, with the best bound that the files tell.

    Raises
    ------
    ValueError
        If a file cannot be read, or the certificate is refused or goes with no allocation.
    """
    from goodalloc.experiments.cli.rounds.verify import verify_certificate  # all checkers
    from goodalloc.experiments.pages.gpus_of_nodes import Bound, round_page

    path, answer, tree = arguments.path, arguments.allocation, arguments.tree
    instance, bound = read_round(path), None
    round_ = instance if tree is None else read_tree(tree, instance)
    allocation = instance.current
    if answer is not None:
        allocation = read_allocation(answer, instance)
        kind = read_document(answer, (ALLOCATION_FORMAT, RESULT_FORMAT))["format"]
        if tree is None and kind == RESULT_FORMAT:
            result = read_result(answer, instance)
            if math.isfinite(result.bound):
                bound = Bound(result.bound, f"{result.solver}, as {Path(answer).name} says")
    if arguments.certificate is not None:
        if answer is None:
            raise ValueError("argument --certificate: expected --allocation with it.")
        verdict = verify_certificate(path, answer, arguments.certificate, tree=tree)
        if not verdict.verified:
            why = "; ".join(
                reason.removeprefix("Certificate: ") for reason in verdict.data["reasons"]
            )
            raise ValueError(f"Certificate '{arguments.certificate}' is refused: {why}")
        bound = Bound(verdict.data["bound"], "a certificate that was checked")
    return round_page(round_, allocation, bound)


def export_command(arguments: argparse.Namespace) -> Output:
    """Write an instance as a mathematical program."""
    check_target(arguments.to)
    require_reader(arguments.file)
    instance = read_round(arguments.file)
    round_: Instance | TopologyRound = instance
    if arguments.tree is not None:
        round_ = read_tree(arguments.tree, instance)
    found = export_program(round_, arguments.to, arguments.formulation)
    power = instance.rules.power
    text = (
        f"{found.file}: {counted(found.columns, 'column')}, {counted(found.rows, 'row')}, "
        f"{found.entries} entries\n"
        f"an objective z, minimised, is worth the fitness {_worth(power)}; "
        f"r = {found.reference!r}, p = {power:g}, n = {counted(instance.num_jobs, 'job')} "
        f"({CLAIMS[found.formulation]})"
    )
    return Output(text, found._asdict())


def _worth(power: float) -> str:
    """Return the formula of `program_fitness` (`formulations/basics/extreme_cost.py`)."""
    if math.isinf(power):
        return "r exp(-z)"
    return "r exp(-z / n)" if power == 0 else "r (1 - p z / n)^(1 / p)"
