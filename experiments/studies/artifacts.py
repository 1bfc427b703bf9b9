"""Published data that studies read, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.entries import PUBLISHED, STUDIES

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

#: The data without which a study does not run, by its name; all others also run on profiles and
#: tables that ship, or on drawn jobs.
NEEDED: Mapping[str, str] = {
    "artifact": "pollux",
    "fig2": "pollux",
    "fig3": "pollux",
    "traces": "traces",
    "hindsight-traces": "traces",
    "predictability": "aiturbo",
    "step-times": "dl2",
    "arena-published": "arena",
    "llm-times": "llm",
}
