"""Figure of the study: scores, calibration, and correlations of the features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.experiments.reporting.axes import open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS, STYLES
from goodalloc.experiments.studies.predictability.classifier_scores import reliability, score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from goodalloc.experiments.studies.predictability.predictability_row import PredictabilityRow

#: Labels of the scores.
SCORES = {
    "accuracy": "accuracy",
    "f1": "F1 of the unpredictable class",
    "auc": "area under the ROC curve",
}

#: Labels of the classifiers, and of the times at which features are known.
NAMES = {
    "knn": "nearest\nneighbours",
    "logistic": "logistic\nregression",
    "forest": "random\nforest",
    "svm": "support\nvectors",
    "mlp": "perceptron",
}
KNOWN = {"submission": "at submission", "running": "while running", "afterwards": "afterwards"}
TIMES = dict(zip(KNOWN, COLOURS, strict=False))

#: Colours of the calibration curves, distinct from those of the times.
CURVES = (*COLOURS[3:7], "0.55")

MEASURES = {"pearson": "o", "kendall": "s", "spearman": "D", "importance": "|"}

#: Width of all bars of a classifier.
WIDTH = 0.78


def plot_predictability(
    rows: list[PredictabilityRow],
    unpredictable: NDArray[np.bool_],
    probabilities: Mapping[str, NDArray[np.float64]],
) -> Figure:
    """Draw scores by classifier and features, calibration, and each feature by itself.

    Parameters
    ----------
    rows
        Rows of the study.
    unpredictable
        Label of each job, shape (jobs,).
    probabilities
        Predicted probabilities at submission by classifier, shape (jobs,).
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.0, 9.0), layout="constrained")
    panels: dict[str, Axes] = figure.subplot_mosaic(
        [["accuracy", "f1", "auc"], ["calibration", "features", "features"]], height_ratios=(1, 1.2)
    )
    for ax in panels.values():
        open_axes(ax)
    for name, label in SCORES.items():
        _plot_scores(rows, name, panels[name])
        panels[name].set_ylim(top=1.005)
        panels[name].set_ylabel(label)
    handles, labels = panels["accuracy"].get_legend_handles_labels()
    order = [2, 3, 4, 0, 1]  # bars, then lines
    figure.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside upper center",
        ncols=5,
        frameon=False,
    )
    _plot_calibration(unpredictable, probabilities, panels["calibration"])
    _plot_features(rows, panels["features"])
    return figure


def _plot_scores(rows: list[PredictabilityRow], score_name: str, ax: Axes) -> None:
    """Draw bars above the majority's score, and diamonds for jobs of unseen kinds."""

    def mean(classifier: str, known: str, job_type: str, validation: str) -> float:
        wanted = (classifier, known, job_type, validation)
        values = [
            getattr(row, score_name)
            for row in rows
            if (row.classifier, row.known, row.job_type, row.validation) == wanted
        ]
        return float(np.mean(values))

    base = mean("majority", "submission", "code", "stratified")
    step = WIDTH / len(KNOWN)
    for index, (known, label) in enumerate(KNOWN.items()):
        places = np.arange(len(NAMES)) + step * (index - 1)
        seen = np.array([mean(name, known, "code", "stratified") for name in NAMES])
        new = [mean(name, known, "left_out", "unseen types") for name in NAMES]
        ax.bar(
            places,
            seen - base,
            0.92 * step,
            base,
            color=TIMES[known],
            label=f"known {label}",
            zorder=2,
        )
        ax.plot(
            places,
            new,
            "D",
            color="black",
            markerfacecolor="white",
            markersize=4.5,
            label="kinds of job never seen before" if index == len(KNOWN) - 1 else None,
            zorder=4,
        )
    ax.axhline(base, color="black", linewidth=1.0, label="all called predictable", zorder=3)
    ax.set_xticks(range(len(NAMES)), list(NAMES.values()), fontsize="small")
    ax.grid(visible=False, axis="x")


def _plot_calibration(
    unpredictable: NDArray[np.bool_], probabilities: Mapping[str, NDArray[np.float64]], ax: Axes
) -> None:
    """Draw observed against predicted probabilities, for the features known at submission."""
    ax.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1.0)
    for index, name in enumerate(NAMES):
        curve = reliability(unpredictable, probabilities[name])
        error = score(unpredictable, probabilities[name]).calibration_error
        label = f"{' '.join(NAMES[name].split())}, {error:.3f}"
        ax.plot(
            curve.predicted,
            curve.observed,
            label=label,
            color=CURVES[index],
            marker=MARKERS[index],
            linestyle=STYLES[index % len(STYLES)],
            markersize=4.5,
        )
    ax.set_xlabel("probability of being unpredictable, at submission")
    ax.set_ylabel("share that is unpredictable")
    ax.legend(
        title="expected calibration error",
        fontsize="small",
        title_fontsize="small",
        loc="upper left",
        frameon=False,
    )


def _plot_features(rows: list[PredictabilityRow], ax: Axes) -> None:
    """Draw correlations and importance, a row for each feature, the most correlated above."""
    features = sorted(
        (row for row in rows if row.feature),
        key=lambda row: np.nan_to_num(abs(row.pearson or 0.0)),
    )
    heights = range(len(features))
    for index, (measure, marker) in enumerate(MEASURES.items()):
        ax.plot(
            [getattr(row, measure) for row in features],
            heights,
            marker,
            color=COLOURS[index + 3],
            markersize=12 if marker == "|" else 6,
            markeredgewidth=2 if marker == "|" else 0,
            label="importance in a forest" if measure == "importance" else measure.title(),
        )
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_yticks(heights, [(row.feature or "").replace("_", " ") for row in features])
    for tick, row in zip(ax.get_yticklabels(), features, strict=True):
        tick.set_color(TIMES[row.known])
    ax.set_xlim(-1.0, 1.0)
    ax.set_xlabel("correlation with being unpredictable; share in the decrease of impurity")
    ax.legend(fontsize="small", loc="lower right", frameon=False)
