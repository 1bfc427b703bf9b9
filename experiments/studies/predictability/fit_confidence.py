"""Derive the shipped confidence of AITurbo's classifier from the published job records.

Run as `python -m goodalloc.experiments.studies.predictability.fit_confidence --reference DIR [--out
FILE]`; DIR holds the records that `goodalloc.data.parameter_servers.aiturbo_jobs` reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.parameter_servers.aiturbo_jobs import read_aiturbo_jobs
from goodalloc.data.parameter_servers.confidence import FORMAT, KINDS, SHIPPED, VERSION
from goodalloc.experiments.studies.predictability.classifiers import Learner
from goodalloc.experiments.studies.predictability.cross_validation import (
    fold_numbers,
    predict_unseen,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = {
    "artifact": "github.com/LFSCODE/AITurbo, commit 452a880",
    "licence": "none stated",
    "note": "Quantiles of a random forest's out-of-fold probabilities; no record is shipped.",
}

#: How many quantiles ship.
QUANTILES = 101


def derive_confidence(reference: Path) -> dict[str, Any]:
    """Cross-validate the forest, and return the shipped document.

    Parameters
    ----------
    reference
        The folder of the records.

    Raises
    ------
    ValueError
        If the records are unreadable.
    """
    records = read_aiturbo_jobs(reference)
    confidence = 1.0 - predict_unseen(records, Learner(), fold_numbers(records))
    places = np.linspace(0.0, 1.0, QUANTILES)
    jobs = dict(zip(KINDS, (~records.unpredictable, records.unpredictable), strict=True))
    return {
        "format": FORMAT,
        "version": VERSION,
        "source": SOURCE,
        "quantiles": {
            kind: np.quantile(confidence[which], places).tolist() for kind, which in jobs.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive the quantiles and write them; the command line is that of the process if None."""
    run_fit(derive_confidence, SHIPPED, "the job records of AITurbo", arguments)


if __name__ == "__main__":
    main()
