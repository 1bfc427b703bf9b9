r"""Simulator of a cluster of jobs with parameter servers in discrete time.

A round lasts 240 s, as in a follow-on of AITurbo. A job whose allocation does not change stays in
place; the others are placed together (`colocation.py`) in the order of the decision, and keep their
previous allocation if the new one fits nowhere and the old one is still free. A job whose
configuration or pods change, or that was stopped, first restarts while it holds its allocation. On
nodes that differ in their GPUs, servers would take the cores beside the GPUs, which have the most
room; a job that thus fits nowhere is placed anew, its workers first.

`models/parameter_servers/step_time.py` gives the step time. Its coefficients were measured with
pods on different nodes; transfers within a node are faster, so that with a fraction *s* of the
pairs of servers and workers on different nodes the bandwidth over the measured one is

.. math:: B = \frac{1}{s + (1 - s) / 2},                                                       (1)

which is our reading: 2 is the median, over its eight models, of the ratio of bandwidth within a
node to that between nodes in DL2's simulator (github.com/pengyanghua/DL2, commit 2e54920).

A scheduler's estimate of the remaining steps is the total that the loss curve predicts
(`models/losses/loss_forecast.py`) minus the steps done, but at least 5 % of those done. It takes a
job for predictable if the classifier and the curve agree
(`models/parameter_servers/predictability.py`).

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.workload import check_ps_workload
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.models.losses.loss_forecast import Forecast, forecast
from goodalloc.models.parameter_servers.job import CORE_WEIGHT, GPU_WEIGHT, PsJob
from goodalloc.models.parameter_servers.predictability import is_predictable
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.tabulated_service import Pods, ServiceTable
from goodalloc.models.parameter_servers.utilisation import IDLE, busy_parts
from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.solvers.parameter_servers.colocation import place_together, share_between_nodes
from goodalloc.solvers.parameter_servers.policy import ActivePsJob, PsView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.data.parameter_servers.workload import PsSubmission
    from goodalloc.models.parameter_servers.tabulated_service import Cell
    from goodalloc.models.parameter_servers.utilisation import Busy
    from goodalloc.models.support.array_types import Floats, Indices
    from goodalloc.solvers.parameter_servers.policy import PsDecision, PsPolicy


#: Share of the steps done that at least seem to remain.
LEAST_LEFT = 0.05

#: Rounds without any progress after which a replay is given up.
PATIENCE = 100


@dataclass
class SimulatedPsJob:
    """Job of a running replay.

    Parameters
    ----------
    submission
        The truth about it.
    cell, pods
        Allocation, and servers and workers on every node, shape (2, nodes); None while it waits.
    done, attained
        Steps, and service: cores and ten times GPUs, times seconds.
    step_seconds, restart_left
        Seconds of a step where it runs, and time until it trains.
    starts
        Number of changes of its allocation.
    busy
        Fraction of its cores and GPUs that computes during a step.
    completion
        When it ended.
    """

    submission: PsSubmission
    cell: Cell | None = None
    pods: Indices | None = None
    done: float = 0.0
    attained: float = 0.0
    step_seconds: float = np.inf
    restart_left: float = 0.0
    starts: int = 0
    busy: Busy = IDLE
    completion: float | None = None

    @cached_property
    def asked_seconds(self) -> float:
        """Seconds of a step with the requested allocation."""
        told = self.submission
        return float(seconds_per_step(told.step_time, told.asked, told.batch_size))

    def seen(self, restart_seconds: float) -> ActivePsJob:
        """Return the job as a scheduler sees it."""
        told = self.submission
        asked = told.choices.cell(told.asked)
        assert asked is not None
        known = Forecast(told.steps, 0.0)
        found = known if told.losses is None else forecast(told.losses, self.done)
        job = PsJob(
            name=told.name,
            remaining_steps=max(found.steps - self.done, LEAST_LEFT * self.done),
            batch_size=told.batch_size,
            step_time=told.step_time,
            choices=told.choices,
            current=None if self.cell is None else told.choices.at(self.cell),
            restart_seconds=restart_seconds,
        )
        predictable = is_predictable(told.confidence, found.error)
        left = (told.steps - self.done) * self.asked_seconds
        return ActivePsJob(job, asked, self.done, self.attained, predictable, left)

    def give(self, cell: Cell | None, pods: Indices | None, setting: PsSetting) -> None:
        """Have it start with something else, or stop."""
        self.cell, self.pods = cell, pods
        if cell is None or pods is None:
            return
        told = self.submission
        share = share_between_nodes(*pods)
        bandwidth = 1.0 / (share + (1.0 - share) / setting.within_nodes)
        self.step_seconds = float(
            seconds_per_step(told.step_time, told.choices.at(cell), told.batch_size, bandwidth)
        )
        self.restart_left = setting.restart_seconds if self.starts else 0.0
        self.starts += 1
        self.busy = busy_parts(told.step_time, told.choices.at(cell), told.batch_size, bandwidth)

    def train(self, time: float, seconds: float) -> Floats:
        """Advance the job; return its computing core- and GPU-seconds, shape (nodes, 2)."""
        assert self.cell is not None
        assert self.pods is not None
        wait = min(self.restart_left, seconds)
        self.restart_left -= wait
        needed = (self.submission.steps - self.done) * self.step_seconds
        trained = min(seconds - wait, needed)
        if trained == needed:
            self.done, self.completion = self.submission.steps, time + wait + trained
        else:
            self.done += trained / self.step_seconds
        has = self.submission.choices.at(self.cell)
        held = CORE_WEIGHT * float(has.cores) + GPU_WEIGHT * float(has.gpus)
        self.attained += held * (wait + trained)
        servers, workers = self.pods * trained
        cores = (
            servers * has.server_cores * self.busy.server_cores
            + workers * has.worker_cores * self.busy.worker_cores
        )
        return np.stack([cores, workers * has.worker_gpus * self.busy.gpus], axis=1)


class PsRoundRecord(NamedTuple):
    """Decision of a round, and its outcome until the next round.

    Attributes
    ----------
    view, decision
        Round as the policy saw it, and its decision.
    tables, cells, pods
        Of the jobs that ran: tables of one cell with the resources of a pod of each kind, their
        cells, and their pods, shape (jobs, 2, nodes).
    utilisation
        Share of the cores and of the GPUs of every node that computed, shape (nodes, 2); NaN where
        there are none.
    """

    view: PsView
    decision: PsDecision
    tables: tuple[ServiceTable, ...]
    cells: tuple[Cell, ...]
    pods: Indices
    utilisation: Floats


@dataclass
class PsSimulator:
    """Running replay of jobs with parameter servers.

    Parameters
    ----------
    workload
        Submitted jobs.
    policy
        Decides the rounds.
    setting
        The conditions.

    Raises
    ------
    ValueError
        If the workload is empty or names a job twice.
    """

    workload: tuple[PsSubmission, ...]
    policy: PsPolicy
    setting: PsSetting = field(default_factory=PsSetting)
    time: float = field(default=0.0, init=False)
    jobs: list[SimulatedPsJob] = field(init=False)
    _idle: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_ps_workload(self.workload)
        ordered = sorted(self.workload, key=lambda job: job.time)
        self.jobs = [SimulatedPsJob(job) for job in ordered]

    def run(self) -> Iterator[PsRoundRecord]:
        """Yield all rounds with active jobs, until all are complete.

        Raises
        ------
        ValueError
            If a decision is impossible, or no job has made progress for long.
        """
        while any(job.completion is None for job in self.jobs):
            active = [
                job
                for job in self.jobs
                if job.completion is None and job.submission.time <= self.time
            ]
            if active:
                yield self._round(active)
            self.time += self.setting.interval

    def _round(self, active: list[SimulatedPsJob]) -> PsRoundRecord:
        """Decide, place, train."""
        setting = self.setting
        seen = tuple(job.seen(setting.restart_seconds) for job in active)
        view = PsView(self.time, seen, setting.capacity)
        decision = self.policy.decide(view)
        self._check(decision, active)
        self._place(decision, active)
        running = [job for job in active if job.cell is not None]
        tables = tuple(pods_of(job.submission, job.cell) for job in running if job.cell is not None)
        pods = np.array([job.pods for job in running], dtype=np.int64)
        before = sum(job.done for job in active)
        busy = np.zeros(setting.capacity.shape)
        for job in running:
            busy += job.train(self.time, setting.interval)
        progress = sum(job.done for job in active) > before
        self._idle = 0 if progress else self._idle + 1
        if self._idle > PATIENCE:
            raise ValueError(
                f"Job '{active[0].submission.name}' and {len(active) - 1} others wait; no job "
                f"made progress in the last {self._idle} rounds up to {self.time:g} s. Expected a "
                "policy that serves them, or more nodes."
            )
        for job in running:
            if job.completion is not None:
                job.give(None, None, setting)
        cells = ((),) * len(tables)
        has = setting.capacity
        nothing = np.full(has.shape, np.nan)
        utilisation = np.divide(busy / setting.interval, has, out=nothing, where=has > 0)
        return PsRoundRecord(view, decision, tables, cells, pods, utilisation)

    def _check(self, decision: PsDecision, active: list[SimulatedPsJob]) -> None:
        """Refuse jobs that are not there and cells in which a job cannot be."""
        if not isinstance(decision, dict):
            raise ValueError(
                f"Policy: the decision at {self.time:g} s is {decision!r}; expected a dictionary "
                "of cells by the names of jobs."
            )
        known = {job.submission.name: job.submission for job in active}
        for name, cell in decision.items():
            if name not in known:
                raise ValueError(
                    f"Policy: job '{name}' is given something at {self.time:g} s; expected a job "
                    "that is submitted and not complete."
                )
            told = known[name]
            shape = told.choices.shape
            # A configuration is a tuple of numbers, too, but of other ones.
            inside = (
                type(cell) is tuple
                and len(cell) == len(shape)
                and all(
                    isinstance(index, Integral) and 0 <= index < size
                    for index, size in zip(cell, shape, strict=True)
                )
            )
            here = told.choices.at(cell) if inside else None
            if here is None or not np.isfinite(
                seconds_per_step(told.step_time, here, told.batch_size)
            ):
                raise ValueError(
                    f"Policy: job '{name}' is given the cell {cell!r} at {self.time:g} s; "
                    "expected one in which it trains."
                )

    def _place(self, decision: PsDecision, active: list[SimulatedPsJob]) -> None:
        """Place the jobs that stay, then the others in order; a job that fits nowhere waits."""
        by_name = {job.submission.name: job for job in active}
        left = self.setting.capacity * (1 + RESOURCE_TOLERANCE)
        moving = []
        for name, cell in decision.items():
            job = by_name[name]
            if job.cell == cell and job.pods is not None:
                left = left - taken(job.submission, cell, job.pods)
            else:
                moving.append((job, cell))
        for job in active:
            if job.submission.name not in decision:
                job.give(None, None, self.setting)
        for job, cell in moving:
            table = pods_of(job.submission, cell)
            pods = self._pods_of(table, np.maximum(left, 0))
            if pods is not None:
                job.give(cell, pods, self.setting)
            elif (
                job.cell is None
                or job.pods is None
                or (taken(job.submission, job.cell, job.pods) > left + RESOURCE_TOLERANCE).any()
            ):
                job.give(None, None, self.setting)
                continue
            assert job.cell is not None
            assert job.pods is not None
            left = left - taken(job.submission, job.cell, job.pods)

    def _pods_of(self, table: ServiceTable, left: Floats) -> Indices | None:
        """Return the pods of a job on the nodes, shape (2, nodes); None if they fit nowhere."""
        pods, placed = place_together([table], [()], left)
        if placed[0] or not self.setting.node_gpus:
            return pods[0] if placed[0] else None
        found = []
        for kind in reversed(table.pods):
            alone = ServiceTable(table.name, table.service, kind.number * kind.each, (kind,))
            pods, placed = place_together([alone], [()], left)
            if not placed[0]:
                return None
            left = left - np.outer(pods[0, 0], kind.each)
            found.append(pods[0, 0])
        return np.stack(found[::-1])


def pods_of(submission: PsSubmission, cell: Cell) -> ServiceTable:
    """Return the table of a job with one possible allocation: no axis, and its pods' resources."""
    has, each = submission.choices.at(cell), _each_pod(submission, cell)
    number = np.array([has.servers, has.workers], dtype=np.int64)
    pods = tuple(Pods(*kind) for kind in zip(number, each, strict=True))
    return ServiceTable(submission.name, np.zeros(()), number @ each, pods)


def taken(submission: PsSubmission, cell: Cell, pods: Indices) -> Floats:
    """Return the cores and GPUs that a job takes of every node, shape (nodes, 2)."""
    return np.asarray(pods.T @ _each_pod(submission, cell))


def _each_pod(submission: PsSubmission, cell: Cell) -> Floats:
    """Return cores and GPUs of a server and of a worker, shape (2, 2)."""
    has = submission.choices.at(cell)
    return np.array([[has.server_cores, 0.0], [has.worker_cores, has.worker_gpus]], dtype=float)
