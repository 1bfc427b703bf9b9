"""Policies with every knowledge and batch size that they can use.

`Setting.oracle` and `Setting.knowledge` change what a policy is told, `Setting.batch_sizes` who
chooses the batch sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.solvers.policies.policy_table import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goodalloc.experiments.replay.replay_task import ReplayTask
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: Compared policies, of which a quick run has the first four.
COMPARED = (
    "tiresias",
    "srtf",
    "optimus",
    "pollux",
    "fifo",
    "themis",
    "gavel",
    "slaq",
    "hesrpt",
    "equal",
    "pollux-remaining",
    "sia",
    "allox",
)
QUICK_COMPARED = 4

#: Policies that are also replayed with the rounds of Gavel, and their seconds.
TWO_INTERVALS, USUAL, SLOW = ("tiresias", "optimus", "gavel", "pollux"), 60, 360

#: Fields of the setting that change what a policy is told, by what it is told usually.
KNOWLEDGE: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "nothing": ({},),
    "measured": ({}, {"knowledge": "profiled"}),
    "true speed": ({}, {"oracle": "estimated"}),
    "true remaining": ({}, {"oracle": "estimated"}),
}

BATCH_SIZES = ("requested", "adaptive")


class Cell(NamedTuple):
    """Policy on some terms.

    Attributes
    ----------
    policy
        Name of the policy.
    knows, batch
        Its terms, as `ReplayTask.terms` has them.
    interval
        Seconds between decisions.
    """

    policy: str
    knows: str
    batch: str
    interval: int = USUAL


#: The terms that Pollux has as published, with which all others are compared.
POLLUX = Cell("pollux", "measured", "adaptive")


def _settings(quick: bool) -> Iterator[tuple[str, Setting]]:
    """Return the policies and settings of all cells."""
    for policy in COMPARED[:QUICK_COMPARED] if quick else COMPARED:
        for told in KNOWLEDGE[POLICIES[policy].knows]:
            for batch_sizes in BATCH_SIZES:
                yield policy, Setting(batch_sizes=batch_sizes, **told)  # type: ignore[arg-type]
        if policy in TWO_INTERVALS and not quick:
            yield policy, Setting(interval=SLOW)


def replays(plan: Plan) -> dict[Cell, list[ReplayTask]]:
    """Return the replays of every cell, one for every workload."""
    found: dict[Cell, list[ReplayTask]] = {}
    for policy, setting in _settings(plan.quick):
        tasks = [plan.replay(policy, plan.workload(n), setting=setting) for n in plan.workloads]
        found[Cell(policy, *tasks[0].terms, setting.interval)] = tasks
    return found
