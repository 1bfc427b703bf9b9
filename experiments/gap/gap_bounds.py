"""Gaps in the table of the gap benchmark, to the least accepted bound that no row refutes.

The rows come from a file, and anybody may have written to it. So a bound counts by the name of its
solver, which must be one that ships, and not by what the row says of it; where no such bound stands
it is the best known one of an instance that ships, or the knapsack's, worked out anew.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import shown
from goodalloc.data.files.instance import instance_text
from goodalloc.data.rounds.benchmark_set import best_known, find_instance, load_benchmark
from goodalloc.solvers.interface.base import ships
from goodalloc.solvers.interface.bounds import (
    NO_BOUND,
    Bound,
    attributed,
    knapsack,
    least_bound,
    refutation,
)
from goodalloc.solvers.interface.result import Evidence, refutes, relative_gap
from goodalloc.solvers.interface.stop import proves

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, str]

_VOUCHED = (str(Evidence.PRICES), str(Evidence.SOLVER))


def digest(text: str) -> str:
    """Return a digest of the text of an instance."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def source_digest(source: str) -> str:
    """Return the `digest` of an instance file or shipped instance; empty if it is unreadable."""
    try:
        return digest(instance_text(find_instance(source)))
    except ValueError:
        return ""


def known_bound(source: str) -> float | None:
    """Return the best known bound of a shipped instance, or None."""
    known = best_known(source)
    return None if known is None else known.bound


@cache
def _shipped_digest(name: str) -> str:
    return digest(instance_text(load_benchmark(name)))


def with_least_bounds(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the accepted bound of their instance, and the gaps to it.

    Beside the gap, ``more_starved`` and ``served_over_best`` say how many jobs more starve than in
    the best row, and what the served are worth over the served there
    (`models/round/starved_jobs.py`).

    Raises
    ------
    ValueError
        If a fitness or a bound is no number.
    """
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(row.get("digest") or row["instance"], []).append(index)
    found = list(rows)
    for group in groups.values():
        judged = _judged([rows[index] for index in group])
        for index, row in zip(group, judged, strict=True):
            found[index] = row
    return found


def bounds_text(rows: Sequence[Row]) -> str:
    """Return the sources and evidence of the accepted bounds, with their numbers of instances.

    In a line; empty if there are none.
    """
    whose = {row.get("digest") or row["instance"]: _whose(row) for row in rows if row["gap"]}
    counts = Counter(whose.values())
    return "; ".join(f"{name} on {count}" for name, count in counts.items())


def _whose(row: Row) -> str:
    return f"{row['bound_source']} ({row['evidence']})"


def _judged(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of one instance with its accepted bound."""
    bounds = [_bound(row) for row in rows]
    stated = [*bounds, _known(rows[0])]
    greatest = _greatest(rows)
    common = least_bound(stated, greatest)
    doubtful = any(b.evidence is not Evidence.NONE and refutes(greatest, b.value) for b in stated)
    if doubtful or (common.evidence is Evidence.NONE and not math.isnan(greatest)):
        limit = _knapsack(rows[0])
        rows = [_possible(row, limit) for row in rows]
        greatest = _greatest(rows)
        common = least_bound([*stated, limit], greatest)
    best = next((row for row in rows if _number(row, "fitness") == greatest), None)
    return [_by(row, own, common, best) for row, own in zip(rows, bounds, strict=True)]


def _known(row: Row) -> Bound:
    """Return the best known bound of the instance of a row, if it ships."""
    value = known_bound(row["instance"])
    if value is None or row.get("digest") != _shipped_digest(row["instance"]):
        return NO_BOUND
    return Bound(value, "best known value", Evidence.GIVEN)


def _greatest(rows: Sequence[Row]) -> float:
    """Return the greatest fitness; NaN without any."""
    values = [_number(row, "fitness") for row in rows]
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _bound(row: Row) -> Bound:
    """Return the bound of a row if its solver ships."""
    value = _number(row, "bound")
    evidence = row.get("evidence", "")
    if math.isnan(value) or evidence not in _VOUCHED or not ships(row["solver"]):
        return NO_BOUND
    bound = Bound(value, row.get("bound_source", ""), Evidence(evidence))
    return attributed(bound, row["solver"])


def _knapsack(row: Row) -> Bound:
    """Return the knapsack's bound on the instance of a row, if the instance is unchanged."""
    try:
        instance = find_instance(row["instance"])
    except ValueError:
        return NO_BOUND
    same = digest(instance_text(instance)) == row.get("digest")
    return knapsack(instance) if same else NO_BOUND


def _possible(row: Row, limit: Bound) -> Row:
    """Return the row, without its fitness if that exceeds every feasible allocation's."""
    fitness = _number(row, "fitness")
    if limit.evidence is Evidence.NONE or not refutes(fitness, limit.value):
        return row
    note = f"fitness {fitness:.12g} refused: no allocation is worth more than {limit.value:.12g}"
    return row | {"fitness": "", "gap": "", "status": "failed", "message": note}


def _by(row: Row, own: Bound, common: Bound, best: Row | None) -> Row:
    """Return a row judged by the common bound and the best row."""
    fitness, claimed = _number(row, "fitness"), _number(row, "claimed_bound")
    notes = [row.get("message", "")]
    if best is not None:
        greatest = _number(best, "fitness")
        whose = f"the allocation of {best['solver']} (seed {best.get('seed', '')})"
        if own.evidence is not Evidence.NONE:
            notes.append(refutation("bound", own.value, greatest, whose))
        if not math.isnan(claimed) and not refutes(fitness, claimed):  # else the message says it
            notes.append(refutation("claimed bound", claimed, greatest, whose))
    believed = common.evidence is not Evidence.NONE
    row = row | {
        "bound": repr(common.value) if believed else "",
        "bound_source": common.source,
        "evidence": str(common.evidence),
        "message": "; ".join(filter(None, notes)),
    }
    if math.isnan(fitness) or best is None:
        return row
    row |= _beside(row, best)
    proven = proves(common.value, fitness, float(row["gap_limit"]))
    gap = repr(relative_gap(fitness, common.value)) if believed else ""
    return row | {"gap": gap, "status": "optimal" if proven else "feasible"}


def _beside(row: Row, best: Row) -> Row:
    """Return the excess of starved jobs over the best row, and the ratio of served fitness."""
    more = _number(row, "starved") - _number(best, "starved")
    ratio = _number(row, "served_fitness") / (_number(best, "served_fitness") or math.nan)
    return {
        "more_starved": "" if math.isnan(more) else f"{more:g}",
        "served_over_best": "" if math.isnan(ratio) else repr(ratio),
    }


def _number(row: Row, column: str) -> float:
    """Return a number of a row; NaN if it is empty."""
    text = row.get(column) or "nan"
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"Row of {row['solver']} on {row['instance']}: {column} is {shown(text)}; expected a "
            "number."
        ) from None
