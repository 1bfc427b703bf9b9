"""The grammar of the command line, and the few types its arguments have."""

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from goodalloc.experiments.workers import Workers

#: Where each command lives; loaded only when it is called, so that starting up stays fast.
COMMANDS = {
    "solve": "goodalloc.experiments.cli_solve:solve_command",
    "check": "goodalloc.experiments.cli_solve:check_command",
    "export": "goodalloc.experiments.cli_solve:export_command",
    "generate": "goodalloc.experiments.cli_solve:generate_command",
    "compare": "goodalloc.experiments.cli_experiments:compare_command",
    "gap": "goodalloc.experiments.cli_experiments:gap_command",
    "simulate": "goodalloc.experiments.cli_replay:simulate_command",
    "reproduce": "goodalloc.experiments.cli_replay:reproduce_command",
    "demo": "goodalloc.experiments.cli_experiments:demo_command",
}

FILE_HELP = "an instance file, or the name of an instance that ships"


class Parser(argparse.ArgumentParser):
    """A parser that raises `ValueError` with one sentence instead of leaving the program."""

    def error(self, message: str) -> NoReturn:
        """Raise the complaint."""
        sentence = " ".join(message.split())
        raise ValueError(sentence if sentence.endswith((".", "?")) else f"{sentence}.")


def build_parser() -> argparse.ArgumentParser:
    """The parser of `goodalloc` and all its commands."""
    parser = Parser(
        prog="goodalloc",
        description="Decide which training job gets which GPUs, with a proof of how good it is.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="command")
    builders: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
        "solve": ("decide one instance", _add_solve),
        "compare": ("decide one instance with several solvers", _add_compare),
        "gap": ("run the gap benchmark; resumes where it was stopped", _add_gap),
        "generate": ("draw an instance", _add_generate),
        "export": ("write an instance as a mathematical program", _add_export),
        "check": ("check an allocation of an instance and say what it is worth", _add_check),
        "simulate": ("replay a workload under several policies; resumes", _add_simulate),
        "reproduce": ("repeat a table or figure of Pollux's evaluation; resumes", _add_reproduce),
        "demo": ("a short demonstration", _add_demo),
    }
    for name, (text, build) in builders.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        build(command)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=COMMANDS[name])
    return parser


def _add_solve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=FILE_HELP)
    parser.add_argument(
        "--leximin", action="store_true",
        help="at power -inf: also the second-least utility, then the third, …",
    )  # fmt: skip
    parser.add_argument(
        "--solver", default="highs", help="name, or package.module:function (default: highs)"
    )
    _add_limits(parser, seconds=None)
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--start", metavar="FILE", help="an allocation or result to start from")
    parser.add_argument("--out", metavar="FILE", help="write the result to this file")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=FILE_HELP)
    _add_grid(parser, "highs,local_search,greedy")
    _add_limits(parser, seconds=60.0)
    parser.add_argument("--out", metavar="FOLDER", help="write table, results and picture there")


