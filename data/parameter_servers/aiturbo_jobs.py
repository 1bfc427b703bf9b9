"""Records of training jobs from which AITurbo learns which jobs are predictable.

AITurbo (HPDC'21) tells jobs apart by properties of the model, hyper-parameters of the framework and
the running state of the job. Its authors' group published 8,692 records (``dataset.xlsx`` of
github.com/LFSCODE/AITurbo, commit 452a880). Their licence is not stated, so none ships here: the
reader takes them as CSV, column names in lower case with underscores.

Some columns are outcomes, and the label follows nearly from them. So every feature says when it is
known (`FEATURES`), and a model that is to decide at some time gets those that are known by then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.models.support.validation import require_choice, require_count

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from goodalloc.models.support.array_types import Flags, Floats


FILE = "aiturbo_jobs.csv"

#: The column that says whether a job is predictable: 0 if it is, 1 if not.
LABEL = "predictability"

#: When a feature is known. What is known at submission is known later too.
Known = Literal["submission", "running", "afterwards"]


class Feature(NamedTuple):
    """Column of the records.

    Attributes
    ----------
    name
        Name of the column.
    known
        From when on.
    least, most
        Bounds on its values.
    whole
        Whether they are whole numbers.
    """

    name: str
    known: Known
    least: float = 0.0
    most: float = math.inf
    whole: bool = True


#: In the order of the published file. What the user submits is known at once. A running job shows
#: its speed (examples/s, the unit is assumed), its steps and its epochs; the records have only the
#: last values of these, so what a running job is judged by may be too good. How long it ran (s),
#: and the accuracy and the loss that it ended with, are known when it is over. Memory is in GB
#: (assumed), job type a code whose key is not published, and resubmit is 0 for a job that was seen
#: before and 1 for its first submission.
FEATURES = (
    Feature("job_type", "submission", least=1.0),
    Feature("running_time", "afterwards", whole=False),
    Feature("ps", "submission"),
    Feature("worker", "submission"),
    Feature("epoch", "running"),
    Feature("accuracy", "afterwards", most=1.0, whole=False),
    Feature("loss", "afterwards", whole=False),
    Feature("gpu", "submission"),
    Feature("memory", "submission", whole=False),
    Feature("cpu", "submission", whole=False),
    Feature("batch_size", "submission", least=1.0),
    Feature("learning_rate", "submission", whole=False),
    Feature("step", "running"),
    Feature("throughput", "running", whole=False),
    Feature("resubmit", "submission", most=1.0),
)


def features_known(known: Known, *, job_type: bool = True) -> tuple[str, ...]:
    """Return the names of the features known at some time, in the order of `FEATURES`.

    Parameters
    ----------
    known
        The time: ``"submission"``, ``"running"`` or ``"afterwards"``.
    job_type
        Whether the type of the job is among them; it carries no information on unseen types.

    Raises
    ------
    ValueError
        If `known` is not one of these times.

    Examples
    --------
    >>> from goodalloc.data.parameter_servers import features_known
    >>> len(features_known("submission")) < len(features_known("afterwards"))
    True
    """
    times = get_args(Known)
    require_choice("Features: known", known, times)
    until = times.index(known)
    return tuple(
        feature.name
        for feature in FEATURES
        if times.index(feature.known) <= until and (job_type or feature.name != "job_type")
    )


@dataclass(frozen=True, eq=False)
class JobRecords:
    """Complete records, in the order of the file.

    Parameters
    ----------
    values
        Shape (jobs, features), in the order of `FEATURES`.
    unpredictable
        Shape (jobs,): the label.
    incomplete
        Number of records left out for a missing value.
    """

    values: Floats
    unpredictable: Flags
    incomplete: int = 0

    def __post_init__(self) -> None:
        for array in (self.values, self.unpredictable):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.unpredictable)

    def columns(self, features: Sequence[str]) -> Floats:
        """Return some of the features, in the order of their names, shape (jobs, features)."""
        names = [feature.name for feature in FEATURES]
        return self.values[:, [names.index(name) for name in features]]

    def every(self, step: int) -> JobRecords:
        """Return every `step`-th record, beginning with the first."""
        require_count("Job records: step", step, 1)
        return JobRecords(self.values[::step], self.unpredictable[::step], self.incomplete)


def read_aiturbo_jobs(folder: str | os.PathLike[str]) -> JobRecords:
    """Read the records of a folder, and count those left out for a missing value.

    Raises
    ------
    ValueError
        If the files are unreadable, a column is missing, or a value is out of range.
    """
    names = [*(feature.name for feature in FEATURES), LABEL]
    table = read_table(Path(folder) / FILE, names)
    rows = zip(*(table.columns[name] for name in names), strict=True)
    complete = [row for row, cells in enumerate(rows) if all(cells)]
    if not complete:
        raise ValueError(f"File '{table.path}': no row is complete; expected at least one.")
    kept = table.only(complete)
    values = [
        kept.numbers(feature.name, feature.least, feature.most, whole=feature.whole)
        for feature in FEATURES
    ]
    label = kept.numbers(LABEL, 0.0, 1.0, whole=True)
    return JobRecords(np.column_stack(values), label == 1.0, len(table) - len(kept))
