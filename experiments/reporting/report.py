"""Tables of results, as text and as rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import pack_number
from goodalloc.experiments.reporting.statistics import shifted_geometric_mean
from goodalloc.solvers.interface.result import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.solvers.interface.result import Result

Row = Mapping[str, object]

#: Shifts of the geometric means: differences far below these do not matter to anyone.
GAP_SHIFT = 1e-4
SECONDS_SHIFT = 1.0

#: What a solver that does not ship says; it certifies nothing.
CLAIMED = "claimed bound, unverified"

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
        )
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


#: What is said of a bound beside its source.
_EVIDENCE = {
    Evidence.PRICES: "proved by prices",
    Evidence.SOLVER: "without certificate",
    Evidence.GIVEN: "given",
}


def bound_text(bound: float, source: str, evidence: Evidence) -> str:
    """A bound with whose it is and how it is known to hold."""
    if evidence is Evidence.NONE:
        return "none"
    words = dict.fromkeys((source, _EVIDENCE[evidence]))
    return f"{bound:.12g} ({', '.join(words)})"


def best_of(results: Iterable[Result]) -> Result | None:
    """The result with the best allocation; None if there is no allocation."""
    served = [result for result in results if result.allocation is not None]
    return max(served, key=lambda result: result.fitness, default=None)


def comparison_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """Results of one instance as rows for people: what they are worth, and how many jobs starve.

    ``more starved`` counts from the best answer among them.
    """
    best = best_of(results)
    return [_comparison_row(result, best) for result in results]


def _comparison_row(result: Result, best: Result | None) -> dict[str, object]:
    used = "" if result.allocation is None else int(result.allocation.replicas.sum())
    return {
        "solver": result.solver,
        "seed": result.seed,
        "status": str(result.status),
        "starved": "" if result.starved is None else result.starved,
        "more starved": more_starved(result, best),
        "served fitness": result.served_fitness,
        "fitness": result.fitness,
        "bound": result.bound,
        "gap": result.gap,
        "bound source": result.bound_source,
        "evidence": str(result.evidence),
        CLAIMED: "" if result.claimed_bound == math.inf else result.claimed_bound,
        "seconds": result.solve_seconds,
        "compile seconds": result.compile_seconds,
        "used GPUs": used,
    }


def more_starved(result: Result, best: Result | None) -> int | str:
    """How many jobs more starve than in the best answer; blank where that is not known."""
    if result.starved is None or best is None or best.starved is None:
        return ""
    return result.starved - best.starved


def comparison_text(rows: Sequence[Row], results: Sequence[Result], columns: Sequence[str]) -> str:
    """The table of some results, the bound that judges them, and what is to be said of them.

    Parameters
    ----------
    rows
        As `comparison_rows` makes them.
    results
        Of one instance, by their common bound.
    columns
        Of the table; a claimed bound is shown beside them if there is one.
    """
    claims = any(row[CLAIMED] != "" for row in rows)
    text = text_table(rows, [*columns, *([CLAIMED] if claims else [])])
    bounds = dict.fromkeys(
        bound_text(result.bound, result.bound_source, result.evidence) for result in results
    )
    text += "".join(f"\nbound {bound}" for bound in bounds if bound != "none")
    return text + "".join(
        f"\n{result.solver} (seed {result.seed}): {result.message}"
        for result in results
        if result.message and (result.allocation is None or "bound" in result.message)
    )


#: Columns of `comparison_rows` in the order of printed tables.
SUMMARY_COLUMNS = (
    "solver",
    "seed",
    "status",
    "starved",
    "more starved",
    "served fitness",
    "fitness",
    "gap",
    "seconds",
    "compile seconds",
    "used GPUs",
)


def solver_averages(rows: Iterable[Row]) -> list[dict[str, object]]:
    """One row a solver: runs, failures, proven optima, shifted geometric means of gap and time.

    Beside the gaps, by how many more jobs starve than in the best answers, on average, and what the
    served are worth over those of the best answers (geometric mean).
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(row["solver"]), []).append(row)
    averages = []
    for solver, runs in groups.items():
        done = [run for run in runs if math.isfinite(_number(run, "gap"))]
        averages.append(
            {
                "solver": solver,
                "runs": len(runs),
                "failed": len(runs) - len(done),
                "optimal": sum(run["status"] == "optimal" for run in done),
                "mean more starved": _average(done, "more_starved"),
                "served over best": _geometric(done, "served_over_best"),
                "geometric mean gap": _mean(done, "gap", GAP_SHIFT),
                "largest gap": max((_number(run, "gap") for run in done), default=math.nan),
                "geometric mean seconds": _mean(done, "solve_seconds", SECONDS_SHIFT),
            }
        )
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


def _average(rows: Sequence[Row], column: str) -> float:
    values = [value for row in rows if math.isfinite(value := _number(row, column))]
    return math.fsum(values) / len(values) if values else math.nan


def _geometric(rows: Sequence[Row], column: str) -> float:
    values = [value for row in rows if 0 < (value := _number(row, column)) < math.inf]
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def for_machines(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows as JSON has them: NaN as null, infinities as text."""
    return [
        {
            key.replace(" ", "_"): pack_number(value) if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in rows
    ]
