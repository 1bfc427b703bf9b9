"""Benefit of packing jobs in pairs, by measured rates.

One-GPU jobs of Gavel's generator run on 8 GPUs of each of three types; the rates of pairs on a GPU
are the measured ones if `--artifact` names the folder of the published table, else fitted ones.
Gavel's fairness and its completion times with and without pairs stand beside pairs with equal
shares: random pairs of all jobs, as in Gavel's implementation of Gandiva, and only as many pairs as
needed until all jobs fit, at random, least busy first, and by a matching of greatest gain. Only
jobs in the middle of the replay count, as in `gavel/replay.py`.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.gavel.rates import FOLDER, require_gavel_table
from goodalloc.data.gavel.workload import GavelWorkload
from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, estimate_of
from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.gavel.replay import RateReplay
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.shared_gpus.paired_shares import PairedShares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.solvers.policies.policy import Policy

#: Nodes of four GPUs, of each type: so few that a few hundred jobs fill them.
NODES = 2


class Contender(NamedTuple):
    """Policy of the comparison.

    Attributes
    ----------
    label, colour
        In pictures.
    make
        The policy, by a seed.
    alone
        The same without pairs, empty for such a one.
    """

    label: str
    colour: str
    make: Callable[[int], Policy]
    alone: str = ""


CONTENDERS: Mapping[str, Contender] = {
    "fair": Contender("max-min fairness", COLOURS[0], lambda _: Gavel()),
    "fair-packed": Contender(
        "max-min fairness, pairs", COLOURS[0], lambda _: Gavel(packed=True), "fair"
    ),
    "completion": Contender("completion times", COLOURS[1], lambda _: Gavel("completion")),
    "completion-packed": Contender(
        "completion times, pairs",
        COLOURS[1],
        lambda _: Gavel("completion", packed=True),
        "completion",
    ),
    "equal": Contender("equal shares", COLOURS[6], lambda _: PairedShares("none")),
    "random-all": Contender(
        "equal, all at random",
        COLOURS[2],
        lambda seed: PairedShares(everybody=True, seed=seed),
        "equal",
    ),
    "random": Contender(
        "equal, some at random", COLOURS[3], lambda seed: PairedShares(seed=seed), "equal"
    ),
    "busy": Contender(
        "equal, least busy first", COLOURS[4], lambda _: PairedShares("busy"), "equal"
    ),
    "matching": Contender(
        "equal, best matching", COLOURS[5], lambda _: PairedShares("matching"), "equal"
    ),
}

#: Jobs an hour; the last one in quick runs.
LOADS = (1.5, 2.25, 3.0)

#: Jobs of a replay, and how many seeds; quick ones.
JOBS, QUICK_JOBS, SEEDS, QUICK_SEEDS = 200, 80, 3, 1


@dataclass(frozen=True)
class PackingTask(RateReplay):
    """One replay; see `RateReplay`.

    Parameters
    ----------
    contender
        Key in `CONTENDERS`.
    """

    contender: str

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on."""
        return {
            "format": "goodalloc-gavel-packing",
            "version": 1,
            "library": library_version(),
            "contender": self.contender,
            "load": self.load,
            "jobs": self.jobs,
            "seed": self.seed,
            "table": self.table is not None,
            "nodes": self.nodes,
        }

    def policy(self) -> Policy:
        """Return a new policy."""
        return CONTENDERS[self.contender].make(self.seed)

    def workload(self) -> GavelWorkload:
        """Return a workload of one-GPU jobs, the only ones measured in pairs."""
        return GavelWorkload(jobs_per_hour=self.load, replicas=((1, 1.0),))


def _runs(plan: Plan, contender: str, load: float) -> list[PackingTask]:
    """Return the replays of a policy at a load, one for every seed."""
    jobs, seeds = (QUICK_JOBS, QUICK_SEEDS) if plan.quick else (JOBS, SEEDS)
    tasks = (
        PackingTask(plan.folder, load, jobs, seed, plan.artifact, NODES, contender=contender)
        for seed in range(seeds)
    )
    return [task.among(plan.folder, "packing") for task in tasks]


