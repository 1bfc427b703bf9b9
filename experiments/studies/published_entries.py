"""Entries of the catalogue: title and place of every table and figure of Pollux's paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What Pollux's paper has: the group "pollux". (Figure 4 is a drawing.)
PUBLISHED: Mapping[str, Entry] = {
    "artifact": Entry(
        "Artifact's simulator: every workload at every load, published and here",
        "pollux.artifact_agreement:AGREEMENT",
    ),
    "fig1": Entry("Figure 1: batch size, GPUs and stage of training", "pollux.trade_off:FIGURE_1"),
    "fig2": Entry(
        "Figure 2: statistical efficiency, measured and predicted",
        "pollux.efficiency_prediction:FIGURE_2",
    ),
    "fig3": Entry(
        "Figure 3: throughput, measured and predicted", "pollux.throughput_plot:FIGURE_3"
    ),
    "table2": Entry("Table 2: policies on a testbed", "pollux.published_cases:TABLE_2"),
    "fig5": Entry("Figure 5: allocated GPUs and efficiency over time", "pollux.timelines:FIGURE_5"),
    "fig6": Entry(
        "Figure 6: one ImageNet and two YOLOv3 jobs adapt to each other",
        "pollux.timelines:FIGURE_6",
    ),
    "fig7": Entry("Figure 7: finish-time fairness", "pollux.fairness:FIGURE_7"),
    "table3": Entry(
        "Table 3: hyper-parameter search (digits for CIFAR-10)",
        "pollux.hyperparameter_table:TABLE_3",
    ),
    "fig8a": Entry("Figure 8a: load", "pollux.published_cases:FIGURE_8A"),
    "fig8b": Entry("Figure 8b: scheduling interval", "pollux.published_cases:FIGURE_8B"),
    "fig8c": Entry("Figure 8c: interference", "pollux.published_cases:FIGURE_8C"),
    "fig9": Entry(
        "Figure 9: autoscaling by goodput against throughput, one ImageNet job",
        "pollux.cloud:FIGURE_9",
    ),
}
