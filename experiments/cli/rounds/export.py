"""Commands that write an instance for any solver (export), or a page to look at (view)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.allocation import read_allocation
from goodalloc.data.rounds.any_round import read_round
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, flat
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.support.extras import require_extra
from goodalloc.formulations.exported.program_file import export_program
from goodalloc.formulations.exported.round_program import CLAIMS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from goodalloc.models.round.instance import Instance
    from goodalloc.models.topology.topology_round import TopologyRound


def view_command(arguments: argparse.Namespace) -> Output:
    """Write a page to look at."""
    check_target(arguments.out)
    check_distinct(arguments.path, arguments.allocation, arguments.out)
    require_extra("view", "Command view")
    require_reader(arguments.path)
    found = _page(arguments.path, arguments.allocation, flat(arguments.policies))
    write_atomically(Path(arguments.out), found)
    size = len(found.encode("utf-8"))
    text = f"{arguments.out}: {size / 1e6:.1f} MB, opens in any browser"
    return Output(text, {"file": arguments.out, "bytes": size})


def _page(path: str, allocation: str | None, policies: Sequence[str]) -> str:
    """Return the page of what a path names."""
    from goodalloc.experiments.library.submission import DESCRIPTION

    if not (Path(path) / DESCRIPTION).is_file():
        from goodalloc.experiments.pages.view import view

        if allocation is None:
            return view(path, policies)
        if Path(path).is_dir():
            raise ValueError("argument --allocation: expected an instance with it, not a folder.")
        if policies:
            raise ValueError("argument --policies: expected a folder of replays with it.")
        from goodalloc.experiments.pages.gpus_of_nodes import round_page

        instance = read_round(path)
        return round_page(instance, read_allocation(allocation, instance))
    from goodalloc.experiments.library.ranking_page import submission_page

    for option, given in (("allocation", allocation), ("policies", policies)):
        if given:
            raise ValueError(f"argument --{option}: a submission has none; expected none with it.")
    return submission_page(Path(path))


def export_command(arguments: argparse.Namespace) -> Output:
    """Write an instance as a mathematical program."""
    check_target(arguments.to)
    require_reader(arguments.file)
    instance = read_round(arguments.file)
    round_: Instance | TopologyRound = instance
    if arguments.tree is not None:
        from goodalloc.data.topology.topology_file import read_topology  # a long chain of imports

        round_ = read_topology(arguments.tree, instance)
    found = export_program(round_, arguments.to, arguments.formulation)
    power = instance.rules.power
    text = (
        f"{found.file}: {found.columns} columns, {found.rows} rows, {found.entries} entries\n"
        f"an objective z, minimised, is worth the fitness {_worth(power)}; "
        f"r = {found.reference!r}, p = {power:g}, n = {instance.num_jobs} jobs "
        f"({CLAIMS[found.formulation]})"
    )
    return Output(text, found._asdict())


def _worth(power: float) -> str:
    """Return the formula of `program_fitness` (`formulations/basics/extreme_cost.py`)."""
    if math.isinf(power):
        return "r exp(-z)"
    return "r exp(-z / n)" if power == 0 else "r (1 - p z / n)^(1 / p)"
