"""Policies for jobs with execution plans by name, and their failures told with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.experiments.studies.plans.arena_replay import POLICIES
from goodalloc.models.plans.execution_plan import Configuration
from goodalloc.models.plans.plan_job import PlanRestarts, plan_violations
from goodalloc.models.support.dotted_path import load_callable
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from goodalloc.models.plans.plan_job import PlanRound
    from goodalloc.solvers.plans.plan_policy import PlanPolicy

#: Policies by the names that commands know.
PLAN_POLICIES = {name.replace(" ", "-"): made for name, made in POLICIES.items()}


def make_plan_policy(name: str, restart_seconds: float) -> PlanPolicy:
    """Return a new policy for jobs with execution plans.

    Parameters
    ----------
    name
        Key in `PLAN_POLICIES`, or a dotted path ``package.module:name`` to a class or function that
        makes a policy without arguments.
    restart_seconds
        Seconds of a restart that it believes.

    Raises
    ------
    ValueError
        If there is no such policy, or what is made has no `decide`.
    """
    if name in PLAN_POLICIES:
        return PLAN_POLICIES[name](PlanRestarts(restart_seconds, restart_seconds))
    if ":" not in name:
        raise ValueError(
            f"Policy is '{name}'{did_you_mean(name, PLAN_POLICIES)}; expected one for jobs with "
            f"execution plans, {', '.join(PLAN_POLICIES)}, or package.module:name."
        )
    item = f"Policy '{name}'"
    try:
        policy: PlanPolicy = load_callable(name, item)()
    except TypeError as error:
        raise ValueError(f"{item} cannot be made without arguments ({error}).") from error
    if not hasattr(policy, "decide"):
        raise ValueError(f"{item} makes a {type(policy).__name__}; expected one with `decide`.")
    return policy


@dataclass
class CheckedPlans:
    """Policy whose failures and wrong answers are told with its name.

    Parameters
    ----------
    name, policy
        The policy and its name.
    """

    name: str
    policy: PlanPolicy

    def decide(self, round_: PlanRound) -> dict[str, Configuration]:
        """Return what every job holds that runs.

        Raises
        ------
        ValueError
            If the policy fails, returns something else, or breaks a rule.
        """
        item = f"Policy '{self.name}'"
        try:
            decision = dict(self.policy.decide(round_))
            held = {job: Configuration(*one) for job, one in decision.items()}
        except Exception as error:  # any failure of foreign code is reported with its name
            text = f"{type(error).__name__}: {error}".rstrip(".")
            raise ValueError(
                f"{item} failed at {round_.time:g} s ({text}); expected a dictionary of names of "
                "jobs and what each holds, as {'a': Configuration('a100', 4)}."
            ) from error
        if broken := plan_violations(round_, held):
            raise ValueError(f"{item} breaks a rule at {round_.time:g} s: {broken[0]}")
        return held
