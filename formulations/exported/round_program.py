"""Programs of rounds, with and without a tree, by the name of their formulation."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from goodalloc.formulations.basics.program import Program
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.instance import Instance
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
