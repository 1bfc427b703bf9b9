"""Page of a ranking: tables by class, profiles, and all runs (Bokeh)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from goodalloc.data.library.catalogue import find_round
from goodalloc.experiments.library.checks import checked_submission
from goodalloc.experiments.library.common_ground import at_least_limits, limits_told, note_of
from goodalloc.experiments.library.protocol import PENALTY, SECONDS_SHIFT
from goodalloc.experiments.library.ranking import by_category, common_rounds, rank_rows, ranked
from goodalloc.experiments.library.stored_rows import stored_submissions, study_of
from goodalloc.experiments.pages.gap_profiles import plot_shares
from goodalloc.experiments.pages.page_parts import heading, note, page, table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from goodalloc.experiments.library.protocol import Runs
    from goodalloc.experiments.library.ranking import Rank

#: Least loss in per cent and least seconds that the axes show.
LEAST_LOSS, LEAST_SECONDS = 1e-7, 1e-3

#: Headings of columns, where they are not their names.
HEADINGS = {
    "within_1": "within 1 %",
    "within_5": "within 5 %",
    "none": "no allocation",
    "mean_loss_percent": "mean loss (%)",
    "limit": "limit (s)",
    "loss": "loss (%)",
    "gap": "gap (%)",
    "category": "class",
    "better": "beats the best known",
    "refutes": "exceeds the bound",
}


def submission_page(folder: Path) -> str:
    """Return the page of a submission, beside the stored ones that ran all of its rounds.

    Parameters
    ----------
    folder
        Folder of the submission; what its checks refuse counts as no allocation.

    Raises
    ------
    ValueError
        If the folder holds no submission.
    """
    name, runs, _ = checked_submission(folder)
    submissions = {
        other: found
        for other, found in stored_submissions(study=study_of(runs)).items()
        if runs.keys() <= found.keys()
    }
    name = own_name(name, folder, submissions)
    submissions[name] = runs
    rounds, alike = common_rounds(submissions), at_least_limits(submissions)
    remarks = [*limits_told(submissions, alike, rounds), *note_of(name, folder)]
    return rank_page(alike, rounds, remarks)


def own_name(name: str, folder: Path, taken: Collection[str]) -> str:
    """Return the name of a submission beside others: with its folder where one of them has it."""
    if name in taken:
        name += f" ({folder.resolve().name})"
    while name in taken:
        name += "'"
    return name


def rank_page(
    submissions: Mapping[str, Runs], rounds: Sequence[str], remarks: Sequence[str] = ()
) -> str:
    """Return the page of a ranking.

    Parameters
    ----------
    submissions
        Judged runs by the name of the submission.
    rounds
        Names of the rounds that all of them ran.
    remarks
        Sentences above the ranking.

    Examples
    --------
    >>> from goodalloc.data.library import find_round
    >>> from goodalloc.experiments.library import judge, rank_page
    >>> line = find_round("tiny-cold")
    >>> runs = {line.name: judge(line, "mine", 10.0, 0.1, line.fitness)}
    >>> "<html" in rank_page({"mine": runs}, [line.name])
    True
    """
    from bokeh.layouts import row

    solvers = list(submissions)
    frame = profiled(submissions, rounds)
    told = (
        f"Ranked by rounds solved, to a gap of 1e-6 to the library's proven bound, then by the "
        f"geometric mean of seconds, shifted by {SECONDS_SHIFT:g} s, in which an unsolved round "
        f"counts {PENALTY:g} times its limit. Left: share of the rounds solved within so many "
        "seconds; right: share whose value is at most so far below the best known one. Click a "
        "name of the legend to hide its line, or a heading to sort."
    )
    parts = [
        heading(
            "Solvers on the library of rounds",
            {"solvers": f"{len(solvers)}", "rounds": f"{len(rounds)}"},
        ),
        note(told),
        *map(note, remarks),
        _ranking(ranked(submissions, rounds)),
        row(
            plot_shares(frame, solvers, "solved_seconds", "seconds", LEAST_SECONDS),
            plot_shares(frame, solvers, "loss_percent", "loss (%)", LEAST_LOSS),
        ),
    ]
    for category, ranks in by_category(submissions, rounds).items():
        count = sum(find_round(name).category == category for name in rounds)
        parts += [note(f"Class {category}, rounds: {count}"), _ranking(ranks)]
    return page("Library of rounds", [*parts, note("All runs:"), table(_runs(frame))])


def profiled(submissions: Mapping[str, Runs], rounds: Sequence[str]) -> pd.DataFrame:
    """Return a row for each run, by the name of its submission, with what the profiles show.

    Parameters
    ----------
    submissions, rounds
        As for `rank_page`.
    """
    frame = pd.DataFrame(
        [
            runs[name]._asdict() | {"solver": solver}
            for solver, runs in submissions.items()
            for name in rounds
        ]
    )
    return frame.assign(
        loss_percent=100.0 * frame["loss"].where(frame["fitness"].notna()),
        solved_seconds=frame["seconds"].where(frame["solved"]),
    )


def _ranking(ranks: Sequence[Rank]) -> Any:
    """Return the table of a ranking, all of it in sight."""
    return table(pd.DataFrame(rank_rows(ranks)).rename(columns=HEADINGS), rows=len(ranks))


def _runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs for people."""
    percent = {name: 100.0 * frame[name] for name in ("loss", "gap")}
    shown = frame.drop(columns=["loss_percent", "solved_seconds"])
    return shown.assign(**percent).rename(columns=HEADINGS)
