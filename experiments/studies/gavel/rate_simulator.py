"""Simulator of jobs with measured rates on a cluster with types of GPU, in discrete time.

Jobs are rigid: each has a number of steps, a number of GPUs, and its steps per second on every type
of GPU, from a table or, in traces, of its own. On other numbers of GPUs a job makes no steps. A
policy decides every round, as in the replays of `simulator.py`; a job whose GPUs change loses some
seconds. A job ends within a round when its steps are made (Gavel's simulator rounds up to the end
of the round). If its GPUs are on more nodes than necessary its rate is the one measured on spread
GPUs, if any. Two jobs that share their GPUs have the rates measured of such a pair, until the end
of the round even if one of them ends before.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.workloads.rigid_jobs import RigidJob
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.support.validation import require_number
from goodalloc.solvers.policies.decision_checker import check_decision, decide_round
from goodalloc.solvers.policies.policy import ActiveJob, Round

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.data.gavel.workload import GavelJob
    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Oracle, Policy

#: Rigid jobs choose no batch size.
_NO_CHOICE = BatchLimits(1, 1, 1, 1)

#: Seconds without progress after which a replay is given up.
PATIENCE = 7 * 24 * 3600


class Completed(NamedTuple):
    """Completed job.

    Attributes
    ----------
    name
        Name of the job.
    submission, start, completion
        Seconds from the start of the replay.
    restarts
        Times it got other GPUs.
    gpu_seconds
        GPU-seconds that the job held.
    """

    name: str
    submission: float
    start: float
    completion: float
    restarts: int
    gpu_seconds: float

    @property
    def jct(self) -> float:
        """Seconds from submission to completion."""
        return self.completion - self.submission


@dataclass
class _Running:
    """Job that is not complete."""

    job: GavelJob | RigidJob
    left: float
    placement: Placement = ()
    start: float = -1.0
    restarts: int = -1
    service: float = 0.0
    waits: float = 0.0
    kind: str = ""
    host: str = ""
    share: float = 1.0
    beside: _Running | None = None


class _RateOracle(NamedTuple):
    """Remaining steps of a job, and its rate on consolidated GPUs."""

    running: _Running
    rates: RateTable | None
    types: tuple[str, ...]

    def remaining_steps(self) -> float:
        """Return the remaining steps, at least one."""
        return max(self.running.left, 1.0)

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        """Return the seconds per step; infinite where the job does not fit."""
        rate = _rate_on(self.running.job, self.rates, replicas, gpu_type or self._own_type())
        return 1.0 / rate if rate > 0 else float("inf")

    def _own_type(self) -> str:
        """Return the type of GPU of the last run; before, one on which the job can run."""
        job = self.running.job
        runs = (t for t in self.types if _rate_on(job, self.rates, job.replicas, t) > 0)
        return self.running.kind or next(runs, self.types[0])

    def beside(
        self, other: Oracle, replicas: int, gpus_per_node: int, gpu_type: str = ""
    ) -> tuple[float, float] | None:
        """Return the measured rates beside another job; None if they were not measured."""
        if not isinstance(other, _RateOracle):
            return None
        both = self.running.job, other.running.job
        found = _pair_rates_on(*both, self.rates, replicas, gpu_type or self._own_type())
        return found if found[0] > 0 else None


def _rate_on(
    job: GavelJob | RigidJob,
    rates: RateTable | None,
    replicas: int,
    gpu_type: str,
    consolidated: bool = True,
) -> float:
    """Return the steps per second on `gpus` GPUs of a type; 0 where the job does not run."""
    if isinstance(job, RigidJob):
        return job.rate if replicas == job.replicas else 0.0
    if rates is None:
        raise ValueError(f"Job '{job.name}' knows no rate of its own; expected a table of rates.")
    return rates.rate(job.configuration, replicas, gpu_type, consolidated)


def _pair_rates_on(
    one: GavelJob | RigidJob,
    other: GavelJob | RigidJob,
    rates: RateTable | None,
    replicas: int,
    gpu_type: str,
) -> tuple[float, float]:
    """Return the steps per second of two jobs on the same GPUs; 0 if no table has them."""
    if rates is None or isinstance(one, RigidJob) or isinstance(other, RigidJob):
        return 0.0, 0.0
    return rates.pair_rate(one.configuration, other.configuration, replicas, gpu_type)


@dataclass
class RateSimulator:
    """Replay of rigid jobs.

    Parameters
    ----------
    jobs
        In order of submission.
    rates
        Steps per second; None where all jobs are those of a trace.
    cluster
        The nodes; their types are those of the rates.
    policy
        Decides the rounds.
    round_seconds
        Seconds between decisions.
    restart_seconds
        Seconds that a job loses when it gets other GPUs.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    jobs: Sequence[GavelJob | RigidJob]
    rates: RateTable | None
    cluster: Cluster
    policy: Policy
    round_seconds: int = 360
    restart_seconds: float = 0.0
    time: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_number("Replay: round_seconds", self.round_seconds, minimum=0.0, strict=True)
        require_number("Replay: restart_seconds", self.restart_seconds, minimum=0.0)

    def run(self, report: Callable[[float], None] = lambda _: None) -> list[Completed]:
        """Replay until all jobs are complete, in order of completion.

        Parameters
        ----------
        report
            Called with the fraction of the jobs that are complete.

        Raises
        ------
        ValueError
            If a decision is impossible, or no job makes a step for a week.
        """
        coming = sorted(self.jobs, key=lambda job: job.submission)
        active: list[_Running] = []
        done: list[Completed] = []
        progress_at = 0
        while coming or active:
            if not active:  # nothing happens until somebody comes
                rounds = math.ceil((coming[0].submission - self.time) / self.round_seconds)
                self.time += max(rounds, 0) * self.round_seconds
                progress_at = self.time
            while coming and coming[0].submission <= self.time:
                job = coming.pop(0)
                active.append(_Running(job, job.steps))
            self._decide(active)
            before = sum(one.left for one in active)
            ended = [one for one in map(self._advance, active) if one is not None]
            active = [one for one in active if one.left > 0]
            if ended or sum(one.left for one in active) < before:
                progress_at = self.time
            self.time += self.round_seconds
            done += ended
            report(len(done) / len(self.jobs))
            if active and self.time - progress_at > PATIENCE:
                raise ValueError(
                    f"Job '{active[0].job.name}' and {len(active) - 1} others made no step in the "
                    f"week up to {self.time} s; expected a policy that serves them."
                )
        return sorted(done, key=lambda one: one.completion)

    def _decide(self, active: Sequence[_Running]) -> None:
        """Decide with the policy, and apply its decision."""
        round_ = Round(self.time, self.cluster, tuple(map(self._seen, active)))
        decision = decide_round(self.policy, round_)
        check_decision(round_, decision)
        for one in active:
            placement = tuple(sorted(decision.placements.get(one.job.name, ())))
            if placement != one.placement:
                one.restarts += bool(placement)
                one.waits = self.restart_seconds if placement and one.restarts else 0.0
            one.placement = placement
        running = {one.job.name: one for one in active}
        for one in active:
            one.host, one.beside = decision.beside.get(one.job.name, ""), None
        for one in active:
            if one.host:
                host = running[one.host]
                self._require_measured(one, host)
                one.beside, host.beside = host, one

    def _require_measured(self, guest: _Running, host: _Running) -> None:
        """Refuse two on the same GPUs of whom no rates are known there."""
        same = host.beside is None and guest.placement == host.placement
        if same and self._rate(guest, host) > 0:
            return
        raise ValueError(
            f"Decision at {self.time} s: jobs '{guest.job.name}' and '{host.job.name}' share GPUs "
            f"{guest.placement} and {host.placement}; expected a pair on the same ones whose rates "
            "were measured."
        )

    def _seen(self, one: _Running) -> ActiveJob:
        """Return the job as the policy sees it."""
        job = one.job
        return ActiveJob(
            name=job.name,
            application=str(job.configuration),
            submission=int(job.submission),
            age=int(self.time - job.submission),
            placement=one.placement,
            restarts=max(one.restarts, 0),
            attained_service=one.service,
            replicas=job.replicas,
            batch_size=1,
            batch=_NO_CHOICE,
            fixed_replicas=job.replicas,
            most_explored=job.replicas,
            model=lambda: None,
            oracle=_RateOracle(one, self.rates, self.cluster.gpu_types),
            host=one.host if one.beside and one.beside.left > 0 else "",
            busy=self._busy(one),
            memory=0.0,
            share=one.share,
        )

    def _busy(self, one: _Running) -> float | None:
        """Return how busy the job kept its last GPUs; None before it ran, or without a table.

        No table says so. By equation (3) of `models/shared_gpus/shared_speed.py` without loss, two
        jobs that are both busy for the part u keep 1 / (2 u) of their speed: read backwards for the
        pair of the job and one like it, a documented reading; 1 where it has no room for another.
        """
        if one.start < 0 or isinstance(one.job, RigidJob):
            return None
        replicas = one.job.replicas
        beside, _ = _pair_rates_on(one.job, one.job, self.rates, replicas, one.kind)
        alone = _rate_on(one.job, self.rates, replicas, one.kind)
        return min(alone / (2.0 * beside), 1.0) if beside > 0 else 1.0

    def _advance(self, one: _Running) -> Completed | None:
        """Advance a job by a round; return its completion if it ends."""
        if not one.placement:
            return None
        gpus = sum(count for _, count in one.placement)
        if one.start < 0:
            one.start = float(self.time)
        one.kind = self.cluster.node_types[one.placement[0][0]]
        rate, wait = self._rate(one, one.beside), min(one.waits, float(self.round_seconds))
        alone = self._rate(one) if one.beside else rate
        one.share = rate / alone if alone > 0 else 1.0
        one.waits -= wait
        needed = one.left / rate if rate > 0 else math.inf
        spent = min(wait + needed, float(self.round_seconds))
        one.service += spent * gpus
        if wait + needed > self.round_seconds:
            one.left -= rate * (self.round_seconds - wait)
            return None
        one.left = 0.0
        return Completed(
            one.job.name,
            one.job.submission,
            one.start,
            self.time + spent,
            one.restarts,
            one.service,
        )

    def _rate(self, one: _Running, beside: _Running | None = None) -> float:
        """Return the true steps per second of a job where it runs; on several types the slowest.

        The rate is 0 on fewer or more GPUs than the job requests. Where spread GPUs were not
        measured, it is that of consolidated ones, as for two jobs on the same GPUs.
        """
        if sum(gpus for _, gpus in one.placement) != one.job.replicas:
            return 0.0
        nodes = [node for node, _ in one.placement]
        per_node = int(self.cluster.node_gpus[nodes].max())
        together = len(nodes) == math.ceil(one.job.replicas / per_node)
        found = []
        for kind in {self.cluster.node_types[node] for node in nodes}:
            if beside is not None:
                found.append(self._pair_rate(one, beside, kind))
                continue
            known = (
                _rate_on(one.job, self.rates, one.job.replicas, kind, consolidated)
                for consolidated in (together, True)
            )
            found.append(next((rate for rate in known if rate > 0), 0.0))
        return min(found)

    def _pair_rate(self, one: _Running, other: _Running, kind: str) -> float:
        """Return the rate of the first of two jobs on the same GPUs; 0 if not measured."""
        if one.job.replicas != other.job.replicas:
            return 0.0
        return _pair_rates_on(one.job, other.job, self.rates, one.job.replicas, kind)[0]
