"""Jobs that use a part of their GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.policies.policy_rounds import active

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import ActiveJob


def used(
    name: str,
    replicas: int,
    busy: float,
    *,
    memory: float = 0.4,
    host: str = "",
    share: float = 1.0,
    placement: Placement = (),
    submission: int = 0,
) -> ActiveJob:
    """A job that ran before."""
    job = active(name, replicas, placement=placement, submission=submission)
    return replace(job, busy=busy, memory=memory, host=host, share=share)
