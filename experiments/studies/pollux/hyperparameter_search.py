"""Hyper-parameter search on a shared cluster, with a limited number of concurrent trials.

A sampler (TPE, as implemented in Optuna) proposes a trial when another one ends, given the results
of the trials that have ended. The sampler and the accuracies are real
(`experiments/studies/pollux/hyperparameter_trial.py`); the time is simulated, every trial being a
job in a replay that trains ResNet18 on CIFAR-10. A trial's accuracy does not depend on when and
where it runs, as in Pollux; but the order in which trials end decides what the sampler proposes
next. The first trials begin at random times, since equal trials that begin together would always
end together.

References
----------
Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011.
References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3.4. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.pollux.hyperparameter_trial import Hyperparameters, train
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.support.records import check_description
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.support.validation import require_count
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.experiments.support.tasks import Report

#: Application that the cluster trains in every trial.
APPLICATION = "cifar10"

#: The cluster on which Pollux searched: two nodes of eight A100, of which profiles ship.
CLUSTER = Setting(Cluster((NodeGroup("node", 2, 8, "a100"),)))


class TrialRow(NamedTuple):
    """Hyper-parameters, accuracy and times of a trial.

    Attributes
    ----------
    submission, start, completion
        Seconds since the search began.
    seconds
        Seconds from its submission to its completion.
    """

    trial: int
    learning_rate: float
    momentum: float
    weight_decay: float
    width: int
    accuracy: float
    submission: int
    start: float
    completion: float
    seconds: float
    gpu_seconds: float
    restarts: int


class Sampler:
    """Sampler (TPE) that proposes trials and learns from their accuracies.

    Running trials count as bad ones ("constant liar"), so that no two of them are equal.

    Parameters
    ----------
    seed
        Seed of the random numbers.
    """

    def __init__(self, seed: int) -> None:
        import warnings

        import optuna
        from optuna.distributions import FloatDistribution, IntDistribution
        from optuna.exceptions import ExperimentalWarning

        verbosity = optuna.logging.get_verbosity()
        try:
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                tpe = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
                self._study = optuna.create_study(sampler=tpe, direction="maximize")
        finally:
            optuna.logging.set_verbosity(verbosity)
        self._space = {
            "learning_rate": FloatDistribution(1e-4, 1.0, log=True),
            "momentum": FloatDistribution(0.0, 0.99),
            "weight_decay": FloatDistribution(1e-6, 0.1, log=True),
            "width": IntDistribution(8, 128, log=True),
        }

    def propose(self) -> Hyperparameters:
        """Return the hyper-parameters of the next trial."""
        return Hyperparameters(**self._study.ask(self._space).params)

    def learn(self, trial: int, accuracy: float) -> None:
        """Record the accuracy of a trial, counted from 0."""
        self._study.tell(trial, accuracy)


@dataclass(frozen=True)
class SearchTask:
    """Task of one search, of minutes at most; a killed search begins anew.

    Parameters
    ----------
    folder
        Folder of its records: at the end ``trials.csv``, one row for every trial.
    policy
        Name of the policy that allocates GPUs to the trials.
    trials, concurrent
        Number of trials in all, and at a time.
    seed
        Seed of the sampler, the trainings, the first submissions and the genetic algorithm.
    stagger
        Seconds within which the first trials are submitted.
    replicas, batch_size
        GPUs and total batch size of every trial; Pollux chooses both itself.
    traces
        Folder of the measurements that are the truth; None for the shipped profiles.
    setting
        Cluster and rules of the replay.

    Raises
    ------
    ValueError
        If `trials` or `concurrent` < 1, or `seed` or `stagger` < 0.
    """

    folder: Path
    policy: str
    trials: int = 100
    concurrent: int = 4
    seed: int = 0
    stagger: int = 600
    replicas: int = 4
    batch_size: int = 128
    traces: str | None = None
    setting: Setting = CLUSTER

    def __post_init__(self) -> None:
        require_count("Search: trials", self.trials, minimum=1)
        require_count("Search: concurrent", self.concurrent, minimum=1)
        require_count("Search: seed", self.seed, minimum=0)
        require_count("Search: stagger", self.stagger, minimum=0)

    def description(self) -> dict[str, Any]:
        """Return all inputs that the records depend on."""
        return {
            "format": "goodalloc-search",
            "version": 1,
            "library": library_version(),
            "policy": self.policy,
            "trials": self.trials,
            "concurrent": self.concurrent,
            "seed": self.seed,
            "stagger": self.stagger,
            "replicas": self.replicas,
            "batch_size": self.batch_size,
            "traces": traces_digest(self.traces),
            **asdict(self.setting),
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Search, unless the records exist.

        Raises
        ------
        ValueError
            If a library of the extra "search" is missing, or `folder` holds another search.
        """
        require_extra("search", "Hyper-parameter search")
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            check_description(self.folder / "search.json", self.description())
            if not (self.folder / "trials.csv").exists():
                rows = _Search(self).rows(report)
                write_atomically(
                    self.folder / "trials.csv",
                    csv_text([row._asdict() for row in rows], TrialRow._fields),
                )


