"""Policies that know more than a scheduler can, for replays by the simulator's own rules.

Each of them gives GPUs where they are worth most (`solvers/foresight/worth_policy.py`), by worths
from different knowledge. Their jobs know their own speed when they start, so that they choose their
batch sizes as well as their models tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from goodalloc.data.workloads.generator import HOUR
from goodalloc.experiments.hindsight.attainable import Attainable
from goodalloc.models.support.validation import require_choice
from goodalloc.solvers.foresight.known_work import RemainingWorths
from goodalloc.solvers.foresight.rolling_plan import RollingWorths
from goodalloc.solvers.foresight.worth_policy import WorthPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.solvers.foresight.worth_policy import Appraiser

#: Knowledge of a policy: the true remaining work of the active jobs; plans made from it; and plans
#: that also contain the arrivals of the next hour.
Foresight = Literal["remaining work", "plans", "arrivals of an hour"]


def foreseeing(
    foresight: Foresight,
    problem: OfflineProblem,
    applications: Mapping[str, Application],
    setting: Setting,
) -> WorthPolicy:
    """Return a policy with some knowledge of what is to come.

    Parameters
    ----------
    foresight
        What it knows.
    problem
        The offline problem of the replay.
    applications, setting
        The true applications, and the conditions of the replay.

    Raises
    ------
    ValueError
        If the knowledge is none of `Foresight`.
    """
    require_choice("Policy: foresight", foresight, get_args(Foresight))
    attainable = Attainable(applications, setting.cluster)
    own = attainable.problem(problem)
    trainings = {training.name: training for training in own.trainings}
    appraiser: Appraiser = RemainingWorths(trainings)
    if foresight != "remaining work":
        appraiser = RollingWorths(own, float(HOUR) if foresight == "arrivals of an hour" else 0.0)
    return WorthPolicy(trainings, appraiser, attainable.spreads, setting.restart_delay)
