"""Tables of results, as text and as rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.json_file import pack_number
from goodalloc.experiments.reporting.statistics import shifted_geometric_mean
from goodalloc.solvers.interface.result import Evidence, Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.solvers.interface.result import Result

#: Row of a table, by column.
Row = Mapping[str, object]

#: Shifts of the geometric means, below which differences are irrelevant: of gaps, and of seconds.
GAP_SHIFT = 1e-4
SECONDS_SHIFT = 1.0

#: Column of the bound that a user's solver claims, without a certificate.
CLAIMED = "claimed bound, unverified"

#: Explanation of the columns of starved jobs, below tables that have them.
STARVED_LEGEND = (
    "starved: jobs without a GPU; more starved: beyond those of the best result; "
    "served: the other jobs"
)

#: Relative gaps below this are rounding errors.
SMALLEST_GAP = 1e-10


def text_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Return rows as aligned text, numbers to the right and rounded.

    Headings wider than their column are wrapped.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import text_table
    >>> print(text_table([{"solver": "highs", "gap": 0.0125}], ("solver", "gap")))
    solver     gap
    ------  ------
    highs   1.25 %
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
    """Return the words of a column's name in lines of at most `width`, or of the longest word."""
    words = column.replace("_", " ").split()
    return textwrap.wrap(" ".join(words), max(width, *map(len, words)), break_on_hyphens=False)


def _is_text(rows: Sequence[Row], column: str) -> bool:
    """Return whether a column has strings other than blanks."""
    return any(isinstance(value := row.get(column), str) and value not in ("", "-") for row in rows)


def shown_cell(column: str, value: object) -> str:
    """Return a value as a table shows it."""
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
    """Return a gap in per cent; below `SMALLEST_GAP` it counts as zero.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import percent
    >>> percent(0.0125), percent(1e-12)
    ('1.25 %', '0 %')
    """
    if math.isnan(value):
        return "-"
    if value < SMALLEST_GAP:
        return "0 %"
    return f"{100 * value:.3g} %"


#: Text on the evidence of a bound.
_EVIDENCE = {
    Evidence.PRICES: "proved by prices",
    Evidence.SOLVER: "without certificate",
    Evidence.GIVEN: "stored",
}


def bound_text(bound: float, source: str, evidence: Evidence) -> str:
    """Return a bound with its source and its evidence.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import bound_text
    >>> from goodalloc.solvers import Evidence
    >>> bound_text(1.5, "highs", Evidence.PRICES)
    '1.5 (highs, proved by prices)'
    """
    if evidence is Evidence.NONE:
        return "none"
    words = dict.fromkeys((source, _EVIDENCE[evidence]))
    return f"{bound:.12g} ({', '.join(words)})"


def best_of(results: Iterable[Result]) -> Result | None:
    """Return the result with the best allocation; None if there is no allocation.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.reporting import best_of
    >>> from goodalloc.solvers import solve
    >>> instance = load_benchmark("tiny-cold")
    >>> best_of([solve(instance, "greedy")]).solver
    'greedy'
    """
    served = [result for result in results if result.allocation is not None]
    return max(served, key=lambda result: result.fitness, default=None)


def cut_short(results: Sequence[Result], runs: int) -> bool:
    """Return whether an interrupt left out some of the runs of a comparison, or ended its last.

    Parameters
    ----------
    results, runs
        Results in order, and how many there would have been.
    """
    return len(results) < runs or results[-1].limit is Limit.INTERRUPTED