def _add_gap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--instances", type=names, nargs="+", metavar="NAMES",
        help="files or names of shipped instances (default: all that ship)",
    )  # fmt: skip
    _add_grid(parser, "highs,local_search,greedy,genetic")
    _add_limits(parser, seconds=60.0)
    parser.add_argument(
        "--out", metavar="FOLDER", default="results/gap",
        help="averages and pictures cover every run in it by this version under these limits, "
        "those of earlier commands too (default: results/gap)",
    )  # fmt: skip


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--jobs", type=whole(1), help="number of jobs")
    parser.add_argument("--load", type=number(0.0), help="GPUs asked for over GPUs (default: 1)")
    parser.add_argument("--nodes", type=whole(1), default=16, help="(default: 16)")
    parser.add_argument("--gpus-per-node", type=whole(1), default=4, help="(default: 4)")
    parser.add_argument(
        "--group", type=group, action="append", metavar="NAME:NODES:GPUS",
        help="a group of nodes, in place of the two; may be given again",
    )  # fmt: skip
    parser.add_argument("--state", default="cold", help="cold, running, disturbed or settled")
    parser.add_argument("--rules", default="default", help="preset: default or osdi21")
    parser.add_argument(
        "--power", type=any_number, help="power of the mean, such as 0, -10 or -inf (default: -1)"
    )
    parser.add_argument(
        "--interference-avoidance", action=argparse.BooleanOptionalAction,
        help="at most one distributed job a node (default: yes)",
    )  # fmt: skip
    parser.add_argument("--name", help="name of the instance")
    parser.add_argument("--out", metavar="FILE", help="where to write it (default: print it)")


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=FILE_HELP)
    parser.add_argument("--to", required=True, metavar="FILE", help="model.mps or model.lp")
    parser.add_argument(
        "--formulation", choices=("pattern", "node"), default="pattern", help="(default: pattern)"
    )


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=FILE_HELP)
    parser.add_argument("allocation", help="an allocation file or a result file")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=number(0.0), default=15.0, help="for each run")
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--solvers", type=names, nargs="+", metavar="NAMES", help="which to run")
    parser.add_argument("--out", metavar="FOLDER", default="results/demo", help="(results/demo)")


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    default = "pollux,optimus,tiresias"
    parser.add_argument(
        "workload", nargs="?",
        help="a CSV of name, time, application, num_replicas, batch_size (default: draw one)",
    )  # fmt: skip
    parser.add_argument(
        "--policies", type=names, nargs="+", default=[names(default)], metavar="NAMES",
        help=f"separated by commas (default: {default}; also pollux-genetic, pollux-greedy, "
        "pollux-goodput, pollux-remaining, pollux-untied, tiresias-gittins, fifo, srtf, equal, "
        "autoscaling-goodput, autoscaling-throughput, or package.module:name)",
    )  # fmt: skip
    parser.add_argument(
        "--load", type=number(0.0), help="of a drawn workload: jobs / 160 (default: 1)"
    )
    parser.add_argument(
        "--requests", help="of a drawn workload: tuned or realistic (default: tuned)"
    )
    parser.add_argument(
        "--philly", metavar="FILE",
        help="draw from a list of jobs of Microsoft's Philly cluster (default: shipped statistics)",
    )  # fmt: skip
    parser.add_argument(
        "--traces", metavar="FOLDER",
        help="measurements of the Pollux artifact as the truth (default: the shipped profiles)",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole(0), default=0, help="seed (default: 0)")
    parser.add_argument("--nodes", type=whole(1), default=16, help="(default: 16)")
    parser.add_argument("--gpus-per-node", type=whole(1), default=4, help="(default: 4)")
    parser.add_argument("--interval", type=whole(1), default=60, help="seconds (default: 60)")
    parser.add_argument(
        "--restart-delay", type=number(0.0, strict=False), default=30.0, help="s (default: 30)"
    )
    parser.add_argument(
        "--interference", type=number(0.0, strict=False), default=0.0,
        help="goodput lost by distributed jobs that share a node (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--interference-avoidance", action=argparse.BooleanOptionalAction, default=True,
        help="Pollux: at most one distributed job a node (default: yes)",
    )  # fmt: skip
    parser.add_argument(
        "--outages", type=outage, nargs="+", default=[], metavar="FROM-TO:NODES",
        help="nodes that are missing from one second to another, as 3600-7200:4",
    )  # fmt: skip
    parser.add_argument(
        "--knowledge", default="explored",
        help="what jobs know when they start: explored (nothing), history (what finished jobs of "
        "their application measured) or profiled (default: explored)",
    )  # fmt: skip
    parser.add_argument(
        "--power", type=any_number, default=-1.0, help="Pollux's power of the mean (default: -1)"
    )
    parser.add_argument("--seconds", type=number(0.0), help="time limit of a decision")
    parser.add_argument(
        "--gaps", action=argparse.BooleanOptionalAction, default=True,
        help="prove how far every decision is from the best by Pollux's objective (default: yes)",
    )  # fmt: skip
    _add_workers(parser)
    parser.add_argument("--parquet", action="store_true", help="write the records as Parquet too")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="results/simulate",
        help="table and picture show the policies of this command (default: results/simulate)",
    )


