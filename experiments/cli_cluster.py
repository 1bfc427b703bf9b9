"""The arguments that say which nodes there are, of the commands that draw rounds and replay."""

import argparse

from goodalloc.experiments.cli_types import group, number


def add_groups(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which groups of nodes there are, and their cores."""
    parser.add_argument(
        "--group", type=group, action="append", metavar="NAME:NODES:GPUS[:TYPE]",
        help="a group of nodes, in place of the two; may be given again; with types of GPU (t4, "
        "a100, rtx2080ti) every job may run on any of them",
    )  # fmt: skip
    parser.add_argument(
        "--cores", type=number(0.0), metavar="C",
        help="cores of every node: jobs then choose how many of them each replica has",
    )  # fmt: skip


def uniform_size(arguments: argparse.Namespace) -> tuple[int, int]:
    """Nodes and GPUs of each where nodes are all alike.

    Raises
    ------
    ValueError
        If they are given beside groups.
    """
    for name in ("nodes", "gpus_per_node"):
        if arguments.group is not None and getattr(arguments, name) is not None:
            raise ValueError(
                f"argument --{name.replace('_', '-')}: the nodes are those of --group; "
                "expected one of the two."
            )
    return arguments.nodes or 16, arguments.gpus_per_node or 4
