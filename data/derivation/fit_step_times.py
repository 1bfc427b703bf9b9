"""Derive the shipped step times of parameter-server training from the measurements of DL2.

Run as `python -m goodalloc.data.derivation.fit_step_times --reference DIR [--out FILE]`; DIR holds
the folders `dl2-ps-worker-speed`, with the `speed.csv` that
`goodalloc.data.parameter_servers.worker_speed` reads, and `aiturbo-vgpu-params`, with `cpu_ps.csv`
and `cpu_worker.csv`, the curves of efficiency over cores that the follow-on of AITurbo (HPDC'21)
fits to its models: columns ``model``, ``a``, ``b``, ``d``.

Of these curves, which are in units of their own, a typical one is shipped: the medians of the
part that is missing without cores and of the rate. A curve that falls with the cores, surely a lost
sign, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.applications.measurements import relative_errors
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.parameter_servers.step_times import FORM, FORMAT, SHIPPED, VERSION
from goodalloc.data.parameter_servers.worker_speed import read_ps_worker_speed
from goodalloc.models.parameter_servers.step_time_fitting import fit_step_time
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.data.parameter_servers.worker_speed import MeasuredSteps

SOURCE = {
    "artifact": "github.com/pengyanghua/DL2, commit 2e54920; github.com/MaoZzzzz/Aiturbo-vGPU, "
    "commit 11ab921 (cores)",
    "licence": "none stated",
    "note": "Coefficients derived from the measurements of DL2; medians of curves of Aiturbo-vGPU.",
}

#: What is fitted: with the averaged gradient the errors are least.
SHIPPED_FORM = StepTimeForm(synchronous=True, update_load="averaged")

FOLDERS = ("dl2-ps-worker-speed", "aiturbo-vgpu-params")

#: Files of the curves by role.
CURVES = {"server": "cpu_ps.csv", "worker": "cpu_worker.csv"}


def derive_step_times(reference: Path) -> dict[str, Any]:
    """Fit every model and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `FOLDERS`.

    Raises
    ------
    ValueError
        If `folder` lacks the file, or a value in it is out of range.
    """
    for name in FOLDERS:
        if not (reference / name).is_dir():
            raise ValueError(f"reference is '{reference}'; expected a folder that holds {name}.")
    speeds, curves = (reference / name for name in FOLDERS)
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "form": {name: getattr(SHIPPED_FORM, name) for name in FORM},
        "cores": {role: _typical(curves / file) for role, file in CURVES.items()},
        "models": {
            name: _entry(measured) for name, measured in read_ps_worker_speed(speeds).items()
        },
    }


def _entry(measured: MeasuredSteps) -> dict[str, Any]:
    configuration, batch, seconds, _ = measured
    fit = fit_step_time(SHIPPED_FORM, configuration, batch, seconds)
    return {
        "batch_size": batch,
        "most_servers": int(np.max(configuration.servers)),
        "most_workers": int(np.max(configuration.workers)),
        "measurements": len(seconds),
        "coefficients": fit.parameters.coefficients._asdict(),
        "errors": relative_errors(fit.relative_errors + 1.0, np.ones(len(seconds))),
    }


def _typical(path: Path) -> dict[str, float]:
    """Return the median of the rising curves."""
    table = read_table(path, ("a", "b", "d"))
    a, b, d = (table.numbers(column) for column in ("a", "b", "d"))
    rising = (a < 0) & (b > 0) & (d > 0)
    if not rising.any():
        raise ValueError(f"File '{path}': no curve rises with the cores; expected one that does.")
    drop = float(np.median(-a[rising] / d[rising]))
    return {"best": 1.0, "drop": drop, "rate": float(np.median(b[rising]))}


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the step times and write them; the command line is that of the process if None."""
    run_fit(derive_step_times, SHIPPED, "dl2-ps-worker-speed/ and aiturbo-vgpu-params/", arguments)


if __name__ == "__main__":
    main()
