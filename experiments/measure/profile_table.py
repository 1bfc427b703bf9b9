"""Profile as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.files.measured_profile import FITS, NO_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Columns of the printed table.
SHOWN = (
    "nodes",
    "replicas",
    "atomic_batch_size",
    "accumulation_steps",
    "outcome",
    "pass_s",
    "update_s",
    "step_s",
    "step_error",
    "repetitions",
    "quiet",
)


def shown_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a profile with numbers parsed from their texts, to four digits.

    Parameters
    ----------
    row
        The row.
    """
    found: dict[str, Any] = dict(row)
    for name in SHOWN:
        value = found.get(name, "")
        if name == "outcome" or value == "":
            continue
        number = float(value)
        found[name] = (
            float(f"{number:.4g}") if name.endswith(("_s", "error", "quiet")) else int(number)
        )
    return found


def summary(rows: Sequence[Mapping[str, Any]], path: Path) -> str:
    """Return a line on the rows of a profile.

    Parameters
    ----------
    rows
        The rows, each as `shown_row` returns it.
    path
        File of the profile.
    """
    measured = [row for row in rows if row["outcome"] == FITS]
    lacking = [row["atomic_batch_size"] for row in rows if row["outcome"] == NO_MEMORY]
    text = f"written to {path}: {len(measured)} configurations"
    if lacking:
        text += f"; memory does not hold {min(lacking)} examples per replica and pass"
    return text