def _add_reproduce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        help="table2, table3, fig1, fig2, fig3, fig5, fig6, fig7, fig8a, fig8b, fig8c, fig9, or "
        "all of these; exactness, disturbances, scale, objectives, knowledge",
    )
    parser.add_argument(
        "--policies", type=names, nargs="+", default=[names("pollux")], metavar="NAMES",
        help="what stands for Pollux (default: pollux, that is exact; also pollux-genetic)",
    )  # fmt: skip
    parser.add_argument(
        "--workloads", type=seeds, nargs="+", default=[(6,)], metavar="NUMBERS",
        help="numbers of the published workloads, or seeds of drawn ones and of searches, as 1-8 "
        "(default: 6)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=seeds, nargs="+", default=[(0,)], metavar="SEEDS",
        help="of the genetic algorithm, as 0-4 (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--artifact", metavar="FOLDER",
        help="folder simulator of the Pollux artifact (default: shipped profiles, drawn workloads)",
    )  # fmt: skip
    parser.add_argument(
        "--gaps", action=argparse.BooleanOptionalAction, default=False,
        help="also prove how far every decision is from the best (default: no)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="half the jobs; searches of 30 trials")
    _add_workers(parser)
    parser.add_argument(
        "--out", metavar="FOLDER", default="results/reproduce", help="(default: results/reproduce)"
    )


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", type=workers, default="1",
        help="replays at a time (default: 1), or the cluster that runs them: "
        "dask:tcp://host:8786, dask:SCHEDULERFILE, ray:auto, ray:host:6379, ray:ray://host:10001",
    )  # fmt: skip


def _add_grid(parser: argparse.ArgumentParser, solvers: str) -> None:
    parser.add_argument(
        "--solvers", type=names, nargs="+", default=[names(solvers)], metavar="NAMES",
        help=f"separated by commas (default: {solvers})",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=seeds, nargs="+", default=[(0,)], metavar="SEEDS",
        help="as 0,1,2 or 0-9 (default: 0)",
    )  # fmt: skip


def _add_limits(parser: argparse.ArgumentParser, seconds: float | None) -> None:
    default = "none" if seconds is None else f"{seconds:g}"
    parser.add_argument(
        "--seconds", type=number(0.0), default=seconds, help=f"time limit (default: {default})"
    )
    parser.add_argument(
        "--gap", type=number(0.0, strict=False), default=1e-9,
        help="relative gap that counts as optimal, as 1e-12 always does (default: 1e-9)",
    )  # fmt: skip


def number(minimum: float, *, strict: bool = True) -> Callable[[str], float]:
    """A type of argument: a finite number above (or at) a minimum."""

    def parse(text: str) -> float:
        relation = "above" if strict else "of at least"
        complaint = f"got {text!r}; expected a finite number {relation} {minimum:g}"
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(complaint) from None
        if not math.isfinite(value) or value < minimum or (strict and value == minimum):
            raise argparse.ArgumentTypeError(complaint)
        return value

    return parse


def any_number(text: str) -> float:
    """A type of argument: a number, infinities included."""
    complaint = f"got {text!r}; expected a number, inf or -inf"
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(complaint) from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(complaint)
    return value


def whole(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    """A type of argument: a whole number between a minimum and a maximum."""

    def parse(text: str) -> int:
        complaint = f"got {text[:40]!r}; expected a whole number, {minimum} to {maximum}"
        if not text.isascii() or not text.isdecimal() or len(text) > 12:
            raise argparse.ArgumentTypeError(complaint)
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(complaint)
        return value

    return parse


def workers(text: str) -> "Workers":
    """A type of argument: a number of processes, or a cluster of Dask or Ray."""
    from goodalloc.experiments.workers import parse_workers

    try:
        return parse_workers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def names(text: str) -> tuple[str, ...]:
    """A type of argument: names separated by commas."""
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected names separated by commas")
    return parts


def seeds(text: str) -> tuple[int, ...]:
    """A type of argument: whole numbers separated by commas, or a range as 0-9."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = whole(0)(first)
        high = whole(0)(last) if dash else low
        if high < low or high - low >= 10_000:
            raise argparse.ArgumentTypeError(
                f"got {part!r}; expected a range such as 0-9 of at most 10000"
            )
        found.extend(range(low, high + 1))
    return tuple(found)


def outage(text: str) -> tuple[int, int, int]:
    """A type of argument: first and last second and the number of nodes, as 3600-7200:4."""
    times, colon, nodes = text.partition(":")
    start, dash, end = times.partition("-")
    if not colon or not dash:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected FROM-TO:NODES")
    return whole(0)(start), whole(1)(end), whole(1)(nodes)


def group(text: str) -> tuple[str, int, int]:
    """A type of argument: name, nodes and GPUs of a group, separated by colons."""
    parts = text.split(":")
    if len(parts) != 3 or not parts[0]:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected NAME:NODES:GPUS")
    return parts[0], whole(1)(parts[1]), whole(1)(parts[2])
