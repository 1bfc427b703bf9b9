"""Derive the shipped application profiles from the measurements of the Pollux artifact (OSDI'21).

Run as `python -m goodalloc.data.derivation.fit_profiles --reference DIR [--out FILE]`; DIR holds
the folder `pollux` with its `traces` and `workloads`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.applications.measurements import (
    APPLICATIONS,
    Application,
    read_gradient,
    read_observations,
    relative_errors,
)
from goodalloc.data.applications.profiles import FORMAT, SHIPPED, VERSION
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.workloads.workload import read_workload
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import FitOptions, pad_observations
from goodalloc.models.goodput.throughput_model import ThroughputParameters, gradient_time, step_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats


CATEGORIES = ("small", "medium", "large", "extra large")

OPTIONS = FitOptions(smoothing=1e-10, tolerance=1e-13, iterations=2000)
"""Fitted once and shipped, hence further than a scheduler would."""


SOURCE = {
    "artifact": "github.com/petuum/adaptdl, branch osdi21-artifact, commit c793c70",
    "licence": "Apache-2.0",
    "note": "Parameters derived from the measurements of the Pollux artifact (OSDI'21).",
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
        parameters = ThroughputParameters(
            *(float(np.asarray(values)[index]) for values in fit.parameters)
        )
        gradient, total_progress = read_gradient(folder / "traces" / name)
        applications[name] = {
            **_stated(application),
            "throughput": parameters._asdict(),
            "gradient": gradient,
            "total_progress": total_progress,
            "epochs": len(gradient["progress"]),
            "share": jobs[name] / jobs.total(),
            "fit_errors": {"loss": float(fit.loss[index]), **fit_errors(parameters, tables[index])},
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
        "gradient_time": relative_errors(np.asarray(gradient_time(parameters, atomic)), gradient),
        "step_time": relative_errors(
            np.asarray(step_time(parameters, nodes, replicas, atomic, 0.0)), step
        ),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the profiles and write them; the command line is that of the process if None."""
    run_fit(derive_profiles, SHIPPED, "pollux/", arguments)


if __name__ == "__main__":
    main()
