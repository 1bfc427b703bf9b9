"""Policies that schedule real jobs, and what the others need that real jobs do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import Policy
    from goodalloc.solvers.policies.policy_table import PolicyOptions

#: Policies that need no losses, no shared GPUs, no measured cores, and no other number of nodes.
#: What some ask of an oracle, speed and remaining steps, is predicted (`FittedSpeed`).
LIVE = (
    "pollux",
    "pollux-untied",
    "pollux-shuffled",
    "pollux-goodput",
    "pollux-remaining",
    "pollux-robust",
    "pollux-worst",
    "pollux-genetic",
    "pollux-greedy",
    "sia",
    "sia-exact",
    "gavel",
    "gavel-blind",
    "gavel-makespan",
    "gavel-finish-time",
    "gavel-completion",
    "gavel-throughput",
    "gavel-levels",
    "optimus",
    "srtf",
    "allox",
    "hesrpt",
    "themis",
    "themis-exact",
    "themis-maxmin",
    "equal",
    "tiresias",
    "tiresias-gittins",
    "fifo",
)

#: Other policies, by the requirement that real jobs do not meet.
_NEEDS = {
    "losses": ("slaq", "slaq-exact"),
    "GPUs that are shared": ("gavel-packed", "gandiva", "gandiva-exact", "antman", "antman-exact"),
    "nodes that come and go": ("autoscaling-goodput", "autoscaling-throughput"),
    "cores that are measured": ("pollux-proportional", "synergy-tune"),
    "prices": ("gavel-cost",),
}


def live_policy(name: str, options: PolicyOptions) -> Policy:
    """Return a policy for real jobs.

    Raises
    ------
    ValueError
        If `name` is unknown, or the policy needs information that real jobs do not have.

    Examples
    --------
    >>> from goodalloc.experiments.live import live_policy
    >>> from goodalloc.solvers import PolicyOptions
    >>> live_policy("slaq", PolicyOptions())  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: Policy 'slaq' needs losses, which real jobs do not have; expected one of ...
    """
    for need, names in _NEEDS.items():
        if name in names:
            raise ValueError(
                f"Policy '{name}' needs {need}, which real jobs do not have; expected one of "
                f"{', '.join(LIVE)}."
            )
    if name not in POLICIES and ":" not in name:
        raise ValueError(
            f"Policy is '{name}'; expected one of {', '.join(LIVE)}, or package.module:name."
        )
    return make_policy(name, options)
