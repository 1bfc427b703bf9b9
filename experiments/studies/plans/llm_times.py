"""Steps of language models on 8 to 512 GPUs: the fitted model beside published measurements.

MosaicML publishes throughputs of MPT models from 125 M to 70 B parameters on three types of GPU.
`goodalloc.models.plans.sharded_training` is fitted to all; to all other models; and
to those on at most 128 GPUs, judged on more. Errors are abs(predicted / measured - 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.derivation.fit_language_models import FEW_GPUS, errors_of_choices
from goodalloc.data.plans.llm_tables import FILE, FOLDER, read_llm_trainings
from goodalloc.data.plans.shipped_llm import TOKENS
from goodalloc.experiments.reporting.axes import identity, open_axes
from goodalloc.experiments.reporting.plots import COLOURS, MARKERS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.models.plans.sharded_training import fit_sharded_times

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan

#: What is fitted, by the name in the table.
CHOICES = {
    "all": "all",
    "other_models": "all other models",
    "fewer_gpus": f"at most {FEW_GPUS} GPUs",
}

#: Models in the picture of scaling.
SHOWN = ("1b", "7b", "30b", "70b")


class LlmTimeRow(NamedTuple):
    """Errors of a fit on one type of GPU.

    Attributes
    ----------
    fitted
        What was fitted: "all", "other_models" or "fewer_gpus".
    gpu_type, measurements
        Type of GPU, and how many measurements on it are judged.
    median_percent, percentile_90_percent, greatest_percent
        Relative errors of them.
    """

    fitted: str
    gpu_type: str
    measurements: int
    median_percent: float
    percentile_90_percent: float
    greatest_percent: float


def _folder(plan: Plan) -> Path:
    """Return the folder of the measurements."""
    if plan.artifact is None or not (plan.artifact / FOLDER / FILE).is_file():
        raise ValueError(
            f"Artifact '{plan.artifact}': expected a folder that holds {FOLDER}/{FILE} "
            "(data/ARTIFACTS.md says where to get it)."
        )
    return plan.artifact


def _rows(plan: Plan) -> list[LlmTimeRow]:
    trainings = read_llm_trainings(_folder(plan))
    types = np.array([training.one.gpu_type for training in trainings])
    rows = []
    for choice, errors, judged in errors_of_choices(trainings):
        for gpu_type in ("all", *sorted(set(types[judged].tolist()))):
            chosen = judged if gpu_type == "all" else judged & (types == gpu_type)
            percent = 100.0 * errors[chosen]
            rows.append(
                LlmTimeRow(
                    choice,
                    gpu_type,
                    int(chosen.sum()),
                    rounded(float(np.median(percent)), 4),
                    rounded(float(np.quantile(percent, 0.9)), 4),
                    rounded(float(percent.max()), 4),
                )
            )
    return rows


def _shown(rows: list[LlmTimeRow]) -> Rows:
    return [
        {
            "fitted": CHOICES[row.fitted],
            "gpu_type": row.gpu_type,
            "measurements": row.measurements,
            "median_%": row.median_percent,
            "90th_%": row.percentile_90_percent,
            "greatest_%": row.greatest_percent,
        }
        for row in rows
    ]


def _plot(plan: Plan, rows: list[LlmTimeRow]) -> Figure:
    """Draw fitted over measured passes by type, and operations a second over GPUs."""
    from matplotlib.figure import Figure

    del rows
    trainings = read_llm_trainings(_folder(plan))
    times = fit_sharded_times(
        [training.one for training in trainings], [training.seconds for training in trainings]
    )
    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    every, scaling = figure.subplots(1, 2)
    for index, gpu_type in enumerate(sorted(times.coefficients)):
        chosen = [one for one in trainings if one.one.gpu_type == gpu_type]
        every.plot(
            [training.seconds for training in chosen],
            [times.seconds(training.one) for training in chosen],
            linestyle="none",
            color=COLOURS[index],
            marker=MARKERS[index],
            markersize=4,
            alpha=0.7,
            label=gpu_type.replace("_", ", "),
        )
    identity(every)
    every.set_xlabel("measured pass (s)")
    every.set_ylabel("fitted pass (s)")
    every.legend(frameon=False)
    for index, name in enumerate(SHOWN):
        chosen = sorted(
            (
                one
                for one in trainings
                if (one.name, one.one.gpu_type, one.one.tokens) == (name, "h100_80gb", TOKENS)
            ),
            key=lambda training: training.one.gpus,
        )
        gpus = [training.one.gpus for training in chosen]
        work = np.array([training.one.operations for training in chosen]) / 1e12
        measured = np.array([training.seconds for training in chosen])
        fitted = np.array([times.seconds(training.one) for training in chosen])
        look = {"color": COLOURS[index], "marker": MARKERS[index]}
        scaling.plot(gpus, work / measured, linestyle="none", label=name, **look)
        scaling.plot(gpus, work / fitted, color=COLOURS[index], linewidth=1.2)
    scaling.set_xscale("log", base=2)
    scaling.set_xticks([8, 32, 128, 512], ["8", "32", "128", "512"])
    scaling.set_ylim(bottom=0.0)
    scaling.set_xlabel("GPUs (H100)")
    scaling.set_ylabel("teraFLOP a second and GPU; lines: fitted")
    scaling.legend(frameon=False, title="parameters", ncols=2)
    open_axes(scaling)
    return figure


LLM_TIMES = Reproduction(
    "llm-times: steps of language models on up to 512 GPUs, fitted and measured",
    lambda _: (),
    _rows,
    _plot,
    _folder,
    _shown,
    ignores=("workloads", "pollux", "seeds", "gaps", "quick"),
)
