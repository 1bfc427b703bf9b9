"""Commands that write an instance for any solver (export), or a page to look at (view)."""

from __future__ import annotations

import math
import os
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.rounds.any_round import read_round
from goodalloc.experiments.cli.output import Output, check_distinct, check_target, flat
from goodalloc.experiments.cli.rounds.columns import require_reader
from goodalloc.experiments.support.extras import require_extra
from goodalloc.models.round.instance import Instance

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.topology.topology_round import TopologyRound

#: Relation of the optimum of each formulation to the fitness.
CLAIMS = {
    "pattern": "a relaxation: its optimum bounds the fitness, and equals the best but on rare "
    "rounds",
    "aggregate": "a relaxation without nodes: its optimum bounds the fitness",
    "node": "exact",
    "domains": "a relaxation by domains of the tree: its optimum bounds the fitness, and equals "
    "the best but on rare rounds",
    "pieces": "exact on the tree",
}

#: Formulations of rounds on trees; the others are of rounds without one.
OF_TREES = ("domains", "pieces")

#: Largest exported cost; floating-point solvers fail beyond it.
LARGEST_EXPORTED = 1e12


class ExportedProgram(NamedTuple):
    """Mathematical program that was written to a file.

    Attributes
    ----------
    file, formulation
        Path of the file, and name of the formulation.
    columns, rows, entries
        Size of its matrix.
    reference
        Utility r of which the costs are relative; see `program_fitness` in
        `goodalloc.formulations.basics`.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments import export_program
    >>> export_program(load_benchmark("tiny-cold"), "tiny.lp").formulation
    'pattern'
    """

    file: str
    formulation: str
    columns: int
    rows: int
    entries: int
    reference: float


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

        return view(path, allocation, policies)
    from goodalloc.experiments.library.ranking_page import submission_page

    for option, given in (("allocation", allocation), ("policies", policies)):
        if given:
            raise ValueError(f"argument --{option}: a submission has none; expected none with it.")
    return submission_page(Path(path))


def export_command(arguments: argparse.Namespace) -> Output:
    """Write an instance as a mathematical program."""
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


def export_program(
    instance: Instance | TopologyRound,
    path: str | os.PathLike[str],
    formulation: str | None = None,
) -> ExportedProgram:
    """Write an instance as a mathematical program that any solver reads.

    Parameters
    ----------
    instance
        Instance of the round, or a round on a tree.
    path
        File whose name ends in ``.mps`` or ``.lp``.
    formulation
        "pattern", "aggregate" or "node"; None for "pattern", or for "aggregate" if the
        instance has modes or types of GPU. On a tree "domains" (None) or "pieces". "node" and
        "pieces" are exact, the others bound the fitness.

    Raises
    ------
    ValueError
        If `path` has another suffix or cannot be written, `formulation` is "pattern" and the
        instance has modes or types of GPU, or is none of a tree's and there is one, replicas take a
        part of a GPU, a round on a tree does not avoid interference, or a cost exceeds 1e12.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> program = export_program(load_benchmark("tiny-cold"), "tiny.mps", "node")
    >>> program.formulation, program.columns > program.rows
    ('node', True)
    """
    target = Path(path)
    if target.suffix not in {".mps", ".lp"}:
        raise ValueError(f"File '{target}': expected a name that ends in .mps or .lp.")
    check_target(os.fspath(path))
    if isinstance(instance, Instance):
        formulation = formulation or ("pattern" if instance.plain else "aggregate")
        program, reference = build_program(instance, formulation)
    else:
        formulation = formulation or OF_TREES[0]
        program, reference = build_tree_program(instance, formulation)
    temporary = target.with_name(f".{secrets.token_hex(4)}{target.suffix}")
    try:
        program.write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise ValueError(f"File '{target}' cannot be written ({error.strerror}).") from error
    finally:
        temporary.unlink(missing_ok=True)
    return ExportedProgram(
        str(target),
        formulation,
        program.num_columns,
        program.num_rows,
        int(program.value.size),
        reference,
    )


def _worth(power: float) -> str:
    """Return the formula of `program_fitness` (`formulations/basics/extreme_cost.py`)."""
    if math.isinf(power):
        return "r exp(-z)"
    return "r exp(-z / n)" if power == 0 else "r (1 - p z / n)^(1 / p)"


