r"""Profiles: measured passes and steps of a real training as a CSV file (see `FORMAT.md`).

A row is a configuration: *N* nodes, *K* replicas, *m* examples per replica and pass, *s* passes
that are accumulated. Measured are a *pass* (forward and backward, without synchronisation), an
*update* by the optimiser and a whole *step*. Pollux (OSDI'21, section 3.2) has

.. math::

    T = s T_{grad} + (T_{grad}^\gamma + T_{sync}^\gamma)^{1/\gamma}, \qquad
    T_{grad} = \alpha_{grad} + \beta_{grad} m,  (1)

and no term for the update. Pollux's agent takes for :math:`T_{grad}` the mean over all passes of
their time without synchronisation, in which the last one has the update (AdaptDL,
``torch/_metrics.py``, ``_fit_perf_params``):

.. math:: T_{grad} = t_{pass} + t_{update} / (s + 1).  (2)

So does this. One replica, which does not synchronise, then takes :math:`s + 1` times (2) a step, as
measured; the pass that synchronises is fitted to what :math:`s` times (2) leave of a step. What (1)
cannot have is that (2) is less with more accumulation: a fit to several *s* lies in between.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import in_file, read_text, shown
from goodalloc.models.fitting.step_parts import StepObservations
from goodalloc.models.support.validation import require_choice

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from goodalloc.models.fitting.problem import Observations
    from goodalloc.models.support.array_types import Floats


#: Columns that identify a configuration.
CONFIGURATION = ("nodes", "replicas", "atomic_batch_size", "accumulation_steps")

#: Columns that must be equal in all rows of a file.
IDENTITY = (
    "model",
    "source",
    "precision",
    "compiled",
    "memory_format",
    "backend",
    "device",
    "cores",
    "memory_limit_gib",
    "torch",
    "python",
    "goodalloc",
)

#: Seconds of the parts of a step by the profiler, their errors, and the most memory; may be empty.
PARTS = (
    "loading_s",
    "forward_s",
    "backward_s",
    "synchronisation_s",
    "overlap_s",
    "optimiser_s",
    "idle_s",
)
PART_ERRORS = ("synchronisation_error", "overlap_error")
PEAK = "peak_memory_mib"

#: Columns that files of earlier versions lack, and what was true of all of these, or unknown.
SINCE = {
    "precision": "fp32",
    "compiled": "no",
    "memory_format": "contiguous",
}
NOT_SEEN = {"visits": "1"} | dict.fromkeys(
    ("loading_s", "overlap_s", "idle_s", *PART_ERRORS, PEAK, "driver", "date", "command"), ""
)

#: Seconds, relative standard errors, and how they came about; empty where memory was lacking.
MEASURED = (
    "pass_s",
    "update_s",
    "step_s",
    "pass_error",
    "step_error",
    "visits",
    "repetitions",
    "measuring_s",
    "quiet",
)

#: The parts, the state of the machine, and the command that measured it; may be empty.
STATE = ("governor", "clock_mhz", "load", "driver", "date", "command")
OPTIONAL = (*PARTS, *PART_ERRORS, PEAK, *STATE)

#: Columns of numbers of times that something was done.
COUNTS = ("visits", "repetitions")

COLUMNS = (*CONFIGURATION, "outcome", *MEASURED, *OPTIONAL, "weights", *IDENTITY)

#: Outcomes of a configuration.
FITS, NO_MEMORY = "measured", "out of memory"

Row = dict[str, str]


@dataclass(frozen=True)
class MeasuredProfile:
    """Measurements of a training; arrays of shape (configurations,), in the file's order.

    Parameters
    ----------
    nodes, replicas, atomic_batch_size, accumulation_steps
        N, K, m (examples) and s.
    pass_time, update_time, step_time
        Mean seconds of a pass without synchronisation, of an update and of a step.
    pass_error, step_error
        Relative standard errors of passes and steps.
    synchronisation_time, overlap_time
        Mean seconds of averaging gradients, and of computing at the same time; NaN if unknown.
    synchronisation_error, overlap_error
        Standard errors of both, over `synchronisation_time`; NaN if unknown.
    facts
        The columns that are equal in all rows: model, machine, versions.
    out_of_memory
        Least m (examples) that memory did not hold; None where none was tried.
    left_out
        Configurations that were measured but disturbed all the time.
    """

    nodes: Floats
    replicas: Floats
    atomic_batch_size: Floats
    accumulation_steps: Floats
    pass_time: Floats
    update_time: Floats
    step_time: Floats
    pass_error: Floats
    step_error: Floats
    synchronisation_time: Floats
    overlap_time: Floats
    synchronisation_error: Floats
    overlap_error: Floats
    facts: Mapping[str, str]
    out_of_memory: int | None
    left_out: int

    @property
    def gradient_time(self) -> Floats:
        """Seconds of a pass with its share of the update: T_grad by (2)."""
        return self.steps().gradient_time(update_apart=False)

    @property
    def configurations(self) -> Floats:
        """N, K and m of (1) of each configuration, shape (configurations, 3)."""
        return np.stack([self.nodes, self.replicas, self.atomic_batch_size], axis=1)

    @property
    def has_parts(self) -> bool:
        """Whether the parts of some step that synchronises are known."""
        return bool(np.isfinite(self.steps().hidden).any())

    def steps(self) -> StepObservations:
        """Return the argument of `fit_step_parts`."""
        averages = (self.replicas > 1) & (self.synchronisation_time > 0.0)
        waiting = np.where(averages, self.synchronisation_time, np.nan)
        return StepObservations(
            nodes=self.nodes,
            replicas=self.replicas,
            atomic_batch_size=self.atomic_batch_size,
            accumulation_steps=self.accumulation_steps,
            pass_time=self.pass_time,
            update_time=self.update_time,
            step_time=self.step_time,
            pass_error=self.pass_error,
            step_error=self.step_error,
            synchronisation_time=waiting,
            hidden=self.overlap_time / waiting,
            synchronisation_error=self.synchronisation_error,
            hidden_error=self.overlap_error,
        )

    def observations(self) -> Observations:
        """Return the argument of `fit_throughput` for one job, without accumulated passes."""
        return self.steps().observations(update_apart=False)


def rows_as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as the text of their file, numbers to seven digits.

    Examples
    --------
    >>> from goodalloc.data.files import rows_as_text
    >>> rows_as_text([]).startswith("nodes,replicas,atomic_batch_size")
    True
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        cells = [row.get(column, "") for column in COLUMNS]
        writer.writerow([f"{cell:.7g}" if isinstance(cell, float) else cell for cell in cells])
    return stream.getvalue()


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read the rows of a file as text, checked.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.
    """
    text = read_text(path, "CSV")
    try:
        return _checked(list(csv.reader(io.StringIO(text))))
    except (ValueError, csv.Error) as error:
        raise ValueError(in_file(path, ValueError(str(error)))) from error


