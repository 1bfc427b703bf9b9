"""The tables and figures of Pollux's evaluation (OSDI'21) that can be repeated, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.fairness import FIGURE_7
from goodalloc.experiments.published_cases import CASES, published_cases
from goodalloc.experiments.studies import EXACTNESS, KNOWLEDGE, OBJECTIVES
from goodalloc.experiments.timelines import FIGURE_5, FIGURE_6

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.reproduction import Reproduction

#: What was published: "all".
PUBLISHED: Mapping[str, Reproduction] = {
    "table2": published_cases("Table 2: policies on a testbed", CASES["table2"]),
    "fig5": FIGURE_5,
    "fig6": FIGURE_6,
    "fig7": FIGURE_7,
    "fig8a": published_cases("Figure 8a: load", CASES["fig8a"]),
    "fig8b": published_cases("Figure 8b: scheduling interval", CASES["fig8b"]),
    "fig8c": published_cases("Figure 8c: interference", CASES["fig8c"]),
}

#: Questions that were not; hours each on several workloads.
STUDIES: Mapping[str, Reproduction] = {
    "exactness": EXACTNESS,
    "objectives": OBJECTIVES,
    "knowledge": KNOWLEDGE,
}

REPRODUCTIONS: Mapping[str, Reproduction] = {**PUBLISHED, **STUDIES}
