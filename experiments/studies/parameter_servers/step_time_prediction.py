"""Step times of parameter-server training as predicted, beside those measured for DL2.

Optimus (EuroSys'18) and AITurbo (HPDC'21) predict the speed of a job on any number of servers and
workers from a few measurements. Neither publishes them; DL2, of the authors of Optimus, does for
eight models (`goodalloc.data.parameter_servers.worker_speed`). Two forms are fitted: that of
Optimus, and one in which an update costs 1 / p. Errors are abs(predicted / measured - 1): with all
measurements fitted, and, with a few, of those that were not. Which few are measured is a choice: at
random, by a design, or, as the code of Optimus has it, up to ten servers and as many workers
(equal).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


#: What is fitted, by what the table calls it.
FORMS: Mapping[str, StepTimeForm] = {
    "Optimus": StepTimeForm(update_load="every_worker"),
    "update 1/p": StepTimeForm(update_load="averaged"),
}

#: The form of the picture.
DRAWN = "update 1/p"

#: Numbers of measurements, and the number that the table shows.
POINTS = range(5, 21)
FEW = 10

#: Of the random choices.
SEEDS = range(20)

#: Most servers and workers where there are as many of both.
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


def _rows(plan: Plan) -> Rows:
    """Return a row for every model, form, way of choosing and number of measurements."""
    return [
        _row(name, title, choice, points, [relative_error(form, measured, f) for f in fitted])
        | {"measurements": len(measured.seconds), "failed": measured.failed}
        for name, measured in read_ps_worker_speed(_folder(plan)).items()
        for title, form in FORMS.items()
        for choice, points, fitted in choices(form, measured)
    ]


def _row(name: str, form: str, choice: str, points: int, errors: list[Floats]) -> dict[str, Any]:
    """Return medians over the draws of the median and the 90th percentile, and the worst median."""
    medians = [100.0 * np.median(error) for error in errors]
    tails = [100.0 * np.percentile(error, 90) for error in errors]
    return {
        "model": name,
        "form": form,
        "choice": choice,
        "points": points,
        "draws": len(errors),
        "median_percent": rounded(float(np.median(medians)), 4),
        "percentile_90_percent": rounded(float(np.median(tails)), 4),
        "worst_median_percent": rounded(float(np.max(medians)), 4),
    }


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


def _shown(rows: Rows) -> Rows:
    """Return a row for every model and form: median and 90th percentile by fitted measurements."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["model"], row["form"]
        line = lines.setdefault(
            key, {"model": key[0], "form": key[1], "measurements": row["measurements"]}
        )
        few = row["choice"] in ("random", "design")
        if not few or row["points"] == FEW:
            column = f"{row['choice']}_{FEW}" if few else row["choice"]
            line[f"{column}_%"] = rounded(row["median_percent"], 3)
            line[f"{column}_90th_%"] = rounded(row["percentile_90_percent"], 3)
    columns = max(lines.values(), key=len)
    return [{column: line.get(column, "") for column in columns} for line in lines.values()]


def _plot(plan: Plan, rows: Rows) -> Figure:
    """Draw the error over the number of measurements, and predicted over measured step times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 5.0), layout="constrained")
    few, every = figure.subplots(1, 2)
    tables = read_ps_worker_speed(_folder(plan))
    for index, (name, measured) in enumerate(tables.items()):
        look = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        drawn = [
            (row["points"], row["median_percent"])
            for row in rows
            if (row["model"], row["form"], row["choice"]) == (name, DRAWN, "random")
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
