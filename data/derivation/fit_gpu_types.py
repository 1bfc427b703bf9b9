"""Derive how fast applications are on other types of GPU, from measurements of Sia (SOSP'23).

Run as `python -m goodalloc.data.derivation.fit_gpu_types --reference DIR [--out FILE]`; DIR holds
the folder `sia` with the `traces` of its artifact. The measurements on T4 and the gradient
statistics there are those of Pollux's artifact, which `fit_profiles` derives; here are the other
types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.applications.gpu_types import CAPPED, FORMAT, SHIPPED, SUFFIXES, VERSION
from goodalloc.data.applications.measurements import APPLICATIONS, read_observations
from goodalloc.data.derivation.fit_profiles import OPTIONS, fit_errors
from goodalloc.data.documents.shipped import run_fit
from goodalloc.models.fitting.fit import fit_throughput
from goodalloc.models.fitting.problem import pad_observations
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


SOURCE = {
    "artifact": "github.com/siasosp23/artifacts, commit aaf7a0d",
    "licence": "none stated",
    "note": "Parameters derived from the measurements of the Sia artifact (SOSP'23).",
}


#: Far beyond any batch size that was measured.
ANY_SIZE = 2**31


def derive_gpu_types(reference: Path) -> dict[str, Any]:
    """Fit every application on every type and return the document that is shipped.

    Batch sizes are bounded below as Pollux does, and above by the largest measured on the type.

    Parameters
    ----------
    reference
        Folder that holds `sia/traces`.

    Raises
    ------
    ValueError
        If it does not.
    """
    traces = reference / "sia" / "traces"
    if not traces.is_dir():
        raise ValueError(f"reference is '{reference}'; expected a folder that holds sia/traces.")
    pairs = [(kind, name) for kind in SUFFIXES for name in APPLICATIONS]
    tables = []
    for kind, name in pairs:
        largest = CAPPED.get((name, kind), ANY_SIZE)
        wide = APPLICATIONS[name]._replace(atomic_maximum=largest)
        tables.append(read_observations(traces / name, wide, SUFFIXES[kind]))
    fit = fit_throughput(pad_observations(tables), OPTIONS)
    types: dict[str, dict[str, Any]] = {kind: {} for kind in SUFFIXES}
    for index, (kind, name) in enumerate(pairs):
        parameters = ThroughputParameters(
            *(float(np.asarray(values)[index]) for values in fit.parameters)
        )
        measured = int(np.max(tables[index][:, 2]))
        types[kind][name] = {
            "throughput": parameters._asdict(),
            "atomic_maximum": CAPPED.get((name, kind), measured),
            "fit_errors": {"loss": float(fit.loss[index]), **fit_errors(parameters, tables[index])},
        }
    return {"format": FORMAT, "version": VERSION, "source": SOURCE, "gpu_types": types}


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the parameters and write them; the command line is that of the process if None."""
    run_fit(derive_gpu_types, SHIPPED, "sia/", arguments)


if __name__ == "__main__":
    main()
