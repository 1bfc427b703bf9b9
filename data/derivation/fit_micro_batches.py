"""Derive what fits of the shipped language models from MosaicML's published throughputs.

Run as `python -m goodalloc.data.derivation.fit_micro_batches --reference DIR [--out FILE]`; DIR
holds the folder `llm-training` with its `llm-foundry.csv`. What is shipped is, for every model and
type of GPU, the largest micro-batch that was measured by number of GPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.derivation.fit_language_models import SOURCE
from goodalloc.data.documents.shipped import run_fit
from goodalloc.data.plans.llm_steps import FORMAT, SHIPPED, VERSION
from goodalloc.data.plans.llm_tables import FILE, FOLDER, read_llm_trainings
from goodalloc.data.plans.shipped_llm import TOKENS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOTE = (
    "GPUs, most sequences of 2,048 tokens on each, and whether activations are computed again; "
    "what fits on fewer GPUs fits on more, which hold less of the parameters each."
)


def derive_micro_batches(reference: Path) -> dict[str, Any]:
    """Return the document that is shipped.

    Parameters
    ----------
    reference
        Folder that holds `llm-training/llm-foundry.csv`.

    Raises
    ------
    ValueError
        If it does not, or the table cannot be read.
    """
    fits: dict[str, dict[str, list[list[int]]]] = {}
    trainings = [one for one in read_llm_trainings(reference) if one.one.tokens == TOKENS]
    for training in sorted(
        trainings, key=lambda one: (one.one.gpus, -one.one.sequences, one.one.recomputes)
    ):
        one = training.one
        rows = fits.setdefault(training.name, {}).setdefault(one.gpu_type, [])
        if not rows or one.sequences > rows[-1][1]:
            rows.append([one.gpus, one.sequences, int(one.recomputes)])
    source = SOURCE | {"note": NOTE}
    return {"format": FORMAT, "version": VERSION, "source": source, "fits": fits}


def main(arguments: Sequence[str] | None = None) -> None:
    """Derive and write the document; the command line is that of the process if None."""
    run_fit(derive_micro_batches, SHIPPED, f"{FOLDER}/{FILE}", arguments)


if __name__ == "__main__":
    main()