def _loads(plan: Plan) -> tuple[float, ...]:
    return LOADS[-1:] if plan.quick else LOADS


def _tasks(plan: Plan) -> list[PackingTask]:
    return [
        task for load in _loads(plan) for name in CONTENDERS for task in _runs(plan, name, load)
    ]


class PackingRow(NamedTuple):
    """Outcome of a policy at a load, and the gain of pairs over its contender without pairs."""

    jobs_per_hour: float
    policy: str
    without_pairs: str
    seeds: int
    average_jct_hours: Estimate
    makespan_hours: Estimate
    restarts_per_job: Estimate
    gain_percent: Estimate


def _rows(plan: Plan) -> list[PackingRow]:
    """Return a row for each load and policy."""
    rows = []
    for load in _loads(plan):
        hours = {name: [one.hours() for one in _runs(plan, name, load)] for name in CONTENDERS}
        for name, contender in CONTENDERS.items():
            records = hours[name]
            both = zip(records, hours[contender.alone or name], strict=True)
            gain = [
                100.0 * (1.0 - one.average_jct_hours / alone.average_jct_hours)
                for one, alone in both
            ]
            rows.append(
                PackingRow(
                    jobs_per_hour=load,
                    policy=name,
                    without_pairs=contender.alone,
                    seeds=len(records),
                    average_jct_hours=estimate_of([one.average_jct_hours for one in records]),
                    makespan_hours=estimate_of([one.makespan_hours for one in records]),
                    restarts_per_job=estimate_of([one.restarts_per_job for one in records]),
                    gain_percent=estimate_of(gain) if contender.alone else NO_ESTIMATE,
                )
            )
    return rows


def _shown(rows: list[PackingRow]) -> Rows:
    """Return a line for each load and policy: hours, and by how much pairs shorten them."""
    return [
        {
            "jobs/hour": row.jobs_per_hour,
            "policy": CONTENDERS[row.policy].label,
            "average JCT (h)": row.average_jct_hours.text(),
            "makespan (h)": rounded(row.makespan_hours.mean, 4),
            "shorter by pairs (%)": row.gain_percent.text() if row.without_pairs else "",
            "restarts/job": rounded(row.restarts_per_job.mean, 3),
        }
        for row in rows
    ]


def _plot(_: Plan, rows: list[PackingRow]) -> Figure:
    """Draw average completion times by load, and the gain of pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    lines, gains = figure.subplots(1, 2)
    packed = [name for name, contender in CONTENDERS.items() if contender.alone]
    width = 0.8 / len(packed)
    for name, contender in CONTENDERS.items():
        mine = [row for row in rows if row.policy == name]
        lines.plot(
            [row.jobs_per_hour for row in mine],
            [row.average_jct_hours.mean for row in mine],
            color=contender.colour,
            marker="o",
            markersize=4,
            linestyle="-" if contender.alone else "--",
            label=contender.label,
            markerfacecolor=contender.colour if contender.alone else "white",
        )
        if contender.alone:
            shift = (packed.index(name) - (len(packed) - 1) / 2) * width
            gains.bar(
                [place + shift for place in range(len(mine))],
                [row.gain_percent.mean for row in mine],
                width=width,
                color=contender.colour,
                ecolor="#555555",
                yerr=[row.gain_percent.half_width for row in mine],
            )
    lines.set_ylim(bottom=0.0)
    loads = sorted({row.jobs_per_hour for row in rows})
    lines.set_xticks(loads)
    lines.set_xlabel("jobs an hour")
    lines.set_ylabel("average completion time (h)")
    lines.legend(frameon=False, fontsize="small", ncols=2)
    gains.axhline(0.0, color="#555555", linewidth=0.8)
    gains.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
    gains.set_xlabel("jobs an hour")
    gains.set_ylabel("shorter by pairs (%)")
    for ax in (lines, gains):
        open_axes(ax)
    return figure


PACKING = Reproduction(
    "gavel-packing: jobs that share GPUs in pairs beside jobs alone, on Gavel's throughputs",
    _tasks,
    _rows,
    _plot,
    lambda plan: require_gavel_table(plan.artifact),
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads"),
    lists=FOLDER,
)
