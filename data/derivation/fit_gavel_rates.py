"""Derive the shipped throughputs of Gavel's jobs from its published table (OSDI'20).

Run as `python -m goodalloc.data.derivation.fit_gavel_rates --reference DIR [--out FILE]`; DIR holds
the folder `gavel-throughputs`. What is shipped are the parameters of `data/gavel/model.py` and how
far they are off; no rate of the table is.

Times (1) of a family on a type minimise the sum of a soft l1 loss of the logarithm of model over
measurement, quadratic up to an error of about a tenth, since single measurements are far off any
curve; `data/derivation/fit_gavel_pairs.py` does what concerns pairs. Held out are, one after
another, each family's smallest batch size, its second and so on; families with one cannot be left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares, nnls

from goodalloc.data.applications.measurements import relative_errors
from goodalloc.data.derivation.fit_gavel_pairs import SCALE, Slowdowns, fit_memory
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.gavel.model import FORMAT, SHIPPED, VERSION, model_rates
from goodalloc.data.gavel.rates import REPLICAS, TYPES, read_gavel_rates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from goodalloc.models.gavel.rate_table import RateTable
    from goodalloc.models.support.array_types import Floats, Indices


SOURCE = {
    "artifact": "github.com/stanford-futuredata/gavel, commit c4fa400, "
    "scheduler/simulation_throughputs.json",
    "licence": "MIT",
    "note": "Parameters fitted to the measured throughputs of Gavel (OSDI'20).",
}


class _Times(NamedTuple):
    """Measured step times of a family on a type: K over the rate, and what they are the sum of.

    `design` has a column for each parameter of (1): 1, B, and 1 for a number of replicas and
    whether they are apart. `rank` is the place of the batch size in its family.
    """

    design: Floats
    seconds: Floats
    rank: Indices


def derive_gavel_rates(reference: Path) -> dict[str, Any]:
    """Fit times, slow-downs and memory, and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `gavel-throughputs/simulation_throughputs.json`.

    Raises
    ------
    ValueError
        If it does not, or the table is not as published.
    """
    folder = reference / "gavel-throughputs"
    if not folder.is_dir():
        raise ValueError(
            f"reference is '{reference}'; expected a folder that holds gavel-throughputs."
        )
    measured = read_gavel_rates(folder)
    families = _families(measured)
    types: dict[str, dict[str, Any]] = {}
    alone_held, slowdown_held = [], []
    for kind, type_name in enumerate(TYPES):
        pairs = Slowdowns(measured, kind)
        types[type_name] = pairs.entries(pairs.fit(np.ones(pairs.logs.size, dtype=bool)))
        slowdown_held.append(pairs.held_out())
        memory = fit_memory(measured, kind)
        held = []
        for family, entry in families.items():
            times = _times(measured, kind, family)
            held.append(_times_held_out(times))
            types[type_name][family] |= memory[family]
            types[type_name][family] |= _time_entries(_fit_times(times), entry["replicas"])
        alone_held.append(np.concatenate(held))
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "families": families,
        "types": types,
        "errors": {
            **_errors(measured, model_rates(families, types)),
            "alone_held_out": _by_type(alone_held),
            "slowdown_held_out": _by_type(slowdown_held),
        },
    }


def _families(measured: RateTable) -> dict[str, dict[str, list[int]]]:
    """Return the batch sizes of every family, and the numbers of GPUs on which it runs."""
    families: dict[str, dict[str, list[int]]] = {}
    for index, (family, size) in enumerate(measured.configurations):
        several = bool(measured.alone[index, 1:].any())
        entry = {"batch_sizes": [], "replicas": list(REPLICAS if several else REPLICAS[:1])}
        families.setdefault(family, entry)["batch_sizes"].append(size)
    return families


def _times(measured: RateTable, kind: int, family: str) -> _Times:
    """Return the measurements of a family on a type; those of one replica once."""
    rows = [index for index, one in enumerate(measured.configurations) if one.family == family]
    design, seconds, ranks = [], [], []
    for rank, index in enumerate(rows):
        for place, replicas in enumerate(REPLICAS):
            for apart in range(2 if place else 1):
                rate = measured.alone[index, place, kind, apart]
                if rate > 0:
                    averaging = np.zeros((2, len(REPLICAS)))
                    averaging[apart, place] = place > 0
                    size = measured.configurations[index].batch_size
                    design.append([1.0, size, *averaging[:, 1:].ravel()])
                    seconds.append(replicas / rate)
                    ranks.append(rank)
    return _Times(np.array(design, dtype=float), np.array(seconds), np.array(ranks))


def _fit_times(times: _Times) -> Floats:
    """Fit the parameters of (1), in the order of the columns; 0 where they are negligible."""
    design, seconds = times.design, times.seconds
    used = design.any(axis=0)
    matrix = design[:, used] / seconds[:, None]
    largest = matrix.max(axis=0)
    start = np.maximum(nnls(matrix, np.ones_like(seconds))[0], 1e-3 / largest)
    found = least_squares(
        lambda values: np.log(matrix @ values),
        start,
        jac=lambda values: matrix / (matrix @ values)[:, None],
        bounds=(0, np.inf),
        loss="soft_l1",
        f_scale=SCALE,
        x_scale=1 / largest,
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
        max_nfev=1000,
    ).x
    parameters = np.zeros(design.shape[1])
    parameters[used] = np.where(largest * found < 1e-4, 0.0, found)
    return parameters


def _times_held_out(times: _Times) -> Floats:
    """Return predicted over measured rates by fits without their batch size; empty for one size."""
    quotients = [np.zeros(0)]
    for rank in range(int(times.rank.max()) + 1 if times.rank.max() else 0):
        out = times.rank == rank
        rest = _Times(times.design[~out], times.seconds[~out], times.rank[~out])
        predicted = times.design[out] @ _fit_times(rest)
        quotients.append(times.seconds[out] / predicted)
    return np.concatenate(quotients)


def _time_entries(parameters: Floats, replicas: Sequence[int]) -> dict[str, Any]:
    """Return the parameters of (1) in the form of the document."""
    fixed, per_example = parameters[:2].tolist()
    together, apart = parameters[2:].reshape(2, -1)[:, : len(replicas) - 1].tolist()
    return {
        "compute_fixed": fixed,
        "compute_per_example": per_example,
        "averaging_consolidated": together,
        "averaging_apart": apart,
    }


def compared_rates(rates: RateTable, kind: int) -> dict[str, Floats]:
    """Return the quantities whose errors are stated: rates alone and in pairs, and slow-downs."""
    alone, paired = rates.alone[:, :, kind], rates.paired[:, :, 0, kind]
    single = alone[:, 0, 0]
    return {
        "alone": np.concatenate([single, alone[:, 1:].ravel()]),
        "pairs": paired.ravel(),
        "slowdown": (paired / np.where(single > 0, single, 1.0)[:, None]).ravel(),
    }


def _errors(measured: RateTable, model: RateTable) -> dict[str, Any]:
    """Return the relative errors of the model, and how often only one of the two has a rate."""
    quotients: dict[str, list[Floats]] = {}
    for kind in range(len(TYPES)):
        theirs = compared_rates(measured, kind)
        for name, ours in compared_rates(model, kind).items():
            both = (ours > 0) & (theirs[name] > 0)
            quotients.setdefault(name, []).append(ours[both] / theirs[name][both])
    upper = np.triu_indices(len(measured.configurations))
    runs, should = (table.paired[:, :, 0][upper] > 0 for table in (model, measured))
    return {
        **{name: _by_type(parts) for name, parts in quotients.items()},
        "sharing": {"pairs": int(runs.size), "wrong": int((runs != should).sum())},
    }


def _by_type(quotients: Sequence[Floats]) -> dict[str, Any]:
    """Return the distance of ratios of rates from 1, by type and for all types."""
    parts = dict(zip(TYPES, quotients, strict=True)) | {"all": np.concatenate(quotients)}
    return {
        name: {"measurements": int(part.size), **relative_errors(part, np.ones_like(part))}
        for name, part in parts.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the parameters and write them; the command line is that of the process if None."""
    run_fit(derive_gavel_rates, SHIPPED, "gavel-throughputs/", arguments)


if __name__ == "__main__":
    main()
