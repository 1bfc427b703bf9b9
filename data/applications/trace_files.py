"""Files of the measurements that the artifacts of Pollux (OSDI'21) and Sia (SOSP'23) publish.

A folder an application: ``validation-M.csv``, a run of total batch size M with a row an epoch;
``placements.csv``, measured placements; ``scalability.csv``, measurements on many nodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from goodalloc.data.documents.csv_table import read_table

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.support.array_types import Floats


#: What was measured, and seconds of a step and of its synchronisation.
POINT = ["num_nodes", "num_replicas", "local_bsz"]
TIMES = ["step_time", "sync_time"]

#: Columns of a run: what rises, or at least does not fall, with the epochs; gradient statistics.
RISING = ("progress", "iteration")
RUN = (*RISING, "grad_sqr", "grad_var")


def batch_size_of(path: Path) -> int:
    """Return the total batch size of a run, parsed from the name of its file.

    Raises
    ------
    ValueError
        If it does not.
    """
    found = re.fullmatch(r"validation-([1-9][0-9]{0,8})", path.stem)
    if found is None:
        raise ValueError(f"File '{path}': its name is no validation-EXAMPLES.csv; expected that.")
    return int(found[1])


def read_run(path: Path) -> dict[str, Floats]:
    """Read the epochs of a run: cumulative progress and steps, and gradient statistics.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed.
    """
    table = read_table(path, RUN)
    found = {column: table.numbers(column, 0.0, strict=column in RISING) for column in RUN}
    steps = np.diff(found["progress"]) <= 0, np.diff(found["iteration"]) < 0
    expected = "more than after the epoch before", "no less than after the epoch before"
    for column, falls, words in zip(RISING, steps, expected, strict=True):
        for row in np.flatnonzero(falls)[:1].tolist():
            raise table.refusal(row + 1, column, words)
    return found


def read_placements(path: Path) -> pd.DataFrame:
    """Read measured placements: GPUs of each node as digits, and the columns `POINT` and `TIMES`.

    Raises
    ------
    ValueError
        If a file is unreadable or malformed.
    """
    table = read_table(path, ("placement", "local_bsz", *TIMES))
    placements = table.columns["placement"]
    for row, placement in enumerate(placements):
        if not re.fullmatch("[1-9]{1,99}", placement):
            raise table.refusal(row, "placement", "the GPUs of each node, as digits from 1 to 9")
    batches = table.counts("local_bsz")
    for row in range(1, len(table)):
        if placements[row] == placements[row - 1] and batches[row] <= batches[row - 1]:
            raise table.refusal(row, "local_bsz", "more than in the row before")
    return pd.DataFrame(
        {
            "placement": placements,
            "num_nodes": [len(nodes) for nodes in placements],
            "num_replicas": [sum(map(int, nodes)) for nodes in placements],
            "local_bsz": batches,
            "step_time": table.numbers("step_time", 0.0, strict=True),
            "sync_time": table.numbers("sync_time", 0.0),
        }
    )


def read_scalability(path: Path) -> pd.DataFrame:
    """Read measurements on many nodes: the columns `POINT` and `TIMES`.

    Raises
    ------
    ValueError
        If a file is unreadable or malformed.
    """
    table = read_table(path, (*POINT, *TIMES))
    return pd.DataFrame(
        {
            **{column: table.counts(column) for column in POINT},
            "step_time": table.numbers("step_time", 0.0, strict=True),
            "sync_time": table.numbers("sync_time", 0.0),
        }
    )
