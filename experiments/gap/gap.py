"""Gap benchmark: instances × solvers × seeds in one table that survives interruptions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.data.documents.append_lines import append_lines, cut_unfinished
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.documents.regular_file import open_regular
from goodalloc.data.rounds.benchmark_set import find_instance
from goodalloc.experiments.gap.comparison import check_solvers, usual_solvers
from goodalloc.experiments.gap.gap_bounds import known_bound, source_digest, with_least_bounds
from goodalloc.experiments.gap.worker import Failure, Task, Worker
from goodalloc.experiments.support.folder_lock import locked
from goodalloc.experiments.support.version import library_version
from goodalloc.models.support.tolerances import DEFAULT_GAP
from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.interface.result_file import COLUMNS, result_row
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from goodalloc.solvers.interface.result import Incumbent, Result

#: Columns of the table: those of a result, the limits it ran under, and its history.
GAP_COLUMNS = (*COLUMNS, "seconds_limit", "gap_limit", "digest", "version", "history")

#: Columns that say which run a row is; a run whose row exists is not repeated.
KEY = ("instance", "digest", "version", "solver", "seed", "seconds_limit", "gap_limit")

#: A solver is killed after its time limit times this, plus `GRACE_SECONDS`.
GRACE_FACTOR = 2.0
GRACE_SECONDS = 60.0

#: Most points of a history that a row keeps.
HISTORY_POINTS = 60

Row = Mapping[str, object]


@dataclass(frozen=True)
class GapPlan:
    """Runs of the gap benchmark.

    Parameters
    ----------
    instances
        Paths of instance files, or names of shipped instances.
    solvers, seeds
        Solvers and seeds of every instance; None for the `usual_solvers` of each.
    seconds, gap
        Limits of every run.

    Raises
    ------
    ValueError
        If `instances`, `solvers` or `seeds` is empty or has duplicates, or a limit is out of range.
    """

    instances: tuple[str, ...]
    solvers: tuple[str, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    seconds: float = 60.0
    gap: float = DEFAULT_GAP

    def __post_init__(self) -> None:
        if not self.instances:
            raise ValueError("Instances: got none; expected at least one.")
        check_seeds(self.seeds)
        require_number("Seconds", self.seconds, minimum=0.0, strict=True)
        Stop(gap=self.gap)
        if self.solvers is not None:
            check_solvers(self.solvers)

    def solvers_of(self, name: str) -> tuple[str, ...]:
        """Return the solvers of an instance."""
        return usual_solvers(find_instance(name)) if self.solvers is None else self.solvers

    def tasks(self) -> list[Task]:
        """Return all runs, by instance."""
        stop = Stop(seconds=self.seconds, gap=self.gap)
        return [
            Task(instance, solver, seed, stop, known_bound(instance))
            for instance in dict.fromkeys(self.instances)
            for solver in self.solvers_of(instance)
            for seed in self.seeds
        ]


def smallest(instances: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the instances with the fewest jobs times nodes, in the order given."""

    def size(name: str) -> int:
        instance = find_instance(name)
        return instance.num_jobs * instance.cluster.num_nodes

    kept = set(sorted(instances, key=size)[:count])
    return tuple(name for name in instances if name in kept)


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse no seeds, a seed given twice, and what is not a whole number of at least 0.

    Examples
    --------
    >>> from goodalloc.experiments.gap import check_seeds
    >>> check_seeds((0, 1, 2))
    """
    if not seeds:
        raise ValueError("Seeds: got none; expected at least one.")
    for seed in seeds:
        require_count("Seed", seed, minimum=0)
        if list(seeds).count(seed) > 1:
            raise ValueError(f"Seeds: {seed} is given twice; expected each once.")


def run_gap(
    plan: GapPlan, table: Path, report: Callable[[Row], None] = lambda row: None
) -> list[dict[str, str]]:
    """Make the runs that the table lacks, and return its `comparable_rows`.

    Every row is written as soon as its run ends; a crash, an exception or a timeout is a row too.

    Raises
    ------
    ValueError
        If another process is writing `table`, or `table` is not of this benchmark.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.gap import GapPlan, run_gap
    >>> rows = run_gap(GapPlan(("tiny-cold",), ("greedy",)), Path("gap.csv"))
    >>> [row["solver"] for row in rows]
    ['greedy']
    """
    digests = {name: source_digest(name) for name in plan.instances}
    with locked(table.parent), Worker() as worker:
        repair(table)
        done = {_key(row) for row in read_rows(table)}
        for task in plan.tasks():
            row: Row = {}
            if _key(_settings(task, digests)) not in done:
                outcome = worker.run(task, GRACE_FACTOR * plan.seconds + GRACE_SECONDS)
                row = gap_row(task, outcome, digests)
                append_row(table, row)
            report(row)
    return comparable_rows(plan, table)


def runs_left(plan: GapPlan, table: Path) -> list[Task]:
    """Return the runs that the table does not hold yet."""
    digests = {name: source_digest(name) for name in plan.instances}
    done = {_key(row) for row in read_rows(table)}
    return [task for task in plan.tasks() if _key(_settings(task, digests)) not in done]


def comparable_rows(plan: GapPlan, table: Path) -> list[dict[str, str]]:
    """Return the rows of the table that are comparable with the plan's, earlier ones included.

    They ran under the plan's limits, with this version, on instances as they are now. Gaps are to
    the bound that `with_least_bounds` believes of the instance.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.experiments.gap import GapPlan, comparable_rows
    >>> comparable_rows(GapPlan(("tiny-cold",), ("greedy",)), Path("gap.csv"))  # no table yet
    []
    """
    rows = {_key(row): row for row in read_rows(table)}.values()
    digests = {row["instance"]: row["digest"] for row in rows}
    digests |= {name: source_digest(name) for name in plan.instances}
    same = {
        "version": library_version(),
        "seconds_limit": str(plan.seconds),
        "gap_limit": str(plan.gap),
    }
    return with_least_bounds(
        [
            row
            for row in rows
            if digests[row["instance"]] == row["digest"] and same.items() <= row.items()
        ]
    )


def _settings(task: Task, digests: Mapping[str, str]) -> dict[str, object]:
    return {
        "instance": task.instance,
        "digest": digests.get(task.instance, ""),
        "version": library_version(),
        "solver": task.solver,
        "seed": task.seed,
        "seconds_limit": task.stop.seconds,
        "gap_limit": task.stop.gap,
    }


def _key(row: Row) -> tuple[str, ...]:
    return tuple(str(row.get(name, "")) for name in KEY)


def gap_row(task: Task, outcome: Result | Failure, digests: Mapping[str, str]) -> dict[str, object]:
    """Return the outcome of a run as a row of the table."""
    settings = _settings(task, digests)
    if isinstance(outcome, Failure):
        return settings | {
            "status": str(outcome.status),
            "message": outcome.message,
            "solve_seconds": outcome.seconds,
        }
    row = result_row(outcome)
    row["message"] = " ".join(outcome.message.split())
    return row | settings | {"history": pack_history(outcome.history)}


def pack_history(history: Sequence[Incumbent]) -> str:
    """Return a subset of the incumbents as text ``SECONDS:FITNESS SECONDS:FITNESS …``."""
    step = max(-(-len(history) // HISTORY_POINTS), 1)
    kept = list(history[::step])
    if history and kept[-1] is not history[-1]:
        kept.append(history[-1])
    return " ".join(f"{point.seconds:.6g}:{point.fitness!r}" for point in kept)


def unpack_history(text: str) -> list[tuple[float, float]]:
    """Return the (seconds, fitness) pairs of a text of `pack_history`.

    Examples
    --------
    >>> from goodalloc.experiments.gap import unpack_history
    >>> unpack_history("0.1:0.2 0.5:0.3")  # seconds and fitness
    [(0.1, 0.2), (0.5, 0.3)]
    """
    pairs = (point.split(":") for point in text.split())
    return [(float(seconds), float(fitness)) for seconds, fitness in pairs]


def read_rows(table: Path) -> list[dict[str, str]]:
    """Read the rows of a table; none if it does not exist.

    Raises
    ------
    ValueError
        If the file is unreadable, or a line is no row of this benchmark.
    """
    if not table.exists() or (table.is_file() and not table.stat().st_size):
        return []
    found = read_table(table, GAP_COLUMNS, least=0)
    for name in ("seconds_limit", "gap_limit", "fitness", "bound", "gap", "solve_seconds"):
        for index, cell in enumerate(found.columns[name]):
            unknown = not cell and not name.endswith("limit")
            if not (unknown or _is_number(cell)):
                raise found.refusal(index, name, "a number, or the line removed")
    columns = (found.columns[name] for name in GAP_COLUMNS)
    return [dict(zip(GAP_COLUMNS, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _is_number(cell: str) -> bool:
    try:
        return not math.isnan(float(cell))
    except ValueError:
        return False


def append_row(table: Path, row: Row) -> None:
    """Append a row to a table, after a header if it is new, and flush it to the disk.

    Raises
    ------
    ValueError
        If the row cannot be written; then no part of it is kept.
    """
    header, line = csv_text([dict(row)], GAP_COLUMNS).split("\n", 1)
    append_lines(table, line, f"{header}\n")


def repair(table: Path) -> None:
    """Remove an unfinished last line, which a power cut may leave.

    Raises
    ------
    ValueError
        If the file is no table of this benchmark; it stays as it is.
    """
    if not table.exists():
        return
    header = csv_text([], GAP_COLUMNS).encode()
    with open_regular(table) as stream:
        found = stream.read(len(header))
    if found != header[: len(found)]:
        raise ValueError(
            f"File '{table}' is not a table of this version's gap benchmark; choose another."
        )
    try:
        cut_unfinished(table)
    except OSError as error:
        raise ValueError(f"File '{table}' cannot be read ({error.strerror}).") from error


def typed_rows(rows: Iterable[Mapping[str, str]]) -> list[dict[str, object]]:
    """Return rows with numbers parsed, and NaN for empty ones.

    Examples
    --------
    >>> from goodalloc.experiments.gap import typed_rows
    >>> typed_rows([{"solver": "highs", "gap": "0.5", "bound": ""}])
    [{'solver': 'highs', 'gap': 0.5, 'bound': nan}]
    """
    numbers = {"fitness", "bound", "gap", "solve_seconds"}
    return [
        {
            name: (float(value) if value else math.nan) if name in numbers else value
            for name, value in row.items()
        }
        for row in rows
    ]
