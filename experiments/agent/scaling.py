"""Scaling of a job: its batch size by a rule, and its learning rate for one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.models.goodput.batch_split import split_batch

if TYPE_CHECKING:
    from goodalloc.models.adaptation.batch_rules import BatchRule, Situation
    from goodalloc.models.goodput.batch_split import BatchChoice
    from goodalloc.models.goodput.model import BatchLimits


def rescaled(choice: BatchChoice, total: float, replicas: int, limits: BatchLimits) -> BatchChoice:
    """Return `choice` with a total batch size of about `total` on `replicas` replicas."""
    return split_batch(total, replicas, limits)._replace(rate_factor=choice.rate_factor)


def decide_batch(rule: BatchRule, situation: Situation, most: float) -> BatchChoice:
    """Return the decision of `rule`, with a total batch size of at most about `most`."""
    found = rule.choose(situation)
    if found.total(situation.replicas) <= most:
        return found
    return rescaled(found, most, situation.replicas, situation.batch)


def scaled_step(optimiser: Any, factor: float) -> float:
    """Make a step at learning rates scaled by `factor`, and return the largest of them."""
    groups = optimiser.param_groups
    tuned = [group["lr"] for group in groups]
    for group in groups:
        group["lr"] *= factor
    optimiser.step()
    largest = float(max(group["lr"] for group in groups))
    for group, rate in zip(groups, tuned, strict=True):
        group["lr"] = rate
    return largest
