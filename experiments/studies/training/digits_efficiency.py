r"""Figure 2 of Pollux on real training: efficiency predicted and measured; and AdaScale's claim.

A network learns digits to a validation target at several batch sizes M, from the same weights and
with the learning rate tuned for M0, scaled by a rule. Measured efficiency is the examples that the
run at M0 needed over those that the run at M needed,

.. math:: E(M) = n_0 M_0 / (n M),                                                         (1)

with n steps. A scheduler predicts it before any step at M is made, from the gradient statistics of
the run at M0: at its t-th evaluation by (7) of `models/goodput/statistical_efficiency.py`, E_t(M),
so that the examples at M for the same progress are those at M0 over E_t(M), and over the whole
training

.. math:: \hat E(M) = \Bigl(\frac{1}{T} \sum_{t=1}^T \frac{1}{E_t(M)}\Bigr)^{-1}.         (2)

AdaScale (ICML'20) claims that training at M is as far after as many scale-invariant steps, the sum
of its gains, as training at M0 after steps. (1) and (2) agree if that is so and the statistics do
not depend on M. Errors are taken seed by seed, as are the confidence intervals (95 %, Student's t).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.estimates import estimate, shown_estimate
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_run import DigitsRun
from goodalloc.experiments.studies.training.digits_training import DigitsJob, require_training
from goodalloc.experiments.support.records import digest
from goodalloc.models.goodput.statistical_efficiency import efficiency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.training.digits_training import Moment


class Case(NamedTuple):
    """A network, its optimiser with the rate for M0, and how the rate follows the batch size."""

    network: str
    optimiser: str
    rate: float
    rule: str


RATES = (0.05, 0.1, 0.2, 0.4)
CASES = (
    *(Case("perceptron", "sgd", rate, "adascale") for rate in RATES),
    *(Case("perceptron", "sgd", rate, "linear") for rate in RATES),
    *(Case("perceptron", "sgd", rate, "square-root") for rate in RATES),
    Case("convolutional", "sgd", 0.05, "adascale"),
    Case("perceptron", "adam", 0.001, "square-root"),
    Case("perceptron", "adam", 0.004, "square-root"),
)
#: Those of quick runs; the first one's training is drawn.
DRAWN = Case("perceptron", "sgd", 0.1, "adascale")
QUICK = (DRAWN, Case("perceptron", "sgd", 0.4, "adascale"))

#: M over M0, and M0.
SCALES, INITIAL = (1, 2, 4, 8), 16

#: Evaluations are as often as this many examples; a run that is not done by then has failed.
EVALUATE, EPOCHS = 64, 60

SEEDS, QUICK_SEEDS = 10, 3

#: Labels of the axis of losses.
LOSSES = (0.2, 0.5, 1.0, 2.0)


def _cases(plan: Plan) -> tuple[Case, ...]:
    return QUICK if plan.quick else CASES


def _run(plan: Plan, case: Case, scale: int, seed: int) -> DigitsRun:
    """One training; rules make no difference at M0."""
    rule = "adascale" if scale == 1 else case.rule
    job = DigitsJob(
        network=case.network,
        optimiser=case.optimiser,
        rate=case.rate,
        batch_rule="fixed",
        learning_rate=rule,
        initial=INITIAL,
        maximum=INITIAL * SCALES[-1],
        total=INITIAL * scale,
        epochs=EPOCHS,
        evaluate=EVALUATE,
        seed=seed,
    )
    task = DigitsRun(plan.folder, job)
    return replace(task, folder=plan.folder / "digits" / digest(task.description()))


def _tasks(plan: Plan) -> list[DigitsRun]:
    found = {}
    for seed in range(QUICK_SEEDS if plan.quick else SEEDS):
        for case in _cases(plan):
            for scale in SCALES:
                task = _run(plan, case, scale, seed)
                found[task.folder] = task
    return list(found.values())


def _histories(plan: Plan, case: Case, scale: int) -> list[list[Moment]]:
    """Of all seeds."""
    seeds = range(QUICK_SEEDS if plan.quick else SEEDS)
    return [_run(plan, case, scale, seed).history() for seed in seeds]


def predicted(initial: Sequence[Moment], batch_size: float) -> float:
    """Efficiency (2) of a batch size, by the run at M0.

    Parameters
    ----------
    initial
        Its evaluations.
    batch_size
        M.
    """
    inverse = [1.0 / float(efficiency(one.gradient, INITIAL, batch_size)) for one in initial]
    return len(inverse) / sum(inverse)


def _rows(plan: Plan) -> Rows:
    """A row for every case and batch size."""
    target = DigitsJob().target
    rows: Rows = []
    for case in _cases(plan):
        initial = _histories(plan, case, 1)
        for scale in SCALES:
            runs = _histories(plan, case, scale)
            reached = sum(run[-1].validation_loss <= target for run in runs)
            row: dict[str, Any] = {
                **case._asdict(),
                "batch_size": INITIAL * scale,
                "runs": len(runs),
                "reached": reached,
            }
            rows.append(row | _estimates(initial, runs, INITIAL * scale, reached == len(runs)))
    return rows


def _estimates(
    initial: list[list[Moment]], runs: list[list[Moment]], batch_size: int, reached: bool
) -> dict[str, Any]:
    """Means over the seeds with the half-widths of their intervals; blank where one never came."""
    pairs = [(before[-1], run[-1]) for before, run in zip(initial, runs, strict=True)]
    guesses = [predicted(before, batch_size) for before in initial]
    gained = [before.examples / run.examples for before, run in pairs]
    columns: dict[str, list[Any]] = {
        "steps": [run.steps for _, run in pairs],
        "examples": [run.examples for _, run in pairs],
        "measured": gained,
        "predicted": guesses,
        "error": [guess / found - 1.0 for guess, found in zip(guesses, gained, strict=True)],
        "scale_invariant_steps": [
            run.scale_invariant_steps / before.scale_invariant_steps for before, run in pairs
        ],
    }
    found: dict[str, Any] = {}
    for name, values in columns.items():
        known = reached or name == "predicted"
        mean = estimate([float(value) for value in values]) if known else {}
        found[name] = mean.get("mean", "")
        found[f"{name}_half_width"] = mean.get("half_width", "")
    return found


def _shown(rows: Rows) -> Rows:
    """The table as people read it: batch sizes other than M0."""
    return [
        {
            "network": row["network"],
            "rule": f"{row['optimiser']}, {row['rule']}",
            "rate": row["rate"],
            "M": row["batch_size"],
            "reached": f"{row['reached']} of {row['runs']}",
            "measured": _interval(row, "measured"),
            "predicted": _interval(row, "predicted"),
            "error %": _interval(row, "error", 100.0),
            "scale-invariant steps": _interval(row, "scale_invariant_steps"),
        }
        for row in rows
        if row["batch_size"] != INITIAL
    ]


def _interval(row: Mapping[str, Any], name: str, unit: float = 1.0) -> str:
    mean, half = row[name], row[f"{name}_half_width"]
    if mean == "":
        return ""
    return shown_estimate(unit * mean, unit * half, ".1f" if unit > 1.0 else ".3f")


def _plot(plan: Plan, rows: Rows) -> Figure:
    """Losses by steps and by scale-invariant steps; efficiencies by batch size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 4.4), layout="constrained")
    by_steps, by_progress, by_size = figure.subplots(1, 3, width_ratios=(1.0, 1.0, 1.2))
    _plot_losses(plan, by_steps, "steps")
    _plot_losses(plan, by_progress, "scale_invariant_steps")
    by_progress.sharey(by_steps)
    by_steps.set_ylabel(f"validation loss (rate {DRAWN.rate:g}, {DRAWN.rule})")
    by_steps.legend(title="batch size", frameon=False, fontsize="small")
    _plot_efficiencies(rows, by_size)
    return figure


