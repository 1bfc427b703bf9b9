"""A cluster in discrete time: jobs advance, then a policy decides, then its decision applies.

The rules are those of the simulator published with Pollux (OSDI'21). The policy sees what the
agents of the jobs measured and predict (`solvers/policies/policy.py`), never the truth behind it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, get_args

import numpy as np

from goodalloc.data.documents.json_file import check_keys, pack_number
from goodalloc.data.workloads.workload import check_workload
from goodalloc.experiments.replay.agents import choose_batch_sizes, fit_models
from goodalloc.experiments.replay.job_modes import Equipment, draw_pipeline
from goodalloc.experiments.replay.job_oracle import JobOracle
from goodalloc.experiments.replay.job_progress import pack_job, unpack_job
from goodalloc.experiments.replay.prior_knowledge import ExperiencePool
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.round_record import RoundRecord
from goodalloc.experiments.replay.shared_gpus import share_gpus
from goodalloc.experiments.replay.simulated_job import NOTHING, SimulatedJob
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.models.support.validation import require_choice, require_count, require_number
from goodalloc.solvers.policies.decided_modes import decided_modes
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.documents.json_file import Document
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Mode
    from goodalloc.models.shared_gpus.shared_speed import Sharing
    from goodalloc.solvers.policies.policy import Decision, Policy


#: Rounds, each with a restart, without any progress after which a replay is given up.
PATIENCE = 100

#: Seconds without any progress after which it is given up while nodes are missing: a week.
LONGEST_OUTAGE = 7 * 24 * 3600


@dataclass
class Simulator:
    """A replay under way.

    Parameters
    ----------
    workload
        Which jobs are submitted when.
    applications
        The truth about what they train, by name.
    policy
        Decides the rounds.
    setting
        The conditions.

    Raises
    ------
    ValueError
        If the workload is empty, names a job twice, or an unknown application.
    """

    workload: Sequence[Submission]
    applications: Mapping[str, Application]
    policy: Policy
    setting: Setting = Setting()
    time: int = field(default=0, init=False)
    jobs: list[SimulatedJob] = field(init=False)
    cluster: Cluster = field(init=False)
    _progress: float = field(default=0.0, init=False)
    _last_progress: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        check_workload(self.workload)
        rule = getattr(self.policy, "batch_sizes", None)
        require_choice("Policy: batch_sizes", rule, get_args(BatchSizes))
        self._sharing: Sharing | None = getattr(self.policy, "sharing", None)
        self._wanted_nodes = self.setting.cluster.num_nodes
        self.cluster = self.setting.cluster
        self._equipment = Equipment.of(self.cluster)
        self._pool = ExperiencePool(self.setting.knowledge)
        self.jobs = []
        self._oracles: dict[str, JobOracle] = {}
        for submission in sorted(self.workload, key=lambda job: job.time):
            self.submit(submission)

    def submit(self, submission: Submission) -> None:
        """Add a job, whose time is not before that of the last one.

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
        job = SimulatedJob(submission, application, self.policy.batch_sizes, equipment, pipeline)
        self.jobs.append(job)
        self._oracles[submission.name] = JobOracle(job, self._sharing or FAIR)

    def pack(self) -> Document:
        """What a checkpoint keeps beside what the policy remembers, in terms of JSON."""
        return {
            "time": self.time,
            "last_progress": self._last_progress,
            "progress": pack_number(self._progress),
            "nodes": self.cluster.num_nodes,
            "wanted_nodes": int(self._wanted_nodes),
            "experience": self._pool.pack(),
            "jobs": {job.submission.name: pack_job(job) for job in self.jobs},
        }

    def unpack(self, document: object) -> None:
        """Go on from a checkpoint of the same replay.

        Raises
        ------
        ValueError
            If the document makes no sense.
        """
        keys = ("nodes", "wanted_nodes", "time", "last_progress", "progress", "experience", "jobs")
        found = check_keys("Simulator", document, keys)
        for name in keys[:4]:
            require_count(f"Simulator: {name}", found[name], int(name.endswith("nodes")))
        require_number("Simulator: progress", found["progress"])
        self.time, self._last_progress = found["time"], found["last_progress"]
        self._wanted_nodes, self._progress = found["wanted_nodes"], float(found["progress"])
        self.cluster = self.setting.cluster.resized(found["nodes"])
        self._pool.unpack(found["experience"])
        names = [job.submission.name for job in self.jobs]
        jobs = check_keys("Simulator: jobs", found["jobs"], names)
        for job in self.jobs:
            unpack_job(job, jobs[job.submission.name], self.cluster)

    @property
    def finished(self) -> bool:
        """Whether all jobs are complete."""
        return all(job.completion is not None for job in self.jobs)

    @property
    def completed(self) -> int:
        """How many jobs are complete."""
        return sum(job.completion is not None for job in self.jobs)

    @property
    def share_done(self) -> float:
        """How much of all training is done, every job counting the same."""
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
        """Advance all jobs by one interval, then decide; None where no job is active.

        Raises
        ------
        ValueError
            As `decide`.
        """
        self.advance()
        return self.decide()

    def advance(self) -> None:
        """Let one interval pass; jobs submitted after it take part in the decision that follows."""
        self._train()
        self.time += self.setting.interval
        self._resize()

    def decide(self) -> RoundRecord | None:
        """Decide on the active jobs and apply it; None where no job is active.

        Raises
        ------
        ValueError
            If the decision is impossible, or no job has made progress for long.
        """
        active = self.active
        if not active:
            self._last_progress = self.time
            return None
        for job in active:
            if job.restarts is None and not job.measured:
                self._pool.teach(job)
        round_ = self.observe(active)
        begin = time.perf_counter()
        try:
            decision = self.policy.decide(round_)
        except Exception as error:  # whatever somebody's code does, the user is told when
            text = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(f"Policy failed at {self.time} s ({text}).") from error
        seconds = time.perf_counter() - begin
        offloads = self._sharing is not None and self._sharing.offload > 0
        check_decision(round_, decision, offloads=offloads)
        if decision.beside and self._sharing is None:
            raise ValueError(
                f"Decision at {self.time} s: jobs run beside others and the policy does not say "
                "how; expected a policy with `sharing`."
            )
        self._wanted_nodes = decision.nodes or self._wanted_nodes
        self._require_progress(active)
        return RoundRecord(round_, decision, seconds, self._apply(active, round_, decision))

    def _resize(self) -> None:
        """Give the cluster the nodes it has now; jobs on those that are gone stop."""
        left = [
            self.setting.cluster.num_nodes - outage.nodes
            for outage in self.setting.outages
            if outage.start <= self.time < outage.end
        ]
        nodes = min([self._wanted_nodes, *left])
        if nodes == self.cluster.num_nodes:
            return
        self.cluster = self.setting.cluster.resized(nodes)
        for job in self.jobs:
            if any(node >= nodes for node, _ in job.placement):
                job.reallocate((), 0.0)

    def _require_progress(self, active: Sequence[SimulatedJob]) -> None:
        """Refuse to go on for ever under a policy that lets no job run."""
        progress = sum(job.progress for job in self.jobs)
        if progress > self._progress:
            self._progress, self._last_progress = progress, self.time
            return
        idle = self.time - self._last_progress
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
        """What a scheduler knows now."""

        def model_of(job: SimulatedJob) -> GoodputModel | None:
            fit_models(active)
            return job.model()

        def modes_of(job: SimulatedJob) -> tuple[Mode, ...]:
            fit_models(active)
            there = {*self.cluster.gpu_types, ""}
            return tuple(mode for mode in job.modes() if mode.gpu_type in there)

        plain = self._equipment.plain
        running = {job.submission.name for job in active if job.placement}
        return Round(
            self.time,
            self.cluster,
            tuple(
                ActiveJob(
                    name=job.submission.name,
                    application=job.submission.application,
                    submission=job.submission.time,
                    age=self.time - job.submission.time,
                    placement=job.placement,
                    restarts=job.restarts or 0,
                    attained_service=job.attained_service,
                    replicas=job.submission.replicas,
                    batch_size=job.submission.batch_size,
                    batch=job.application.batch,
                    fixed_replicas=job.fixed_replicas,
                    most_explored=job.most_explored,
                    model=lambda job=job: model_of(job),  # type: ignore[misc]
                    oracle=self._oracles[job.submission.name],
                    modes=tuple if plain else cache(partial(modes_of, job)),
                    mode=job.mode,
                    losses=job.losses,
                    host=job.host if job.host in running else "",
                    busy=job.busy,
                    memory=job.memory,
                    share=job.share,
                )
                for job in active
            ),
        )

    def _train(self) -> None:
        """Let every running job train for one interval, segment by segment side by side."""
        if self._sharing is not None:
            share_gpus(self.jobs, self._sharing)
        crowded = self._crowded_nodes() if self.setting.interference else set()
        left: dict[SimulatedJob, float] = {}
        for job in self.jobs:
            job.interval = NOTHING
            if job.placement and job.completion is None:
                left[job] = job.wait_for_restart(float(self.setting.interval))
        end = float(self.time + self.setting.interval)
        training = [job for job, seconds in left.items() if seconds > 0]
        while training:
            for job in training:
                meets = len(job.spread) > 1 and any(node in crowded for node, _ in job.placement)
                loss = self.setting.interference if meets else 0.0
                left[job] = job.train(end - left[job], left[job], loss)
            choose_batch_sizes([job for job in training if job.chooses_batch_size])
            training = [job for job in training if left[job] > 0 and job.completion is None]
        for job in left:
            if job.completion is not None:
                job.placement = ()
                self._pool.learn(job)

    def _crowded_nodes(self) -> set[int]:
        """Nodes that several distributed jobs share."""
        jobs = Counter(
            node for job in self.jobs if len(job.placement) > 1 for node, _ in job.placement
        )
        return {node for node, count in jobs.items() if count > 1}

    def _apply(self, active: Sequence[SimulatedJob], round_: Round, decision: Decision) -> int:
        """Give the jobs what was decided; returns how many restart."""
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
        """Whether a job goes on as it was."""
        if (mode.name if mode else "") != job.mode:
            return False
        if self.setting.free_moves:
            return sorted(gpus for _, gpus in placement) == sorted(job.spread)
        return sorted(placement) == sorted(job.placement)
