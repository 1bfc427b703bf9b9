"""Replays as plain data: what to replay and where its records go, alone or several at a time."""

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
from goodalloc.solvers.classical.auction_terms import PUBLISHED_TERMS
from goodalloc.solvers.registry import (
    POLICIES,
    PolicyOptions,
    make_policy,
    require_types_known,
    source_digest,
)

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.support.tasks import Report
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.classical.auction_terms import AuctionTerms
    from goodalloc.solvers.policies.policy import Policy


@dataclass(frozen=True)
class ReplayTask:
    """One replay.

    Parameters
    ----------
    folder
        Where its records go.
    policy
        Name of the policy.
    workload
        Which jobs are submitted when.
    setting
        The conditions.
    traces
        Folder of the measurements that are the truth, None for the shipped profiles.
    power, interference_avoidance
        Of Pollux's rules.
    seed
        Of the genetic algorithm.
    seconds
        Time limit of a decision and of a proof.
    gaps
        Whether decisions are judged.
    utility
        Between which utilities autoscaling keeps the cluster, None for the published ones.
    themis
        Terms of Themis's auctions.
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
        """Pollux's rules."""
        return OSDI21.replace(
            power=self.power,
            interference_avoidance=self.interference_avoidance,
            restart_delay=self.setting.restart_delay,
        )

    @property
    def applications(self) -> dict[str, Application]:
        """The truth."""
        return applications_of(self.traces)

    def made_policy(self) -> Policy:
        """Who decides.

        Raises
        ------
        ValueError
            As `make_policy`.
        """
        options = PolicyOptions(self.rules, self.seed, self.seconds, self.utility, self.themis)
        return make_policy(self.policy, options)

    def description(self) -> dict[str, Any]:
        """Everything that the records depend on, for `Replay`."""
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
        """Replay, or what is left of it.

        Raises
        ------
        ValueError
            If something in the task makes no sense or its folder holds another replay.
        """
        from goodalloc.experiments.replay.simulator import Simulator  # not to describe a replay

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
        """Refuse types of GPU that an application was not measured on, before anything is written.

        Raises
        ------
        ValueError
            With the group of nodes.
        """
        applications = self.applications
        used = {job.application for job in self.workload} & applications.keys()
        for group in self.setting.cluster.groups:
            for name in sorted(used) if group.gpu_type else ():
                try:
                    applications[name].on(group.gpu_type)
                except ValueError as error:
                    raise ValueError(f"Group '{group.name}': {error}") from error
