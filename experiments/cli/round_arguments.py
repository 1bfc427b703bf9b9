"""Arguments of the commands on one round: decide, make, check, show."""

from __future__ import annotations

import argparse

from goodalloc.experiments.cli.types import (
    add_groups,
    any_number,
    code_name,
    gpus_per_node,
    names,
    number,
    quota,
    seeds,
    split,
    whole,
)
from goodalloc.models.support.tolerances import DEFAULT_GAP

FILE_HELP = "an instance file, or the name of an instance that ships"
TREE_HELP = "a topology file, or standard for islands, racks and pods of equal nodes"
COLUMNS_HELP = "; FILE.parquet for a round in columns, of up to a million jobs"

#: Seconds that a cross-check may take where none are given.
CROSS_CHECK_SECONDS = 60.0


def add_solve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `solve`."""
    parser.add_argument("file", help=FILE_HELP + COLUMNS_HELP)
    parser.add_argument(
        "--leximin",
        action="store_true",
        help="at power -inf: also maximise the second-least utility, then the third, …",
    )
    parser.add_argument(
        "--solver",
        type=code_name,
        default="highs",
        help="name, or package.module:function (default: highs)",
    )
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="prove the bound by prices and write them, for `goodalloc verify`",
    )
    parser.add_argument(
        "--stages",
        action="store_true",
        help="also print what each stage of `highs` proved, in how many seconds, and whether the "
        "rule between equally good allocations was applied",
    )
    _add_limits(parser, seconds=None)
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--start", metavar="FILE", help="an allocation or result to start from")
    parser.add_argument("--out", metavar="FILE", help="write the result to this file")
    parser.add_argument(
        "--cross-check",
        choices=("scip",),
        help="solve the node-indexed program with another solver, from a file, and compare; exit "
        "code 1 if the two contradict each other",
    )
    parser.add_argument(
        "--cross-check-seconds",
        type=number(0.0),
        metavar="SECONDS",
        help=f"time limit of the other solver (default: {CROSS_CHECK_SECONDS:g})",
    )


def add_compare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `compare`."""
    parser.add_argument("file", help=FILE_HELP)
    _add_grid(parser)
    _add_limits(parser, seconds=60.0)
    parser.add_argument("--out", metavar="FOLDER", help="write table, results and picture there")


