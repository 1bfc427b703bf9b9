"""Replays as plain data, run alone or several at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from goodalloc.data.applications.truth import applications_of
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.support.version import library_version
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.policies.auction_terms import PUBLISHED_TERMS
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from goodalloc.solvers.policies.registry import (
    make_policy,
    require_types_known,
    source_digest,
    terms_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.policies.auction_terms import AuctionTerms
    from goodalloc.solvers.policies.policy import Policy, Terms


def is_seeded(policy: str) -> bool:
    """Return whether replays of `policy` depend on the seed."""
    return policy in POLICIES and POLICIES[policy].random


@dataclass(frozen=True)
class ReplayTask:
    """Description of a replay, and of the folder of its records.

    Parameters
    ----------
    folder
        Folder of the records.
    policy
        Name of the policy.
    workload
        The submitted jobs.
    setting
        Conditions of the replay.
    traces
        Folder of measurements of the true applications, None for the shipped profiles.
    power, interference_avoidance
        Power of the mean and constraint on distributed jobs in the rules of Pollux.
    seed
        Seed of the genetic algorithm.
    seconds
        Time limit of a decision and of a proof.
    gaps
        Whether decisions are judged.
    utility
        Lowest and highest utility of the cluster under autoscaling, None for the published ones.
    themis
        Terms of the auctions of Themis.
    """

    folder: Path
    policy: str
    workload: tuple[Submission, ...]
    setting: Setting = Setting()
    traces: str | None = None
    power: float = -1.0
    interference_avoidance: bool = True
    seed: int = 0
    seconds: float | None = None
    gaps: bool = True
    utility: tuple[float, float] | None = None
    themis: AuctionTerms = PUBLISHED_TERMS

    @property
    def rules(self) -> Rules:
        """Rules of Pollux."""
        return OSDI21.replace(
            power=self.power,
            interference_avoidance=self.interference_avoidance,
            restart_delay=self.setting.restart_delay,
        )

    @property
    def terms(self) -> Terms:
        """What the policy is told, and who chooses the batch sizes."""
        return terms_of(
            self.policy,
            batch_sizes=self.setting.batch_sizes,
            estimated=self.setting.oracle == "estimated",
            profiled=self.setting.knowledge == "profiled",
        )

    @property
    def applications(self) -> dict[str, Application]:
        """True applications, by name."""
        return applications_of(self.traces)

    def made_policy(self) -> Policy:
        """Return a new policy.

        Raises
        ------
        ValueError
            If the policy is unknown, cannot be made without arguments, or a limit is out of range.
        """
        options = PolicyOptions(self.rules, self.seed, self.seconds, self.utility, self.themis)
        return make_policy(self.policy, options)

    def description(self) -> dict[str, Any]:
        """Return the description for `Replay`: all inputs on which the records depend."""
        known = POLICIES.get(self.policy)
        auctions = known is not None and "terms" in known.takes
        return {
            "format": "goodalloc-replay",
            "version": 3,
            "library": library_version(),
            "policy": self.policy,
            "policy_source": source_digest(self.policy),
            "traces": traces_digest(self.traces),
            "seed": self.seed,
            "seconds": self.seconds,
            "gaps": self.gaps,
            "power": str(self.power),
            "interference_avoidance": self.interference_avoidance,
            **asdict(self.setting),
            **({"utility": list(self.utility)} if self.utility else {}),
            **({"themis": [str(term) for term in self.themis]} if auctions else {}),
            "workload": [
                [job.name, job.time, job.application, job.replicas, job.batch_size]
                for job in self.workload
            ],
        }

    def run(self, report: Report = lambda _: None) -> None:
        """Replay the workload, from the last checkpoint if there is one.

        Raises
        ------
        ValueError
            If the policy or an application is unknown, the policy or an application does not know a
            type of GPU, a job is out of the range of its application, or the folder holds another
            replay.
        """
        from goodalloc.experiments.replay.simulator import (
            Simulator,
        )  # not needed to describe a replay

        require_types_known(self.policy, self.setting.cluster)
        self._require_truth()
        simulator = Simulator(self.workload, self.applications, self.made_policy(), self.setting)
        trusting = self.policy in POLICIES
        judge = Judge(self.rules, self.seconds, trusting=trusting) if self.gaps else None
        self.folder.mkdir(parents=True, exist_ok=True)

        def advanced(simulator: Simulator) -> None:
            report(simulator.share_done)

        Replay(simulator, self.folder, self.description(), judge).run(advanced)

    def _require_truth(self) -> None:
        """Refuse types of GPU without measurements of an application, before anything is written.

        Raises
        ------
        ValueError
            If an application was not measured on the type of GPU of a group of nodes.
        """
        applications = self.applications
        used = {job.application for job in self.workload} & applications.keys()
        for group in self.setting.cluster.groups:
            for name in sorted(used) if group.gpu_type else ():
                try:
                    applications[name].on(group.gpu_type)
                except ValueError as error:
                    raise ValueError(f"Group '{group.name}': {error}") from error
