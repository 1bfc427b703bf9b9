"""Cluster in discrete time: jobs advance, then a policy decides, then its decision is applied.

The rules are those of the simulator published with Pollux. The policy sees what the agents of the
jobs measured and predict (`solvers/policies/policy.py`), never the true applications.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from goodalloc.data.documents.json_file import check_keys
from goodalloc.data.workloads.workload import check_workload
from goodalloc.experiments.replay.agents import choose_batch_sizes, observed_jobs
from goodalloc.experiments.replay.job_modes import Equipment, draw_pipeline
from goodalloc.experiments.replay.job_oracle import (
    BestSpeeds,
    EstimatedOracle,
    TrueOracle,
    crowded_nodes,
    share_gpus,
)
from goodalloc.experiments.replay.prior_knowledge import ExperiencePool
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.round_record import RoundRecord
from goodalloc.experiments.replay.simulated_job import NOTHING, SimulatedJob
from goodalloc.experiments.replay.simulation_state import (
    SimulatorState,
    pack_simulator,
    unpack_job,
    unpack_simulator,
)
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.models.support.validation import require_choice
from goodalloc.solvers.policies.decided_modes import decided_modes
from goodalloc.solvers.policies.decision_checker import check_decision, decide_round
from goodalloc.solvers.policies.policy import BatchSizes, Round

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.documents.json_file import Document
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Mode
    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.solvers.policies.policy import Decision, Policy


#: Rounds, each with a restart, without any progress after which a replay is abandoned.
PATIENCE = 100

#: Seconds without any progress after which it is abandoned while nodes are missing: a week.
LONGEST_OUTAGE = 7 * 24 * 3600


@dataclass
class Simulator:
    """Replay of a workload under a policy, interval by interval.

    Parameters
    ----------
    workload
        The submitted jobs.
    applications
        The true applications that they train, by name.
    policy
        The policy that decides the rounds. If it has `pooled`, and that is true, the agents of its
        jobs take all types of GPU for one, too.
    setting
        Conditions of the replay.

    Attributes
    ----------
    state
        State that a checkpoint stores, beside that of the jobs and of the pool of experience.
    jobs
        The jobs in order of submission.

    Raises
    ------
    ValueError
        If the workload is empty, a name occurs twice, an application is unknown, the batch size of
        a job is outside the range of its application, or jobs that pool all types of GPU are to
        start with knowledge.

    Examples
    --------
    >>> from goodalloc.data.applications import applications_of
    >>> from goodalloc.data.workloads import Submission
    >>> from goodalloc.experiments import Setting, Simulator
    >>> from goodalloc.models.round import Cluster
    >>> from goodalloc.solvers import make_policy
    >>> workload = [Submission("a", time=0, application="ncf", replicas=1, batch_size=32768)]
    >>> policy, setting = make_policy("fifo"), Setting(Cluster.uniform(1, 4))
    >>> simulator = Simulator(workload, applications_of(None), policy, setting)
    >>> simulator.step().decision.placements
    {'a': ((0, 1),)}
    """

    workload: Sequence[Submission]
    applications: Mapping[str, Application]
    policy: Policy
    setting: Setting = Setting()
    state: SimulatorState = field(init=False)
    jobs: list[SimulatedJob] = field(init=False)

    def __post_init__(self) -> None:
        check_workload(self.workload)
        rule = getattr(self.policy, "batch_sizes", None)
        require_choice("Policy: batch_sizes", rule, get_args(BatchSizes))
        self._sharing: Sharing | None = getattr(self.policy, "sharing", None)
        self._pooled = bool(getattr(self.policy, "pooled", False))
        if self._pooled and self.setting.knowledge != "explored":
            raise ValueError(
                f"Setting: knowledge is '{self.setting.knowledge}' under a policy whose jobs pool "
                "all types of GPU; expected 'explored'."
            )
        self.state = SimulatorState(self.setting.cluster, self.setting.cluster.num_nodes)
        self._equipment = Equipment.of(self.cluster)
        self._pool = ExperiencePool(self.setting.knowledge, self.applications)
        self.jobs = []
        self._oracles: dict[str, TrueOracle | EstimatedOracle] = {}
        self._speeds = BestSpeeds()
        for submission in sorted(self.workload, key=lambda job: job.time):
            self.submit(submission)

    def submit(self, submission: Submission) -> None:
        """Add a job that is not submitted before the last one.

        Raises
        ------
        ValueError
            If its application is unknown, its batch size out of range or its name taken.
        """
        item = f"Job '{submission.name}'"
        if submission.application not in self.applications:
            raise ValueError(
                f"{item}: application '{submission.application}' is unknown; "
                f"expected one of {', '.join(self.applications)}."
            )
        application = self.applications[submission.application]
        limits = application.batch
        if not limits.initial <= submission.batch_size <= limits.maximum:
            raise ValueError(
                f"{item}: batch_size is {submission.batch_size}; expected {limits.initial:g} to "
                f"{limits.maximum:g} examples for '{submission.application}'."
            )
        if submission.name in self._oracles:
            raise ValueError(f"{item} is submitted twice; expected unique names.")
        equipment, pipeline = self._equipment, None
        if equipment.counts_cores:
            random = np.random.default_rng([self.setting.input_seed, 2, len(self.jobs)])
            pipeline = draw_pipeline(application, equipment.gpu_types, random)
        own = self.policy.batch_sizes
        rules: dict[str, BatchSizes] = {"requested": "requested", "adaptive": "goodput"}
        rule = rules.get(self.setting.batch_sizes, own)
        job = SimulatedJob(
            submission,
            application,
            rule,
            equipment,
            pipeline,
            predicts_request=(own, rule) == ("goodput", "requested"),
            noise=self.setting.noise,
            experiences=partial(self._pool.experiences, submission.application),
            pooled=self._pooled,
        )
        self.jobs.append(job)
        truth = TrueOracle(job, self._sharing or FAIR, self._speeds)
        estimated = self.setting.oracle == "estimated"
        self._oracles[submission.name] = EstimatedOracle(job) if estimated else truth

    def pack(self) -> Document:
        """Return the state of the replay, except that of the policy, in terms of JSON."""
        return pack_simulator(self.state, self._pool.pack(), self.jobs)

    def unpack(self, document: object) -> None:
        """Restore the state of the same replay that `pack` returned.

        Raises
        ------
        ValueError
            If a key is missing or unknown, a value is not of its type or out of range, or the
            values of a job contradict each other.
        """
        self.state, experience, packed = unpack_simulator(document, self.setting.cluster)
        self._pool.unpack(experience)
        jobs = check_keys("Simulator: jobs", packed, [job.submission.name for job in self.jobs])
        for job in self.jobs:
            unpack_job(job, jobs[job.submission.name], self.cluster)

    @property
    def time(self) -> int:
        """Seconds since the start of the replay."""
        return self.state.time

    @property
    def cluster(self) -> Cluster:
        """The nodes that are available now."""
        return self.state.cluster

    @property
    def finished(self) -> bool:
        """Whether all jobs are complete."""
        return all(job.completion is not None for job in self.jobs)

    @property
    def completed(self) -> int:
        """Number of complete jobs."""
        return sum(job.completion is not None for job in self.jobs)

    @property
    def share_done(self) -> float:
        """Mean over the jobs of the share of their training that is done."""
        whole = (job.application.progress(job.application.epochs - 1) for job in self.jobs)
        shares = (job.progress / total for job, total in zip(self.jobs, whole, strict=True))
        return sum(shares) / len(self.jobs)

    @property
    def active(self) -> list[SimulatedJob]:
        """Jobs that are submitted and not complete, in order of submission."""
        return [
            job for job in self.jobs if job.completion is None and job.submission.time <= self.time
        ]

    def step(self) -> RoundRecord | None:
        """Advance all jobs by one interval, then decide; return None if no job is active.

        Raises
        ------
        ValueError
            If the policy fails, its decision is impossible, or no job has made progress for long.
        """
        self.advance()
        return self.decide()

    def advance(self) -> None:
        """Advance by one interval, at whose end jobs join that were submitted by then."""
        self._train()
        self.state.time += self.setting.interval
        self._resize()

    def decide(self) -> RoundRecord | None:
        """Apply the decision of the policy on the active jobs; return None if no job is active.

        Raises
        ------
        ValueError
            If the policy fails, its decision is impossible, or no job has made progress for
            `PATIENCE` restarts (`LONGEST_OUTAGE` while nodes are missing).
        """
        active = self.active
        if not active:
            self.state.last_progress = self.time
            return None
        for job in active:
            if job.restarts is None and not job.measured:
                self._pool.teach(job)
        round_ = self.observe(active)
        begin = time.perf_counter()
        decision = decide_round(self.policy, round_)
        seconds = time.perf_counter() - begin
        offloads = self._sharing is not None and self._sharing.offload > 0
        check_decision(round_, decision, offloads=offloads)
        if decision.beside and self._sharing is None:
            text = "jobs run beside others and the policy does not say how"
            raise ValueError(
                f"Decision at {self.time} s: {text}; expected a policy with `sharing`."
            )
        self.state.wanted_nodes = decision.nodes or self.state.wanted_nodes
        self._require_progress(active)
        return RoundRecord(round_, decision, seconds, self._apply(active, round_, decision))

    def _resize(self) -> None:
        """Set the available nodes; jobs on nodes that are gone stop."""
        limits = [
            self.setting.cluster.num_nodes - outage.nodes
            for outage in self.setting.outages
            if outage.start <= self.time < outage.end
        ]
        nodes = min([self.state.wanted_nodes, *limits])
        if nodes == self.cluster.num_nodes:
            return
        self.state.cluster = self.setting.cluster.resized(nodes)
        for job in self.jobs:
            if any(node >= nodes for node, _ in job.placement):
                job.reallocate((), 0.0)

    def _require_progress(self, active: Sequence[SimulatedJob]) -> None:
        """Refuse to continue if no job has made progress for long."""
        progress = sum(job.progress for job in self.jobs)
        if progress > self.state.progress:
            self.state.progress, self.state.last_progress = progress, self.time
            return
        idle = self.time - self.state.last_progress
        patience = PATIENCE * (self.setting.interval + self.setting.restart_delay)
        if any(start <= self.time < end for start, end, _ in self.setting.outages):
            patience = max(patience, LONGEST_OUTAGE)
        if idle > patience:
            job = next((job for job in active if not job.placement), active[0])
            name, asked, gpus = job.submission.name, job.submission.replicas, self.cluster.num_gpus
            reason = (
                f"Job '{name}' asks for {asked} GPUs and the cluster has {gpus}"
                if asked > gpus
                else f"Job '{name}' and {len(active) - 1} others wait on {gpus} GPUs"
            )
            raise ValueError(
                f"{reason}; no job made progress in the last {idle} s up to {self.time} s. "
                "Expected a policy that serves it, or more nodes."
            )

    def observe(self, active: Sequence[SimulatedJob]) -> Round:
        """Return the round as a scheduler sees it now."""
        jobs = observed_jobs(active, self.time, self.cluster, self._oracles, self.setting)
        return Round(self.time, self.cluster, jobs)

    def _train(self) -> None:
        """Train every running job for one interval; all advance by one segment at a time."""
        if self._sharing is not None:
            share_gpus(self.jobs, self._sharing)
        crowded = crowded_nodes(self.jobs) if self.setting.interference else set()
        remaining: dict[SimulatedJob, float] = {}
        for job in self.jobs:
            job.interval = NOTHING
            if job.placement and job.completion is None:
                remaining[job] = job.wait_for_restart(float(self.setting.interval))
        end = float(self.time + self.setting.interval)
        training = [job for job, seconds in remaining.items() if seconds > 0]
        while training:
            for job in training:
                meets = len(job.spread) > 1 and any(node in crowded for node, _ in job.placement)
                loss = self.setting.interference if meets else 0.0
                remaining[job] = job.train(end - remaining[job], remaining[job], loss)
            choose_batch_sizes([job for job in training if job.chooses_batch_size])
            training = [job for job in training if remaining[job] > 0 and job.completion is None]
        for job in remaining:
            if job.completion is not None:
                job.placement = ()
                self._pool.learn(job)

    def _apply(self, active: Sequence[SimulatedJob], round_: Round, decision: Decision) -> int:
        """Apply `decision` to the active jobs; return the number of restarts."""
        restarts = 0
        moved: list[SimulatedJob] = []
        modes = decided_modes(round_, decision)
        for job in active:
            placement = decision.placements.get(job.submission.name, ())
            mode = modes.get(job.submission.name)
            if self._stays(job, placement, mode):
                job.move(placement)
                continue
            restarts += job.restarts is not None and bool(placement)
            delay = job.application.restart_delay
            delay = self.setting.restart_delay if delay is None else delay
            job.reallocate(placement, delay, mode)
            if placement:
                moved.append(job)
        for job in active:
            job.host = decision.beside.get(job.submission.name, "")
        for job in moved:
            if not job.chooses_batch_size:
                job.set_requested_batch()
        choose_batch_sizes([job for job in moved if job.chooses_batch_size])
        return restarts

    def _stays(self, job: SimulatedJob, placement: Placement, mode: Mode | None) -> bool:
        """Return whether `job` continues without a restart."""
        if (mode.name if mode else "") != job.mode:
            return False
        if self.setting.free_moves:
            return sorted(gpus for _, gpus in placement) == sorted(job.spread)
        return sorted(placement) == sorted(job.placement)
