"""Figure 9 of Pollux: one ImageNet job on a cloud of 1 to 16 nodes.

Autoscaling by goodput rents few nodes while large batches are inefficient, and more later;
autoscaling by throughput rents nearly all from the start. In the paper the former costs 25 % less
and takes 6 % longer. Under the published thresholds ours saves nearly as much and takes longer: it
waits until large batches pay. On the artifact's measurements exploration explains a part: a job
that always had one batch size per GPU fits a poor model and grows late, unlike one profiled
beforehand. Other thresholds trade cost for time.

The autoscaler of Or et al. adds workers step by step, and a machine takes minutes to start. So in
some variants both measures add at most one node at a time, and each starts for three minutes before
it serves: the request counts if it still stands after these, and the minutes are paid for. Whether
any variant has both published figures, against the throughput of its own conditions, is told by
`within_published`.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021,
    section 5.4.1. https://www.usenix.org/conference/osdi21/presentation/qiao

Or et al., "Resource Elasticity in Distributed Deep Learning", MLSys 2020.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.replay_report import curves, summarise
from goodalloc.experiments.replay.replay_task import ReplayTask
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.support.records import digest
from goodalloc.models.round.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.replay.replay_conditions import Knowledge
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round

#: The job, with the initial batch size of its application.
JOB = (Submission("imagenet", 0, "imagenet", 1, 200),)

#: Quantities of a replay, and the published change from throughput to goodput, in per cent.
PUBLISHED: Mapping[str, float | None] = {
    "node_hours": -25.0,
    "hours": 6.0,
    "efficiency": None,
    "most_nodes": None,
    "restarts": None,
}

#: Measures that autoscaling follows, and their labels.
MEASURES = {"goodput": "goodput (Pollux)", "throughput": "throughput (Or et al.)"}


@dataclass(frozen=True)
class Growth:
    """Bounds on growth.

    Parameters
    ----------
    nodes
        Most nodes that are added at a time.
    delay
        Seconds in which a node starts, a multiple of the interval of the replay; it is paid for.
    """

    nodes: int
    delay: int


#: As Or et al. add workers, with machines that take three minutes to start.
STEPWISE = Growth(nodes=1, delay=180)


@dataclass(frozen=True)
class BoundedGrowth:
    """Autoscaling that adds nodes in steps: what is wanted at the end of each delay is added then.

    Parameters
    ----------
    scaling
        The policy whose nodes are bounded.
    growth
        The bounds.
    """

    scaling: Policy
    growth: Growth

    @property
    def batch_sizes(self) -> BatchSizes:
        """Rule for the batch sizes of the jobs: that of the policy."""
        return self.scaling.batch_sizes

    def decide(self, round_: Round) -> Decision:
        """Decide as the policy does, with at most as many more nodes as may start."""
        decision, present = self.scaling.decide(round_), round_.cluster.num_nodes
        if decision.nodes is None or decision.nodes <= present:
            return decision
        started = round_.time % self.growth.delay == 0
        most = present + self.growth.nodes
        return decision._replace(nodes=min(decision.nodes, most) if started else None)


@dataclass(frozen=True)
class ScalingTask(ReplayTask):
    """Replay under autoscaling with bounded growth."""

    growth: Growth = STEPWISE

    def made_policy(self) -> Policy:
        """Return a new policy, bounded."""
        return BoundedGrowth(super().made_policy(), self.growth)

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on."""
        return {**super().description(), "growth": asdict(self.growth)}


@dataclass(frozen=True)
class Variant:
    """Conditions of both replays.

    Parameters
    ----------
    label
        Label in the table.
    low, high
        Thresholds L and U of the rule.
    knowledge
        Knowledge of the job about its application when it starts.
    growth
        Bounds on growth; None for none.
    """

    label: str
    low: float = 1 / 2
    high: float = 2 / 3
    knowledge: Knowledge = "explored"
    growth: Growth | None = None

    @property
    def conditions(self) -> str:
        """What the variant has beside its thresholds, for the picture."""
        growth = "" if self.growth is None else ", a node at a time"
        return f"{self.knowledge}{growth}"

    def task(self, plan: Plan, measure: str) -> ReplayTask:
        """Return the replay under `measure`, from one node of four GPUs.

        By throughput, of which they change little, the thresholds are always the published ones.
        """
        policy, setting = (
            f"autoscaling-{measure}",
            Setting(Cluster.uniform(1, 4), knowledge=self.knowledge),
        )
        by_goodput = measure == "goodput"
        thresholds = (self.low, self.high) if by_goodput else (Variant.low, Variant.high)
        if self.growth is None:
            return plan.replay(policy, JOB, setting=setting, utility=thresholds)
        task = ScalingTask(
            plan.folder,
            policy,
            JOB,
            setting,
            plan.traces,
            gaps=plan.gaps,
            utility=thresholds,
            growth=self.growth,
        )
        name = f"{policy}-{digest(task.description())}"
        return replace(task, folder=plan.folder / "replays" / name)


VARIANTS = (
    Variant("U = 2/3, L = 1/2"),
    Variant("U = 0.6", high=0.6),
    Variant("U = 0.75", high=0.75),
    Variant("L = 0.4, U = 0.6", 0.4, 0.6),
    Variant("profiled beforehand", knowledge="profiled"),
    Variant("profiled, L = 0.4, U = 0.6", 0.4, 0.6, "profiled"),
    Variant("profiled, L = 0.3, U = 0.5", 0.3, 0.5, "profiled"),
    Variant("a node at a time", growth=STEPWISE),
    Variant("a node at a time, profiled", knowledge="profiled", growth=STEPWISE),
    Variant("a node at a time, profiled, L = 0.4, U = 0.6", 0.4, 0.6, "profiled", STEPWISE),
    Variant("a node at a time, profiled, L = 0.3, U = 0.5", 0.3, 0.5, "profiled", STEPWISE),
)