def _plot_losses(plan: Plan, ax: Axes, column: str) -> None:
    """Mean over the seeds of the validation loss, as long as all are under way."""
    for index, scale in enumerate(SCALES):
        runs = _histories(plan, DRAWN, scale)
        least = min(getattr(run[-1], column) for run in runs)
        grid: NDArray[np.float64] = np.linspace(0.0, least, 60)[1:]
        losses = [
            np.interp(
                grid, [getattr(one, column) for one in run], [one.validation_loss for one in run]
            )
            for run in runs
        ]
        ax.plot(
            grid,
            np.mean(losses, axis=0),
            color=COLOURS[index],
            linewidth=1.6,
            linestyle=("-", "--", "-.", ":")[index],
            label=str(INITIAL * scale),
        )
    ax.set_yscale("log")
    ax.set_yticks(LOSSES, [f"{loss:g}" for loss in LOSSES])
    ax.minorticks_off()
    ax.set_xlabel(column.replace("_", " ").replace("scale ", "scale-"))
    open_axes(ax)


def _plot_efficiencies(rows: Rows, ax: Axes) -> None:
    """Measured with intervals, and predicted as a line, of AdaScale's cases."""
    cases = dict.fromkeys(
        (row["network"], row["rate"]) for row in rows if row["rule"] == "adascale"
    )
    for index, (network, rate) in enumerate(cases):
        mine = [
            row
            for row in rows
            if (row["network"], row["rate"], row["rule"]) == (network, rate, "adascale")
            and row["measured"] != ""
        ]
        shift = 1.05 ** (index - len(cases) / 2)
        sizes = [row["batch_size"] * shift for row in mine]
        look: dict[str, Any] = {"color": COLOURS[index], "linewidth": 1.2}
        ax.plot(sizes, [row["predicted"] for row in mine], **look)
        ax.errorbar(
            sizes,
            [row["measured"] for row in mine],
            [
                0.0 if math.isnan(row["measured_half_width"]) else row["measured_half_width"]
                for row in mine
            ],
            linestyle="none",
            marker=MARKERS[index],
            markersize=4.5,
            capsize=2.5,
            **look,
            label=f"{network}, rate {rate:g}",
        )
    logarithmic(ax, "x", base=2)
    sizes = [INITIAL * scale for scale in SCALES]
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.set_ylim(0.0, 1.1)
    ax.set_xlabel("batch size (examples)")
    ax.set_ylabel("efficiency: measured (marks), predicted (lines)")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    open_axes(ax)


DIGITS_EFFICIENCY = Reproduction(
    "digits-efficiency: statistical efficiency predicted and measured, training on digits here",
    _tasks,
    _rows,
    _plot,
    lambda _: require_training(),
    _shown,
    ignores=("pollux", "seeds", "gaps", "workloads", "artifact"),
    trains=True,
)
