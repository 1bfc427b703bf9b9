"""Actions of the command `library`: list, show and get rounds; run, verify and rank solvers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.json_file import dump
from goodalloc.data.library.catalogue import (
    COLUMNS,
    Selection,
    catalogue_row,
    core_rounds,
    find_round,
    library_rounds,
)
from goodalloc.data.library.library_round import TREE
from goodalloc.data.library.stored_files import file_of, read_compressed
from goodalloc.experiments.library.common_ground import (
    NOTE,
    at_least_limits,
    compared,
    limits_told,
    note_of,
)
from goodalloc.experiments.library.loaded_round import LoadedRound
from goodalloc.experiments.library.protocol import PENALTY
from goodalloc.experiments.reporting.progress import progress_bar
from goodalloc.experiments.reporting.report import for_machines, percent, text_table
from goodalloc.experiments.support.extras import require_extra
from goodalloc.experiments.support.folder_lock import make_folder
from goodalloc.experiments.support.stop_request import interrupted_keeping, whole_interrupt
from goodalloc.solvers.interface.result import Status

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sized

    from goodalloc.data.library.library_round import LibraryRound
    from goodalloc.data.library.stored_files import Kind
    from goodalloc.experiments.library.protocol import Runs
    from goodalloc.experiments.library.submission import Run

#: Columns of the list for people.
SHOWN = ("name", "class", "jobs", "nodes", "gpus", "features", "fitness", "gap", "seconds", "proof")

#: Word for no stored submissions beside one's own.
NONE = "none"

#: Time limit of every run of the core, in seconds, unless another one is given: that of the
#: submissions that ship.
CORE_SECONDS = 10.0

#: What the library ships of a round, in words.
WORDS = {"answers": "allocation of it", "certificates": "certificate of it"}

#: Most runs without an answer that are told.
MOST_TOLD = 5


class Outcome(NamedTuple):
    """Outcome of an action.

    Attributes
    ----------
    text, data
        For people, and for machines.
    good
        Whether nothing failed or was refused.
    """

    text: str
    data: Any
    good: bool = True


#: What the columns of a ranking are.
RANK_LEGEND = (
    "solved: proved optimal by the library's bound; within 1 and 5: rounds within so many per cent "
    "of the best known\nvalue; none: rounds without an allocation; seconds: shifted geometric "
    f"mean, {PENALTY:g} times the limit where not solved"
)


def _s(items: Sized) -> str:
    """Return the end of the plural of what is counted."""
    return "" if len(items) == 1 else "s"


def _flat(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names of several lists."""
    return tuple(name for names in lists for name in names)


def selected(arguments: argparse.Namespace, *, trees: bool = False) -> tuple[LibraryRound, ...]:
    """Return the rounds that the arguments select.

    Parameters
    ----------
    arguments
        The arguments.
    trees
        Whether rounds on trees are selected although nothing asks for them.

    Raises
    ------
    ValueError
        If something is selected that no round has, or nothing is left.
    """
    selection = Selection(
        _flat(arguments.rounds),
        _flat(arguments.origin),
        _flat(getattr(arguments, "class")),
        _flat(arguments.feature),
        _flat(arguments.without),
        arguments.most_jobs,
        arguments.open,
    )
    also_on_trees = replace(selection, features=(*selection.features, TREE))
    names = {one.name for one in selection()}
    if trees:
        names |= {one.name for one in also_on_trees()}
    if arguments.core:
        names &= {one.name for one in core_rounds()}
    found = tuple(one for one in library_rounds().values() if one.name in names)
    if not found:
        more = 0 if arguments.core else len(also_on_trees())
        there = f" ({more} with --feature tree)" if more else ""
        raise ValueError(
            f"Library: the options select no round together{there}; expected at least one."
        )
    return found


def list_rounds(arguments: argparse.Namespace) -> Outcome:
    """List rounds."""
    found = selected(arguments)
    rows = [catalogue_row(one) for one in found]
    for row, one in zip(rows, found, strict=True):
        row["gap"] = one.gap if one.known else ""
    closed = sum(one.closed for one in found)
    text = text_table(rows, SHOWN)
    text += f"\n\n{len(rows)} round{_s(rows)}, {closed} with a proved optimum"
    on_trees = {one.name for one in selected(arguments, trees=True)} - {one.name for one in found}
    if on_trees:
        text += f"; {len(on_trees)} more on trees, with --feature tree"
    return Outcome(text, for_machines(rows))


def show_rounds(arguments: argparse.Namespace) -> Outcome:
    """Show a round."""
    one = find_round(arguments.round)
    found = catalogue_row(one)
    row = {name: found[name] for name in COLUMNS}
    row["gap"] = percent(one.gap) if one.known else "-"
    row["files"] = " ".join(
        kind for kind in ("rounds", "answers", "certificates") if file_of(kind, one.name).is_file()
    )
    text = "\n".join(f"{name:<12} {value}" for name, value in row.items())
    return Outcome(text, for_machines([row])[0])


