"""Derive the shipped language models from MosaicML's published throughputs.

Run as `python -m goodalloc.data.derivation.fit_language_models --reference DIR [--out FILE]`; DIR
holds the folder `llm-training` with its `llm-foundry.csv`. What is shipped are the sizes of the
models, the fewest GPUs and most sequences with which each was measured, the coefficients of
`goodalloc.models.plans.sharded_training`, and the errors of the fit, also on models and numbers of
GPUs that it did not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.plans.llm_tables import FILE, FOLDER, read_llm_trainings
from goodalloc.data.plans.shipped_llm import FORMAT, SHIPPED, TOKENS, VERSION
from goodalloc.models.plans.sharded_training import fit_sharded_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from goodalloc.data.plans.llm_tables import MeasuredTraining
    from goodalloc.models.support.array_types import Flags, Floats

SOURCE = {
    "artifact": "github.com/mosaicml/llm-foundry, scripts/train/benchmarking, commit 8c8dd48",
    "licence": "Apache-2.0",
    "note": "Fitted to measured throughputs of MPT models in 16-bit precision.",
}

#: Number of GPUs beyond which measurements are predicted from those on fewer.
FEW_GPUS = 128


def derive_language_models(reference: Path) -> dict[str, Any]:
    """Fit the coefficients and return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `llm-training/llm-foundry.csv`.

    Raises
    ------
    ValueError
        If it does not, or the table cannot be read.
    """
    trainings = read_llm_trainings(reference)
    times = fit_sharded_times(
        [training.one for training in trainings], [training.seconds for training in trainings]
    )
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "models": {training.name: list(training.one.model) for training in trainings},
        "fits": _fits(trainings),
        "coefficients": {kind: found._asdict() for kind, found in times.coefficients.items()},
        "errors": {
            choice: {
                "measurements": int(judged.sum()),
                "median": float(np.median(errors[judged])),
                "percentile_90": float(np.quantile(errors[judged], 0.9)),
                "maximum": float(errors[judged].max()),
            }
            for choice, errors, judged in errors_of_choices(trainings)
        },
    }


def _fits(trainings: Sequence[MeasuredTraining]) -> dict[str, dict[str, list[int]]]:
    """Return fewest GPUs, most sequences and whether these need activations computed again."""
    fits: dict[str, dict[str, list[int]]] = {}
    for training in sorted(trainings, key=lambda one: (one.one.sequences, not one.one.recomputes)):
        one = training.one
        if one.tokens != TOKENS:
            continue
        by_type = fits.setdefault(training.name, {})
        fewest = by_type.get(one.gpu_type, [one.gpus])[0]
        by_type[one.gpu_type] = [min(fewest, one.gpus), one.sequences, int(one.recomputes)]
    return fits


def errors_of_choices(
    trainings: Sequence[MeasuredTraining],
) -> Iterator[tuple[str, Floats, Flags]]:
    """Yield relative errors by what was fitted: all, all but one model, few GPUs.

    Yields
    ------
    tuple
        The choice; ``abs(predicted / measured - 1)`` of every training; and which of them are
        judged: those that were not fitted, or all.
    """
    ones = [training.one for training in trainings]
    seconds = np.array([training.seconds for training in trainings])
    names = np.array([training.name for training in trainings])
    few = np.array([one.gpus <= FEW_GPUS for one in ones])

    def predicted(fitted: Flags) -> Floats:
        chosen = np.flatnonzero(fitted).tolist()
        times = fit_sharded_times([ones[index] for index in chosen], seconds[chosen].tolist())
        return np.array([times.seconds(one) for one in ones])

    every = np.ones(len(ones), dtype=bool)
    yield "all", np.abs(predicted(every) / seconds - 1.0), every
    left_out = np.zeros(len(ones))
    for name in dict.fromkeys(names.tolist()):
        out = names == name
        left_out[out] = np.abs(predicted(~out) / seconds - 1.0)[out]
    yield "other_models", left_out, every
    yield "fewer_gpus", np.abs(predicted(few) / seconds - 1.0), ~few


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit and write the document; the command line is that of the process if None."""
    run_fit(derive_language_models, SHIPPED, f"{FOLDER}/{FILE}", arguments)


if __name__ == "__main__":
    main()
