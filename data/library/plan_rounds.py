"""Rounds of trainings that choose execution plans, by the name of their workload."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from goodalloc.data.library.recipes import RECIPES
from goodalloc.data.plans.llm_round import generate_llm_round

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

#: Large models of Arena's times, and language models.
PlanWorkload = Literal["plans", "llm"]


def draw_with_plans(workload: PlanWorkload, seed: int, jobs: int, nodes: int) -> Instance:
    """Draw a round on as many nodes of each type.

    Parameters
    ----------
    workload
        ``"plans"`` for large models on A100, A40 and A10, as the library's recipe `arena` draws
        them; ``"llm"`` for language models on A100 and H100 (`generate_llm_round`).
    seed, jobs, nodes
        Seed, number of jobs, and number of nodes of each type.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.library.plan_rounds import draw_with_plans
    >>> draw_with_plans("plans", seed=0, jobs=3, nodes=2).name
    'plans-3-jobs-6-nodes-seed-0'
    """
    if workload == "llm":
        return generate_llm_round(seed, jobs, nodes, nodes)
    found = RECIPES["arena"](seed, jobs, nodes, nodes, nodes)
    return found.replace(name=f"plans-{jobs}-jobs-{found.cluster.num_nodes}-nodes-seed-{seed}")