def get_rounds(arguments: argparse.Namespace) -> Outcome:
    """Write a round, and what is known of it, to files."""
    one = find_round(arguments.round)
    target = arguments.out or f"{one.name}.json"
    if (arguments.tree is None) == one.on_tree:
        which = "expected --tree FILE, too" if one.on_tree else "expected no --tree"
        raise ValueError(f"Round '{one.name}' is on {'a' if one.on_tree else 'no'} tree; {which}.")
    written = LoadedRound.of(one.name).write(target, arguments.tree)
    missing = []
    more: dict[Kind, str | None] = {
        "answers": arguments.answer,
        "certificates": arguments.certificate,
    }
    for kind, path in more.items():
        if path is not None and file_of(kind, one.name).is_file():
            document: Any = read_compressed(file_of(kind, one.name))
            write_atomically(path, dump(document) + "\n")
            written.append(path)
        elif path is not None:
            missing.append(f"'{path}' is not written, as the library ships no {WORDS[kind]}")
    text = f"{one.name}: {one.jobs} jobs, {one.nodes} nodes, digest checked; {', '.join(written)}"
    if missing:
        text += f"\nRound '{one.name}': {'; '.join(missing)}."
    data = {"round": one.name, "files": written, "missing": missing}
    return Outcome(text, data, not missing)


def run_rounds(arguments: argparse.Namespace) -> Outcome:
    """Run a solver on rounds."""
    from goodalloc.experiments.library.submission import Submission
    from goodalloc.experiments.library.submission_run import run_submission

    rounds = selected(arguments)
    name = arguments.name or arguments.solver
    seconds = CORE_SECONDS if arguments.seconds is None and arguments.core else arguments.seconds
    submission = Submission(arguments.solver, name, arguments.seed, seconds, arguments.certificates)
    folder = Path(arguments.out)
    make_folder(folder)
    kept = f"the runs that ended are in {folder}, and the same command goes on from there"
    with (
        interrupted_keeping(kept),
        progress_bar("library run", len(rounds), quiet=arguments.json) as bar,
        whole_interrupt() as check,
    ):

        def ended(_: Run) -> None:
            check()
            bar.update()

        runs = run_submission(submission, rounds, folder, report=ended)
    if arguments.note is not None:  # once the folder is known to be that of this submission
        write_atomically(folder / NOTE, f"{arguments.note}\n")
    answered = [run for run in runs if run.fitness is not None]
    lines = [f"{name}: {len(answered)} of {len(runs)} rounds answered; runs in {folder}"]
    lines += _unanswered(run for run in runs if run.fitness is None)
    if answered:
        lines.append(f"next: goodalloc library verify {folder}")
    return Outcome("\n".join(lines), for_machines([run._asdict() for run in runs]), bool(answered))


def _unanswered(runs: Iterable[Run]) -> list[str]:
    """Return a line for each of the first runs without an answer, and how many more there are."""
    lines = []
    for run in runs:
        told = run.message or run.status
        if not told.startswith(run.status):
            told = f"{run.status}: {told}"
        lines.append(f"{run.round}: {told}")
    more = len(lines) - MOST_TOLD
    return lines if more <= 0 else [*lines[:MOST_TOLD], f"and {more} more without an answer"]


def verify_rounds(arguments: argparse.Namespace) -> Outcome:
    """Check a submission, or the library itself; exit code 1 if something is refused."""
    if arguments.folder is None:
        return _verify_library(arguments)
    if _selects(arguments):
        raise ValueError(
            f"Folder '{arguments.folder}': all of its runs are verified; expected no selection of "
            "rounds beside it."
        )
    from goodalloc.experiments.library.checks import checked_submission

    name, runs, checks = checked_submission(Path(arguments.folder))
    if not checks:
        raise ValueError(f"Folder '{arguments.folder}' has no runs; expected at least one.")
    told = [f"{one.run.round}: {one.refusal or one.news}" for one in checks]
    news = [line for line, one in zip(told, checks, strict=True) if one.refusal or one.news]
    refused = sum(bool(one.refusal) for one in checks)
    empty = [one.run for one in checks if math.isnan(one.fitness) and not one.refusal]
    infeasible = sum(run.status == Status.INFEASIBLE for run in empty)
    certified = sum(math.isfinite(one.certified_bound) for one in checks)
    solved = sum(run.solved for run in runs.values())
    lines = [
        f"{name}: {len(checks)} run{_s(checks)}, {len(empty) - infeasible} without an answer, "
        f"{infeasible} whose answer the checker refused in the run, {refused} refused now, "
        f"{certified} with a verified certificate, {solved} solved to optimality",
        *note_of(name, Path(arguments.folder)),
        *news,
        *_unanswered(empty),
    ]
    rows = [
        {
            "round": one.run.round,
            "status": one.run.status,
            "fitness": one.fitness,
            "certified_bound": one.certified_bound,
            "refusal": one.refusal,
            "news": one.news,
        }
        for one in checks
    ]
    loud = any("REFUTES" in one.news for one in checks)
    return Outcome("\n".join(lines), for_machines(rows), not (infeasible or refused or loud))