def _tasks(plan: Plan) -> Sequence[ReplayTask]:
    tasks = [variant.task(plan, measure) for variant in VARIANTS for measure in MEASURES]
    return list(dict.fromkeys(tasks))


class CloudRow(NamedTuple):
    """Quantity of both replays of a variant, and its change in per cent.

    `within_published` tells whether the variant costs 25 % less or better and takes at most 6 %
    longer: the change of this quantity is no higher than the published one. None if none is.
    """

    case: str
    quantity: str
    goodput: float
    throughput: float
    published_change_percent: float | None
    our_change_percent: float
    deviation_points: float | None
    within_published: bool | None


def _rows(plan: Plan) -> list[CloudRow]:
    """Return a row for each variant and quantity, with the change in per cent."""
    rows = []
    for variant in VARIANTS:
        found = [used(variant, plan, measure) for measure in MEASURES]
        rows += [_row(variant, quantity, *(f[quantity] for f in found)) for quantity in PUBLISHED]
    return rows


def _row(variant: Variant, quantity: str, goodput: float, throughput: float) -> CloudRow:
    published, ours = PUBLISHED[quantity], 100.0 * (goodput / throughput - 1.0)
    return CloudRow(
        case=variant.label,
        quantity=quantity,
        goodput=rounded(goodput, 4),
        throughput=rounded(throughput, 4),
        published_change_percent=published,
        our_change_percent=rounded(ours, 3),
        deviation_points=None if published is None else rounded(ours - published, 3),
        within_published=None if published is None else ours <= published,
    )


def used(variant: Variant, plan: Plan, measure: str) -> dict[str, float]:
    """Return the quantities of the replay of a variant under `measure`."""
    delay = 0 if variant.growth is None else variant.growth.delay
    return measured(variant.task(plan, measure).folder, delay)


def measured(folder: Path, delay: int = 0) -> dict[str, float]:
    """Return the quantities of a replay; nodes cost from the first decision to the last job.

    Parameters
    ----------
    folder
        Folder of its records.
    delay
        Seconds in which an added node starts, and costs.
    """
    row = summarise("", folder)
    rounds, jobs = pd.read_csv(folder / "rounds.csv"), pd.read_csv(folder / "jobs.csv")
    ends = rounds.time.shift(-1, fill_value=jobs.completion.max())
    added = float(rounds.nodes.diff().clip(lower=0.0).sum())
    return {
        "node_hours": (float((rounds.nodes * (ends - rounds.time)).sum()) + added * delay) / HOUR,
        "hours": row["makespan_hours"],
        "efficiency": row["efficiency"],
        "most_nodes": float(rounds.nodes.max()),
        "restarts": row["restarts_per_job"],
    }


def _plot(plan: Plan, rows: list[CloudRow]) -> Figure:
    """Draw nodes and efficiency over time, under the published U and L; and all variants."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 10.5), layout="constrained")
    nodes, efficiency, frontier = figure.subplots(3, 1, height_ratios=(1.0, 1.0, 1.6))
    looks = curves(MEASURES.values())
    for measure, label in MEASURES.items():
        rounds = pd.read_csv(VARIANTS[0].task(plan, measure).folder / "rounds.csv")
        hours = rounds.time / HOUR
        nodes.step(hours, rounds.nodes, where="post", **looks[label])
        efficiency.plot(hours, 100.0 * rounds.efficiency, **looks[label])
    for ax, label in ((nodes, "nodes of 4 GPUs"), (efficiency, "statistical efficiency (%)")):
        ax.set_ylabel(label)
        ax.set_xlabel("time (h)")
        ax.set_ylim(bottom=0)
        ax.legend(fontsize="small")
    nodes.yaxis.get_major_locator().set_params(integer=True)
    _plot_frontier(frontier, rows)
    for ax in (nodes, efficiency, frontier):
        ax.grid(color="0.9")
        ax.set_axisbelow(True)
    return figure


def _plot_frontier(ax: Axes, rows: list[CloudRow]) -> None:
    """Draw the changes of cost and time of every variant, those of equal conditions joined."""
    change = {(row.case, row.quantity): row.our_change_percent for row in rows}
    conditions = dict.fromkeys(variant.conditions for variant in VARIANTS)
    for index, condition in enumerate(conditions):
        points = sorted(
            (change[variant.label, "hours"], change[variant.label, "node_hours"])
            for variant in VARIANTS
            if variant.conditions == condition
        )
        ax.plot(
            *zip(*points, strict=True),
            color=COLOURS[index],
            marker=MARKERS[index],
            linestyle=STYLES[index],
            label=condition,
        )
    published = [PUBLISHED[name] or 0.0 for name in ("hours", "node_hours")]
    star: dict[str, Any] = {"marker": "*", "color": "black", "markersize": 13}
    ax.plot(*published, linestyle="none", label="published", **star)
    ax.set_xlabel("completion time, goodput over throughput (% more)")
    ax.set_ylabel("node-hours (% more)")
    ax.legend(fontsize="small", title="the job's knowledge; lines join thresholds")


FIGURE_9 = Reproduction(
    "Figure 9: autoscaling by goodput against throughput, one ImageNet job",
    _tasks,
    _rows,
    _plot,
    ignores=("workloads", "pollux", "seeds", "quick"),
)
