"""Rounds by which the jobs of a replay live, whoever schedules them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.hindsight.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application
    from goodalloc.experiments.replay.replay_conditions import Setting
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
        Offline problem of the replay.
    applications
        The true applications that its jobs train, by name.
    setting
        Conditions of the replay.

    Raises
    ------
    ValueError
        If nodes go or come within a round, so that jobs do not keep their GPUs through it, or a
        restart takes no whole seconds, so that rounding gains what is not counted.
    """
    if any(time % setting.interval for outage in setting.outages for time in outage[:2]):
        raise ValueError(
            f"Rounds of {setting.interval:g} s: nodes go or come within one, so that jobs do not "
            "keep their GPUs through it; expected outages from round to round."
        )
    restart = {}
    for training in problem.trainings:
        own = applications[training.name].restart_delay
        delay = setting.restart_delay if own is None else own
        if delay % 1:
            raise ValueError(
                f"Application '{training.name}': a restart takes {delay:g} s; expected whole "
                "seconds, to which a replay rounds epochs."
            )
        restart[training.name] = max(delay - ROUNDED, 0.0)
    return Rounds(float(setting.interval), restart)
