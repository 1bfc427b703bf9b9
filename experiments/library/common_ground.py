"""Common ground of a ranking: rounds that all ran, the least limits, what submitters state."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from typing import TYPE_CHECKING

from goodalloc.data.library.catalogue import find_round
from goodalloc.experiments.library.protocol import LATE_FACTOR, LATE_SECONDS, judge

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.library.protocol import Judged, Runs

#: File of a submission with what its author says of it.
NOTE = "note.txt"


def compared(
    submissions: Mapping[str, Runs], own: Sequence[str], chosen: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the chosen rounds that all submissions ran, and a sentence if own ones ran more.

    Parameters
    ----------
    submissions
        Judged runs by the name of the submission.
    own
        Names of those that do not ship.
    chosen
        Names of rounds.

    Raises
    ------
    ValueError
        If there is no such round; the sentence says what to leave out, where that helps.
    """
    rounds = _shared(submissions, chosen)
    stored = len(submissions) > len(own)
    if not rounds:
        alone = stored and own and _shared({name: submissions[name] for name in own}, chosen)
        remedy = f", or --beside none, which ranks {' and '.join(own)} alone" if alone else ""
        raise ValueError(
            f"Ranking: no selected round was run by all of {', '.join(submissions)}; expected one "
            f"at least{remedy}."
        )
    ran = {name: len(chosen & submissions[name].keys()) for name in own}
    more = [f"{name} ran {count}" for name, count in ran.items() if count > len(rounds)]
    if not more:
        return rounds, []
    left = {name for one in own for name in chosen & submissions[one].keys()} - set(rounds)
    trees = any(find_round(name).on_tree for name in left)
    remedies = ["--beside none leaves out those that ship"] if stored else []
    remedies += ["--feature tree ranks those on trees"] if trees else []
    remedy = f" ({', '.join(remedies)})" if remedies else ""
    return rounds, [
        f"Of the selected rounds {', '.join(more)}; ranked are the {len(rounds)} that all of them "
        f"ran{remedy}."
    ]


def _shared(submissions: Mapping[str, Runs], chosen: Collection[str]) -> list[str]:
    """Return the chosen rounds that all submissions ran; none if there is none."""
    from goodalloc.experiments.library.ranking import common_rounds

    with contextlib.suppress(ValueError):
        return [name for name in common_rounds(submissions) if name in chosen]
    return []


def at_least_limits(submissions: Mapping[str, Runs]) -> dict[str, Runs]:
    """Return all runs as if each had had the least limit that any submission had on its round.

    What came later than that, and its tolerance, counts as no answer: nobody knows what the solver
    had found by then. Runs that had the least limit stay as they are.

    Parameters
    ----------
    submissions
        Judged runs by the name of the submission.

    Examples
    --------
    >>> from goodalloc.data.library import find_round
    >>> from goodalloc.experiments.library import judge
    >>> from goodalloc.experiments.library.common_ground import at_least_limits
    >>> line = find_round("tiny-cold")
    >>> short = {line.name: judge(line, "short", 10.0, 9.0, line.fitness)}
    >>> long = {line.name: judge(line, "long", 60.0, 15.0, line.fitness)}
    >>> found = at_least_limits({"short": short, "long": long})
    >>> [(runs[line.name].limit, runs[line.name].solved) for runs in found.values()]
    [(10.0, True), (10.0, False)]
    """
    least: dict[str, float] = {}
    for runs in submissions.values():
        for name, run in runs.items():
            least[name] = min(run.limit, least.get(name, run.limit))
    return {
        solver: {name: _at_limit(run, least[name]) for name, run in runs.items()}
        for solver, runs in submissions.items()
    }


def _at_limit(run: Judged, limit: float) -> Judged:
    """Return a run as if it had had a limit, at most its own."""
    if limit < run.limit and run.seconds > LATE_FACTOR * limit + LATE_SECONDS:
        return judge(find_round(run.round), run.solver, limit, run.seconds, math.nan)
    return run._replace(limit=limit)


def limits_told(
    before: Mapping[str, Runs], after: Mapping[str, Runs], rounds: Sequence[str]
) -> list[str]:
    """Return a sentence on which submission had what limits, if `at_least_limits` changed any.

    Parameters
    ----------
    before, after
        Judged runs by the name of the submission, and what `at_least_limits` makes of them.
    rounds
        Names of the rounds that are ranked.
    """
    pairs = [
        (solver, runs[name], after[solver][name])
        for solver, runs in before.items()
        for name in rounds
    ]
    if all(old.limit == new.limit for _, old, new in pairs):
        return []
    had: dict[str, list[str]] = {}
    for solver, runs in before.items():
        limits = Counter(runs[name].limit for name in rounds)
        parts = [f"{limit:g} s on {limits[limit]}" for limit in sorted(limits)]
        had.setdefault(" and ".join(parts), []).append(solver)
    told = "; ".join(f"{', '.join(solvers)} had {parts}" for parts, solvers in had.items())
    late = Counter(
        solver for solver, old, new in pairs if math.isnan(new.fitness) > math.isnan(old.fitness)
    )
    lost = ", ".join(f"{solver} {count}" for solver, count in late.items())
    sentence = f"Limits differ: {told}; each round is ranked at the least limit on it"
    return [f"{sentence}, and later answers count as none ({lost})." if lost else f"{sentence}."]


def note_of(name: str, folder: Path) -> list[str]:
    """Return what the author of a submission says of it, as a line; none without a note.

    Parameters
    ----------
    name, folder
        Name of the submission in rankings, and its folder.
    """
    path = folder / NOTE
    words = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return [f"{name} states: {' '.join(words.split())}"] if words.strip() else []
