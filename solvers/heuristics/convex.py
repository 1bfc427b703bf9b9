"""Concave relaxation as a solver: its certified bound, and its GPUs rounded and placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.formulations.gpu_rounds.concave_relaxation import solve_concave_relaxation
from goodalloc.models.round.requirements import require_plain
from goodalloc.models.support.cone_solver import CONE_SOLVER
from goodalloc.solvers.heuristics.rounding import round_and_place
from goodalloc.solvers.heuristics.sharing import whole_replicas
from goodalloc.solvers.interface.result import Answer

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.stop import Stop


def solve_convex(
    instance: Instance, *, stop: Stop | None = None, cone_solver: str = CONE_SOLVER
) -> Answer:
    """Bound a round by the concave relaxation, and round its GPUs to an allocation.

    For powers above 1 there is no such relaxation, and the answer says so.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits; the one on time is passed to the cone solver, where that takes one (CLARABEL and SCS
        do).
    cone_solver
        Name of a conic solver that CVXPY finds.

    Raises
    ------
    ValueError
        If jobs have modes.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.heuristics import solve_convex
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> solve_convex(instance).allocation.placements()
    [((0, 2),)]
    """
    require_plain(instance)
    if instance.rules.power > 1:
        return Answer(
            None, message=f"the power mean is not concave at p = {instance.rules.power:g}"
        )
    options = {}
    if stop is not None and stop.seconds is not None:
        names = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}
        options = {names[cone_solver]: stop.seconds} if cone_solver in names else {}
    solution = solve_concave_relaxation(instance, cone_solver, **options)
    allocation = None
    if solution.gpus.size:
        allocation = round_and_place(instance, whole_replicas(instance, solution.gpus))
    return Answer(
        allocation, solution.bound, "concave relaxation", message=f"cone solver: {solution.status}"
    )
