"""Step times that a job has not measured, predicted from jobs of other applications.

One application after another plays a new one, of which nobody has experience. It has measured on
one GPU, or on one node; the others were measured on up to four nodes. Compared are the step times
that its scheduler would assume on more GPUs, with those that the artifact measured: by Pollux's
prior, for which unseen synchronisation is cheap; by the mean of all other applications; by their
similarity (`models/goodput/similar_jobs.py`); and by the fit of a job that measured everything,
which is what the form of the throughput model allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.experiments.replay.job_modes import experience_of, fit_tables, traits_of_application
from goodalloc.experiments.replay.prior_knowledge import measure
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.goodput.job_similarity import LENGTH
from goodalloc.models.goodput.similar_jobs import complete, measured_regimes
from goodalloc.models.goodput.throughput_model import step_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.estimates import Estimate
    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.models.goodput.similar_jobs import Experience
    from goodalloc.models.goodput.throughput_model import ThroughputParameters
    from goodalloc.models.support.array_types import Floats

#: Most GPUs of the measurements of a new application, by what is known of it.
KNOWN: Mapping[str, int] = {"one GPU": 1, "one node": 4}

#: GPUs on each node of the predicted step times, packed on nodes of four.
PREDICTED = ((2,), (3,), (4,), (4, 2), (4, 4), (4, 4, 4), (4, 4, 4, 4))

#: Standard deviations of the ends of a 95 % interval.
INTERVAL = 1.96

#: Columns with errors, by their names in tables and figures.
PREDICTORS: Mapping[str, str] = {
    "prior_rmsle": "Pollux's prior",
    "mean_rmsle": "mean of others",
    "similar_rmsle": "similarity to others",
    "own_rmsle": "own fit to all",
}


class SimilarJobsRow(NamedTuple):
    """Errors of the predicted step times of an application of which nobody has experience.

    Attributes
    ----------
    application, known
        The application, and where it has measured.
    configurations
        Number of predicted step times, all on more GPUs than it has measured.
    prior_rmsle, mean_rmsle, similar_rmsle, own_rmsle
        Root mean squares of the logarithms of predicted over measured, by the predictors.
    within_interval_percent
        Measured step times within the predicted 95 % interval.
    deviation
        Greatest standard deviation of the logarithm of a predicted synchronisation time.
    """

    application: str
    known: str
    configurations: int
    prior_rmsle: float
    mean_rmsle: float
    similar_rmsle: float
    own_rmsle: float
    within_interval_percent: float
    deviation: float


def _rows(plan: Plan) -> list[SimilarJobsRow]:
    """Return a row for every application and what is known of it."""
    experiences = {
        name: experience_of(one, measure(one)) for name, one in plan.applications.items()
    }
    return [_row(plan, name, known, experiences) for name in experiences for known in KNOWN]


def _row(
    plan: Plan, name: str, known: str, experiences: Mapping[str, Experience]
) -> SimilarJobsRow:
    """Return the errors of one application, of which part of its measurements are known."""
    application, most = plan.applications[name], KNOWN[known]
    others = [one for other, one in experiences.items() if other != name]
    own = experiences[name].parameters
    times = {key: value for key, value in measure(application).items() if key[1] <= most}
    (prior,) = fit_tables([times])
    regimes, traits = measured_regimes(times), traits_of_application(application, prior)

    def by(deviations: float, length: float = LENGTH) -> ThroughputParameters:
        return complete(prior, regimes, traits, others, deviations, length).parameters

    limits = application.batch
    unseen = []
    for spread in PREDICTED:
        largest = int(min(limits.atomic_maximum, limits.maximum // sum(spread)))
        least = int(limits.atomic_minimum)
        if sum(spread) > most and least <= largest:
            unseen += [(spread, atomic) for atomic in sorted({least, largest})]
    true = np.array([application.step_times(spread, atomic).step for spread, atomic in unseen])

    def logarithms(parameters: ThroughputParameters) -> Floats:
        predicted = [
            float(step_time(parameters, len(spread), sum(spread), atomic, 0.0))
            for spread, atomic in unseen
        ]
        found: Floats = np.log(np.array(predicted) / true)
        return found

    def rmsle(parameters: ThroughputParameters) -> float:
        return rounded(float(np.sqrt(np.mean(logarithms(parameters) ** 2))), 4)

    within = (logarithms(by(-INTERVAL)) <= 0.0) & (logarithms(by(INTERVAL)) >= 0.0)
    return SimilarJobsRow(
        application=application.name,
        known=known,
        configurations=len(unseen),
        prior_rmsle=rmsle(prior),
        mean_rmsle=rmsle(by(0.0, np.inf)),
        similar_rmsle=rmsle(by(0.0)),
        own_rmsle=rmsle(own),
        within_interval_percent=rounded(100.0 * float(within.mean()), 4),
        deviation=rounded(complete(prior, regimes, traits, others).deviation, 4),
    )


def summarise(rows: list[SimilarJobsRow]) -> Rows:
    """Return the means over the applications, with 95 % intervals, by what is known."""

    def mean(group: list[SimilarJobsRow], column: str) -> Estimate:
        return estimate_of([getattr(row, column) for row in group])

    shown = []
    for known in KNOWN:
        group = [row for row in rows if row.known == known]
        line: dict[str, object] = {"known": known, "applications": len(group)}
        for column in (*PREDICTORS, "within_interval_percent"):
            line[column], line[f"{column}_half_width"] = mean(group, column)
        shown.append(line)
    return shown


def _plot(rows: list[SimilarJobsRow]) -> Figure:
    """Draw the errors of every application, a row for each of what is known."""
    ax = new_axes(7.5, 5.0)
    labels = [f"{row.application}, {row.known}" for row in rows]
    for index, (column, label) in enumerate(PREDICTORS.items()):
        ax.plot(
            [getattr(row, column) for row in rows],
            range(len(rows)),
            label=label,
            marker=MARKERS[index],
            color="0.4" if column == "own_rmsle" else COLOURS[index],
            linestyle="none",
        )
    ax.set_yticks(range(len(rows)), labels)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set_xlabel("error of predicted step times (root mean square of logarithms)")
    ax.set_title("A new application on more GPUs than it has measured")
    ax.grid(axis="both", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


SIMILAR_JOBS = Reproduction(
    "Step times predicted from jobs of other applications, one left out at a time",
    lambda _: (),
    _rows,
    lambda _, rows: _plot(rows),
    shown=summarise,
    ignores=("workloads", "pollux", "seeds", "gaps", "quick"),
)
