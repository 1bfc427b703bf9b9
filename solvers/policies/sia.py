"""Sia as a policy: every round by its program, with its believed restart costs.

References
----------
Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP
    2023. doi:10.1145/3600006.3613175
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.round.rules import SIA
from goodalloc.solvers.policies.pollux import Pollux

if TYPE_CHECKING:
    from goodalloc.solvers.interface.stop import Stop
    from goodalloc.solvers.policies.policy import ActiveJob

#: Seconds that Sia's artifact believes a restart to cost, by application. Its simulator charges
#: other delays: 50 for cifar10, 80 for yolov3, 15 for ncf.
BELIEVED_DELAY = {
    "bert": 120.0,
    "cifar10": 30.0,
    "deepspeech2": 25.0,
    "imagenet": 250.0,
    "ncf": 30.0,
    "yolov3": 45.0,
}


def believed_delay(job: ActiveJob) -> float | None:
    """Return the believed cost of a job's restart in seconds; None for the rules' delay."""
    return BELIEVED_DELAY.get(job.application)


def sia(stop: Stop, solver: str = "sia") -> Pollux:
    """Return Sia's policy; where nodes have cores, each GPU has its share of them.

    Parameters
    ----------
    stop
        Limits of each round.
    solver
        ``"sia"`` as published; an exact one, as ``"highs"``, decides on nodes too, with every
        number of GPUs and unrounded.
    """
    return Pollux(solver, SIA, stop, restart_delay=believed_delay, proportional=True)
