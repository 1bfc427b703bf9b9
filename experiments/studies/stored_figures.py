"""Figures drawn again from stored results.

The rows of a study are read back from their CSV file as the records that they were written from,
and given to the plot of the study. Plots that read the records of replays, which are not stored,
cannot be drawn so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.documents import QUICK, stored_rows
from goodalloc.experiments.studies.framework.record_reading import read_record, row_type
from goodalloc.experiments.studies.framework.reproduction import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Studies whose plot needs their rows alone, in the order of the catalogue.
DRAWABLE = (
    "artifact",
    "table2",
    "fig8a",
    "fig8b",
    "fig8c",
    "exactness",
    "disturbances",
    "scale",
    "objectives",
    "remaining-time",
    "knowledge",
    "experience",
    "noise",
    "noisy-decisions",
    "tie-rules",
    "genetic-budgets",
    "equal-terms",
    "overheads-pollux",
    "similar-jobs",
    "experience-fits",
    "hindsight",
    "hindsight-loads",
    "hindsight-objectives",
    "hindsight-relaxations",
    "hindsight-replays",
    "hindsight-schedules",
    "advantage",
    "synergy",
    "sia",
    "mixed",
    "restrictions",
    "openb",
    "allox",
    "hesrpt",
    "family",
    "gavel",
    "gavel-cost",
    "gavel-load",
    "gavel-packing",
    "time-shares",
    "hindsight-types",
    "hindsight-trees",
    "hindsight-traces",
    "hindsight-plans",
    "hindsight-pods",
    "hindsight-load",
    "hindsight-machines",
    "hindsight-tables",
    "hindsight-optimum",
    "hindsight-growth",
    "hindsight-minute",
    "themis-searches",
    "themis-auctions",
    "profile-fits",
    "gpu-profiles",
    "profile-parts",
    "exchange",
    "overheads",
    "aiturbo-conditions",
    "gandiva",
    "antman",
    "making-room",
    "library",
    "library-large",
    "library-trees",
    "library-pods",
    "library-rounds",
    "library-ablation",
    "topology",
    "topology-nodes",
    "tree-replays",
    "arena",
    "arena-published",
    "traces",
)


def stored_figure(name: str) -> Figure:
    """Return the figure of a study, drawn from its stored rows.

    Parameters
    ----------
    name
        Name of the study, or of its quick version.

    Raises
    ------
    ValueError
        If the study is unknown, has no stored result, or its plot needs more than its rows.
    """
    cells = stored_rows(name)
    if name.removesuffix(QUICK) not in DRAWABLE:
        raise ValueError(
            f"Study '{name}' draws more than its rows; expected one of {', '.join(DRAWABLE)}."
        )
    study = REPRODUCTIONS[name.removesuffix(QUICK)]
    kind = row_type(study.rows, study.shown)
    plan = Plan(Path("no-such-folder"), workloads=study.workloads, quick=name.endswith(QUICK))
    return study.plot(plan, [read_record(kind, row) for row in cells])
