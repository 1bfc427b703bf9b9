"""Bound on all replays beside what `goodalloc hindsight` finds for an average."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.truth import applications_of
from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.experiments.replay_bound.replay_rounds import rounds_of_replay
from goodalloc.solvers.hindsight.round_prices import round_prices

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.experiments.hindsight.day import HindsightDay
    from goodalloc.experiments.replay.replay_conditions import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.solvers.hindsight.best_prices import HindsightBound


class ReplayBound(NamedTuple):
    """Bound on all replays of a day.

    Attributes
    ----------
    day
        The day with its bound on all schedules.
    certificate
        The bound on all replays, as the stand-alone checker proves it.
    """

    day: HindsightDay
    certificate: dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        """The bound, and what it is of the replayed schedule."""
        bound, replayed = float(self.certificate["bound"]), self.day.replayed
        return {
            f"bound_on_replays_{self.day.objective.key}": bound,
            "bound_on_replays_over_replayable": None
            if replayed is None
            else bound / replayed.value,
        }

    @property
    def text(self) -> str:
        """The bound for people."""
        name, tell = self.day.objective.name, self.day.objective.text
        bound, over = self.data.values()
        article = "an" if name[0] in "aeiou" else "a"
        text = (
            f"No replay in rounds of {self.certificate['seconds']:g} s has {article} {name} below "
            f"{tell(bound)}, restarts included;\nproved by prices, and checked."
        )
        return text if over is None else f"{text} It is {over:.1%} of that of the replay."


def bound_replays(
    day: HindsightDay,
    setting: Setting,
    traces: str | None = None,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> ReplayBound:
    """Bound all replays of a day, by prices that are searched for it.

    Parameters
    ----------
    day
        The day with its bound on all schedules.
    setting
        Conditions of the replay.
    traces
        Folder of measurements of the true applications, None for the shipped profiles.
    report
        Callback for the share of the search that is done; the proof takes about as long.
    """
    proved = float(day.certificate["bound"])
    found = prove_replays(day.problem, day.bound, proved, setting, traces, report=report)
    return ReplayBound(day, found)


def prove_replays(
    problem: OfflineProblem,
    bound: HindsightBound,
    proved: float,
    setting: Setting,
    traces: str | None = None,
    *,
    report: Callable[[float], None] = lambda _share: None,
) -> dict[str, Any]:
    """Return the certificate of a bound on all replays, by prices that are searched for it.

    Parameters
    ----------
    problem, bound, proved
        An offline problem, a bound on all its schedules, and the value that was proved by it.
    setting, traces, report
        As in `bound_replays`.
    """
    rounds = rounds_of_replay(problem, applications_of(traces), setting)
    prices = round_prices(problem, bound, rounds, report=report)
    found = replay_bound_document(problem, bound, rounds, prices)
    if found["bound"] < proved:  # by the prices of that bound it is no less
        found = replay_bound_document(problem, bound, rounds)
    return found
