"""Argument types of the command line, which parse text or raise `ArgumentTypeError`."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.experiments.support.workers import Workers

PICTURE_FORMATS = ("png", "pdf", "svg")

#: Seconds of a day, the longest restart, and the longest time of constant prices.
DAY = 86_400.0


def number(
    minimum: float, maximum: float = math.inf, *, strict: bool = True
) -> Callable[[str], float]:
    """Return a parser of finite numbers above `minimum`, or of at least it unless `strict`."""

    def parse(text: str) -> float:
        relation = "above" if strict else "of at least"
        complaint = f"got {literal(text)}; expected a finite number {relation} {minimum:g}"
        if maximum < math.inf:
            complaint += f" and at most {maximum:,.15g}"
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(complaint) from None
        inside = minimum < value <= maximum or (value == minimum and not strict)
        if not inside or math.isinf(value):
            raise argparse.ArgumentTypeError(complaint)
        return value

    return parse


def any_number(text: str) -> float:
    """Parse a number, infinities included."""
    complaint = f"got {literal(text)}; expected a number, inf or -inf"
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(complaint) from None
    if math.isnan(value):
        raise argparse.ArgumentTypeError(complaint)
    return value


def whole(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers from `minimum` to `maximum`."""

    def parse(text: str) -> int:
        complaint = f"got {text[:40]!r}; expected a whole number, {minimum} to {maximum}"
        if not text.isascii() or not text.isdecimal() or len(text) > 12:
            raise argparse.ArgumentTypeError(complaint)
        value = int(text)
        if not minimum <= value <= maximum:
            raise argparse.ArgumentTypeError(complaint)
        return value

    return parse


def gpus_per_node(text: str) -> int:
    """Parse the number of GPUs per node."""
    from goodalloc.models.round.cluster import MOST_GPUS

    return whole(1, MOST_GPUS)(text)


def quota(text: str) -> tuple[str, int]:
    """Parse a group and its number of GPUs, as research=64."""
    group, _, gpus = text.rpartition("=")
    if not group:
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected GROUP=GPUS, as research=64"
        )
    return group, whole(0)(gpus)


def workers(text: str) -> Workers:
    """Parse a number of processes, or a cluster of Dask or Ray."""
    from goodalloc.experiments.support.workers import parse_workers

    try:
        return parse_workers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def split(text: str) -> tuple[float, float, float]:
    """Parse three weights separated by commas."""
    complaint = f"got {literal(text)}; expected three weights, separated by commas"
    try:
        image, language, speech = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(complaint) from None
    return image, language, speech


def code_name(text: str) -> str:
    """Parse the name of a solver or policy; a file of the current folder counts as its module.

    Examples
    --------
    >>> from goodalloc.experiments.cli.types import code_name
    >>> code_name("my_solver.py:mine"), code_name("highs")
    ('my_solver:mine', 'highs')
    """
    module, mark, name = text.partition(".py:")
    return f"{module}:{name}" if mark and module.isidentifier() else text


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    parts = tuple(code_name(part.strip()) for part in text.split(","))
    if not all(parts):
        raise argparse.ArgumentTypeError(f"got {literal(text)}; expected names separated by commas")
    return parts


