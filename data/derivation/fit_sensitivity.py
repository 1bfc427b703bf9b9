"""Derive the shipped sensitivity to CPU and memory from the profiles of Synergy (OSDI'22).

Run as `python -m goodalloc.data.derivation.fit_sensitivity --reference DIR [--out FILE]`; DIR holds
the folder `synergy-profiles` with its `throughput.csv`.

The published tables give the relative throughput W of a model for every pair of cores and memory
per GPU. They have two stages: preparing examples, which the cores bound, and fetching them, which
the memory that caches them bounds, so that ``W(c, m) = min(f(c), g(m))``. What is shipped are these
stages, ``f(c) = max_m W(c, m)`` and ``g(m) = max_c W(c, m)``; a table that is not their minimum is
refused, so that nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.rounds.sensitivity import FORMAT, SHIPPED, VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = {
    "artifact": "github.com/msr-fiddle/synergy, commit 1bb2bed, simulator/models",
    "licence": "MIT",
    "note": "Stages derived from the one-GPU profiles of Synergy (OSDI'22), server of 24 cores.",
}

#: Set of profiles and number of GPUs that the published simulator uses for jobs of every size.
PROFILE_SET, NUM_GPUS = "models", "1"

#: Columns of a point of the grid, and of W there.
COLUMNS = ("cpus_per_gpu", "mem_gb_per_gpu", "rel_throughput")

#: The published simulator draws from these classes; bert and vae, profiled too, it leaves out.
CLASSES = {
    "image": ("alexnet", "mobilenet", "res18", "res50", "shufflenet"),
    "language": ("bert", "gnmt", "lstm", "transformer", "vae"),
    "speech": ("deepspeech", "m5"),
}


def derive_sensitivity(reference: Path) -> dict[str, Any]:
    """Split every model's table into its stages and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `synergy-profiles/throughput.csv`.

    Raises
    ------
    ValueError
        If it does not, lacks a point of the grid, or a table is not the lesser of two stages.
    """
    path = reference / "synergy-profiles" / "throughput.csv"
    if not path.is_file():
        raise ValueError(
            f"reference is '{reference}'; expected a folder that holds "
            "synergy-profiles/throughput.csv."
        )
    table = read_table(path, ("profile_set", "num_gpus", "model", *COLUMNS))
    cells = [table.columns[name] for name in ("profile_set", "num_gpus", "model")]
    numbers = [table.numbers(name, 0.0).tolist() for name in COLUMNS]
    tables: dict[str, dict[tuple[float, float], float]] = {}
    for profiles, gpus, model, cores, memory, speed in zip(*cells, *numbers, strict=True):
        if (profiles, gpus) == (PROFILE_SET, NUM_GPUS):
            tables.setdefault(model, {})[cores, memory] = speed
    points = {point for table in tables.values() for point in table}
    cpus, memory = (sorted(set(axis)) for axis in zip(*points, strict=True))
    classes = {name: kind for kind, names in CLASSES.items() for name in names}
    models = {
        name: {"class": classes[name], **_stages(name, table, cpus, memory)}
        for name, table in tables.items()
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "cpus": cpus,
        "memory": memory,
        "models": models,
    }


def _stages(
    name: str, table: dict[tuple[float, float], float], cpus: list[float], memory: list[float]
) -> dict[str, list[float]]:
    """Return the two stages of a table."""
    missing = [(c, m) for c in cpus for m in memory if (c, m) not in table]
    if missing:
        raise ValueError(f"model '{name}' lacks the point {missing[0]}; expected the whole grid.")
    grid = np.array([[table[c, m] for m in memory] for c in cpus])
    by_cpus, by_memory = grid.max(axis=1), grid.max(axis=0)
    if not np.array_equal(grid, np.minimum.outer(by_cpus, by_memory)):
        raise ValueError(f"model '{name}': its table is no lesser of two stages; expected one.")
    return {"by_cpus": by_cpus.tolist(), "by_memory": by_memory.tolist()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the stages and write them; the command line is that of the process if None."""
    run_fit(derive_sensitivity, SHIPPED, "synergy-profiles/", arguments)


if __name__ == "__main__":
    main()
