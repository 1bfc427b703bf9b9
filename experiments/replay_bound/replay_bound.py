"""Bound on all replays beside what `goodalloc hindsight` finds for an average."""

from __future__ import annotations

import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.truth import applications_of
from goodalloc.experiments.hindsight.day_search import limits
from goodalloc.experiments.replay_bound.replay_certificate import replay_bound_document
from goodalloc.experiments.replay_bound.replay_rounds import rounds_of_replay
from goodalloc.solvers.hindsight.round_prices import round_prices
from goodalloc.solvers.hindsight.rounds_with_restarts import SPACING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float

    from goodalloc.experiments.hindsight.day import HindsightDay
    from goodalloc.experiments.replay import Setting
    from goodalloc.models.hindsight.offline_problem import OfflineProblem
    from goodalloc.models.hindsight.rounds import Rounds
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.hindsight.best_prices import HindsightBound

#: Part of the time left that the search of prices may take, if there is a limit.
PRICES_TIME = 0.3

#: Spacing of the nodes of the first proof if there is a limit, and of those for which there may be
#: time after it, the longest first, in that of a proof without a limit.
FIRST, NEXT = 8.0, (1.0, 2.0, 4.0)


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
    until: float | None = None,
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
    until
        Moment of `time.monotonic` by which it should end, None for no limit: the search of prices
        is cut short, and its nodes of progress are farther from each other. The coarsest proof is
        made in any case.
    report
        Callback for the share of the search that is done; the proof takes about as long.
    """
    proved = float(day.certificate["bound"])
    found = prove_replays(
        day.problem, day.bound, proved, setting, traces, until=until, report=report
    )
    return ReplayBound(day, found)


def prove_replays(
    problem: OfflineProblem,
    bound: HindsightBound,
    proved: float,
    setting: Setting,
    traces: str | None = None,
    *,
    until: float | None = None,
    report: Callable[[float], None] = lambda _share: None,
) -> dict[str, Any]:
    """Return the certificate of a bound on all replays, by prices that are searched for it.

    Parameters
    ----------
    problem, bound, proved
        An offline problem, a bound on all its schedules, and the value that was proved by it.
    setting, traces, until, report
        As in `bound_replays`.
    """
    rounds = rounds_of_replay(problem, applications_of(traces), setting)
    stop = limits(until, PRICES_TIME)
    prices = round_prices(problem, bound, rounds, stop=stop, report=report)
    found = _finest(problem, bound, rounds, prices, until)
    if found["bound"] < proved:  # by the prices of that bound it is no less
        found = _finest(problem, bound, rounds, bound.prices, until)
    return found


def _finest(
    problem: OfflineProblem,
    bound: HindsightBound,
    rounds: Rounds,
    prices: Float[Floats, "intervals types"],
    until: float | None,
) -> dict[str, Any]:
    """Return the certificate with the closest nodes of progress for which there is time."""
    if until is None:
        return replay_bound_document(problem, bound, rounds, prices)
    begin = time.monotonic()
    found = replay_bound_document(problem, bound, rounds, prices, spacing=FIRST * SPACING)
    now = time.monotonic()
    for spacing in NEXT:
        if FIRST / spacing * (now - begin) <= until - now:
            finer = replay_bound_document(problem, bound, rounds, prices, spacing=spacing * SPACING)
            return max(found, finer, key=itemgetter("bound"))
    return found