def seeds(text: str) -> tuple[int, ...]:
    """Parse whole numbers separated by commas, or ranges such as 0-9."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first or (dash and not last) or "-" in last:
            raise argparse.ArgumentTypeError(
                f"got {part[:40]!r}; expected whole numbers of at least 0, as 0,1,2 or 0-9"
            )
        low = whole(0)(first)
        high = whole(0)(last) if dash else low
        if high < low:
            raise argparse.ArgumentTypeError(
                f"got {part[:40]!r}; expected a range that goes upwards, as {high}-{low}"
            )
        if high - low >= 10_000:
            raise argparse.ArgumentTypeError(
                f"got {part[:40]!r}; expected a range such as 0-9 of at most 10000"
            )
        found.extend(range(low, high + 1))
    return tuple(found)


def group(text: str) -> tuple[str, int, int, str]:
    """Parse name, nodes, GPUs and optionally their type, separated by colons."""
    parts = text.split(":")
    if len(parts) not in (3, 4) or not all(parts):
        raise argparse.ArgumentTypeError(f"got {literal(text)}; expected NAME:NODES:GPUS or …:TYPE")
    return parts[0], whole(1)(parts[1]), whole(1)(parts[2]), "".join(parts[3:])


def named_folder(text: str) -> tuple[str, str]:
    """Parse ``NAME=FOLDER``."""
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise argparse.ArgumentTypeError(f"got {literal(text)}; expected NAME=FOLDER")
    return name, folder


def outages(text: str) -> tuple[tuple[int, int, int], ...]:
    """Parse outages separated by commas, such as 3600-7200:4.

    Each is its first second, its last one, and the number of nodes.
    """
    return tuple(_outage(part) for part in text.split(","))


def _outage(text: str) -> tuple[int, int, int]:
    times, colon, nodes = text.partition(":")
    start, dash, end = times.partition("-")
    if not (colon and dash and start):
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected FROM-TO:NODES, as 3600-7200:4"
        )
    return whole(0)(start), whole(1)(end), whole(1)(nodes)


def picture_format(text: str) -> str:
    """Parse the file format of figures."""
    if text not in PICTURE_FORMATS:
        raise argparse.ArgumentTypeError(
            f"got {literal(text)}; expected {', '.join(PICTURE_FORMATS)}"
        )
    return text


def add_groups(parser: argparse.ArgumentParser, *, cores: bool = True) -> None:
    """Add the arguments of groups of nodes, and of their `cores` where these count."""
    parser.add_argument(
        "--group",
        type=group,
        action="append",
        metavar="NAME:NODES:GPUS[:TYPE]",
        help="a group of nodes, in place of --nodes and --gpus-per-node; repeatable; with types of "
        "GPU (t4, a100, rtx2080ti) every job may run on any of them",
    )
    parser.set_defaults(cores=None)
    if not cores:
        return
    parser.add_argument(
        "--cores",
        type=number(0.0),
        metavar="C",
        help="cores of every node: jobs then choose how many of them each replica has",
    )


def uniform_size(arguments: argparse.Namespace) -> tuple[int, int]:
    """Return the number of nodes and of GPUs on each, where all nodes are alike.

    Raises
    ------
    ValueError
        If ``--nodes`` or ``--gpus-per-node`` is given together with ``--group``.
    """
    for name in ("nodes", "gpus_per_node"):
        if arguments.group is not None and getattr(arguments, name) is not None:
            raise ValueError(
                f"argument --{name.replace('_', '-')}: the nodes are those of --group; "
                "expected one of the two."
            )
    return arguments.nodes or 16, arguments.gpus_per_node or 4


def add_cluster(parser: argparse.ArgumentParser, *, cores: bool = True) -> None:
    """Add the arguments of the cluster over time and of its rounds."""
    parser.add_argument("--nodes", type=whole(1), help="number of nodes (default: 16)")
    parser.add_argument(
        "--gpus-per-node", type=gpus_per_node, help="GPUs of each node (default: 4)"
    )
    add_groups(parser, cores=cores)
    parser.add_argument(
        "--interval", type=whole(1), default=60, help="seconds between decisions (default: 60)"
    )
    parser.add_argument(
        "--restart-delay",
        type=number(0.0, DAY, strict=False),
        default=30.0,
        help="seconds of a restart (default: 30)",
    )
    parser.add_argument(
        "--outages",
        type=outages,
        nargs="+",
        default=[],
        metavar="FROM-TO:NODES",
        help="nodes that are missing between two seconds, as 3600-7200:4; several outages are "
        "separated by commas",
    )
