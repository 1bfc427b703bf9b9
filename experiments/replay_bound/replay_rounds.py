"""Rounds by which the jobs of a replay live, whoever schedules them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.hindsight.problem_of_replay import restart_seconds
from goodalloc.models.hindsight.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem

#: Seconds that a restart within an epoch may gain by rounding: the seconds of the epoch are rounded
#: once, and the rates of the offline problem have what that may gain on either number of GPUs.
ROUNDED = 1.0


def rounds_of_replay(
    problem: OfflineProblem, applications: Mapping[str, Application], setting: Setting
) -> Rounds:
    """Return the rounds of a replay, with restarts that are no longer than there.

    Parameters
    ----------
    problem
        Offline problem of the replay (`replayed_problem`).
    applications
        The true applications that its jobs train, by name.
    setting
        Conditions of the replay.
    """
    restart = {
        training.name: restart_seconds(applications[training.name], setting) - ROUNDED
        for training in problem.trainings
    }
    return Rounds(float(setting.interval), restart)
