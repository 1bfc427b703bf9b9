"""Derive the shipped model of execution plans from Arena's published estimates (EuroSys'26).

Run as `python -m goodalloc.data.derivation.fit_plans --reference DIR [--out FILE]`; DIR holds the
folder `arena` with its `estimated_plans.csv`. What is shipped are the coefficients of
`goodalloc.models.plans.PlanModel`, the shapes on which some plan of a training could run, and the
errors of the fit, on the plans themselves and on shapes that it did not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.plans.plan_tables import ESTIMATED, FOLDER, read_estimated_plans
from goodalloc.data.plans.shipped_plans import FORMAT, SHIPPED, VERSION
from goodalloc.models.plans.plan_model import fit_plan_model, held_out_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.models.plans.execution_plan import Shape
    from goodalloc.models.plans.plan_model import MeasuredPlan
    from goodalloc.models.support.array_types import Floats

SOURCE = {
    "artifact": "github.com/sjtu-epcc/arena, branch ae-eurosys, commit 87b09e9",
    "licence": "Apache-2.0",
    "note": "Fitted to plans whose parts Arena's profiler estimated (its error: 3 to 8 %).",
}

#: Groups of shapes for the error on those that a fit did not see.
FOLDS = 10


def derive_plan_model(reference: Path) -> dict[str, Any]:
    """Fit the model and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `arena/estimated_plans.csv`.

    Raises
    ------
    ValueError
        If it does not, or the table cannot be read.
    """
    if not (reference / FOLDER / ESTIMATED).is_file():
        raise ValueError(
            f"reference is '{reference}'; expected a folder that holds {FOLDER}/{ESTIMATED}."
        )
    plans = read_estimated_plans(reference / FOLDER)
    model = fit_plan_model(plans)
    fitted = np.array([model.parts(one.training, one.shape, one.plan).total for one in plans])
    shapes: dict[str, set[Shape]] = {}
    for one in plans:
        shapes.setdefault(" ".join(map(str, one.training)), set()).add(one.shape)
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "errors": {
            "step": _errors(plans, fitted),
            "step_held_out": _errors(plans, held_out_seconds(plans, FOLDS)),
        },
        "coefficients": {part: dict(found) for part, found in model.coefficients.items()},
        "shapes": {name: list(map(list, sorted(found))) for name, found in shapes.items()},
    }


def _errors(plans: Sequence[MeasuredPlan], predicted: Floats) -> dict[str, dict[str, float]]:
    """Return statistics of ``abs(predicted / measured - 1)`` by family of models."""
    found = {}
    for family in sorted({one.training.model for one in plans}):
        rows = [index for index, one in enumerate(plans) if one.training.model == family]
        measured = np.array([plans[index].parts.total for index in rows])
        errors = np.abs(predicted[rows] / measured - 1.0)
        found[family] = {
            "measurements": len(rows),
            "median": float(np.median(errors)),
            "percentile_90": float(np.quantile(errors, 0.9)),
            "maximum": float(errors.max()),
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit the model and write it; the command line is that of the process if None."""
    run_fit(derive_plan_model, SHIPPED, f"{FOLDER}/{ESTIMATED}", arguments)


if __name__ == "__main__":
    main()
