"""Rounds of a replay, for measurements round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.replay.simulator import Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from goodalloc.data.applications.application import Application
    from goodalloc.data.workloads.workload import Submission
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.policies.policy import Policy


def replayed_rounds(
    workload: Sequence[Submission],
    applications: Mapping[str, Application],
    policy: Policy,
    setting: Setting,
    *,
    every: int,
    least_jobs: int,
) -> Iterator[tuple[float, Instance]]:
    """Generate rounds as the policy put them to its solver, each with the share of training done.

    Parameters
    ----------
    workload, applications, policy, setting
        As in `Simulator`.
    every
        Period of the generated rounds, among those that have enough jobs.
    least_jobs
        Least number of active jobs of a round.
    """
    simulator, met = Simulator(workload, applications, policy, setting), 0
    while not simulator.finished:
        record = simulator.step()
        if record is None or record.decision.instance is None:
            continue
        if len(record.round_.jobs) >= least_jobs:
            met += 1
            if met % every == 0:
                yield simulator.share_done, record.decision.instance
