"""A search for hyper-parameters on a shared cluster: so many trials, so many at a time.

A sampler (TPE, Bergstra et al., NeurIPS 2011, as Optuna has it) proposes a trial when another one
ends, knowing what the trials that ended until then have reached. What is real: the sampler and the
accuracies (`experiments/studies/pollux/hyperparameter_trial.py`). What is simulated: the time,
every trial being a job in a replay that trains ResNet18 on CIFAR-10. A trial's accuracy does not
depend on when and where it runs, as Pollux promises; but the order in which trials end decides what
the sampler proposes next. The first trials begin at random moments: equal trials that begin
together would end together for ever.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.csv_text import csv_text
from goodalloc.data.documents.json_file import write_atomically
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
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.support.validation import require_count
from goodalloc.solvers.policies.registry import PolicyOptions, make_policy

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.replay.simulated_job import SimulatedJob
    from goodalloc.experiments.support.tasks import Report

#: What the cluster believes that it trains.
APPLICATION = "cifar10"

#: Pollux searched on two nodes of eight GPUs; no measurement has more than four GPUs on a node.
CLUSTER = Setting(Cluster.uniform(4, 4))

COLUMNS = (
    "trial",
    *Hyperparameters._fields,
    "accuracy",
    "submission",
    "start",
    "completion",
    "seconds",
    "gpu_seconds",
    "restarts",
)


class Sampler:
    """TPE: proposes trials and learns what they reached.

    Trials that still run count as bad ones ("constant liar"), so that no two of them are the same.

    Parameters
    ----------
    seed
        Of its random numbers.
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
        """What the next trial, counted from 0, is to try."""
        return Hyperparameters(**self._study.ask(self._space).params)

    def learn(self, trial: int, accuracy: float) -> None:
        """Take note of what a trial reached."""
        self._study.tell(trial, accuracy)


@dataclass(frozen=True)
class SearchTask:
    """One search. It takes minutes at most: one that was killed begins anew.

    Parameters
    ----------
    folder
        Where its records go: ``trials.csv``, one row a trial, at the end.
    policy
        Name of the policy that shares the cluster among the trials.
    trials, concurrent
        How many there are in all, and at a time.
    seed
        Of the sampler, the trainings, the first submissions and the genetic algorithm.
    stagger
        Seconds within which the first trials are submitted.
    replicas, batch_size
        GPUs and total batch size of every trial; Pollux chooses both itself.
    traces
        Folder of the measurements that are the truth, None for the shipped profiles.
    setting
        The conditions.

    Raises
    ------
    ValueError
        If a count is less than 1.
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
        """Everything that the records depend on."""
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
        """Search, unless that is done.

        Raises
        ------
        ValueError
            If a library is missing, something in the task makes no sense, or its folder holds
            something else.
        """
        require_extra("search", "Hyper-parameter search")
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            check_description(self.folder / "search.json", self.description())
            if not (self.folder / "trials.csv").exists():
                rows = _Search(self).rows(report)
                write_atomically(self.folder / "trials.csv", csv_text(rows, COLUMNS))


@dataclass
class _Search:
    """A search under way."""

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
        """The next trial as a job."""
        task, trial = self.task, len(self.proposed)
        self.proposed.append(self.sampler.propose())
        return Submission(f"trial-{trial}", second, APPLICATION, task.replicas, task.batch_size)

    def rows(self, report: Report) -> list[dict[str, object]]:
        """Search to the end; one row a trial."""
        while not self.simulator.finished:
            self.simulator.advance()
            self._follow()
            self.simulator.decide()
            report(self.simulator.completed / self.task.trials)
        return [self._row(trial, job) for trial, job in enumerate(self.simulator.jobs)]

    def _follow(self) -> None:
        """Train what ended, in the order in which it did, and submit as many trials for it.

        The sampler learns of all that ended in the same second before it proposes anything.
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

    def _row(self, trial: int, job: SimulatedJob) -> dict[str, object]:
        """Numbers to ten digits, as those of a replay."""
        assert job.completion is not None
        submission = job.submission.time
        row = {
            "trial": trial,
            **self.proposed[trial]._asdict(),
            "accuracy": self.accuracies[trial],
            "submission": submission,
            "start": job.first_start,
            "completion": job.completion,
            "seconds": job.completion - submission,
            "gpu_seconds": job.attained_service,
            "restarts": job.restarts or 0,
        }
        return {
            name: rounded(value, 10) if isinstance(value, float) else value
            for name, value in row.items()
        }
