r"""AITurbo and others above the bound on any schedule of their jobs with parameter servers.

The replays are those of the study `aiturbo-replay` with half of the jobs unpredictable. A job can
start in the first round after its submission, and chooses its configuration at any time, with the
cores and GPUs of all nodes in two pools (`goodalloc.solvers.steady_jobs`). What restarts and rounds
cost is left out. Of nodes it counts that transfers between them are slower: *S* servers and *W*
workers of which no node holds more than *s* and *w* beside one of the others have at least the part

.. math:: 1 - \min \{ 1, s / S, w / W \}                                                       (1)

of their pairs between nodes, or all where no node holds one of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from goodalloc.data.parameter_servers import ps_workload
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.studies.comparisons.terms import Cell
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND, above_percent, draw_above
from goodalloc.experiments.studies.hindsight.steady_bound_task import SteadyBoundTask, first_round
from goodalloc.experiments.studies.parameter_servers.aiturbo_replay import (
    AITURBO_REPLAY,
    CLOSE,
    NODES,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import CONTENDERS, PsReplay
from goodalloc.models.hindsight.steady_jobs import Configurations, SteadyJobs
from goodalloc.models.parameter_servers import PsConfiguration, seconds_per_step
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float
    from matplotlib.figure import Figure

    from goodalloc.data.parameter_servers import PsSubmission
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
    from goodalloc.experiments.support.tasks import Task
    from goodalloc.models.support.array_types import Floats

#: Seconds of constant prices.
INTERVAL = 1200.0

#: Factor on rates, for rounding.
ROUNDING = 1.0 + 1e-9

NOTE = """\
bound: no schedule is below it, whatever it knows: cores and GPUs in two pools, no restarts, no
rounds after the first."""


class PodsBoundRow(NamedTuple):
    """Policy or bound on one workload and cluster.

    Attributes
    ----------
    nodes, workload
        Nodes of the cluster, and seed of the workload.
    policy
        Policy, or the bound.
    average_jct_hours
        Average completion time.
    above_bound_percent
        By how much it is above the bound.
    """

    nodes: int
    workload: int
    policy: str
    average_jct_hours: float
    above_bound_percent: float


@dataclass(frozen=True)
class PodsBoundTask(SteadyBoundTask):
    """Bound on every schedule of a workload; see `SteadyBoundTask`.

    Parameters
    ----------
    replay
        Any replay of the workload on the cluster.
    """

    replay: PsReplay

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        told = self.replay.description()
        return {
            "format": "goodalloc-pods-bound",
            "version": 2,
            "interval": self.interval,
            **{name: told[name] for name in ("library", "seed", "workload", "setting")},
        }

    def problem(self) -> SteadyJobs:
        """Return the offline problem of the workload."""
        jobs = ps_workload(self.replay.seed, self.replay.options)
        return steady_pods_jobs(jobs, self.replay.setting)


def steady_pods_jobs(jobs: Sequence[PsSubmission], setting: PsSetting) -> SteadyJobs:
    """Return the offline problem of jobs with parameter servers; equal weights, of sum 1.

    Parameters
    ----------
    jobs
        The jobs.
    setting
        Cluster and rules of their replays.

    Raises
    ------
    ValueError
        If there is no job, or one fits on the cluster in no configuration.
    """
    supply = setting.capacity.sum(axis=0) * (1.0 + RESOURCE_TOLERANCE)
    release = np.array([job.time for job in jobs], dtype=float)
    return SteadyJobs(
        tuple(_configurations(job, setting, supply) for job in jobs),
        np.arange(len(jobs)),
        np.array([job.steps for job in jobs]),
        release,
        np.array([first_round(time, setting.interval) for time in release.tolist()]),
        np.full(len(jobs), 1.0 / max(len(jobs), 1)),
        supply,
    )


def least_share_between_nodes(
    configuration: PsConfiguration, capacity: Float[Floats, "nodes 2"]
) -> Float[Floats, ...]:
    """Return (1), below which no placement has its share of pairs between nodes.

    Parameters
    ----------
    configuration
        One configuration, or many as arrays of one shape.
    capacity
        Cores and GPUs of every node.
    """
    has = PsConfiguration(*np.broadcast_arrays(*configuration))
    cores, gpus = capacity.T.reshape(2, -1, *[1] * np.ndim(has.workers))  # nodes first
    with np.errstate(divide="ignore", invalid="ignore"):
        by_gpus = np.where(has.worker_gpus > 0, gpus / has.worker_gpus, np.inf)
    workers = np.minimum((cores - has.server_cores) / has.worker_cores, by_gpus)
    servers = (cores - has.worker_cores) / has.server_cores
    workers, servers = (np.floor(number + 1e-9) for number in (workers, servers))
    both = (workers >= 1) & (servers >= 1)  # nodes that hold one of each
    most_workers, most_servers = (
        np.where(both, number, 0.0).max(axis=0) for number in (workers, servers)
    )
    together = np.minimum(most_workers / has.workers, most_servers / has.servers)
    return np.asarray(1.0 - together.clip(0.0, 1.0))


def _configurations(
    job: PsSubmission, setting: PsSetting, supply: Float[Floats, " resources"]
) -> Configurations:
    """Return the configurations of a job that some prices make the best, and rates above theirs."""
    grid = job.choices.grid
    share = least_share_between_nodes(grid, setting.capacity)
    bandwidth = 1.0 / (share + (1.0 - share) / setting.within_nodes)
    seconds = seconds_per_step(job.step_time, grid, job.batch_size, bandwidth)
    uses = np.stack([np.asarray(grid.cores), np.asarray(grid.gpus)], axis=-1)
    fits = np.isfinite(seconds) & (uses <= supply).all(axis=-1)
    if not fits.any():
        raise ValueError(
            f"Job '{job.name}': no configuration fits on {supply[0]:g} cores and {supply[1]:g} "
            "GPUs; expected at least one."
        )
    rates, uses = ROUNDING / seconds[fits], uses[fits].astype(float)
    kept = _corners(np.column_stack([uses, rates / rates.max()]))
    return Configurations(job.name, rates[kept], uses[kept])


def _corners(points: Float[Floats, "points 3"]) -> list[int]:
    """Return the corners of the convex hull of uses and rates, of which the best one always is."""
    try:
        return np.sort(ConvexHull(points).vertices).tolist()  # type: ignore[no-any-return]
    except QhullError:  # all in one plane
        return list(range(len(points)))


def _replays(plan: Plan) -> Iterator[PsReplay]:
    """Yield the replays with half of the jobs unpredictable, or of policies that do not care."""
    for task in AITURBO_REPLAY.tasks(plan):
        assert isinstance(task, PsReplay)
        if task.share == CLOSE or CONTENDERS[task.policy].blind:
            yield task


def _bound(plan: Plan, nodes: int, seed: int) -> PodsBoundTask:
    """Return the task of a bound; what is predictable does not change it."""
    replay = next(
        task for task in _replays(plan) if (task.setting.nodes, task.seed) == (nodes, seed)
    )
    blind = replace(replay, policy="fcfs", share=0)
    return PodsBoundTask(plan.folder, INTERVAL, blind).among(plan.folder, "pods-bound")


def _tasks(plan: Plan) -> list[Task]:
    bounds = [_bound(plan, nodes, seed) for nodes in NODES for seed in plan.workloads]
    return [*_replays(plan), *bounds]


def _rows(plan: Plan) -> list[PodsBoundRow]:
    """Return a row for every cluster, workload and policy, the bound last."""
    rows = []
    for nodes in NODES:
        for seed in plan.workloads:
            least = _bound(plan, nodes, seed).hours()
            hours = {
                task.policy: task.record().average_jct_hours
                for task in _replays(plan)
                if (task.setting.nodes, task.seed) == (nodes, seed)
            }
            rows += [
                PodsBoundRow(nodes, seed, policy, value, above_percent(value, least))
                for policy, value in {**hours, BOUND: least}.items()
            ]
    return rows


def _by_policy(rows: list[PodsBoundRow], nodes: int) -> dict[str, list[PodsBoundRow]]:
    found: dict[str, list[PodsBoundRow]] = {}
    for row in rows:
        if row.nodes == nodes:
            found.setdefault(row.policy, []).append(row)
    return found


def summarise_pods(rows: list[PodsBoundRow]) -> Rows:
    """Return means over the workloads with 95 % intervals, by cluster and policy.

    Parameters
    ----------
    rows
        Rows of all workloads.

    Examples
    --------
    >>> from goodalloc.experiments.studies.hindsight.pods_above_bound import PodsBoundRow
    >>> from goodalloc.experiments.studies.hindsight.pods_above_bound import summarise_pods
    >>> row = PodsBoundRow(4, 11, "aiturbo", 4.0, 50.0)
    >>> (line,) = summarise_pods([row, row._replace(workload=12, above_bound_percent=60.0)])
    >>> line["policy"], line["average (h)"], line["above the bound (%)"]
    ('aiturbo', '4.00 ± 0.00', '55 ± 64')
    """
    return [
        {
            "nodes": nodes,
            "policy": policy,
            "average (h)": estimate_of([row.average_jct_hours for row in own]).text(".2f"),
            "above the bound (%)": estimate_of([row.above_bound_percent for row in own]).text(
                ".0f"
            ),
        }
        for nodes in dict.fromkeys(row.nodes for row in rows)
        for policy, own in _by_policy(rows, nodes).items()
    ]


def plot_pods_above(rows: list[PodsBoundRow]) -> Figure:
    """Draw the mean of every policy over the bound, a panel for each cluster.

    Parameters
    ----------
    rows
        Rows of all workloads.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    panels = figure.subplots(1, len(NODES), squeeze=False)[0]
    for ax, nodes in zip(panels, NODES, strict=True):
        above = {
            Cell(policy, "", "requested"): [row.above_bound_percent for row in own]
            for policy, own in _by_policy(rows, nodes).items()
        }
        ends = [cell for cell in above if cell.policy == BOUND]
        draw_above(ax, above, ends, {cell: cell.policy for cell in above})
        most = max(row.above_bound_percent for row in rows if row.nodes == nodes)
        ax.set_xlim(right=1.3 * (1.0 + most / 100.0))
        ax.set_title(f"{nodes} nodes", fontsize="medium")
        ax.set_xlabel("average completion over the bound")
    return figure


PODS_ABOVE = Reproduction(
    "hindsight-pods: AITurbo and others above the bound on any schedule of cores and GPUs",
    _tasks,
    _rows,
    lambda _, rows: plot_pods_above(rows),
    shown=summarise_pods,
    ignores=AITURBO_REPLAY.ignores,
    workloads=AITURBO_REPLAY.workloads,
    quick_workloads=AITURBO_REPLAY.quick_workloads,
    note=NOTE,
)