def comparison_rows(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return results of one instance as rows of a printed table, with fitness and starved jobs.

    ``more starved`` is the excess over the best answer among them.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.reporting import comparison_rows
    >>> from goodalloc.solvers import solve
    >>> (row,) = comparison_rows([solve(load_benchmark("tiny-cold"), "greedy")])
    >>> row["solver"], row["more starved"]
    ('greedy', 0)
    """
    best = best_of(results)
    return [_comparison_row(result, best) for result in results]


def _comparison_row(result: Result, best: Result | None) -> dict[str, object]:
    """Return the row of one result."""
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
    """Return the excess of starved jobs over the best answer; blank where it is unknown."""
    if result.starved is None or best is None or best.starved is None:
        return ""
    return result.starved - best.starved


def gap_in_words(runs: Sequence[Result], best: Result | None) -> str:
    """Return the median gap of runs, the number of failures, and the excess of starved jobs."""
    gaps = [result.gap for result in runs if not math.isnan(result.gap)]
    if not gaps:
        return "no allocation" if all(r.allocation is None for r in runs) else "no bound"
    failed = f", {len(runs) - len(gaps)} failed" if len(gaps) < len(runs) else ""
    if max(gaps) <= SMALLEST_GAP:
        given = any(result.evidence is Evidence.GIVEN for result in runs)
        return f"0 ({'by a bound given' if given else 'proven optimal'}){failed}"
    median, worst = (
        f"{100 * gap if gap > SMALLEST_GAP else 0:.2g} %" for gap in (np.median(gaps), max(gaps))
    )
    spread = "" if worst == median else f", worst {worst}"
    return f"{median}{spread}{starved_in_words(runs, best)}{failed}"


def starved_in_words(runs: Sequence[Result], best: Result | None) -> str:
    """Return the excess of starved jobs over the best answer; empty where it is zero."""
    more = [int(number) for run in runs if (number := more_starved(run, best)) != ""]
    if not any(more):
        return ""
    low, high = f"{min(more):+d}", f"{max(more):+d}"
    return f"; {low if low == high else f'{low} to {high}'} starved"


def comparison_text(rows: Sequence[Row], results: Sequence[Result], columns: Sequence[str]) -> str:
    """Return the table of results, their common bound, and their messages.

    Parameters
    ----------
    rows
        The rows of `comparison_rows`.
    results
        The results, of one instance.
    columns
        Columns of the table; a claimed bound is shown beside them if there is one.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.reporting import comparison_rows, comparison_text
    >>> from goodalloc.solvers import solve
    >>> results = [solve(load_benchmark("tiny-cold"), "greedy")]
    >>> print(comparison_text(comparison_rows(results), results, ("solver", "seed")))
    solver  seed
    ------  ----
    greedy     0
    ...
    """
    claims = any(row[CLAIMED] != "" for row in rows)
    text = text_table(rows, [*columns, *([CLAIMED] if claims else [])])
    text += f"\n{STARVED_LEGEND}" if "more starved" in columns else ""
    bounds = dict.fromkeys(
        bound_text(result.bound, result.bound_source, result.evidence) for result in results
    )
    text += "".join(f"\nbound {bound}" for bound in bounds if bound != "none")
    text += "".join(
        f"\n{result.solver} (seed {result.seed}): no iteration was done; compiling took "
        f"{result.compile_seconds:.1f} s of the time limit, so try it again or allow more"
        for result in results
        if result.limit is Limit.TIME and result.compile_seconds > 0 and not result.iterations
    )
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
    """Return a row per solver: runs, failures, proven optima, and means of gap and time.

    The means are shifted geometric ones. Beside the gaps are the mean excess of starved jobs over
    the best answers, and the geometric mean ratio of the fitness of the served jobs to theirs.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import solver_averages
    >>> runs = [{"solver": "highs", "status": "optimal", "gap": 0.0, "solve_seconds": 1.0}] * 2
    >>> (row,) = solver_averages(runs)
    >>> row["runs"], row["optimal"], row["geometric mean seconds"]
    (2, 2, 1.0)
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
    """Return the key that sorts by gap, with an unknown gap last."""
    gap = _number(row, "geometric mean gap")
    return (math.inf if math.isnan(gap) else gap, str(row["solver"]))


def _number(row: Row, column: str) -> float:
    """Return a number of a row, NaN if it is blank."""
    value = row.get(column, "")
    return math.nan if value in ("", None) else float(str(value))


def _mean(rows: Sequence[Row], column: str, shift: float) -> float:
    """Return the shifted geometric mean of the finite values of a column."""
    values = [value for row in rows if math.isfinite(value := _number(row, column))]
    return shifted_geometric_mean(values, shift) if values else math.nan


def _average(rows: Sequence[Row], column: str) -> float:
    """Return the mean of the finite values of a column."""
    values = [value for row in rows if math.isfinite(value := _number(row, column))]
    return math.fsum(values) / len(values) if values else math.nan


def _geometric(rows: Sequence[Row], column: str) -> float:
    """Return the geometric mean of the positive finite values of a column."""
    values = [value for row in rows if 0 < (value := _number(row, column)) < math.inf]
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else math.nan


def for_machines(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Return rows in terms of JSON: NaN as null, infinities as text.

    Examples
    --------
    >>> from goodalloc.experiments.reporting import for_machines
    >>> for_machines([{"used GPUs": 4, "gap": float("nan"), "bound": float("inf")}])
    [{'used_GPUs': 4, 'gap': None, 'bound': 'inf'}]
    """
    return [
        {
            key.replace(" ", "_"): pack_number(value) if isinstance(value, float) else value
            for key, value in row.items()
        }
        for row in rows
    ]
