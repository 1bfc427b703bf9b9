"""Catalogue of the reproductions of published tables and figures, and of further studies.

A study is imported on first use, so that listing all of them is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.studies.entries import OTHERS, STUDIES, TRAININGS
from goodalloc.experiments.studies.published_entries import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goodalloc.experiments.studies.entry import Entry
    from goodalloc.experiments.studies.framework.reproduction import Reproduction

ENTRIES: dict[str, Entry] = {**PUBLISHED, **STUDIES, **OTHERS, **TRAININGS}

#: Names that stand for several: all; Pollux's tables and figures; all beside a bound on every
#: schedule of a day (`hindsight` is the name of one of them); all of AITurbo; real training.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "all": tuple(ENTRIES),
    "pollux": tuple(PUBLISHED),
    "hindsight-all": tuple(name for name in ENTRIES if ENTRIES[name].path.startswith("hindsight.")),
    "aiturbo": (
        "predictability",
        "step-times",
        "step-bandwidth",
        "exchange",
        "overheads",
        "aiturbo-replay",
        "aiturbo-conditions",
    ),
    "training": tuple(TRAININGS),
}

LIST_NOTE = (
    "minutes: of processor time of the stored whole run, on two cores; --quick takes less, and "
    "replays that studies share are made once\n"
    "needs: published data without which it does not run, by the name in data/ARTIFACTS.md, which "
    "says where to get it; others take such data with --artifact, or do without"
)


class _Studies(Mapping[str, "Reproduction[Any]"]):
    """Studies by name, each loaded on first use."""

    def __getitem__(self, name: str) -> Reproduction[Any]:
        return ENTRIES[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(ENTRIES)

    def __len__(self) -> int:
        return len(ENTRIES)


REPRODUCTIONS: Mapping[str, Reproduction[Any]] = _Studies()