@dataclass
class _Search:
    """State of a running search."""

    task: SearchTask
    sampler: Sampler = field(init=False)
    simulator: Simulator = field(init=False)
    proposed: list[Hyperparameters] = field(default_factory=list)
    accuracies: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        task = self.task
        self.sampler = Sampler(task.seed)
        others = np.random.default_rng(task.seed).integers(
            0, task.stagger, min(task.concurrent, task.trials) - 1, endpoint=True
        )
        first = [self._propose(second) for second in (0, *sorted(others.tolist()))]
        policy = make_policy(task.policy, PolicyOptions(seed=task.seed))
        self.simulator = Simulator(first, applications_of(task.traces), policy, task.setting)

    def _propose(self, second: int) -> Submission:
        """Return the next trial as a job submitted at `second`."""
        task, trial = self.task, len(self.proposed)
        self.proposed.append(self.sampler.propose())
        return Submission(f"trial-{trial}", second, APPLICATION, task.replicas, task.batch_size)

    def rows(self, report: Report) -> list[TrialRow]:
        """Search to the end, and return one row for every trial."""
        while not self.simulator.finished:
            self.simulator.advance()
            self._follow()
            self.simulator.decide()
            report(self.simulator.completed / self.task.trials)
        return [self._row(trial, job) for trial, job in enumerate(self.simulator.jobs)]

    def _follow(self) -> None:
        """Train the trials that have ended, in their order, and submit as many new ones.

        The sampler learns of all trials that ended in the same second before it proposes another.
        """
        ended = sorted(
            (math.ceil(job.completion), trial)
            for trial, job in enumerate(self.simulator.jobs)
            if job.completion is not None and trial not in self.accuracies
        )
        for second, group in groupby(ended, key=lambda pair: pair[0]):
            trials = [trial for _, trial in group]
            for trial in trials:
                self.accuracies[trial] = train(self.proposed[trial], self.task.seed)
                self.sampler.learn(trial, self.accuracies[trial])
            for _ in range(min(len(trials), self.task.trials - len(self.proposed))):
                self.simulator.submit(self._propose(second))

    def _row(self, trial: int, job: SimulatedJob) -> TrialRow:
        """Return the row of a completed trial, numbers to ten digits as in a replay."""
        if job.completion is None or job.first_start is None:
            raise RuntimeError(f"Search: trial {trial} has not run to its end.")
        submission, proposed = job.submission.time, self.proposed[trial]
        return TrialRow(
            trial,
            rounded(proposed.learning_rate, 10),
            rounded(proposed.momentum, 10),
            rounded(proposed.weight_decay, 10),
            proposed.width,
            accuracy=rounded(self.accuracies[trial], 10),
            submission=submission,
            start=rounded(job.first_start, 10),
            completion=rounded(job.completion, 10),
            seconds=rounded(job.completion - submission, 10),
            gpu_seconds=rounded(job.attained_service, 10),
            restarts=job.restarts or 0,
        )
