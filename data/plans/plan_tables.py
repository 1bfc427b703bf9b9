"""Measured plans of large models, as published by Arena (EuroSys'26): two CSV tables.

``estimated_plans.csv`` has every plan that Arena's profiler could estimate with its parts, and
``measured.csv`` the measured time of the best plan of more trainings and types of GPU, without
saying which plan that is. What has no finite time could not run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.plans.execution_plan import ExecutionPlan, Shape, Training
from goodalloc.models.plans.plan_model import MeasuredPlan, PlanParts
from goodalloc.models.plans.plan_times import PlanTimes, TimedPlan

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.data.documents.csv_table import Table

#: Folder of the tables, in a folder of several, and its files.
FOLDER, MEASURED, ESTIMATED = "arena", "measured.csv", "estimated_plans.csv"

WHERE = ("model", "parameters", "global_batch", "gpu_type", "nodes", "gpus_per_node")
DEGREES = ("pp", "dp", "tp")
PARTS = ("computation_s", "intra_stage_communication_s", "inter_stage_communication_s")

_SIZE = re.compile(r"[0-9]+(\.[0-9]+)?[MB]")


def read_measured_times(folder: Path) -> PlanTimes:
    """Read the measured time of the best plan of each training and shape; the plans are unknown.

    Parameters
    ----------
    folder
        Folder that holds ``measured.csv``.

    Raises
    ------
    ValueError
        If the file cannot be read, or a cell is not what its column holds.
    """
    table = read_table(folder / MEASURED, (*WHERE, "iteration_s"))
    kept = table.only(_possible(table, ("iteration_s",)))
    seconds = kept.numbers("iteration_s", 0.0, strict=True).tolist()
    found = zip(_trainings(kept), _shapes(kept), seconds, strict=True)
    return PlanTimes.of(TimedPlan(training, shape, None, time) for training, shape, time in found)


def read_estimated_plans(folder: Path) -> list[MeasuredPlan]:
    """Read the plans with their parts.

    Parameters
    ----------
    folder
        Folder that holds ``estimated_plans.csv``.

    Raises
    ------
    ValueError
        If the file cannot be read, a cell is not what its column holds, or a plan does not take the
        GPUs of its row.
    """
    table = read_table(folder / ESTIMATED, (*WHERE, *DEGREES, *PARTS))
    kept = table.only(_possible(table, PARTS))
    degrees = zip(*(kept.counts(name) for name in DEGREES), strict=True)
    parts = zip(*(kept.numbers(name, 0.0).tolist() for name in PARTS), strict=True)
    found = []
    for row, (training, shape, plan, times) in enumerate(
        zip(_trainings(kept), _shapes(kept), degrees, parts, strict=True)
    ):
        one = MeasuredPlan(training, shape, ExecutionPlan(*plan), PlanParts(*times))
        if one.plan.gpus != shape.gpus:
            raise kept.refusal(row, "pp", f"degrees that multiply to {shape.gpus} GPUs")
        found.append(one)
    return found


def times_of(plans: list[MeasuredPlan]) -> PlanTimes:
    """Return the fastest of measured plans for every training and shape."""
    return PlanTimes.of(
        TimedPlan(one.training, one.shape, one.plan, one.parts.total) for one in plans
    )


def _possible(table: Table, columns: tuple[str, ...]) -> list[int]:
    """Return the rows whose times are finite and not negative: the others could not run."""
    times = np.array(
        [[_number(cell) for cell in table.columns[name]] for name in columns], dtype=float
    )
    return np.flatnonzero((np.isfinite(times) & (times >= 0)).all(axis=0)).tolist()


def _number(cell: str) -> float:
    """Return a cell as a number; those that are none stay for the table to refuse."""
    if cell in ("", "inf", "nan"):
        return float("inf")
    try:
        return float(cell)
    except ValueError:
        return 0.0


def _trainings(table: Table) -> list[Training]:
    for row, cell in enumerate(table.columns["parameters"]):
        if not _SIZE.fullmatch(cell):
            raise table.refusal(row, "parameters", "a size such as 760M or 1.3B")
    names = zip(table.columns["model"], table.columns["parameters"], strict=True)
    batches = table.counts("global_batch")
    return [Training(*name, batch) for name, batch in zip(names, batches, strict=True)]


def _shapes(table: Table) -> list[Shape]:
    types = table.columns["gpu_type"]
    nodes, gpus = table.counts("nodes"), table.counts("gpus_per_node")
    return [Shape(*shape) for shape in zip(types, nodes, gpus, strict=True)]