def add_gap(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `gap`."""
    parser.add_argument(
        "--instances",
        type=names,
        nargs="+",
        metavar="NAMES",
        help="files or names of shipped instances (default: all that ship)",
    )
    parser.add_argument(
        "--subset", type=whole(1), metavar="N", help="only the N smallest of these instances"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list the missing runs and their time limits"
    )
    _add_grid(parser)
    _add_limits(parser, seconds=60.0)
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="results/gap",
        help="folder of the results; averages and figures cover all its runs by this version under "
        "these limits, also earlier ones (default: results/gap)",
    )


def add_generate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `generate`."""
    parser.add_argument(
        "--workload",
        choices=("pollux", "synergy", "plans", "llm"),
        default="pollux",
        help="evaluation whose jobs are drawn (default: pollux); synergy: rigid jobs with modes on "
        "servers of 8 GPUs, 24 cores and 500 GB; plans: large models that choose execution plans, "
        "on --nodes of A100, as many of A40 and of A10; llm: language models on --nodes of A100 "
        "and as many of H100",
    )
    parser.add_argument(
        "--tree",
        metavar="FILE",
        help="pollux: also write a tree of islands, racks and pods to this file; a tenth of the "
        "jobs require a rack",
    )
    parser.add_argument(
        "--gangs",
        type=number(0.0, 1.0, strict=False),
        metavar="SHARE",
        help="with --tree: share of the jobs that run on two whole nodes or not at all (default: "
        "0)",
    )
    parser.add_argument(
        "--split",
        type=split,
        metavar="IMAGE,LANGUAGE,SPEECH",
        help="synergy: weights of the classes, as 20,70,10 (default: all models evenly)",
    )
    parser.add_argument(
        "--several-gpus",
        action="store_true",
        help="synergy: jobs of 1, 2, 4 and 8 GPUs as often as published (default: of 1)",
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument(
        "--jobs", type=whole(1), help="number of jobs, in place of --load; plans, llm: required"
    )
    parser.add_argument(
        "--load", type=number(0.0), help="requested GPUs over GPUs of the cluster (default: 1)"
    )
    parser.add_argument("--nodes", type=whole(1), help="number of nodes (default: 16)")
    parser.add_argument(
        "--gpus-per-node", type=gpus_per_node, help="GPUs of each node (default: 4)"
    )
    add_groups(parser)
    parser.add_argument(
        "--memory", type=number(0.0), metavar="GB", help="memory of every node, with --cores"
    )
    parser.add_argument(
        "--state", help="cold, running, disturbed, settled or scattered (default: cold)"
    )
    parser.add_argument("--rules", help="preset: default, osdi21 or sia (default: default)")
    parser.add_argument(
        "--power",
        type=any_number,
        help="power of the mean, such as 0, -10 or -inf (default: -1; synergy: 1)",
    )
    parser.add_argument(
        "--interference-avoidance",
        action=argparse.BooleanOptionalAction,
        help="at most one distributed job a node (default: yes; synergy: no)",
    )
    parser.add_argument("--name", help="name of the instance")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="file of the instance (default: print it)" + COLUMNS_HELP,
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `export`."""
    parser.add_argument("file", help=FILE_HELP)
    parser.add_argument("--to", required=True, metavar="FILE", help="model.mps or model.lp")
    parser.add_argument(
        "--formulation",
        choices=("pattern", "aggregate", "node", "domains", "pieces"),
        help="(default: pattern, or aggregate with modes or types of GPU; domains with --tree)",
    )
    parser.add_argument("--tree", metavar="FILE", help=TREE_HELP)


def add_check(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `check`."""
    _add_checked(parser)
    parser.add_argument(
        "--tree", metavar="FILE", help=f"{TREE_HELP}: its rules, and the speeds of its levels"
    )


def _add_checked(parser: argparse.ArgumentParser, file: str = "", allocation: str = "") -> None:
    """Add the arguments of what is checked; `file` and `allocation` tell what else it may be."""
    parser.add_argument("file", help=FILE_HELP + file)
    parser.add_argument("allocation", help=f"an allocation file or a result file{allocation}")


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `verify`."""
    _add_checked(
        parser,
        "; of a day in hindsight, its problem.json",
        "; of a day, its schedule.json, or the jobs.csv of a replay of its jobs",
    )
    parser.add_argument(
        "certificate",
        help="a certificate file; of a day, its bound.json or replay-bound.json",
    )
    parser.add_argument(
        "--exact", action="store_true", help="calculate in rational numbers (smaller rounds)"
    )
    parser.add_argument(
        "--resolved",
        metavar="FILE",
        help="write the instance with all models and rules spelt out, as the stand-alone "
        "checker reads it",
    )
    parser.add_argument("--tree", metavar="FILE", help=TREE_HELP)


def add_demo(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `demo`."""
    parser.add_argument(
        "--seconds", type=number(0.0), default=15.0, help="time limit of a run (default: 15)"
    )
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument(
        "--solvers", type=names, nargs="+", metavar="NAMES", help="solvers, separated by commas"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="results/demo",
        help="folder of the results (default: results/demo)",
    )


def _add_grid(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--solvers",
        type=names,
        nargs="+",
        metavar="NAMES",
        help="solvers, separated by commas (default: those that suit the instance)",
    )
    parser.add_argument(
        "--seeds",
        type=seeds,
        nargs="+",
        default=[(0,)],
        metavar="SEEDS",
        help="seeds, as 0,1,2 or 0-9 (default: 0)",
    )


def _add_limits(parser: argparse.ArgumentParser, seconds: float | None) -> None:
    default = "none" if seconds is None else f"{seconds:g}"
    parser.add_argument(
        "--seconds",
        type=number(0.0),
        default=seconds,
        help=f"time limit; a function of your own keeps it by `stop` (default: {default})",
    )
    parser.add_argument(
        "--gap",
        type=number(0.0, strict=False),
        default=DEFAULT_GAP,
        help="relative gap at which a solver stops as optimal (default: 1e-9)",
    )


def add_room(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `room`."""
    parser.add_argument("file", help=f"{FILE_HELP}, or FILE.parquet; its present placements count")
    parser.add_argument(
        "--gang",
        required=True,
        metavar="NODES:GPUS[:TYPE]",
        help="number of nodes, GPUs on each, and their type where there are several",
    )
    parser.add_argument(
        "--by",
        choices=("moves", "stops"),
        default="moves",
        help="move jobs to other nodes, or stop some (default: moves)",
    )
    parser.add_argument(
        "--cost",
        choices=("jobs", "gpus", "service"),
        default="jobs",
        help="what a moved or stopped job costs: 1, its GPUs, or the GPU-seconds that it received "
        "(default: jobs)",
    )
    parser.add_argument(
        "--tree",
        metavar="FILE",
        help="with --level: a topology file, the tree of the cluster, or standard for islands, "
        "racks and pods of equal nodes",
    )
    parser.add_argument(
        "--level",
        metavar="NAME",
        help="with --tree: level of which one domain is to hold the gang, as rack",
    )
    parser.add_argument("--greedy", action="store_true", help="greedily, without a proof")
    parser.add_argument("--seconds", type=number(0.0), help="time limit (default: none)")
    parser.add_argument(
        "--quota",
        type=quota,
        action="append",
        default=[],
        metavar="GROUP=GPUS",
        help="with --by stops: GPUs of a group that are its own; only what it borrows beyond them "
        "can be taken back (repeatable)",
    )
    parser.add_argument(
        "--groups",
        metavar="FILE",
        help="groups of the jobs: a CSV of job, group (default: by application)",
    )
    parser.add_argument("--priorities", metavar="FILE", help="a CSV of job, priority (default: 0)")
    parser.add_argument(
        "--priority", type=any_number, help="of the gang: only jobs below it make room (default: 0)"
    )
    parser.add_argument(
        "--front",
        type=seeds,
        metavar="NODES",
        help="the fewest moves for gangs of these numbers of nodes, as 1-16, with a picture",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        help="with --front: folder of table and picture (default: results/room)",
    )


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `topology`."""
    parser.add_argument("file", help=FILE_HELP)
    parser.add_argument("tree", help=TREE_HELP)
    parser.add_argument(
        "--placement",
        choices=("exact", "best_fit", "least_free", "most_free", "balanced"),
        default="exact",
        help="exact, or as Kubernetes' schedulers place the flat optimum (default: exact)",
    )
    parser.add_argument("--seconds", type=number(0.0), help="time limit (default: none)")
    parser.add_argument("--gap", type=number(0.0), default=DEFAULT_GAP, help="default: 1e-9")
    parser.add_argument("--out", metavar="FILE", help="file of the allocation (default: none)")
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="prove by prices how far the allocation is from the optimum, within the same limits, "
        "and write them, for `goodalloc verify --tree`",
    )


def add_view(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `view`."""
    parser.add_argument(
        "path",
        help="an instance file, FILE.parquet, or the name of an instance that ships; a folder of "
        "replays that simulate wrote, or one of them; a folder that gap or library run wrote",
    )
    parser.add_argument(
        "--allocation",
        metavar="FILE",
        help="an allocation or result of the instance (default: the present placements); of a "
        "result, its bound is shown",
    )
    parser.add_argument("--tree", metavar="FILE", help=TREE_HELP)
    parser.add_argument(
        "--certificate",
        metavar="FILE",
        help="a certificate of the allocation, which is checked and whose bound is shown",
    )
    parser.add_argument(
        "--policies",
        type=names,
        nargs="+",
        default=[()],
        metavar="NAMES",
        help="replays to show side by side, separated by commas (default: all of the folder)",
    )
    parser.add_argument(
        "--out", metavar="FILE", default="page.html", help="file of the page (default: page.html)"
    )
