"""Published data that studies read, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.entries import STUDIES
from goodalloc.experiments.studies.published_entries import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Studies that read a folder of published data (`data/ARTIFACTS.md`), by the name of the data.
ARTIFACTS: Mapping[str, tuple[str, ...]] = {
    "pollux": (
        *PUBLISHED,
        *STUDIES,
        "family",
        "themis",
        "themis-searches",
        "tree-replays",
        "hindsight-trees",
    ),
    "sia": ("sia", "sia-gavel", "restrictions", "hindsight-types"),
    "gavel": (
        "gavel",
        "gavel-cost",
        "gavel-levels",
        "gavel-load",
        "hindsight-load",
        "gavel-packing",
        "time-shares",
    ),
    "openb": ("openb",),
    "traces": ("traces", "hindsight-traces"),
    "aiturbo": ("predictability",),
    "dl2": ("step-times",),
    "arena": ("arena", "arena-published", "hindsight-plans"),
    "llm": ("llm-times",),
    "chronus": ("aiturbo-conditions", "hindsight-tables"),
}

#: Studies that do not run without published data; all others also run on profiles and tables that
#: ship, or on drawn jobs.
WITHOUT_SUBSTITUTE = (
    "artifact",
    "fig2",
    "fig3",
    "traces",
    "hindsight-traces",
    "predictability",
    "step-times",
    "arena-published",
    "llm-times",
)

#: The data that these need, by their names.
NEEDED: Mapping[str, str] = {
    study: data
    for data, studies in ARTIFACTS.items()
    for study in studies
    if study in WITHOUT_SUBSTITUTE
}
