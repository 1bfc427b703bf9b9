r"""Figure 2 of Pollux on real training: efficiency, predicted and measured, and AdaScale's claim.

A network learns digits to a validation target at several batch sizes M, from the same weights and
with the learning rate tuned for M0, scaled by a rule. The measured efficiency is the number of
examples of the run at M0 over that of the run at M,

.. math:: E(M) = n_0 M_0 / (n M),                                                         (1)

with n steps. A scheduler predicts it before any step at M, from the gradient statistics of the run
at M0: at its t-th evaluation by (7) of `models/goodput/statistical_efficiency.py`, E_t(M),
so that the examples at M for the same progress are those at M0 over E_t(M), and over the whole
training

.. math:: \hat E(M) = \Bigl(\frac{1}{T} \sum_{t=1}^T \frac{1}{E_t(M)}\Bigr)^{-1}.         (2)

AdaScale claims that training at M progresses per scale-invariant step, the sum of its gains, as
training at M0 does per step. (1) and (2) agree if that is so and the statistics do not depend on M.
Errors are paired by seed, and confidence intervals are over seeds (95 %, Student's t).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021. https://www.usenix.org/conference/osdi21/presentation/qiao
Johnson et al., "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.axes import logarithmic, open_axes
from goodalloc.experiments.reporting.estimates import NO_ESTIMATE, Estimate, estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.training.digits_run import DigitsRun
from goodalloc.experiments.studies.training.digits_training import DigitsJob, require_training
from goodalloc.experiments.support.records import digest
from goodalloc.models.goodput.statistical_efficiency import efficiency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.training.digits_training import Moment


class Case(NamedTuple):
    """Network, optimiser with its rate for M0, and rule that scales the rate."""

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
#: Cases of quick runs; the training of the first is drawn.
DRAWN = Case("perceptron", "sgd", 0.1, "adascale")
QUICK = (DRAWN, Case("perceptron", "sgd", 0.4, "adascale"))

#: Batch sizes M over M0, and M0.
SCALES, INITIAL = (1, 2, 4, 8), 16

#: Examples between evaluations, and epochs after which a run has failed.
EVALUATE, EPOCHS = 64, 60

SEEDS, QUICK_SEEDS = 10, 3

#: Ticks of the axis of losses.
LOSSES = (0.2, 0.5, 1.0, 2.0)


def _cases(plan: Plan) -> tuple[Case, ...]:
    return QUICK if plan.quick else CASES


def _run(plan: Plan, case: Case, scale: int, seed: int) -> DigitsRun:
    """Return one training; at M0 all rules are equal."""
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
    """Return the histories of all seeds."""
    seeds = range(QUICK_SEEDS if plan.quick else SEEDS)
    return [_run(plan, case, scale, seed).history() for seed in seeds]


def predicted(initial: Sequence[Moment], batch_size: float) -> float:
    """Return the efficiency (2) of a batch size by the run at M0.

    Parameters
    ----------
    initial
        Evaluations of the run at M0.
    batch_size
        Batch size M in examples.
    """
    inverse = [1.0 / float(efficiency(one.gradient, INITIAL, batch_size)) for one in initial]
    return len(inverse) / sum(inverse)


class EfficiencyRow(NamedTuple):
    """Outcome of the trainings of a case at one batch size, means over the seeds.

    Attributes
    ----------
    network, optimiser, rate, rule
        The case.
    runs, reached
        Number of trainings, and of those that reached the target; without all of them only
        `predicted` is known.
    measured, predicted, error
        Efficiency by (1), by (2), and the relative error of (2).
    scale_invariant_steps
        Scale-invariant steps over those at M0.
    """

    network: str
    optimiser: str
    rate: float
    rule: str
    batch_size: int
    runs: int
    reached: int
    steps: Estimate
    examples: Estimate
    measured: Estimate
    predicted: Estimate
    error: Estimate
    scale_invariant_steps: Estimate


def _rows(plan: Plan) -> list[EfficiencyRow]:
    """Return a row for every case and batch size."""
    rows = []
    for case in _cases(plan):
        initial = _histories(plan, case, 1)
        for scale in SCALES:
            runs = _histories(plan, case, scale)
            rows.append(_row(case, INITIAL * scale, initial, runs))
    return rows


def _row(
    case: Case, batch_size: int, initial: list[list[Moment]], runs: list[list[Moment]]
) -> EfficiencyRow:
    """Return the row of the trainings `runs` at `batch_size`, beside those at M0, by seed."""
    pairs = [(before[-1], run[-1]) for before, run in zip(initial, runs, strict=True)]
    guesses = [predicted(before, batch_size) for before in initial]
    gained = [before.examples / run.examples for before, run in pairs]
    steps = [run.scale_invariant_steps / before.scale_invariant_steps for before, run in pairs]
    reached = sum(run.validation_loss <= DigitsJob().target for _, run in pairs)

    def known(values: Sequence[float]) -> Estimate:
        return estimate_of(values) if reached == len(runs) else NO_ESTIMATE

    return EfficiencyRow(
        *case,
        batch_size=batch_size,
        runs=len(runs),
        reached=reached,
        steps=known([run.steps for _, run in pairs]),
        examples=known([run.examples for _, run in pairs]),
        measured=known(gained),
        predicted=estimate_of(guesses),
        error=known([guess / found - 1.0 for guess, found in zip(guesses, gained, strict=True)]),
        scale_invariant_steps=known(steps),
    )


def _shown(rows: list[EfficiencyRow]) -> Rows:
    """Return the table that people read: batch sizes other than M0."""
    return [
        {
            "network": row.network,
            "rule": f"{row.optimiser}, {row.rule}",
            "rate": row.rate,
            "M": row.batch_size,
            "reached": f"{row.reached} of {row.runs}",
            "measured": _interval(row.measured),
            "predicted": _interval(row.predicted),
            "error %": _interval(Estimate(*(100.0 * part for part in row.error)), ".1f"),
            "scale-invariant steps": _interval(row.scale_invariant_steps),
        }
        for row in rows
        if row.batch_size != INITIAL
    ]


def _interval(found: Estimate, form: str = ".3f") -> str:
    return "" if math.isnan(found.mean) else found.text(form)


def _plot(plan: Plan, rows: list[EfficiencyRow]) -> Figure:
    """Draw losses by steps and by scale-invariant steps, and efficiencies by batch size."""
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
    """Draw the mean validation loss over the seeds, until the first of them ends."""
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


def _plot_efficiencies(rows: list[EfficiencyRow], ax: Axes) -> None:
    """Draw AdaScale's cases: measured as marks with intervals, predicted as lines."""
    cases = dict.fromkeys((row.network, row.rate) for row in rows if row.rule == "adascale")
    for index, (network, rate) in enumerate(cases):
        mine = [
            row
            for row in rows
            if (row.network, row.rate, row.rule) == (network, rate, "adascale")
            and not math.isnan(row.measured.mean)
        ]
        shift = 1.05 ** (index - len(cases) / 2)
        sizes = [row.batch_size * shift for row in mine]
        look: dict[str, Any] = {"color": COLOURS[index], "linewidth": 1.2}
        ax.plot(sizes, [row.predicted.mean for row in mine], **look)
        ax.errorbar(
            sizes,
            [row.measured.mean for row in mine],
            np.nan_to_num([row.measured.half_width for row in mine]),
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