def _verify_library(arguments: argparse.Namespace) -> Outcome:
    """Check digests, best known allocations and certificates of the library."""
    from goodalloc.experiments.library.checks import check_library

    rounds = selected(arguments)
    found = []
    with progress_bar("library verify", len(rounds), quiet=arguments.json) as bar:
        for one in rounds:
            found.append(check_library(one.name))
            bar.update()
    refused = [f"{one.round}: {one.refusal}" for one in found if one.refusal]
    certified = sum(one.certified for one in found)
    text = (
        f"{len(found)} round{_s(found)}: {certified} with a bound that the stand-alone checker "
        f"verified by its certificate, {len(found) - certified - len(refused)} whose best known "
        f"allocation alone was checked, {len(refused)} refused"
    )
    rows = [one._asdict() for one in found]
    return Outcome("\n".join([text, *refused]), for_machines(rows), not refused)


def rank_rounds(arguments: argparse.Namespace) -> Outcome:
    """Rank submissions, each round at the least limit that any of them had on it."""
    from goodalloc.experiments.library.ranking import by_category, rank_rows, ranked

    if arguments.out is not None:
        require_extra("view", "Argument --out")
    chosen = _chosen(arguments)
    found, own, news = _submissions(arguments, chosen)
    rounds, remarks = compared(found, list(own), chosen)
    submissions = at_least_limits(found)
    remarks += limits_told(found, submissions, rounds)
    remarks += [line for name, folder in own.items() for line in note_of(name, folder)]
    ranks = ranked(submissions, rounds)
    rows, columns = rank_rows(ranks), ranks[0]._fields
    text = "\n".join([f"{len(rounds)} round{_s(rounds)} that all of them ran", *remarks])
    text += f"\n\n{text_table(rows, columns)}\n{RANK_LEGEND}"
    classes = {name: rank_rows(some) for name, some in by_category(submissions, rounds).items()}
    if len(classes) > 1:
        for category, lines in classes.items():
            text += f"\n\nclass {category}\n\n{text_table(lines, columns)}"
    if arguments.out is not None:
        written = _write_rank(submissions, rounds, remarks, Path(arguments.out))
        text += f"\n\nwritten: {', '.join(written)}"
    data = {
        "rounds": rounds,
        "remarks": remarks,
        "ranks": for_machines(rows),
        "classes": {category: for_machines(lines) for category, lines in classes.items()},
    }
    return Outcome("\n".join([text, *news]), data)


def _chosen(arguments: argparse.Namespace) -> set[str]:
    """Return the names of the rounds to rank on: all without a selection.

    Of the given folders those on trees, too.
    """
    if _selects(arguments):
        return {one.name for one in selected(arguments, trees=bool(arguments.folders))}
    return set(library_rounds())


def _selects(arguments: argparse.Namespace) -> bool:
    """Return whether rounds are selected."""
    lists = (arguments.rounds, arguments.origin, arguments.feature, arguments.without)
    listed = any(map(_flat, (*lists, getattr(arguments, "class"))))
    return listed or arguments.core or arguments.open or arguments.most_jobs is not None


def _submissions(
    arguments: argparse.Namespace, chosen: set[str]
) -> tuple[dict[str, Runs], dict[str, Path], list[str]]:
    """Return the judged runs of all submissions, folders of the given ones, and their news.

    Those that ship are of the study that has most of the chosen rounds which were run; of the
    chosen ones where no folder is given.
    """
    from goodalloc.experiments.library.checks import checked_submission
    from goodalloc.experiments.library.ranking_page import own_name
    from goodalloc.experiments.library.stored_rows import stored_submissions, study_of

    given = {folder: checked_submission(folder) for folder in map(Path, arguments.folders)}
    beside = None if arguments.beside is None else _flat(arguments.beside)
    submissions: dict[str, Runs] = {}
    if beside != (NONE,):
        ran = {name for _, runs, _ in given.values() for name in runs}
        if not given and _selects(arguments):
            ran = chosen
        submissions = stored_submissions(beside, study_of(ran & chosen))
    own: dict[str, Path] = {}
    news = []
    for folder, (name, runs, checks) in given.items():
        name = own_name(name, folder, submissions)
        submissions[name], own[name] = runs, folder
        news += [
            f"{name} on {one.run.round}: {one.refusal or one.news}"
            for one in checks
            if one.refusal or one.news
        ]
    if not submissions:
        raise ValueError("Ranking: got no submissions; expected a folder or stored ones.")
    return submissions, own, news


def _write_rank(
    submissions: dict[str, Runs], rounds: list[str], remarks: list[str], path: Path
) -> list[str]:
    """Write page, table and picture of a ranking, and return their names."""
    from goodalloc.experiments.library.ranking import plot_ranking, rank_rows, ranked
    from goodalloc.experiments.library.ranking_page import rank_page
    from goodalloc.experiments.reporting.plots import save

    write_atomically(path, rank_page(submissions, rounds, remarks))
    rows = rank_rows(ranked(submissions, rounds))
    write_atomically(path.with_suffix(".csv"), csv_text(rows, tuple(rows[0])))
    save(plot_ranking(submissions, rounds), path.with_suffix(".png"))
    return [str(path), str(path.with_suffix(".csv")), str(path.with_suffix(".png"))]
