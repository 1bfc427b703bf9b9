"""Replay of jobs that train large models by execution plans, in discrete time.

A policy decides every round what each job holds. A job that gets another configuration makes no
steps while its plan is sought (`PlanRestarts`), also when it first starts. GPUs of a type count
together, since configurations fit whenever their sum does (`plan_violations`); moving jobs that
keep their configuration costs nothing, as in the published simulator.

With `credit="published"` progress is counted as Arena's artifact does: the time that a job trained
so far, over the seconds of a step in its *present* configuration, so that a job that ends on fast
GPUs has been fast all along; and a restart of less than a round costs nothing.

References
----------
Xue et al., "Arena: Efficiently Training Large Models via Dynamic Scheduling and Adaptive
    Parallelism Co-Design", EuroSys 2026. arXiv:2403.16125
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from goodalloc.experiments.studies.gavel.rate_simulator import Completed
from goodalloc.models.plans.plan_job import PlanRound, PlanState, plan_violations
from goodalloc.models.support.validation import require_choice, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from goodalloc.models.plans.execution_plan import Configuration
    from goodalloc.models.plans.plan_job import PlanJob, PlanRestarts
    from goodalloc.models.plans.plan_times import PlanTimes
    from goodalloc.solvers.plans.plan_policy import PlanPolicy

#: How progress is counted: as it is made, or as Arena's artifact does.
Credit = Literal["made", "published"]

#: Seconds of a round in Arena's simulations.
ROUND_SECONDS = 300.0

#: Seconds without a completed job after which a replay is given up.
PATIENCE = 400 * 24 * 3600.0


@dataclass
class _Running:
    """Job that is not complete."""

    job: PlanJob
    speeds: Mapping[Configuration, float]
    left: float
    held: Configuration | None = None
    start: float = -1.0
    restarts: int = -1
    waits: float = 0.0
    trained: float = 0.0
    gpu_seconds: float = 0.0


@dataclass
class PlanSimulator:
    """Replay of jobs with plans.

    Parameters
    ----------
    jobs
        The jobs.
    times
        Seconds of a step by the fastest plan.
    capacity, node_gpus
        GPUs of each type, and of a node of each.
    policy
        Decides the rounds.
    restarts
        Cost of another configuration.
    credit
        How progress is counted.
    judge
        Called with every round and its decision; None for nobody.

    Raises
    ------
    ValueError
        If `credit` is none of those, or a job can run nowhere.
    """

    jobs: Sequence[PlanJob]
    times: PlanTimes
    capacity: Mapping[str, int]
    node_gpus: Mapping[str, int]
    policy: PlanPolicy
    restarts: PlanRestarts
    credit: Credit = "made"
    judge: Callable[[PlanRound, Mapping[str, Configuration]], None] | None = None
    decision_seconds: list[float] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        require_choice("Replay: credit", self.credit, get_args(Credit))
        for value in self.restarts:
            require_number("Replay: seconds of a restart", value, minimum=0.0)

    def run(self, report: Callable[[float], None] = lambda _: None) -> list[Completed]:
        """Replay until all jobs are complete, and return them in order of completion.

        Parameters
        ----------
        report
            Called with the fraction of the jobs that are complete.

        Raises
        ------
        ValueError
            If a decision breaks a rule, or no job completes for a long time.
        """
        coming = sorted(map(self._new, self.jobs), key=lambda one: one.job.submission)
        active: list[_Running] = []
        done: list[Completed] = []
        now = last = 0.0
        while coming or active:
            if not active:
                now = max(now, math.ceil(coming[0].job.submission / ROUND_SECONDS) * ROUND_SECONDS)
            while coming and coming[0].job.submission <= now:
                active.append(coming.pop(0))
            self._decide(active, now)
            ended = [one for one in (self._advance(one, now) for one in active) if one is not None]
            active = [one for one in active if one.left > 0]
            now += ROUND_SECONDS
            done += ended
            last = now if ended or not active else last
            report(len(done) / len(self.jobs))
            if now - last > PATIENCE:
                raise ValueError(
                    f"Replay: {len(active)} jobs, '{active[0].job.name}' first, did not complete "
                    f"up to {now:g} s; expected a policy that serves them."
                )
        return sorted(done, key=lambda one: one.completion)

    def _new(self, job: PlanJob) -> _Running:
        speeds = self.times.speeds(job.training, self.node_gpus)
        speeds = {one: s for one, s in speeds.items() if one.gpus <= self.capacity[one.gpu_type]}
        if not speeds:
            raise ValueError(
                f"Job '{job.name}': no plan of {' '.join(map(str, job.training))} fits on these "
                "GPUs; expected at least one."
            )
        return _Running(job, speeds, job.steps)

    def _decide(self, active: Sequence[_Running], now: float) -> None:
        """Decide with the policy, and apply its decision."""
        states = tuple(
            PlanState(
                one.job,
                one.speeds,
                one.held,
                one.left,
                now - one.job.submission,
                one.restarts,
            )
            for one in active
        )
        round_ = PlanRound(now, self.capacity, states)
        begin = time.perf_counter()
        decision = self.policy.decide(round_)
        self.decision_seconds.append(time.perf_counter() - begin)
        if broken := plan_violations(round_, decision):
            raise ValueError(f"Decision at {now:g} s: {broken[0]}")
        if self.judge is not None:
            self.judge(round_, decision)
        for one in active:
            new = decision.get(one.job.name)
            if new is not None and new != one.held:
                one.restarts += 1
                one.waits = self.restarts.seconds(new.gpus)
                one.start = now if one.start < 0 else one.start
            one.held = new

    def _advance(self, one: _Running, now: float) -> Completed | None:
        """Advance a job by a round, and return its completion if it ends."""
        if one.held is None:
            return None
        spent = self._published(one) if self.credit == "published" else self._made(one)
        one.gpu_seconds += spent * one.held.gpus
        if one.left > 0:
            return None
        end = now + spent
        return Completed(
            one.job.name, one.job.submission, one.start, end, one.restarts, one.gpu_seconds
        )

    def _made(self, one: _Running) -> float:
        """Count the steps of a round as they are made; return the seconds until its end."""
        wait = min(one.waits, ROUND_SECONDS)
        one.waits -= wait
        speed = one.speeds[one.held]  # type: ignore[index]
        needed = wait + one.left / speed
        if needed <= ROUND_SECONDS and one.waits == 0:
            one.left = 0.0
            return needed
        one.left -= speed * (ROUND_SECONDS - wait)
        return ROUND_SECONDS

    def _published(self, one: _Running) -> float:
        """Count the steps of a round as the artifact does, which ends jobs at ends of rounds."""
        if one.waits > ROUND_SECONDS:
            one.waits -= ROUND_SECONDS
            return ROUND_SECONDS
        one.waits = 0.0
        one.trained += ROUND_SECONDS
        one.left = max(one.job.steps - one.trained * one.speeds[one.held], 0.0)  # type: ignore[index]
        return ROUND_SECONDS
