"""Rounds of jobs with plans as instances, for every solver of rounds with modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.plan_job import PlanRound, PlanState
    from goodalloc.models.round.rules import Rules


def plan_instance(round_: PlanRound, node_gpus: Mapping[str, int], rules: Rules) -> Instance:
    """Return a round as an instance: a mode for each type of GPU, by the fastest plans.

    Speedups are speeds over that of the request. Rules under which a round means the same as to
    `goodalloc.solvers.plans.solve_plans` have ``speedup_scale="job"``, no restart delay and no
    interference. What the jobs hold is left out: placements are not known here.

    Parameters
    ----------
    round_
        The round; its types of GPU have whole nodes.
    node_gpus
        GPUs of a node of each type.
    rules
        Objective and constraints.

    Raises
    ------
    ValueError
        If the GPUs of a type do not fill its nodes.

    Examples
    --------
    >>> from goodalloc.models import Rules
    >>> from goodalloc.models.plans import Configuration, PlanJob, PlanRound, PlanState, Training
    >>> from goodalloc.models.plans import plan_instance
    >>> from goodalloc.solvers import solve
    >>> two, four = Configuration("a100", 2), Configuration("a100", 4)
    >>> job = PlanJob("a", Training("bert", "1.3B", 128), 0.0, 100.0, request=two)
    >>> state = PlanState(job, {two: 0.2, four: 0.3}, None, 100.0, 0.0, 0)
    >>> round_ = PlanRound(0.0, {"a100": 4}, (state,))
    >>> rules = Rules(restart_delay=0.0, speedup_scale="job")
    >>> solve(plan_instance(round_, {"a100": 4}, rules)).allocation.placements()
    [((0, 4),)]
    """
    groups = []
    for gpu_type, gpus in sorted(round_.capacity.items()):
        if gpu_type not in node_gpus:
            raise ValueError(f"Type '{gpu_type}': GPUs of a node are missing; expected them.")
        nodes, rest = divmod(gpus, node_gpus[gpu_type])
        if rest:
            raise ValueError(
                f"Type '{gpu_type}': {gpus} GPUs; expected whole nodes of {node_gpus[gpu_type]}."
            )
        groups.append(NodeGroup(gpu_type, nodes, node_gpus[gpu_type], gpu_type))
    jobs = tuple(_job(state, node_gpus) for state in round_.jobs)
    return Instance(Cluster(tuple(groups)), jobs, rules, f"round-{round_.time:g}")


def _job(state: PlanState, node_gpus: Mapping[str, int]) -> Job:
    """Return a job with one mode for every type of GPU on which it can run."""
    most = max(configuration.gpus for configuration in state.speeds)
    modes = []
    for gpu_type in sorted({configuration.gpu_type for configuration in state.speeds}):
        one_node, several = [0.0] * min(most, node_gpus[gpu_type]), [0.0] * most
        for configuration, speed in state.speeds.items():
            if configuration.gpu_type == gpu_type:
                whole = configuration.gpus > node_gpus[gpu_type]
                (several if whole else one_node)[configuration.gpus - 1] = (
                    speed / state.requested_speed
                )
        modes.append(Mode(gpu_type, SpeedupTable(tuple(one_node), tuple(several)), gpu_type))
    return Job(
        state.job.name,
        age=state.age,
        restarts=max(state.restarts, 0),
        max_replicas=most,
        application=state.job.training.model,
        modes=tuple(modes),
    )
