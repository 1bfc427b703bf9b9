"""Measured trainings of language models: MosaicML's published table for MPT models.

github.com/mosaicml/llm-foundry (commit 8c8dd48, Apache-2.0), `scripts/train/benchmarking`: 125 M to
70 B parameters on 8 to 512 GPUs of three types, with fully sharded data parallelism.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.plans.sharded_training import GPUS_PER_NODE, LanguageModel, ShardedPass

if TYPE_CHECKING:
    import os

#: Folder and file in that of `--artifact`.
FOLDER, FILE = "llm-training", "llm-foundry.csv"

COLUMNS = (
    "Model",
    "SeqLen (T)",
    "# GPUs",
    "GPU",
    "Model TFLOP",
    "MicroBatchSize",
    "GradAccum",
    "GlobalBatchSize",
    "Throughput (T/s)",
    "Throughput (T/s/GPU)",
    "Activation Checkpointing",
    "Precision",
    "NumParams",
)
YES = {"True": True, "False": False}


class MeasuredTraining(NamedTuple):
    """Training whose throughput was measured.

    Attributes
    ----------
    name
        Name of the language model, such as "7b".
    precision
        How numbers are multiplied, such as "amp_bf16".
    one
        Its pass.
    passes
        Passes a step.
    seconds
        Seconds of a pass, a step's over its passes.
    """

    name: str
    precision: str
    one: ShardedPass
    passes: int
    seconds: float


def read_llm_trainings(folder: str | os.PathLike[str]) -> tuple[MeasuredTraining, ...]:
    """Read the measured trainings of 16-bit precision.

    The operations of attention follow from the table itself: operations a token are the stated
    teraFLOPs over the tokens a second, and their slope over the context is that of equation (1) of
    `goodalloc.models.plans.sharded_training`.

    Parameters
    ----------
    folder
        Folder that holds `llm-training/llm-foundry.csv`.

    Raises
    ------
    ValueError
        If it does not, the file lacks a column, or a cell is malformed.
    """
    path = Path(folder) / FOLDER / FILE
    table = read_table(path, COLUMNS)
    names, kinds = table.columns["Model"], table.columns["Precision"]
    tokens, gpus = (table.counts(column) for column in ("SeqLen (T)", "# GPUs"))
    sequences, passes = (table.counts(column) for column in ("MicroBatchSize", "GradAccum"))
    whole = table.numbers("GlobalBatchSize", 0.0, strict=True)
    rate = table.numbers("Throughput (T/s)", 0.0, strict=True)
    each = table.numbers("Throughput (T/s/GPU)", 0.0, strict=True)
    a_token = table.numbers("Model TFLOP", 0.0, strict=True) * 1e12 / each
    parameters = table.numbers("NumParams", 0.0, strict=True)
    models = {}
    for name in dict.fromkeys(names):
        rows = [row for row, other in enumerate(names) if other == name]
        context = np.array([tokens[row] for row in rows], dtype=float)
        more = np.maximum(a_token[rows] - 6.0 * parameters[rows], 0.0)
        slope = float(context @ more / (context @ context))
        models[name] = LanguageModel(float(parameters[rows[0]]), slope)
    found = []
    for row, name in enumerate(names):
        again = table.columns["Activation Checkpointing"][row]
        if again not in YES:
            raise table.refusal(row, "Activation Checkpointing", "True or False")
        if gpus[row] % GPUS_PER_NODE:
            raise table.refusal(row, "# GPUs", f"a multiple of {GPUS_PER_NODE}")
        if kinds[row] == "amp_fp8":
            continue
        one = ShardedPass(
            models[name],
            table.columns["GPU"][row],
            gpus[row],
            tokens[row],
            sequences[row],
            YES[again],
        )
        seconds = float(whole[row]) * tokens[row] / float(rate[row]) / passes[row]
        found.append(MeasuredTraining(name, kinds[row], one, passes[row], seconds))
    return tuple(found)
