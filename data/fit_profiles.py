"""Derive the shipped application profiles from the measurements of the Pollux artifact (OSDI'21).

Run as `python -m goodalloc.data.fit_profiles --reference DIR [--out FILE]`; DIR holds the folder
`pollux` with its `traces` and `workloads`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.profiles import FORMAT, SHIPPED, VERSION
from goodalloc.data.shipped import run_fit
from goodalloc.data.trace_files import (
    POINT,
    batch_size_of,
    read_placements,
    read_run,
    read_scalability,
)
from goodalloc.data.workload import read_workload
from goodalloc.models.fitting import FitOptions, fit_throughput, pad_observations
from goodalloc.models.throughput import ThroughputParameters, gradient_time, step_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


CATEGORIES = ("small", "medium", "large", "extra large")

OPTIONS = FitOptions(smoothing=1e-10, tolerance=1e-13, iterations=2000)
"""Fitted once and shipped, hence further than a scheduler would."""


SOURCE = {
    "artifact": "github.com/petuum/adaptdl, branch osdi21-artifact, commit c793c70",
    "licence": "Apache-2.0",
    "note": "Parameters derived from the measurements of the Pollux artifact (OSDI'21).",
}


class Application(NamedTuple):
    """What the artifact states about an application rather than measures.

    Batch sizes in examples; `restriction` is (total batch size, replicas) where Pollux fixes them.
    """

    title: str
    category: str
    initial: int
    maximum: int
    atomic_minimum: int
    atomic_maximum: int
    restriction: tuple[int, int] | None = None


APPLICATIONS = {
    "bert": Application("BERT / SQuAD", "medium", 12, 384, 4, 12),
    "cifar10": Application("ResNet-18 / CIFAR-10", "small", 128, 4096, 32, 1024),
    "deepspeech2": Application("DeepSpeech2 / CMU-ARCTIC", "medium", 20, 640, 10, 80),
    "imagenet": Application("ResNet-50 / ImageNet", "extra large", 200, 12800, 20, 200),
    "ncf": Application("NeuMF / MovieLens", "small", 256, 32768, 32, 32768, (32768, 1)),
    "yolov3": Application("YOLOv3 / VOC", "large", 8, 512, 4, 8),
}


def read_observations(folder: Path, application: Application, suffix: str = "") -> Floats:
    """Read the measured steps of one application within its limits on the atomic batch size.

    A measurement that both files hold counts once.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces.
    application
        What is known of it.
    suffix
        What the names of the files end in, where there are several types of GPU.

    Returns
    -------
    ndarray
        Of shape (measurements, 5): nodes, replicas, atomic batch size, gradient time, step time.
    """
    tables = (
        read_placements(folder / f"placements{suffix}.csv"),
        read_scalability(folder / f"scalability{suffix}.csv"),
    )
    columns = [*POINT, "sync_time", "step_time"]
    measured = [
        row for table in tables for row in table[columns].itertuples(index=False, name=None)
    ]
    observations = np.array(list(dict.fromkeys(measured)))
    observations[:, 3] = observations[:, 4] - observations[:, 3]
    within = (observations[:, 2] >= application.atomic_minimum) & (
        observations[:, 2] <= application.atomic_maximum
    )
    return observations[within]


def read_gradient(folder: Path) -> tuple[dict[str, Any], float]:
    """Read the gradient statistics of one application, and the length of its training.

    An epoch ends when its least cumulative progress over the measured batch sizes is reached.

    Parameters
    ----------
    folder
        Its folder of the artifact's traces.

    Returns
    -------
    dict, float
        The field `gradient` of the profile, and the progress at the end of the last epoch.
    """
    runs = {batch_size_of(path): read_run(path) for path in folder.glob("validation-*.csv")}
    sizes = sorted(runs)
    columns = ("progress", "grad_sqr", "grad_var")
    table = np.array([[*zip(*(runs[size][key] for key in columns), strict=True)] for size in sizes])
    ends = table[:, :, 0].min(axis=0)
    gradient = {
        "batch_sizes": sizes,
        "progress": (ends / ends[-1]).tolist(),
        "square": table[:, :, 1].tolist(),
        "variance": table[:, :, 2].tolist(),
    }
    return gradient, float(ends[-1])


def relative_errors(predicted: Floats, measured: Floats) -> dict[str, float]:
    """Median, 90th percentile and maximum of abs(predicted / measured - 1)."""
    error = np.abs(predicted / measured - 1.0)
    return {
        "median": float(np.median(error)),
        "percentile_90": float(np.percentile(error, 90)),
        "maximum": float(error.max()),
    }


def derive_profiles(reference: Path) -> dict[str, Any]:
    """Fit all applications and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `pollux/traces` and `pollux/workloads`.

    Raises
    ------
    ValueError
        If it does not.
    """
    folder = reference / "pollux"
    if not ((folder / "traces").is_dir() and (folder / "workloads").is_dir()):
        raise ValueError(
            f"reference is '{reference}'; expected a folder that holds pollux/traces and "
            "pollux/workloads."
        )
    workloads = sorted((folder / "workloads").glob("workload-*.csv"))
    jobs = Counter(job.application for path in workloads for job in read_workload(path))
    tables = [
        read_observations(folder / "traces" / name, application)
        for name, application in APPLICATIONS.items()
    ]
    fit = fit_throughput(pad_observations(tables), OPTIONS)
    applications = {}
    for index, (name, application) in enumerate(APPLICATIONS.items()):
        parameters = ThroughputParameters(*(float(values[index]) for values in fit.parameters))
        gradient, total_progress = read_gradient(folder / "traces" / name)
        applications[name] = {
            **_stated(application),
            "throughput": parameters._asdict(),
            "gradient": gradient,
            "total_progress": total_progress,
            "epochs": len(gradient["progress"]),
            "share": jobs[name] / jobs.total(),
            "fit_errors": {
                "loss": float(fit.loss[index]),
                **fit_errors(parameters, tables[index]),
            },
        }
    return {"format": FORMAT, "version": VERSION, "source": SOURCE, "applications": applications}


def _stated(application: Application) -> dict[str, Any]:
    """Return the fields of a profile that the artifact states."""
    fixed = application.restriction
    limits = {name: getattr(application, name) for name in Application._fields[2:6]}
    return {
        "title": application.title,
        "category": application.category,
        "batch": {**limits, "accumulation": True},
        "restriction": fixed and {"batch_size": fixed[0], "replicas": fixed[1]},
    }


def fit_errors(parameters: ThroughputParameters, table: Floats) -> dict[str, Any]:
    """Compare the fitted with the measured times.

    Parameters
    ----------
    parameters
        Throughput parameters.
    table
        Measurements as `read_observations` returns them.
    """
    nodes, replicas, atomic, gradient, step = table.T
    return {
        "observations": len(table),
        "gradient_time": relative_errors(gradient_time(parameters, atomic), gradient),
        "step_time": relative_errors(step_time(parameters, nodes, replicas, atomic, 0.0), step),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the profiles and write them; the command line is that of the process if None."""
    run_fit(derive_profiles, SHIPPED, "pollux/", arguments)


if __name__ == "__main__":
    main()
