"""Policies for real jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.live.policy_names import LIVE, NEEDS
from goodalloc.models.support.validation import did_you_mean
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import Policy
    from goodalloc.solvers.policies.policy_table import PolicyOptions


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
    for need, names in NEEDS.items():
        if name in names:
            raise ValueError(
                f"Policy '{name}' needs {need}, which real jobs do not have; expected one of "
                f"{', '.join(LIVE)}."
            )
    if name not in POLICIES and ":" not in name:
        raise ValueError(
            f"Policy is '{name}'{did_you_mean(name, LIVE)}; expected one of {', '.join(LIVE)}, or "
            "package.module:name."
        )
    return make_policy(name, options)