def build_program(instance: Instance, formulation: str) -> tuple[Program, float]:
    """Build a formulation of `instance`, and return it with the reference of its costs.

    Parameters
    ----------
    instance
        Instance of the round.
    formulation
        Key of `CLAIMS`; ``"pattern"`` only for instances without modes and types of GPU.

    Raises
    ------
    ValueError
        If `formulation` is "pattern" and the instance has modes or types of GPU, or one of trees,
        replicas take a part of a GPU, or a cost exceeds 1e12.
    """
    from goodalloc.formulations.gpu_rounds.choices import enumerate_choices
    from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices

    if formulation in OF_TREES:
        raise ValueError(
            f"Formulation '{formulation}' is of rounds on trees; expected a tree, or another one."
        )
    if formulation == "pattern" and not instance.plain:
        raise ValueError(
            f"Instance '{instance.name}': formulation 'pattern' knows only GPUs; "
            "expected 'aggregate' or 'node' where more counts."
        )
    if instance.shares_gpus:
        raise ValueError(
            f"Instance '{instance.name}': some replicas take a part of a GPU; expected whole GPUs, "
            "the only ones that the exported programs know."
        )
    choices = enumerate_choices(instance) if instance.plain else enumerate_mode_choices(instance)
    return _with_costs(instance, choices, partial(_formulate, instance, formulation, choices))


def build_tree_program(round_: TopologyRound, formulation: str) -> tuple[Program, float]:
    """Build a formulation of a round on a tree, and return it with the reference of its costs.

    Parameters
    ----------
    round_
        The round.
    formulation
        One of `OF_TREES`.

    Raises
    ------
    ValueError
        If the formulation is of rounds without a tree, interference is not avoided, or a cost
        exceeds 1e12.
    """
    from goodalloc.formulations.topology.labelled_pieces import build_labelled
    from goodalloc.formulations.topology.nested_patterns import build_nested
    from goodalloc.formulations.topology.tree_choices import topology_choices

    if formulation not in OF_TREES:
        raise ValueError(
            f"Formulation '{formulation}' knows no tree; expected one of {', '.join(OF_TREES)}."
        )
    if not round_.instance.rules.interference_avoidance:
        raise ValueError(
            f"Instance '{round_.instance.name}': its rules do not avoid interference; expected "
            "that they do, as exported programs of trees take it."
        )
    choices = topology_choices(round_)

    def build(cost: NDArray[np.float64]) -> Program:
        if formulation == "pieces":
            return build_labelled(round_, choices, cost).program
        return build_nested(round_, choices, cost, merged=False).program

    return _with_costs(round_.instance, choices, build)


def _with_costs(
    instance: Instance, choices: Choices, build: Callable[[NDArray[np.float64]], Program]
) -> tuple[Program, float]:
    """Return a program with the costs of the rules' power, and their reference."""
    from goodalloc.formulations.basics.extreme_cost import program_cost, with_extreme_cost

    reference, power = float(np.median(choices.utility)), instance.rules.power
    cost = program_cost(choices.utility, power, reference)
    if math.isinf(power):
        program = build(np.zeros(len(choices)))
        return with_extreme_cost(program, choices.job, cost, power), reference
    if np.abs(cost).max() > LARGEST_EXPORTED:
        raise ValueError(
            f"Instance '{instance.name}': costs at power {power:g} reach "
            f"{np.abs(cost).max():.1g}; expected at most {LARGEST_EXPORTED:g}, which a solver can "
            "tell apart; choose a power nearer 0."
        )
    return build(cost), reference


def _formulate(
    instance: Instance, formulation: str, choices: Choices, cost: NDArray[np.float64]
) -> Program:
    """Build the formulation over `choices`."""
    from goodalloc.formulations.gpu_rounds.patterns import build_patterns
    from goodalloc.formulations.mode_rounds.aggregate import build_aggregate
    from goodalloc.formulations.node_indexed.node_program import build_node_program

    if formulation == "aggregate":
        return build_aggregate(instance, choices, cost)
    if formulation == "node":
        return build_node_program(instance, choices, cost).program
    return build_patterns(instance, choices, cost).program
