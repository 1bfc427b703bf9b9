"""Errors of the shipped models, as the derivation of each noted them when it fitted them.

The shipped profiles hold fitted parameters in place of measurements, and beside them the relative
errors ``abs(fitted / measured - 1)`` over all measurements. Here they stand in one table, from
which the description of the profiles is written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.shipped import read_shipped
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.figure import Figure

#: Quantities of Gavel's rates whose errors are noted, by their names in tables.
RATES: Mapping[str, str] = {
    "alone": "rate alone",
    "alone_held_out": "rate alone, held out",
    "pairs": "rate in pairs",
    "slowdown": "slow-down in pairs",
    "slowdown_held_out": "slow-down in pairs, held out",
}


#: Quantities of execution plans whose errors are noted, by their names in tables.
PLANS: Mapping[str, str] = {"step": "step", "step_held_out": "step, held out"}


class ProfileFitRow(NamedTuple):
    """Relative errors of one quantity of a shipped model.

    Attributes
    ----------
    profile
        The shipped document.
    gpu_type
        Type of GPU; "all" for the errors over all types, blank where GPUs do not matter.
    model
        The application; "all" where one model is fitted to all of them.
    quantity
        What was measured and fitted.
    largest_atomic_batch
        Largest number of examples in a pass of a replica; None where there is no such limit.
    loss
        Value of the fitted loss; None where it was not noted.
    """

    profile: str
    gpu_type: str
    model: str
    quantity: str
    measurements: int
    largest_atomic_batch: int | None
    loss: float | None
    median_percent: float
    percentile_90_percent: float
    maximum_percent: float


def _percent(errors: Mapping[str, float]) -> tuple[float, float, float]:
    """Return the median, the 90th percentile and the maximum of noted errors in per cent."""
    median, percentile_90, maximum = (
        rounded(100.0 * errors[name], 4) for name in ("median", "percentile_90", "maximum")
    )
    return median, percentile_90, maximum


def _document(path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(read_shipped(path))
    return document


def _applications() -> Iterator[ProfileFitRow]:
    """Yield the errors of Pollux's applications on every type of GPU."""
    first = _document("profiles/applications.json")["applications"]
    types = {"t4": first, **_document("profiles/gpu_types.json")["gpu_types"]}
    for gpu_type, applications in types.items():
        for name, entry in sorted(applications.items()):
            fit = entry["fit_errors"]
            largest = entry.get("atomic_maximum") or entry["batch"]["atomic_maximum"]
            for quantity in ("pass", "step"):
                errors = fit["gradient_time" if quantity == "pass" else "step_time"]
                yield ProfileFitRow(
                    "applications",
                    gpu_type,
                    name,
                    quantity,
                    fit["observations"],
                    int(largest),
                    rounded(fit["loss"], 4),
                    *_percent(errors),
                )


def _step_times() -> Iterator[ProfileFitRow]:
    """Yield the errors of steps with parameter servers."""
    for name, entry in _document("profiles/step_times.json")["models"].items():
        count, errors = entry["measurements"], _percent(entry["errors"])
        yield ProfileFitRow("step times", "", name, "step", count, None, None, *errors)


def _rates() -> Iterator[ProfileFitRow]:
    """Yield the errors of the rates of Gavel's jobs."""
    noted = _document("gavel_rates.json")["errors"]
    for key, quantity in RATES.items():
        for gpu_type, errors in noted[key].items():
            count = errors["measurements"]
            yield ProfileFitRow(
                "rates", gpu_type, "all", quantity, count, None, None, *_percent(errors)
            )


def _plans() -> Iterator[ProfileFitRow]:
    """Yield the errors of steps by execution plan."""
    noted = _document("profiles/plans.json")["errors"]
    for key, quantity in PLANS.items():
        for family, errors in noted[key].items():
            count = errors["measurements"]
            yield ProfileFitRow(
                "plans", "all", family, quantity, count, None, None, *_percent(errors)
            )


def _rows(_: object) -> list[ProfileFitRow]:
    return [*_applications(), *_step_times(), *_rates(), *_plans()]


def plot_profile_fits(rows: list[ProfileFitRow]) -> Figure:
    """Draw the median, the 90th percentile and the maximum of the errors of steps and rates."""
    shown = [row for row in rows if row.quantity in {*PLANS.values(), *RATES.values()}]
    ax = new_axes(8.0, 1.2 + 0.24 * len(shown))
    for index, (column, label) in enumerate(
        (
            ("median_percent", "median"),
            ("percentile_90_percent", "90th percentile"),
            ("maximum_percent", "maximum"),
        )
    ):
        ax.plot(
            [getattr(row, column) for row in shown],
            range(len(shown)),
            marker="os^"[index],
            color=COLOURS[index],
            label=label,
            linestyle="none",
            markersize=4,
        )
    labels = [
        ", ".join(one for one in (row.gpu_type, row.model, row.quantity) if one not in {"", "all"})
        for row in shown
    ]
    ax.set_yticks(range(len(shown)), labels, fontsize="x-small")
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("error of the fitted model (%)")
    ax.set_title("Errors of the shipped models")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.legend(fontsize="small")
    return figure_of(ax)


PROFILE_FITS = Reproduction(
    "Errors of the shipped models over the measurements that they were fitted to",
    lambda _: (),
    _rows,
    lambda _, rows: plot_profile_fits(rows),
    ignores=("workloads", "pollux", "seeds", "artifact", "gaps", "quick"),
)
