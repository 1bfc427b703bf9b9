"""The command `export`: an instance as a mathematical program, for any solver."""

import argparse
import os
import secrets
from pathlib import Path

import numpy as np

from goodalloc.data.benchmark_set import find_instance
from goodalloc.experiments.cli_output import Output, check_target
from goodalloc.formulations.program import Program
from goodalloc.models.instance import Instance

#: What the optimum of each formulation says of the fitness.
CLAIMS = {
    "pattern": "a relaxation: its optimum bounds the fitness, and equals the best but on rare "
    "rounds",
    "aggregate": "a relaxation without nodes: its optimum bounds the fitness",
    "node": "exact",
}
#: Largest cost that is written to a program; beyond it floating-point solvers give up.
LARGEST_EXPORTED = 1e12


def export_command(arguments: argparse.Namespace) -> Output:
    """Write an instance as a mathematical program."""
    from goodalloc.formulations.power_cost import require_finite_power

    target = Path(arguments.to)
    if target.suffix not in {".mps", ".lp"}:
        raise ValueError(f"File '{target}': expected a name that ends in .mps or .lp.")
    check_target(arguments.to)
    instance = find_instance(arguments.file)
    require_finite_power(instance.rules.power)
    formulation = arguments.formulation or ("pattern" if instance.plain else "aggregate")
    program, reference = build_program(instance, formulation)
    temporary = target.with_name(f".{secrets.token_hex(4)}{target.suffix}")
    try:
        program.write(temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise ValueError(f"File '{target}' cannot be written ({error.strerror}).") from error
    finally:
        temporary.unlink(missing_ok=True)
    columns, rows = program.num_columns, program.num_rows
    worth = "r exp(-z / n)" if instance.rules.power == 0 else "r (1 - p z / n)^(1 / p)"
    text = (
        f"{target}: {columns} columns, {rows} rows, {program.value.size} entries\n"
        f"an objective z, minimised, is worth the fitness {worth}; r = {reference!r}, "
        f"p = {instance.rules.power:g}, n = {instance.num_jobs} jobs ({CLAIMS[formulation]})"
    )
    data = {
        "file": str(target), "formulation": formulation, "columns": columns, "rows": rows,
        "entries": int(program.value.size), "reference": reference,
    }  # fmt: skip
    return Output(text, data)


def build_program(instance: Instance, formulation: str) -> tuple[Program, float]:
    """A formulation of an instance and the reference of its costs (`power_cost`).

    Parameters
    ----------
    instance
        The round; its power is finite.
    formulation
        A key of `CLAIMS`; ``"pattern"`` is for rounds in which nothing but GPUs counts.

    Raises
    ------
    ValueError
        If the formulation does not know what counts in the instance, or no solver could tell the
        costs apart.
    """
    from goodalloc.formulations.aggregate import build_aggregate
    from goodalloc.formulations.choices import enumerate_choices
    from goodalloc.formulations.mode_choices import enumerate_mode_choices
    from goodalloc.formulations.node_program import build_node_program
    from goodalloc.formulations.patterns import build_patterns
    from goodalloc.formulations.power_cost import power_cost

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
    reference = float(np.median(choices.utility))
    cost = power_cost(choices.utility, instance.rules.power, reference)
    if np.abs(cost).max() > LARGEST_EXPORTED:
        raise ValueError(
            f"Instance '{instance.name}': costs at power {instance.rules.power:g} reach "
            f"{np.abs(cost).max():.1g}; expected at most {LARGEST_EXPORTED:g}, which a solver can "
            "tell apart; choose a power nearer 0."
        )
    if formulation == "aggregate":
        return build_aggregate(instance, choices, cost), reference
    if formulation == "node":
        return build_node_program(instance, choices, cost).program, reference
    return build_patterns(instance, choices, cost).program, reference
