"""Command `library`: the library of rounds, with an action for each thing to do with it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from goodalloc.experiments.cli.output import (
    FAILED,
    Output,
    check_distinct,
    check_kept,
    check_target,
)
from goodalloc.experiments.cli.types import code_name, names, number, whole
from goodalloc.models.support.validation import literal

#: Module of the actions, imported only when one is called, so that the start stays fast.
ACTIONS = "goodalloc.experiments.library.actions"

#: Most characters of a note.
LONGEST_NOTE = 200

#: Files of a submission.
SUBMISSION = ("runs.csv", "submission.json", "note.txt")

#: Suffixes of the table and the picture beside the page of a ranking.
BESIDE_PAGE = (".csv", ".png")


def library_command(arguments: argparse.Namespace) -> Output:
    """Do what the action says."""
    files = [getattr(arguments, name, None) for name in ("out", "tree", "answer", "certificate")]
    if arguments.action == "get":
        files[0] = arguments.out or f"{arguments.round}.json"
    if arguments.action == "rank" and Path(arguments.out or "").suffix in BESIDE_PAGE:
        raise ValueError(
            f"argument --out: got '{arguments.out}'; expected the name of a page, as rank.html, "
            "beside which table and picture are written."
        )
    if arguments.action in ("get", "rank"):
        for path in files:
            check_target(path)
        check_distinct(*files)
    if arguments.action == "rank" and arguments.out is not None:
        page = Path(arguments.out)
        written = [page, *(page.with_suffix(suffix) for suffix in BESIDE_PAGE)]
        for file in written:
            check_target(str(file))
        own = [str(Path(folder) / name) for folder in arguments.folders for name in SUBMISSION]
        check_kept(str(page.parent), [file.name for file in written], *own)
    outcome = getattr(importlib.import_module(ACTIONS), f"{arguments.action}_rounds")(arguments)
    return Output(outcome.text, outcome.data, 0 if outcome.good else FAILED)


def add_library(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the library of rounds."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    builders = {
        "list": ("list rounds with their best known values", _add_list),
        "show": ("show all that is known of a round", _add_show),
        "get": ("write a round to a file, made anew and checked by its digest", _add_get),
        "run": ("run a solver on rounds; resumes", _add_run),
        "verify": ("check a submission, or the library itself", _add_verify),
        "rank": ("rank submissions beside those that ship", _add_rank),
    }
    for name, (text, build) in builders.items():
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        build(action)
        action.add_argument("--json", action="store_true", help="print JSON")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    for option, text in (
        ("--rounds", "names of rounds"),
        ("--origin", "origins, such as philly"),
        ("--class", "easy, hard, degenerate, large"),
        ("--feature", "features that the rounds have, such as types; tree for those on trees"),
        ("--without", "features that they have not, such as modes"),
    ):
        parser.add_argument(
            option,
            type=names,
            nargs="+",
            default=[()],
            metavar="NAMES",
            help=f"{text}, separated by commas (default: all)",
        )
    parser.add_argument("--most-jobs", type=whole(1), help="only rounds of at most so many jobs")
    parser.add_argument("--open", action="store_true", help="only rounds without a proved optimum")
    parser.add_argument("--core", action="store_true", help="only rounds of the core")


def _add_list(parser: argparse.ArgumentParser) -> None:
    _add_selection(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("round", help="name of a round")


def _add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("round", help="name of a round")
    parser.add_argument("--out", metavar="FILE", help="file (default: NAME.json)")
    parser.add_argument("--tree", metavar="FILE", help="file of the tree of a round that is on one")
    parser.add_argument(
        "--answer", metavar="FILE", help="also write the best known allocation to this file"
    )
    parser.add_argument(
        "--certificate", metavar="FILE", help="also write its certificate to this file"
    )


def _note(text: str) -> str:
    """Parse what is told of a submission."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NOTE:
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected 1 to {LONGEST_NOTE} printable characters"
        )
    return text


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--solver", type=code_name, required=True, help="name, or package.module:function"
    )
    parser.add_argument("--name", help="name in rankings (default: that of the solver)")
    _add_selection(parser)
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument(
        "--seconds",
        type=number(0.0),
        help="time limit of a run (default: 10 s with --core, as the submissions that ship had it; "
        "else 10 s for easy and degenerate rounds, 60 s for others)",
    )
    parser.add_argument(
        "--certificates",
        action="store_true",
        help="seek a certificate of every answer, after the time of the solver",
    )
    parser.add_argument(
        "--note",
        type=_note,
        metavar="TEXT",
        help="what verify and rank are to tell of the submission, such as '4 threads' (note.txt)",
    )
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of the submission")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", help="folder of a submission (default: the library itself)"
    )
    _add_selection(parser)


def _add_rank(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="folders of submissions")
    parser.add_argument(
        "--beside",
        type=names,
        nargs="+",
        metavar="NAMES",
        help="stored submissions to rank beside them, separated by commas, or none (default: all)",
    )
    _add_selection(parser)
    parser.add_argument(
        "--out",
        metavar="FILE.html",
        help="write a page, and beside it a table (.csv) and a picture (.png); needs "
        "goodalloc[view]",
    )
