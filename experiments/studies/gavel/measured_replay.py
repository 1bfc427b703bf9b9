"""Replays of given jobs by given measured rates, under policies that keep the requested GPUs.

Each replay is a record that is made at once or not at all, so a command that was stopped goes on
with the policies that are missing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.gavel.measured_rates import read_rate_jobs, read_rate_table
from goodalloc.experiments.replay.replay_report import (
    completion_columns,
    curves,
    draw_distribution,
)
from goodalloc.experiments.reporting.axes import logarithmic
from goodalloc.experiments.reporting.table_numbers import HOUR, rounded
from goodalloc.experiments.studies.framework.recorded_task import RecordedTask
from goodalloc.experiments.studies.gavel.rate_simulator import Completed, RateSimulator
from goodalloc.experiments.support.records import digest
from goodalloc.experiments.support.version import library_version
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy, require_types_known, source_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.data.gavel.workload import GavelJob
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy_table import PolicyOptions


#: Columns of a completed job.
JOB_COLUMNS = Completed._fields

#: Ratio of the longest to the shortest completion time from which on their axis is logarithmic.
WIDE = 30.0


@dataclass(frozen=True)
class MeasuredReplay(RecordedTask):
    """Task that replays jobs with measured rates under one policy.

    Parameters
    ----------
    policy
        Name of a policy that keeps the users' GPUs, or ``package.module:name``.
    jobs, rates
        The jobs in order of submission, and the rates of what they train.
    cluster
        The nodes, whose types of GPU are those of `rates`.
    round_seconds
        Time between two decisions.
    restart_seconds
        Time that a job loses when it gets other GPUs.
    options
        Seed and time limit of the policy.
    """

    policy: str
    jobs: tuple[GavelJob, ...]
    rates: RateTable
    cluster: Cluster
    round_seconds: int
    restart_seconds: float
    options: PolicyOptions

    def description(self) -> dict[str, Any]:
        """Return all inputs that the record depends on, long tables by their digests."""
        rates = {
            "types": self.rates.types,
            "configurations": self.rates.configurations,
            "replicas": self.rates.replicas,
            "alone": self.rates.alone.tolist(),
        }
        return {
            "format": "goodalloc-measured-replay",
            "version": 1,
            "library": library_version(),
            "policy": self.policy,
            "source": source_digest(self.policy),
            "jobs": digest({"jobs": self.jobs}),
            "rates": digest(rates),
            "cluster": asdict(self.cluster)["groups"],
            "round_seconds": self.round_seconds,
            "restart_seconds": self.restart_seconds,
            "seed": self.options.seed,
            "seconds": self.options.seconds,
        }

    def work(self, report: Report) -> list[list[Any]]:
        """Replay all jobs, and return their rows in order of completion."""
        require_types_known(self.policy, self.cluster)
        policy = make_policy(self.policy, self.options)
        simulator = RateSimulator(
            self.jobs, self.rates, self.cluster, policy, self.round_seconds, self.restart_seconds
        )
        return [list(one) for one in simulator.run(report)]

    def completed(self) -> list[Completed]:
        """Return the jobs of the record, in order of completion."""
        return [Completed(*row) for row in self.record()]


def read_rated_jobs(
    jobs: str, rates: str, cluster: Cluster
) -> tuple[tuple[GavelJob, ...], RateTable]:
    """Read jobs and the measured rates of what they train.

    Parameters
    ----------
    jobs, rates
        Files, as of `goodalloc.data.gavel.read_rate_jobs` and `read_rate_table`.
    cluster
        The nodes that are to run them.

    Raises
    ------
    ValueError
        If a table is malformed, or as `require_rated`.
    """
    table = read_rate_table(rates)
    found = read_rate_jobs(jobs, table)
    require_rated(table, found, cluster)
    return found, table


def require_served(policy: str, jobs: Sequence[GavelJob], cluster: Cluster) -> None:
    """Refuse a policy that needs goodput models, and jobs that the cluster can never run.

    Raises
    ------
    ValueError
        If a policy that ships is elastic, or a job asks for more GPUs than all nodes have.
    """
    named = POLICIES.get(policy)
    if named is not None and not named.rigid:
        several = len(cluster.gpu_types) > 1
        known = ", ".join(
            name
            for name, other in POLICIES.items()
            if other.rigid and (other.gpu_types or not several)
        )
        raise ValueError(
            f"Policy '{policy}' chooses numbers of GPUs by a goodput model, which a table of rates "
            f"is not; expected one that keeps the users' GPUs: {known}."
        )
    for job in jobs:
        if job.replicas > cluster.num_gpus:
            raise ValueError(
                f"Job '{job.name}' takes {job.replicas} GPUs; expected at most the "
                f"{cluster.num_gpus} of the cluster."
            )


def require_rated(rates: RateTable, jobs: Sequence[GavelJob], cluster: Cluster) -> None:
    """Refuse types of GPU without rates, and jobs that run on no type of the cluster.

    Raises
    ------
    ValueError
        With the type or the job.
    """
    for group in cluster.groups:
        if not group.gpu_type:
            raise ValueError(
                "Cluster: its GPUs have no type; expected groups of nodes with one, as --group "
                f"NAME:NODES:GPUS:TYPE on the command line, of {', '.join(rates.types)}."
            )
        if group.gpu_type not in rates.types:
            raise ValueError(
                f"Node group '{group.name}' has GPUs of type '{group.gpu_type}'; expected one of "
                f"the types with rates, {', '.join(rates.types)}."
            )
    for job in jobs:
        if not any(
            rates.rate(job.configuration, job.replicas, kind) > 0 for kind in cluster.gpu_types
        ):
            raise ValueError(
                f"Job '{job.name}' trains '{job.configuration.name}' on {job.replicas} GPUs; "
                f"expected a rate on a type of the cluster, {', '.join(cluster.gpu_types)}."
            )


def summary_row(policy: str, done: Sequence[Completed]) -> dict[str, Any]:
    """Return the row of a policy: completion times, waiting, makespan and restarts."""
    seconds = np.array([one.jct for one in done])
    waited = np.array([one.start - one.submission for one in done])
    row: dict[str, Any] = {
        "policy": policy,
        "jobs": len(done),
        **completion_columns(seconds, np.array([one.completion for one in done])),
        "average_wait_hours": float(waited.mean()) / HOUR,
        "restarts_per_job": float(np.mean([one.restarts for one in done])),
        "gpu_hours": sum(one.gpu_seconds for one in done) / HOUR,
    }
    return {
        name: rounded(cell, 4) if isinstance(cell, float) else cell for name, cell in row.items()
    }


def plot_completions(done: Mapping[str, Sequence[Completed]], bound: float | None = None) -> Figure:
    """Draw the distribution of completion times under every policy.

    Parameters
    ----------
    done
        Jobs that each policy completed.
    bound
        Hours below which no average completion time is; None where that is not known.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    ax = figure.subplots()
    for policy, look in curves(done).items():
        draw_distribution(ax, np.array([one.jct for one in done[policy]]) / HOUR, look)
    if bound is not None:
        label = f"bound on the average ({bound:.3g} h)"
        ax.axvline(bound, color="0.5", linestyle="dotted", label=label)
    hours = np.array([one.jct for found in done.values() for one in found]) / HOUR
    if hours.max() > WIDE * hours.min():
        logarithmic(ax, "x")
    else:
        ax.set_xlim(left=0.0)
    ax.set_xlabel("job completion time (h)")
    figure.legend(loc="outside lower center", ncols=3)
    return figure
