"""Argument parser of the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from goodalloc.experiments.cli.library import add_library
from goodalloc.experiments.cli.replay_arguments import (
    add_hindsight,
    add_out,
    add_reproduce,
    add_simulate,
)
from goodalloc.experiments.cli.round_arguments import (
    add_check,
    add_compare,
    add_demo,
    add_export,
    add_gap,
    add_generate,
    add_room,
    add_solve,
    add_topology,
    add_verify,
    add_view,
)
from goodalloc.experiments.cli.trace import add_trace
from goodalloc.experiments.cli.training_arguments import (
    add_fit,
    add_launch,
    add_measure,
    add_schedule,
)
from goodalloc.experiments.cli.types import named_folder
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    from collections.abc import Callable

#: Function of each command, imported only when it is called, so that the start stays fast.
COMMANDS = {
    "solve": "goodalloc.experiments.cli.rounds.solve:solve_command",
    "check": "goodalloc.experiments.cli.rounds.solve:check_command",
    "verify": "goodalloc.experiments.cli.rounds.verify:verify_command",
    "export": "goodalloc.experiments.cli.rounds.export:export_command",
    "view": "goodalloc.experiments.cli.rounds.export:view_command",
    "room": "goodalloc.experiments.cli.rounds.room:room_command",
    "topology": "goodalloc.experiments.cli.rounds.topology:topology_command",
    "library": "goodalloc.experiments.cli.library:library_command",
    "generate": "goodalloc.experiments.cli.rounds.generate:generate_command",
    "trace": "goodalloc.experiments.cli.trace:trace_command",
    "compare": "goodalloc.experiments.cli.rounds.compare:compare_command",
    "gap": "goodalloc.experiments.cli.rounds.compare:gap_command",
    "simulate": "goodalloc.experiments.cli.simulate:simulate_command",
    "reproduce": "goodalloc.experiments.cli.replay:reproduce_command",
    "hindsight": "goodalloc.experiments.cli.replay:hindsight_command",
    "report": "goodalloc.experiments.cli.report:report_command",
    "measure": "goodalloc.experiments.cli.measure:measure_command",
    "fit": "goodalloc.experiments.cli.fit:fit_command",
    "schedule": "goodalloc.experiments.cli.live:schedule_command",
    "launch": "goodalloc.experiments.cli.live:launch_command",
    "demo": "goodalloc.experiments.cli.rounds.compare:demo_command",
}


class Parser(argparse.ArgumentParser):
    """Parser that raises `ValueError` with one sentence instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` as a `ValueError` instead of exiting."""
        sentence = " ".join(message.split())
        raise ValueError(sentence if sentence.endswith((".", "?")) else f"{sentence}.")

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """Parse arguments, and refuse those that are unknown, with the closest options."""
        found, unknown = super().parse_known_args(*given, **named)
        if unknown:
            options = list(self._option_string_actions)
            asked = [word for word in unknown if word.startswith("-")]
            closest = did_you_mean(asked[0].partition("=")[0], options) if asked else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{closest}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, and suggest the closest choices."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            closest = did_you_mean(value, choices)
            complaint = f"got {literal(value)}{closest}; expected one of {', '.join(choices)}"
            raise argparse.ArgumentError(action, complaint)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `goodalloc` and all its commands."""
    parser = Parser(
        prog="goodalloc",
        usage="goodalloc [-h] [--version] COMMAND …",
        description="Decide which training job gets which GPUs, with a proof of how good it is.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the list of commands stays
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(
        dest="command", metavar="command", help=argparse.SUPPRESS, prog="goodalloc"
    )
    lines = []
    for group, builders in GROUPED.items():
        lines.append(f"{group}:")
        for name, (text, build) in builders.items():
            lines.append(f"  {name:<10} {text}")
            command = commands.add_parser(
                name,
                description=text,
                allow_abbrev=False,
                formatter_class=argparse.RawDescriptionHelpFormatter,  # their tables stay
            )
            build(command)
            if name != "library":  # whose actions have it themselves
                command.add_argument("--json", action="store_true", help="print JSON")
            command.set_defaults(run=COMMANDS[name])
    parser.epilog = "\n".join(
        [*lines, "", "goodalloc COMMAND --help lists the options of a command."]
    )
    return parser


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "documents",
        nargs="*",
        metavar="DOCUMENT",
        help="Markdown files (default: all of the repository)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--check",
        action="store_true",
        help="change nothing; exit code 1 if a document differs from the stored results",
    )
    what.add_argument(
        "--stale",
        action="store_true",
        help="list stored results whose code has changed since, and studies without one, with the "
        "command and the minutes that renew each; and what all of them took",
    )
    what.add_argument(
        "--renew",
        action="store_true",
        help="run these commands: confirm by quick rows where there are some, else make anew",
    )
    what.add_argument(
        "--figures",
        metavar="FOLDER",
        help="draw the figures of stored results into a folder, one PNG a study",
    )
    parser.add_argument(
        "--artifact",
        type=named_folder,
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="with --renew: folder of published data, by its name in data/ARTIFACTS.md "
        "(pollux, sia, gavel, openb, traces, aiturbo, dl2, arena, llm, chronus); repeatable",
    )
    add_out(parser, "results/renew", "with --renew: folder to work in, from which it resumes")


#: Commands by purpose, each with a line of help and the function that adds its arguments.
GROUPED: dict[str, dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "decide a round": {
        "solve": ("decide one instance", add_solve),
        "compare": ("decide one instance with several solvers", add_compare),
        "gap": ("run the gap benchmark; resumes", add_gap),
        "library": ("the library of rounds: list, run a solver, verify, rank", add_library),
        "room": ("make room for a gang by moving or stopping jobs", add_room),
        "topology": ("decide one instance on a tree of racks and pods", add_topology),
        "demo": ("a short demonstration", add_demo),
    },
    "make and check": {
        "generate": ("draw an instance", add_generate),
        "trace": ("read a published trace of a cluster", add_trace),
        "export": ("write an instance as a mathematical program", add_export),
        "view": ("write a page to look at: a round, replays, or the gap benchmark", add_view),
        "check": ("check an allocation of an instance and print its fitness", add_check),
        "verify": ("check a certificate of a bound on the fitness, or on a day", add_verify),
    },
    "replay and reproduce": {
        "simulate": ("replay a workload under several policies; resumes", add_simulate),
        "reproduce": ("repeat published tables and figures; resumes", add_reproduce),
        "hindsight": ("bound every schedule of a workload, and find one", add_hindsight),
        "report": ("write the numbers of documents from stored results", _add_report),
    },
    "measure and train": {
        "measure": ("measure the steps of a real training on this machine; resumes", add_measure),
        "fit": ("fit a throughput model to measurements", add_fit),
        "schedule": ("schedule the jobs of a cluster's folder", add_schedule),
        "launch": ("train a job on the slots that the scheduler allocates", add_launch),
    },
}
