"""The tables and figures of Pollux's evaluation (OSDI'21) that can be repeated, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.exactness import exactness
from goodalloc.experiments.hyperparameter_table import hyperparameter_table
from goodalloc.experiments.published_cases import CASES, published_cases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.experiments.reproduction import Reproduction

#: Name to reproduction.
REPRODUCTIONS: Mapping[str, Reproduction] = {
    "table2": published_cases("Table 2: policies on a testbed", CASES["table2"]),
    "table3": hyperparameter_table("Table 3: hyper-parameter search (digits for CIFAR-10)"),
    "fig8a": published_cases("Figure 8a: load", CASES["fig8a"]),
    "fig8b": published_cases("Figure 8b: scheduling interval", CASES["fig8b"]),
    "fig8c": published_cases("Figure 8c: interference", CASES["fig8c"]),
    "exactness": exactness("What deciding every round exactly changes"),
}
