"""Step times of parameter-server training, predicted and measured.

Optimus and AITurbo predict the speed of a job on any number of servers and workers from a few
measurements. Neither publishes them; DL2, of the authors of Optimus, does for eight models
(`goodalloc.data.parameter_servers.worker_speed`). Two forms are fitted: that of Optimus, and one in
which an update costs 1 / p. Errors are abs(predicted / measured - 1), of all measurements where all
are fitted, else of the held-out ones. Fitted measurements are chosen at random, by a design, or, as
in the code of Optimus, up to ten servers with as many workers (equal).

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
    EuroSys 2018. doi:10.1145/3190508.3190517
Peng et al., "DL2: A Deep Learning-Driven Scheduler for Deep Learning Clusters", IEEE TPDS 2021.
    doi:10.1109/TPDS.2021.3052895
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.parameter_servers.worker_speed import read_ps_worker_speed, some_of
from goodalloc.experiments.reporting.axes import identity, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.parameter_servers.step_time import seconds_per_step
from goodalloc.models.parameter_servers.step_time_fitting import (
    default_terms,
    design_points,
    fit_step_time,
)
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.data.parameter_servers.worker_speed import MeasuredSteps
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.support.array_types import Floats, Indices


#: Fitted forms by their names in the table.
FORMS: Mapping[str, StepTimeForm] = {
    "Optimus": StepTimeForm(update_load="every_worker"),
    "update 1/p": StepTimeForm(update_load="averaged"),
}

#: Form that the figure shows.
DRAWN = "update 1/p"

#: Numbers of fitted measurements, and the one that the table shows.
POINTS = range(5, 21)
FEW = 10

#: Seeds of the random choices.
SEEDS = range(20)

#: Most servers and workers of the equal choice.
MOST_EQUAL = 10


def relative_error(form: StepTimeForm, measured: MeasuredSteps, fitted: Indices) -> Floats:
    """Return the errors of held-out measurements, or of all if none is held out.

    Parameters
    ----------
    form
        Form of the fitted model.
    measured
        All measurements of a model.
    fitted
        Indices of those that are fitted.
    """
    some = some_of(measured, fitted)
    fit = fit_step_time(form, some.configuration, some.batch_size, some.seconds)
    if len(some.seconds) == len(measured.seconds):
        return np.abs(fit.relative_errors)
    rest = some_of(measured, np.setdiff1d(np.arange(len(measured.seconds)), fitted))
    predicted = seconds_per_step(fit.parameters, rest.configuration, rest.batch_size)
    return np.asarray(np.abs(predicted / rest.seconds - 1.0))


def choices(
    form: StepTimeForm, measured: MeasuredSteps
) -> Iterator[tuple[str, int, Iterable[Indices]]]:
    """Return the ways to choose fitted measurements: name, number, and choices."""
    everything = np.arange(len(measured.seconds))
    needed = len(default_terms(form))
    yield "all", len(everything), [everything]
    servers, workers = measured.configuration.servers, measured.configuration.workers
    equal = np.flatnonzero((servers == workers) & (servers <= MOST_EQUAL))
    if len(equal) >= needed:
        yield "equal", len(equal), [equal]
    for points in POINTS:
        if needed <= points < len(everything):
            generators = [np.random.default_rng(seed) for seed in SEEDS]
            yield (
                "random",
                points,
                [g.choice(everything, points, replace=False) for g in generators],
            )
            design = design_points(form, measured.configuration, measured.batch_size, points)
            yield "design", points, [design]


class StepTimeRow(NamedTuple):
    """Errors of the step times of a model by one form and choice of fitted measurements.

    Attributes
    ----------
    points, draws
        Number of fitted measurements, and of random choices.
    median_percent, percentile_90_percent
        Medians over the draws of the median and of the 90th percentile of the errors.
    worst_median_percent
        Greatest median of a draw.
    measurements, failed
        Number of all measurements, and of those that failed.
    """

    model: str
    form: str
    choice: str
    points: int
    draws: int
    median_percent: float
    percentile_90_percent: float
    worst_median_percent: float
    measurements: int
    failed: int


def _rows(plan: Plan) -> list[StepTimeRow]:
    """Return a row for every model, form, way of choosing and number of measurements."""
    rows = []
    for name, measured in read_ps_worker_speed(_folder(plan)).items():
        for title, form in FORMS.items():
            for choice, points, fitted in choices(form, measured):
                errors = [relative_error(form, measured, some) for some in fitted]
                medians = [100.0 * np.median(error) for error in errors]
                tails = [100.0 * np.percentile(error, 90) for error in errors]
                rows.append(
                    StepTimeRow(
                        name,
                        title,
                        choice,
                        points,
                        draws=len(errors),
                        median_percent=rounded(float(np.median(medians)), 4),
                        percentile_90_percent=rounded(float(np.median(tails)), 4),
                        worst_median_percent=rounded(float(np.max(medians)), 4),
                        measurements=len(measured.seconds),
                        failed=measured.failed,
                    )
                )
    return rows


def _folder(plan: Plan) -> Path:
    """Return the folder of the table.

    Raises
    ------
    ValueError
        If ``plan.artifact`` is None.
    """
    if plan.artifact is None:
        raise ValueError(
            "step-times compares with measurements; "
            "expected the folder of DL2's table speed.csv (--artifact)."
        )
    return plan.artifact


def _shown(rows: list[StepTimeRow]) -> Rows:
    """Return a row for every model and form: median and 90th percentile by fitted measurements."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(
            (row.model, row.form),
            {"model": row.model, "form": row.form, "measurements": row.measurements},
        )
        few = row.choice in {"random", "design"}
        if not few or row.points == FEW:
            column = f"{row.choice}_{FEW}" if few else row.choice
            line[f"{column}_%"] = rounded(row.median_percent, 3)
            line[f"{column}_90th_%"] = rounded(row.percentile_90_percent, 3)
    columns = max(lines.values(), key=len)
    return [{column: line.get(column, "") for column in columns} for line in lines.values()]


def _plot(plan: Plan, rows: list[StepTimeRow]) -> Figure:
    """Draw the error over the number of measurements, and predicted over measured step times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.0), layout="constrained")
    few, every = figure.subplots(1, 2)
    tables = read_ps_worker_speed(_folder(plan))
    for index, (name, measured) in enumerate(tables.items()):
        look = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        drawn = [
            (row.points, row.median_percent)
            for row in rows
            if (row.model, row.form, row.choice) == (name, DRAWN, "random")
        ]
        few.plot(*zip(*drawn, strict=True), label=name, markersize=4, linewidth=1.2, **look)
        fit = fit_step_time(
            FORMS[DRAWN], measured.configuration, measured.batch_size, measured.seconds
        )
        predicted = measured.seconds * (1.0 + fit.relative_errors)
        every.plot(measured.seconds, predicted, linestyle="none", markersize=3, alpha=0.6, **look)
    few.set_xlabel("measured configurations, drawn at random")
    few.set_ylabel("median error of the others (%), median of 20 draws")
    few.set_xticks(POINTS[1::2])
    few.set_ylim(bottom=0.0)
    open_axes(few)
    identity(every)
    every.set_xlabel("measured step (s)")
    every.set_ylabel("step as fitted to all measurements (s)")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


STEP_TIMES = Reproduction(
    "step-times: seconds of a step with parameter servers (EuroSys'18, HPDC'21; data of DL2)",
    lambda _: (),
    _rows,
    _plot,
    _folder,
    _shown,
    ignores=("workloads", "pollux", "seeds", "gaps", "quick"),
    lists="dl2-ps-worker-speed",
)