def _checked(table: list[list[str]]) -> list[Row]:
    earlier = SINCE | NOT_SEEN
    for name in (*COLUMNS, *table[0]):
        if name not in COLUMNS:
            raise ValueError(f"column {shown(name)} is unknown.")
        if (count := table[0].count(name)) != 1 and (count or name not in earlier):
            fault = "there twice" if count else "missing"
            raise ValueError(f"column '{name}' is {fault}; expected it once.")
    rows: list[Row] = []
    seen: set[tuple[str, ...]] = set()
    for number, cells in enumerate(table[1:], start=2):
        item = f"row {number}"
        if len(cells) != len(table[0]):
            raise ValueError(f"{item} has {len(cells)} cells; expected {len(table[0])}.")
        row: Row = earlier | dict(zip(table[0], cells, strict=True))
        _check_row(item, row)
        key = tuple(row[name] for name in CONFIGURATION)
        if key in seen:
            raise ValueError(f"{item}: its configuration is given twice; expected it once.")
        seen.add(key)
        for name in IDENTITY:
            if row[name] != (rows[0] if rows else row)[name]:
                raise ValueError(
                    f"{item}: {name} is {shown(row[name])}; expected {shown(rows[0][name])} as "
                    "before."
                )
        rows.append(row)
    return rows


def _check_row(item: str, row: Row) -> None:
    for name in CONFIGURATION:
        least = 0 if name == "accumulation_steps" else 1
        text = row[name]
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
            raise ValueError(
                f"{item}: {name} is {shown(text)}; expected a whole number from {least}."
            )
    if int(row["nodes"]) > int(row["replicas"]):
        raise ValueError(
            f"{item}: nodes is {row['nodes']}; expected at most its replicas, {row['replicas']}."
        )
    require_choice(f"{item}: outcome", row["outcome"], (FITS, NO_MEMORY))
    if row["outcome"] == FITS:
        for name in MEASURED:
            _number(item, name, row[name], positive=name.endswith("_s") or name in COUNTS)
    for name in (*PARTS, *PART_ERRORS, PEAK, "clock_mhz"):
        if row[name]:
            _number(item, name, row[name], positive=False)
    if row["overlap_s"] and float(row["overlap_s"]) > float(row["synchronisation_s"] or 0.0):
        raise ValueError(
            f"{item}: overlap_s is {row['overlap_s']}; expected at most synchronisation_s, "
            f"{shown(row['synchronisation_s'])}."
        )
    if not row["model"]:
        raise ValueError(f"{item}: model is ''; expected a name.")


def _number(item: str, name: str, text: str, *, positive: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or value < 0 or (positive and value == 0):
        least = "above 0" if positive else "of at least 0"
        raise ValueError(f"{item}: {name} is {shown(text)}; expected a finite number {least}.")
    return value


def read_measured_profile(path: str | os.PathLike[str]) -> MeasuredProfile:
    """Read the measured configurations of a file, without disturbed ones unless all are.

    Raises
    ------
    ValueError
        As `read_rows`, or if no row was measured.
    """
    rows = read_rows(path)
    fits = [row for row in rows if row["outcome"] == FITS]
    if not fits:
        raise ValueError(f"File '{path}': no configuration was measured; expected at least one.")

    kept = [row for row in fits if float(row["quiet"]) > 0] or fits

    def column(name: str) -> Floats:
        return np.array([float(row[name] or "nan") for row in kept])

    lacking = [int(row["atomic_batch_size"]) for row in rows if row["outcome"] == NO_MEMORY]
    facts = {name: fits[0][name] for name in IDENTITY}
    return MeasuredProfile(
        nodes=column("nodes"),
        replicas=column("replicas"),
        atomic_batch_size=column("atomic_batch_size"),
        accumulation_steps=column("accumulation_steps"),
        pass_time=column("pass_s"),
        update_time=column("update_s"),
        step_time=column("step_s"),
        pass_error=column("pass_error"),
        step_error=column("step_error"),
        synchronisation_time=column("synchronisation_s"),
        overlap_time=column("overlap_s"),
        synchronisation_error=column("synchronisation_error"),
        overlap_error=column("overlap_error"),
        facts=facts,
        out_of_memory=min(lacking, default=None),
        left_out=len(fits) - len(kept),
    )
