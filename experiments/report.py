"""Tables of results, as text and as rows."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from goodalloc.data.json_file import pack_number
from goodalloc.experiments.statistics import shifted_geometric_mean
from goodalloc.models.instance import Instance
from goodalloc.models.objective import utilities
from goodalloc.solvers.result import Result

Row = Mapping[str, object]

#: Shifts of the geometric means: differences far below these do not matter to anyone.
GAP_SHIFT = 1e-4
SECONDS_SHIFT = 1.0

#: Solvers stop at relative gaps about this small, which is rounding and no more.
SMALLEST_GAP = 1e-10


def text_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as aligned text: numbers to the right, with the digits that matter.

    Headings longer than what stands below them go over several lines.
    """
    body = [[shown_cell(column, row.get(column, "")) for column in columns] for row in rows]
    numeric = [
        any(isinstance(row.get(c), (int, float)) for row in rows) and not _is_text(rows, c)
        for c in columns
    ]
    headings = [
        _heading(column, max((len(line[i]) for line in body), default=0))
        for i, column in enumerate(columns)
    ]
    height = max(map(len, headings))
    padded = [[""] * (height - len(heading)) + heading for heading in headings]
    cells = [list(line) for line in zip(*padded, strict=True)] + body
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    lines = []
    for line in cells:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )  # fmt: skip
        lines.append("  ".join(aligned).rstrip())
    lines.insert(height, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _heading(column: str, width: int) -> list[str]:
    """The words of a column's name in lines no longer than a width or the longest word."""
    words = column.replace("_", " ").split()
    return textwrap.wrap(" ".join(words), max(width, *map(len, words)), break_on_hyphens=False)


def _is_text(rows: Sequence[Row], column: str) -> bool:
    return any(isinstance(value := row.get(column), str) and value not in ("", "-") for row in rows)


def shown_cell(column: str, value: object) -> str:
    """A value as a table shows it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        if "gap" in column:
            return percent(value)
        if "seconds" in column:
            return f"{value:.3f}"
        return f"{value:.9g}"
    return str(value)


def percent(value: float) -> str:
    """A gap in per cent; below `SMALLEST_GAP` it counts as none."""
    if math.isnan(value):
        return "-"
    if value < SMALLEST_GAP:
        return "0 %"
    return f"{100 * value:.3g} %"


def result_summary(instance: Instance, result: Result) -> dict[str, object]:
    """A result as one row for people: what it is worth, and how many jobs it serves."""
    row: dict[str, object] = {
        "solver": result.solver,
        "seed": result.seed,
        "status": str(result.status),
        "fitness": result.fitness,
        "bound": result.bound,
        "gap": result.gap,
        "seconds": result.solve_seconds,
        "compile seconds": result.compile_seconds,
        "served jobs": "",
        "used GPUs": "",
        "mean utility served": math.nan,
    }
    if result.allocation is not None:
        served = result.allocation.job_replicas > 0
        row["served jobs"] = int(served.sum())
        row["used GPUs"] = int(result.allocation.replicas.sum())
        if served.any():
            worth = utilities(instance, result.allocation)
            row["mean utility served"] = float(worth[served].mean())
    return row


#: Columns of `result_summary` in the order of printed tables.
SUMMARY_COLUMNS = (
    "solver", "seed", "status", "fitness", "bound", "gap", "seconds", "compile seconds",
    "served jobs", "used GPUs",
)  # fmt: skip


def solver_averages(rows: Iterable[Row]) -> list[dict[str, object]]:
    """One row a solver: runs, failures, proven optima, shifted geometric means of gap and time."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row["solver"]), []).append(row)
    averages = []
    for solver, runs in groups.items():
        done = [run for run in runs if math.isfinite(_number(run, "gap"))]
        averages.append({
            "solver": solver,
            "runs": len(runs),
            "failed": len(runs) - len(done),
            "optimal": sum(run["status"] == "optimal" for run in done),
            "geometric mean gap": _mean(done, "gap", GAP_SHIFT),
            "largest gap": max((_number(run, "gap") for run in done), default=math.nan),
            "geometric mean seconds": _mean(done, "solve_seconds", SECONDS_SHIFT),
        })  # fmt: skip
    return sorted(averages, key=_by_gap)


def _by_gap(row: Row) -> tuple[float, str]:
    gap = _number(row, "geometric mean gap")
    return (math.inf if math.isnan(gap) else gap, str(row["solver"]))


def _number(row: Row, column: str) -> float:
    value = row.get(column, "")
    return math.nan if value in ("", None) else float(str(value))


def _mean(rows: Sequence[Row], column: str, shift: float) -> float:
    values = [value for row in rows if math.isfinite(value := _number(row, column))]
    return shifted_geometric_mean(values, shift) if values else math.nan


def for_machines(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows as JSON has them: NaN as null, infinities as text."""
    return [
        {
            key.replace(" ", "_"): pack_number(value) if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in rows
    ]
